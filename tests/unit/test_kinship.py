"""A question about a relative is answered only if the sentences state such a kinship."""

import pytest

from hopsyncd.retrieve.answering.kinship import lacks_kinship
from hopsyncd.retrieve.sentences import Sentence
from store.records import PassageId

MOTHER = ("Olga's mother is Vera.", frozenset({"olga", "vera"}))
ANNA = ("Vera, daughter of Anna, paints.", frozenset({"vera", "anna"}))
OTHER = ("Ivan's mother is Nina.", frozenset({"ivan", "nina"}))
PLACE = ("Olga lives in Riga.", frozenset({"olga", "riga"}))


def make_sentences(*texts: tuple[str, frozenset[str]]) -> list[Sentence]:
    return [
        Sentence(PassageId(number), number, text, 0.5, frozenset(), names)
        for number, (text, names) in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("question", "texts", "lacks"),
    [
        ("Who is Olga's grandmother?", [MOTHER, PLACE], True),
        ("Who is Olga's grandmother?", [MOTHER, OTHER], True),
        ("Who is Olga's grandmother?", [MOTHER, ANNA], False),
        ("Who is Olga's grandmother?", [("Her granny is her grandmother.", frozenset())], False),
        ("Who is Olga's father?", [PLACE], True),
        ("Who is Vera's mother?", [ANNA], False),
        ("Who is Olga's husband?", [MOTHER], True),
        ("Who is Olga's wife?", [("Olga married Kim.", frozenset({"olga", "kim"}))], False),
        ("Where does Olga live?", [PLACE], False),
    ],
)
def test_a_relative_needs_a_statement_of_kinship(
    question: str, texts: list[tuple[str, frozenset[str]]], lacks: bool
) -> None:
    assert lacks_kinship(question, make_sentences(*texts)) is lacks
