"""The scan: a listing of one source, or of parts of it, to its end: what is there, what is gone."""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

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
from hopsyncd.ingest.source_thread import CallRunner, GiveWay, WriterThread, each

log = structlog.get_logger(__name__)

Result = TypeVar("Result")


class TooMuch(Exception):
    """Raised inside a listing that was to be short, and is not."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source has now. `under` is None for the whole source, else the parts listed.

    One `since` an earlier cursor names what changed only, so that nothing but `gone` is gone.
    `cursor` is where the next one of the whole source can begin, None where it cannot say so.
    """

    items: dict[str, Item]
    problems: tuple[Problem, ...]
    under: Collection[str] | None
    gone: frozenset[str] = frozenset()
    since: str | None = None
    cursor: str | None = None

    def names(self, path: str) -> bool:
        """Whether the listing says of this item that it is there, or that it is not."""
        return path in self.items or self.covers(path)

    def covers(self, path: str) -> bool:
        """Whether the listing would have named this item if it were there."""
        if path in self.gone:
            return True
        if self.since is not None:
            return False
        if self.under is None:
            return True
        names = path.split("/")
        return any("/".join(names[:end]) in self.under for end in range(len(names) + 1))


def finished(turns: Generator[None, None, Result]) -> Result:
    """What comes of turns that nobody else has one between."""
    while True:
        try:
            next(turns)
        except StopIteration as ended:
            result: Result = ended.value
            return result


def scan(
    connector: Connector,
    under: Sequence[str] | None,
    since: str | None = None,
    caller: CallRunner = WriterThread(),  # noqa: B008 - it holds nothing
    give_way: GiveWay = lambda: None,
    most: int | None = None,
) -> Generator[None, None, Listing]:
    """List to the end; everything, where the cursor `since` has expired. Others have their turn
    while the source makes one wait.

    Raises SourceUnavailable when the listing cannot be completed, TooMuch when it names more than
    `most` items.
    """
    try:
        listed = each(_listed(connector, since, under), caller, give_way)
        return (yield from _scan(listed, under, since, most))
    except CursorExpired as expired:
        log.info("everything is listed again", why=expired.why)
    try:
        listed = each(_listed(connector, None, under), caller, give_way)
        return (yield from _scan(listed, under, None, most))
    except CursorExpired as error:
        raise SourceUnavailable(error.what, error.why, error.hint) from error


def _scan(
    listed: Iterator[Found | None],
    under: Sequence[str] | None,
    since: str | None,
    most: int | None,
) -> Generator[None, None, Listing]:
    items: dict[str, Item] = {}
    problems: list[Problem] = []
    gone: set[str] = set()
    cursor = None
    for found in listed:
        if found is None:
            yield
        elif isinstance(found, Cursor):
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


def _listed(
    connector: Connector, since: str | None, under: Sequence[str] | None
) -> Iterator[Found]:
    try:
        yield from connector.discover(since, under)
    except ConnectorError:
        raise
    except Exception as error:
        raise failed(connector, "list the source", error) from error


def failed(connector: Connector, doing: str, error: Exception) -> SourceUnavailable:
    """A connector that breaks off in its own way pauses its source, and no other."""
    kind = type(connector).__name__
    log.error("a connector failed", connector=kind, doing=doing, exc_info=error)
    return SourceUnavailable(
        f"Cannot {doing}",
        f"its connector failed ({type(error).__name__}: {error})",
        f"The log has the details for those who look after {kind}. What is indexed of it is kept.",
    )


def _is_storable(id_: str) -> bool:
    return _printable(id_) == id_


def _unstorable(found: Item | Gone | Problem) -> Problem:
    why, hint = "its id is no text that can be stored", "Rename it."
    if isinstance(found, Problem):
        return replace(found, id=_printable(found.id))
    return Problem(_printable(found.id), why, hint)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
