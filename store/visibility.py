"""Hides whole sources, and folders of other sources, from a caller."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class HiddenFolders:
    """The documents of a source that are hidden because of their paths.

    `patterns` are gitignore patterns; the last one that matches a path decides. `decisions` say
    whether each pattern hides, and at the end whether paths that no pattern matches are hidden.
    """

    source: str
    patterns: tuple[str, ...]
    decisions: tuple[bool, ...]

    def hides(self, path: str) -> bool:
        """Whether the document at this path is hidden."""
        return self.decisions[find_pattern(self.patterns, path)]


Mask: TypeAlias = frozenset[str | HiddenFolders]
"""The names of hidden sources, and the hidden folders of other sources."""


def find_pattern(patterns: tuple[str, ...], path: str) -> int:
    """The position of the last pattern that matches the path or a folder above it; -1 if none does.

    >>> [find_pattern(("hr/", "hr/open/**"), path) for path in ("hr/a", "hr/open/b", "c/hr.md")]
    [0, 1, -1]
    """
    line = _normalize(path)
    for at, pattern in _compile(patterns):
        if pattern.match_file(line):
            return at
    return -1


def hidden_sources(mask: Mask) -> list[str]:
    """The names of the sources that are hidden as a whole, sorted."""
    return sorted(part for part in mask if isinstance(part, str))


def hidden_folders(mask: Mask) -> list[HiddenFolders]:
    """The hidden folders of the sources that are not hidden as a whole."""
    return [part for part in mask if isinstance(part, HiddenFolders)]


def hides(mask: Mask, source: str, path: str) -> bool:
    """Whether the document at this path of the source is hidden."""
    return source in mask or any(
        folders.hides(path) for folders in hidden_folders(mask) if folders.source == source
    )


def partly_hidden(mask: Mask) -> set[str]:
    """The names of the sources that have hidden folders."""
    return {folders.source for folders in hidden_folders(mask)}


def is_pattern(pattern: str) -> bool:
    """Whether a line is a pattern that can match: not blank, a comment or a negation."""
    return bool(pattern.strip(" /")) and not pattern.startswith(("#", "!"))


@lru_cache(maxsize=64)
def _compile(patterns: tuple[str, ...]) -> tuple[tuple[int, GitIgnoreSpec], ...]:
    """The patterns and their positions, the last one first."""
    found: Iterable[tuple[int, str]] = enumerate(patterns)
    specs = [(at, GitIgnoreSpec.from_lines([_normalize(one)])) for at, one in found]
    return tuple(reversed(specs))


def _normalize(path: str) -> str:
    """Compose accents, which some systems store separately from their letters.

    Newlines become NUL, which no path contains, because pathspec's expressions stop at them.
    """
    return unicodedata.normalize("NFC", path).replace("\n", "\0")
