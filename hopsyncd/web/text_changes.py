"""What differs between two texts, in words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

_PIECE = re.compile(r"\s+|\w+|[^\w\s]")
_AROUND_WORDS = 12  # of what stayed, shown beside a change
_MOST_PIECES = 6_000  # a longer text is compared by lines


@dataclass(frozen=True, slots=True)
class TextChange:
    """A stretch of text that stayed, or was added or removed; `gap` stands for what is left out."""

    kind: Literal["same", "added", "removed", "gap"]
    text: str = ""


def changed_words(old: str, new: str) -> list[TextChange]:
    """The changes with some words around each.

    >>> [(one.kind, one.text) for one in changed_words("It burns coal.", "It burns wood.")]
    [('same', 'It burns '), ('removed', 'coal'), ('added', 'wood'), ('same', '.')]
    """
    was, now = _pieces(old), _pieces(new)
    if max(len(was), len(now)) > _MOST_PIECES:
        was, now = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return list(_parts(was, now))


def _pieces(text: str) -> list[str]:
    return _PIECE.findall(text)


def _parts(was: Sequence[str], now: Sequence[str]) -> Iterator[TextChange]:
    blocks = SequenceMatcher(a=was, b=now, autojunk=len(was) > 1000).get_opcodes()
    for number, (kind, i1, i2, j1, j2) in enumerate(blocks):
        if kind == "equal":
            yield from _same(was[i1:i2], first=number == 0, last=number == len(blocks) - 1)
            continue
        if i1 < i2:
            yield TextChange("removed", "".join(was[i1:i2]))
        if j1 < j2:
            yield TextChange("added", "".join(now[j1:j2]))


def _same(pieces: Sequence[str], *, first: bool, last: bool) -> Iterator[TextChange]:
    """What stayed, without what is far from the changes before and after it."""
    kept = 2 * _AROUND_WORDS
    before = 0 if first else kept
    after = 0 if last else kept
    if len(pieces) <= before + after:
        yield TextChange("same", "".join(pieces))
        return
    if before:
        yield TextChange("same", "".join(pieces[:before]))
    yield TextChange("gap")
    if after:
        yield TextChange("same", "".join(pieces[-after:]))
