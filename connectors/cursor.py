"""Cursors that hold what a listing knew: a JSON object, with a mark of the settings it is for."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from connectors.errors import CursorExpired
from connectors.protocol import Cursor

_T = TypeVar("_T")

_MAX_CHARACTERS = 1_000_000


def mark_of(*settings: object) -> str:
    """A mark that other settings do not have; none of their words is in it.

    >>> mark_of("imap.example.org", 993) == mark_of("imap.example.org", 143)
    False
    """
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:32]


def cursors(mark: str, known: Mapping[str, object]) -> Iterator[Cursor]:
    """The one Cursor that holds what is known; none where that is too much."""
    value = json.dumps([mark, known])
    if len(value) <= _MAX_CHARACTERS:
        yield Cursor(value)


def known_of(since: str, mark: str, where: str, read: Callable[[Any], _T]) -> dict[str, _T]:
    """What a Cursor holds, each value made out by `read`. Raises CursorExpired."""

    def expired(why: str) -> CursorExpired:
        return CursorExpired(f"Cannot list only what changed at {where}", why, "All is listed.")

    try:
        made_with, held = json.loads(since)
        known = {str(name): read(value) for name, value in held.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise expired("its cursor cannot be read") from error
    if made_with != mark:
        raise expired("its settings were changed")
    return known
