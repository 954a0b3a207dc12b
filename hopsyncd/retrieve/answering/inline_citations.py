"""Citation marks such as [2] in an LLM's answer. They name the passages that support a sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from store.records import PassageId

_MARK = re.compile(r"\s*[\[\u3010]\s*(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\s*[\]\u3011]")
_UNFINISHED_MARK = re.compile(r"\s*[\[\u3010][\d\s,;]*\Z")
_PLAIN_MARK = re.compile(r"\s*\[\d{1,3}\]")


@dataclass(frozen=True, slots=True)
class MarkedText:
    """An answer whose citation marks are numbered from 1, in the order of their first appearance.

    passages: the passage that each mark cites. unknown: the numbers of marks that were removed
    because no passage has that number.
    """

    text: str
    passages: tuple[PassageId, ...] = ()
    unknown: tuple[int, ...] = ()


def number_marks(text: str, passages: Sequence[PassageId]) -> MarkedText:
    """Renumber the citation marks in the text, where mark [n] cites the n-th of the `passages`.

    Marks in code are not changed, and an unfinished mark at the end is left out. If text is
    appended to the input, the result only grows at its end, so an answer can be renumbered while it
    is being written.

    >>> number_marks("In Ostrava [3], she says [1, 3].", [*map(PassageId, (7, 8, 9))])
    MarkedText(text='In Ostrava [1], she says [2][1].', passages=(9, 7), unknown=())
    """
    text = _UNFINISHED_MARK.sub("", text)
    numbers: dict[PassageId, int] = {}
    unknown: dict[int, None] = {}
    parts, end = list[str](), 0
    for match in _MARK.finditer(text):
        before = text[end : match.start()]
        if (text.count("`", 0, match.start())) % 2:
            continue
        written = ""
        for number in map(int, re.findall(r"\d+", match[1])):
            if 1 <= number <= len(passages):
                written += f"[{numbers.setdefault(passages[number - 1], len(numbers) + 1)}]"
            else:
                unknown[number] = None
        space = match[0][: len(match[0]) - len(match[0].lstrip())] if written else ""
        parts += [before, space, written]
        end = match.end()
    parts.append(text[end:])
    return MarkedText("".join(parts), tuple(numbers), tuple(unknown))


def remove_marks(text: str) -> str:
    """Remove the citation marks from the text.

    >>> remove_marks("In Ostrava [1][2], she says.")
    'In Ostrava, she says.'
    """
    return _PLAIN_MARK.sub("", text)
