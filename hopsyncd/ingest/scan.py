"""Scan a source or parts of it completely, to find the documents that exist and that are gone."""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import structlog

from connectors.protocol import (
    Connector,
    ConnectorError,
    Cursor,
    CursorExpired,
    Found,
    Gone,
    Item,
    Problem,
    SourceUnavailable,
)
from hopsyncd.ingest.source_thread import CallRunner, Turn, WriterThread, YieldToEdits, in_turns

log = structlog.get_logger(__name__)

_CHUNK = 256  # items per call.


class TooMuch(Exception):
    """A small sync turned out to be too large."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The current items of a source. `under` is None for the whole source, else the listed parts.

    With `since`, an earlier cursor, it names only what changed, and only `gone` is gone.
    `cursor` is where the next listing of the whole source can begin, None if the source cannot say.
    """

    items: dict[str, Item]
    problems: tuple[Problem, ...]
    under: Collection[str] | None
    gone: frozenset[str] = frozenset()
    since: str | None = None
    cursor: str | None = None

    def names(self, path: str) -> bool:
        """Whether the listing shows if this item exists."""
        return path in self.items or self.covers(path)

    def covers(self, path: str) -> bool:
        """Whether the listing would name this item if it existed."""
        if path in self.gone:
            return True
        if self.since is not None:
            return False
        if self.under is None:
            return True
        names = path.split("/")
        return any("/".join(names[:end]) in self.under for end in range(len(names) + 1))


def scan(
    connector: Connector,
    under: Sequence[str] | None,
    since: str | None = None,
    caller: CallRunner = WriterThread(),  # noqa: B008 - it has no state
    yield_to_edits: YieldToEdits = lambda: None,
    most: int | None = None,
) -> Generator[Turn, None, Listing]:
    """List to the end, or list everything if the cursor `since` has expired.

    Raises SourceUnavailable when the listing cannot be completed, TooMuch when it names more than
    `most` items.
    """
    try:
        return (yield from _scan(connector, under, since, caller, yield_to_edits, most))
    except CursorExpired as expired:
        log.info("everything is listed again", why=expired.why)
    try:
        return (yield from _scan(connector, under, None, caller, yield_to_edits, most))
    except CursorExpired as error:
        raise SourceUnavailable(error.what, error.why, error.hint) from error


def _scan(
    connector: Connector,
    under: Sequence[str] | None,
    since: str | None,
    caller: CallRunner,
    yield_to_edits: YieldToEdits,
    most: int | None,
) -> Generator[Turn, None, Listing]:
    items: dict[str, Item] = {}
    problems: list[Problem] = []
    gone: set[str] = set()
    cursor = None
    listed = _take_found(connector, since, under)
    while chunk := (yield from in_turns(lambda: [*islice(listed, _CHUNK)], caller, yield_to_edits)):
        for found in chunk:
            yield_to_edits()
            if isinstance(found, Cursor):
                cursor = found.value if under is None else None
            elif not _is_storable(found.id):
                problems.append(_unstorable(found))
            elif isinstance(found, Problem):
                problems.append(found)
            elif isinstance(found, Gone):
                items.pop(found.id, None)
                gone.add(found.id)
            else:
                items[found.id] = found
                gone.discard(found.id)
                if most is not None and len(items) > most:
                    raise TooMuch
    parts = None if under is None else frozenset(under)
    return Listing(items, tuple(problems), parts, frozenset(gone), since, cursor)


def _take_found(
    connector: Connector, since: str | None, under: Sequence[str] | None
) -> Iterator[Found]:
    try:
        yield from connector.discover(since, under)
    except ConnectorError:
        raise
    except Exception as error:
        # An unexpected error of a connector pauses only its own source.
        kind = type(connector).__name__
        log.error("a connector failed", connector=kind, doing="list the source", exc_info=error)
        raise SourceUnavailable(
            "Cannot list the source",
            f"its connector failed ({type(error).__name__}: {error})",
            f"The log has the details for the maintainers of {kind}. Its index is kept.",
        ) from error


def _is_storable(id_: str) -> bool:
    return _printable(id_) == id_


def _unstorable(found: Item | Gone | Problem) -> Problem:
    if isinstance(found, Problem):
        return replace(found, id=_printable(found.id))
    return Problem(_printable(found.id), "its id cannot be stored as text", "Rename it.")


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
