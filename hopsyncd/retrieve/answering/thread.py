"""Uses earlier questions of a conversation for the search and the prompt of the next question.

The daemon stores no conversation. Each request contains the earlier questions with their answers.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from hopsyncd.models.keywords import STOP_WORDS, find_mentions, find_neutral_spans
from hopsyncd.models.llm.tokens import count_tokens
from hopsyncd.retrieve.answering.inline_citations import remove_marks
from hopsyncd.text.question_language import recognise_language

_MOST_SUBJECTS = 6
_MOST_TURNS = 3  # Only the newest turns are searched for subjects.
_MOST_NAMES_OF_ANSWER = 3
_LONGEST_NAME = 60
_ANSWER_CHARACTERS = 400  # characters of an earlier answer in a prompt
_QUESTION_CHARACTERS = 400
_WORD = re.compile(r"\w+(?:[-'\u2019]\w+)*")
# Words that refer to an earlier turn.
_REFERRING = frozenset(
    (
        "he she it they him her them his hers its their theirs this that these those there then"
        " same former latter else another other"
        " er sie es ihn ihm ihr ihnen sein seine seinen seiner seinem ihre ihren ihrer ihrem dies"
        " diese dieser dieses diesen diesem dort dann dessen deren dafür davon damit dazu"
        " il elle ils elles lui leur leurs son sa ses ce cette ces celui celle ceux celles y en"
        " él ella ellos ellas su sus este esta estos estas ese esa esos esas eso esto allí"
        " lui lei loro suo sua suoi sue questo questa questi queste quello quella lì"
        " hij zij ze hem haar hun zijn deze dit daar"
        " ele ela eles elas seu sua seus suas isso isto ali"
    ).split()
)
# First words of questions that continue an earlier question.
_CONTINUING = frozenset("and or but und oder aber et ou mais y pero e o ma en of maar mas".split())
_CONTINUING_PAIRS = ("what about", "how about", "was ist mit", "qu'en est-il", "qué hay de")
_WITH_PRONOUNS = frozenset({"en", "de", "fr", "es", "it", "nl", "pt", None})


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier question and its answer, which may be empty."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A question as typed, the earlier turns, and the subjects that were added to the search."""

    question: str
    thread: Sequence[Turn]
    subjects: tuple[str, ...]


class TurnData(TypedDict):
    question: str
    answer: str


def find_earlier_names(question: str, thread: Sequence[Turn]) -> tuple[str, ...]:
    """Find the names in earlier turns that the question refers to, newest turn first.

    Only the last `_MOST_TURNS` turns are read, and at most `_MOST_SUBJECTS` names are returned.

    >>> turns = [Turn("Who directed Bronze Door?", "Mira Kaltenbrunn")]
    >>> find_earlier_names("Where was she born?", turns)
    ('Bronze Door', 'Mira Kaltenbrunn')
    >>> find_earlier_names("When was the Harbour Bridge opened?", turns)
    ()
    """
    if not thread or not _needs_subjects(question):
        return ()
    names: dict[str, str] = {}
    for turn in reversed(thread[-_MOST_TURNS:]):
        asked = _list_names(turn.question) or (
            [] if _refers(turn.question) else _list_content_words(turn.question)
        )
        for name in [*asked, *_list_names(turn.answer)[:_MOST_NAMES_OF_ANSWER]]:
            names.setdefault(name.casefold(), name)
    lower = question.casefold()
    return tuple(name for key, name in names.items() if key not in lower)[:_MOST_SUBJECTS]


def add_subjects(question: str, subjects: Iterable[str]) -> str:
    """Append the subjects to the question for the search.

    >>> add_subjects("Where was she born?", ["Bronze Door", "Mira Kaltenbrunn"])
    'Where was she born (Bronze Door, Mira Kaltenbrunn)?'
    """
    names = ", ".join(subjects)
    if not names:
        return question
    bare = question.rstrip()
    mark = bare[-1:] if bare[-1:] in "?!." else ""
    return f"{bare.removesuffix(mark).rstrip()} ({names}){mark}"


def fit_thread(thread: Sequence[Turn], budget_tokens: int) -> list[TurnData]:
    """Select the newest turns that fit into a token budget, and return them oldest first.

    Questions are cut after `_QUESTION_CHARACTERS`, and answers after `_ANSWER_CHARACTERS`.
    """
    fitting: list[TurnData] = []
    for turn in reversed(thread):
        data = TurnData(
            question=turn.question[:_QUESTION_CHARACTERS],
            answer=remove_marks(turn.answer)[:_ANSWER_CHARACTERS],
        )
        budget_tokens -= count_tokens(f"{data['question']}\n{data['answer']}") + 8
        if budget_tokens < 0:
            break
        fitting.insert(0, data)
    return fitting


def _needs_subjects(question: str) -> bool:
    if recognise_language(question) not in _WITH_PRONOUNS:
        return True
    return _refers(question) or not _list_names(question)


def _refers(question: str) -> bool:
    """Return whether a question has a word that refers back, or continues an earlier question."""
    words = [word.casefold() for word in _WORD.findall(question)]
    if not words:
        return False
    starts = question.strip().casefold().startswith(_CONTINUING_PAIRS)
    return starts or words[0] in _CONTINUING or not _REFERRING.isdisjoint(words)


def _list_names(text: str) -> list[str]:
    """List the distinct names in a text, in order."""
    names = (
        _strip_function_words(text[mention.start : mention.end])
        for mention in find_mentions(text, find_neutral_spans(text))
    )
    return [name for name in dict.fromkeys(names) if 0 < len(name) <= _LONGEST_NAME]


def _strip_function_words(name: str) -> str:
    """Remove function words before a name: "In Ostrava" becomes "Ostrava"."""
    words = name.split()
    while words and words[0].casefold() in STOP_WORDS:
        del words[0]
    return " ".join(words)


def _list_content_words(question: str) -> list[str]:
    """List the content words of a question."""
    return [word for word in _WORD.findall(question) if word.casefold() not in STOP_WORDS]
