"""The built-in questions: what a passage answers and what it raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.models.questions import BuiltinMaker, draft_questions, find_sentence_spans
from store.records import Direction, Passage, QuestionSet
from tests.fakes.models import FakeEncoder, FakeLanguage

NAMES = (
    "Charmed starred Drew Fuller and Alyssa Milano. It was made by Aaron Spelling in California.\n"
    "Its music is by J. Peter Robinson, and Rome is not in it."
)
TEXTS = {
    "english": Passage(("Television", "Charmed"), NAMES),
    "german": Passage(
        (),
        "Siemens baut in Berlin Lokomotiven. Die erste fuhr nach Hamburg. Den X100 kaufte Alfred "
        "Krupp. In Wien fuhr er nie.",
    ),
    "russian": Passage(
        (), "Анна Каренина уехала в Москву. Алексей Вронский ждал её в Петербурге. Лев жил тут."
    ),
    "japanese": Passage(
        (), "東京は日本の首都です。「銀河鉄道」はジョバンニの話です。大阪と京都に駅があります。"
    ),
}


def made(passage: Passage) -> QuestionSet:
    return BuiltinMaker(FakeLanguage(), FakeEncoder()).make(passage)


def of(questions: QuestionSet, direction: Direction) -> list[frozenset[str]]:
    return [q.keywords for q in questions.questions if q.direction is direction]


def test_a_topic_a_sentence_and_a_name_are_questions() -> None:
    """The passage answers what its heading and sentences say; it raises who Drew Fuller is."""
    questions = made(Passage(("Charmed",), "Charmed is a series. It starred Drew Fuller."))
    assert frozenset(["charmed"]) in of(questions, Direction.INCOMING)
    outgoing = [q for q in questions.questions if q.direction is Direction.OUTGOING]
    assert any("drew fuller" in q.keywords and "Drew Fuller" in q.text for q in outgoing)


@pytest.mark.parametrize("passage", TEXTS.values(), ids=TEXTS.keys())
def test_where_the_text_allows_it_answers_two_and_raises_four(passage: Passage) -> None:
    questions = made(passage)
    assert len(of(questions, Direction.INCOMING)) >= 2
    assert len(of(questions, Direction.OUTGOING)) >= 4
    assert all(of(questions, Direction.OUTGOING))


def test_names_are_found_in_scripts_without_spaces_or_capitals() -> None:
    keywords = frozenset().union(*of(made(TEXTS["japanese"]), Direction.OUTGOING))
    assert {"日本", "東京", "ジョバンニ", "大阪"} <= keywords


def test_a_passage_does_not_ask_what_it_is_about() -> None:
    outgoing = of(
        made(Passage(("Rome",), "Rome is in Italy. Rome has Paris as a friend.")),
        Direction.OUTGOING,
    )
    assert frozenset(["rome"]) not in outgoing
    assert frozenset(["italy"]) in outgoing


@pytest.mark.parametrize("text", ["", "...", "no names here", "\n\n", "🙂"])
def test_a_text_without_names_still_works(text: str) -> None:
    questions = made(Passage((), text))
    assert len(questions.vectors) >= 1
    assert of(questions, Direction.OUTGOING) == []


passages = st.builds(
    Passage,
    st.lists(st.sampled_from(["Rome", "The Gauls", ""]), max_size=2).map(tuple),
    st.text(alphabet="AB ab.\n。東京\"'1", max_size=80),
)


@given(passage=passages)
def test_questions_are_a_function_of_the_passage_alone(passage: Passage) -> None:
    maker = BuiltinMaker(FakeLanguage(), FakeEncoder())
    maker.make(Passage(("Other",), NAMES))
    again, alone = maker.make(passage), made(passage)
    assert again.questions == alone.questions
    assert (again.vectors == alone.vectors).all()


@given(passage=passages)
def test_every_question_has_its_own_id_and_a_vector(passage: Passage) -> None:
    questions = made(passage)
    assert len({q.id for q in questions.questions}) == len(questions.questions)
    assert all(0 <= q.vector_row < len(questions.vectors) for q in questions.questions)


def test_the_vectors_are_of_the_passage_and_of_its_contexts() -> None:
    (mentions,) = FakeLanguage().find_mentions([TEXTS["english"].text])
    drafts = draft_questions(TEXTS["english"], mentions)
    assert NAMES in drafts.contexts[0]
    assert len(made(TEXTS["english"]).vectors) == len(drafts.contexts)


@pytest.mark.parametrize("label", ["2.", "10.", "XII."])
def test_the_number_of_a_list_item_ends_no_sentence(label: str) -> None:
    text = f"Load all the shelves.\n{label} Set the program. It starts."
    assert [text[start:end] for start, end in find_sentence_spans(text)] == [
        "Load all the shelves.",
        f"{label} Set the program.",
        "It starts.",
    ]


def test_sentences_end_at_marks_and_line_ends() -> None:
    text = (
        "One is here. Two is there!\nThree stands on a line long enough to be read alone\nFour ends"
    )
    assert [text[start:end] for start, end in find_sentence_spans(text)] == [
        "One is here.",
        "Two is there!",
        "Three stands on a line long enough to be read alone",
        "Four ends",
    ]


@given(st.text(alphabet="aB .!?\n\t。", max_size=120))
def test_sentences_cover_all_of_the_text_in_order(text: str) -> None:
    spans = find_sentence_spans(text)
    places = [place for span in spans for place in span]
    assert places == sorted(places)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(text[a:b] == text[a:b].strip() != "" for a, b in spans)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("count", [2, 20])
def test_a_set_in_progress_is_not_made_again_for_another_caller(workers: int, count: int) -> None:
    maker = BuiltinMaker(FakeLanguage(), FakeEncoder(16), workers)
    passages = [Passage((), f"Rome is city {n}.") for n in range(count)]
    outer = maker.make_each(passages)
    got = dict([*next(outer)])
    for wanted in (passages[1:3], passages):  # few, and many
        for made in maker.make_each(wanted):
            got.update(made)
    rest = dict(made for group in outer for made in group)
    assert [*rest] == passages[1:]
    assert rest[passages[1]] is got[passages[1]]
