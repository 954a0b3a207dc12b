"""What is told of an LLM's answer while it is written."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopsyncd.models.llm.chat_completion import read_reply
from hopsyncd.retrieve.answering.inline_citations import number_marks, remove_marks
from hopsyncd.retrieve.answering.llm_answer import MAX_ANSWER, AnswerDraft, AnswerReply
from hopsyncd.retrieve.answering.reply import AskReply, Evidence
from store.records import PassageId

# Python takes these four for white space, and pydantic does not.
# A reply begins after the last </think>, wherever that stands.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x1c\x1d\x1e\x1f")
).filter(lambda text: "</think>" not in text)
WORDS = st.text("ab .:\n", max_size=8)
MARKED = st.text("ab [],;`\n\u3010\u301103129", max_size=60)
SHOWN = [PassageId(one) for one in (11, 12, 13)]


class Told:
    """A draft, and what its client was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []  # since the last withdrawal
        self.withdrawn: list[str] = []
        self.cited: list[tuple[int, PassageId]] = []  # since the last withdrawal
        self.draft = AnswerDraft(self.texts.append, self._note_withdrawn, self._note_cited)
        self.draft.note_passages(SHOWN)

    def _note_cited(self, number: int, passage: PassageId) -> None:
        assert f"[{number}]" not in self.text, "the text came before the passage"
        self.cited.append((number, passage))

    def _note_withdrawn(self, why: str) -> None:
        assert self.texts, "there was nothing to withdraw"
        self.texts.clear()
        self.cited.clear()
        self.withdrawn.append(why)

    def write(self, *texts: str) -> "Told":
        for text in texts:
            self.draft.write(text)
        return self

    @property
    def text(self) -> str:
        assert all(self.texts)
        return "".join(self.texts)


def by_llm(text: str) -> AskReply:
    return AskReply(text, text or None, "llm", (PassageId(1),) if text else ())


EXTRACTIVE = AskReply(
    "In Ostrava. In 1912.",
    "Ostrava",
    "extractive",
    (PassageId(1),),
    (Evidence(PassageId(1), "In Ostrava."), Evidence(PassageId(1), "In 1912.")),
    degraded=("the reply cites no passage, so this answer was made without the LLM",),
)


@st.composite
def replies(draw: st.DrawFn) -> str:
    """JSON with an answer in it, as models write it."""
    members: dict[str, object] = {
        "found": True,
        "answer": draw(TEXTS | MARKED | TEXTS.map(lambda text: text * 300)),
        "citations": draw(st.lists(st.integers(1, 9), max_size=3)),
        "reason": draw(st.none() | TEXTS | st.dictionaries(TEXTS, TEXTS)),
    }
    order = draw(st.permutations(sorted(members)))
    text = json.dumps(
        {name: members[name] for name in order},
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
    )
    before, after = draw(WORDS), draw(WORDS)
    wrapped = [f"```json\n{text}\n```", f"{before}{text}{after}", f"<think>{after}</think>{text}"]
    return draw(st.sampled_from(wrapped))


@given(replies(), st.data())
@example('{"found": true, "answer": "a\\ud83d\\ude00b"}', None)
@settings(deadline=None, derandomize=True, max_examples=300)
def test_however_a_reply_is_cut_into_pieces_the_text_is_that_of_the_checked_answer(
    reply: str, data: st.DataObject | None
) -> None:
    places = st.lists(st.integers(0, len(reply)), max_size=30)
    cuts = data.draw(places) if data else range(len(reply))
    told = Told().write(*(reply[a:b] for a, b in pairwise([0, *sorted(cuts), len(reply)])))
    answer = AnswerReply.model_validate_json(read_reply(reply, AnswerReply)).answer[:MAX_ANSWER]
    marked = number_marks(answer, SHOWN)
    checked = marked.text
    assert told.text.rstrip() == checked.rstrip() or len(reply) > 16 * MAX_ANSWER
    told.draft.finish(by_llm(checked))
    assert told.text == checked
    assert told.withdrawn == []
    assert told.cited == [*enumerate(marked.passages, 1)] or len(reply) > 16 * MAX_ANSWER


@given(MARKED, st.integers(0, 60))
@settings(deadline=None, derandomize=True, max_examples=500)
def test_the_beginning_of_a_text_has_the_same_citation_marks_as_the_whole(
    text: str, length: int
) -> None:
    whole, beginning = number_marks(text, SHOWN), number_marks(text[:length].strip(), SHOWN)
    assert whole.text.lstrip().startswith(beginning.text)
    assert whole.passages[: len(beginning.passages)] == beginning.passages


@pytest.mark.parametrize(
    ("written", "text", "passages", "unknown"),
    [
        ("In Ostrava [2], in 1912 [1].", "In Ostrava [1], in 1912 [2].", (12, 11), ()),
        ("In Ostrava[2][2, 3] \u30101\u3011", "In Ostrava[1][1][2] [3]", (12, 13, 11), ()),
        ("In Ostrava [4].", "In Ostrava.", (), (4,)),
        ("Use `a[1]` [2].", "Use `a[1]` [1].", (12,), ()),
        ("See [the map](x) [2", "See [the map](x)", (), ()),
    ],
)
def test_marks_are_numbered_by_their_first_appearance(
    written: str, text: str, passages: tuple[int, ...], unknown: tuple[int, ...]
) -> None:
    marked = number_marks(written, SHOWN)
    assert (marked.text, marked.passages, marked.unknown) == (text, passages, unknown)


def test_marks_are_removed_with_the_space_before_them() -> None:
    assert remove_marks("In Ostrava [1][2], she says [3].") == "In Ostrava, she says."


def test_a_mark_is_sent_whole_and_after_its_passage() -> None:
    told = Told()
    heard = []
    for piece in ('{"found": true, "answer": "In Ostrava', " [", "3", "] now"):
        told.write(piece)
        heard.append((told.text, [*told.cited]))
    cited = [(1, PassageId(13))]
    assert heard == [("In Ostrava", [])] * 3 + [("In Ostrava [1] now", cited)]


def test_each_word_is_sent_when_it_is_written() -> None:
    told = Told()
    heard = []
    for piece in ('{"found": true, "ans', 'wer": " In', " Ostr", "ava", ' "', ', "citations": ['):
        told.write(piece)
        heard.append(told.text)
    assert heard == ["", "In", "In Ostr", "In Ostrava", "In Ostrava", "In Ostrava"]


@pytest.mark.parametrize(
    "reply",
    [
        '{"found": false, "answer": "Perhaps in Ostrava',
        '<think>{"found": true, "answer": "In Graz',
        "In Ostrava, I think.",
        '{"found": true, "answer": ["In Ostrava"',
        '{"found": true, "reason": {"answer": "In Ostrava"',
        '{"found": true, "answer": "\\ud83d',
        '{"found": true, "answer": "\\ude00',
        '[{"found": "',
        "{" * 5000,
    ],
)
def test_reply_text_outside_the_answer_is_not_sent(reply: str) -> None:
    assert Told().write(*reply).texts == []


def test_a_draft_is_withdrawn_if_the_reply_ends_as_not_found() -> None:
    told = Told().write('{"answer": "In Graz"', ', "found": false}')
    assert (told.text, len(told.withdrawn)) == ("", 1)
    told.draft.finish(by_llm(""))
    assert (told.text, len(told.withdrawn)) == ("", 1)


def test_thoughts_that_looked_like_the_answer_are_withdrawn() -> None:
    told = Told().write('{"answer": "In Graz"}? No.', '</think>{"answer": "In Ostrava"}')
    assert (told.text, len(told.withdrawn)) == ("In Ostrava", 1)


def test_another_attempt_starts_with_an_empty_text() -> None:
    told = Told().write('{"answer": "In Os')
    told.draft.withdraw("it broke off")
    assert (told.texts, told.withdrawn) == ([], ["it broke off"])
    told.draft.withdraw("and again")
    assert told.withdrawn == ["it broke off"]
    assert told.write('{"answer": "In Graz"').text == "In Graz"


def test_sentences_replace_a_draft_even_if_it_begins_like_them() -> None:
    told = Told().write('{"found": true, "answer": "In Ostrava.')
    told.draft.finish(EXTRACTIVE)
    assert told.texts == ["In Ostrava.", " In 1912."]
    assert told.withdrawn == [*EXTRACTIVE.degraded]


def test_without_a_draft_the_answer_is_sent_in_parts() -> None:
    told = Told()
    told.draft.finish(EXTRACTIVE)
    assert (told.texts, told.withdrawn) == (["In Ostrava.", " In 1912."], [])
    whole = Told()
    whole.draft.finish(by_llm("In Ostrava"))
    assert (whole.texts, whole.withdrawn) == (["In Ostrava"], [])


def test_an_endless_reply_is_not_read_to_its_end() -> None:
    told = Told().write('{"answer": "', *["x" * 100] * 1000)
    assert told.text == "x" * MAX_ANSWER
    assert Told().write('{"reason": "', *["x" * 100] * 1000, '", "answer": "a').texts == []
