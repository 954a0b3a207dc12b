"""A source in memory, whose every trouble can be arranged."""

from collections.abc import Iterator, Sequence
from itertools import count

from connectors.protocol import (
    Cursor,
    CursorExpired,
    Fetched,
    Found,
    Gone,
    Item,
    ItemUnreadable,
    ItemVanished,
    Problem,
    SourceUnavailable,
)
from connectors.regular_file import describe_too_large


class MemoryConnector:
    """Items in a dict, by path. Every write gives an item a revision that it never had.

    What is in `unreadable` is listed and cannot be fetched, what is in `vanishing` is gone when
    fetched, and each of `problems` is listed in place of its item, or of the items below it.
    While `locked`, fetching raises that. With `cursors` its listings can begin at the last one.
    """

    def __init__(
        self,
        files: dict[str, bytes] | None = None,
        *,
        max_bytes: int = 10**9,
        cursors: bool = False,
    ) -> None:
        self._ticks = count(1)
        self._max_bytes = max_bytes
        self._cursors = cursors
        self._changes: list[str] = []
        self.listings: list[str | None] = []
        self.locked: SourceUnavailable | None = None
        self.revisions: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.available = True
        self.unreadable: set[str] = set()
        self.vanishing: set[str] = set()
        self.problems: dict[str, Problem] = {}
        self.fetched: list[str] = []
        for path, data in (files or {}).items():
            self.put(path, data)

    def put(self, path: str, data: bytes) -> None:
        """Create or overwrite; with the same bytes it is a touch."""
        self.files[path] = data
        self.revisions[path] = f"r{next(self._ticks)}"
        self._changes.append(path)

    def remove(self, path: str) -> None:
        del self.files[path], self.revisions[path]
        self._changes.append(path)

    def move(self, path: str, to: str) -> None:
        self.put(to, self.files[path])
        self.remove(path)

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        if not self.available:
            raise SourceUnavailable("Cannot list the source", "it is away", "Bring it back")
        self.listings.append(since)
        wanted = None if under is None else tuple(under)
        end = len(self._changes)
        paths = self.files.keys() if since is None else self._changed_since(since)
        for problem in self.problems.values():
            if _covers(wanted, problem.id):
                yield problem
        for path in sorted(paths):
            if _covers(wanted, path) and not self._is_hidden(path):
                yield self._judge(path)
        if self._cursors and under is None:
            yield Cursor(str(end))

    def fetch(self, item: Item) -> Fetched:
        if self.locked:
            raise self.locked
        self.fetched.append(item.id)
        if item.id not in self.files or item.id in self.vanishing:
            raise ItemVanished(
                f"Cannot read {item.id}", "it is gone", "The next scan updates the index"
            )
        if item.id in self.unreadable:
            raise ItemUnreadable(f"Cannot read {item.id}", "it is locked", "Unlock it")
        return Fetched(self.files[item.id], self.revisions[item.id], "text/markdown")

    def close(self) -> None:
        """Nothing is held."""

    def _judge(self, path: str) -> Item | Gone | Problem:
        if path not in self.files:
            return Gone(path)
        size_bytes = len(self.files[path])
        if size_bytes > self._max_bytes:
            return Problem(path, *describe_too_large(size_bytes, self._max_bytes))
        return Item(path, self.revisions[path], size_bytes)

    def _changed_since(self, cursor: str) -> set[str]:
        if not cursor.isdecimal() or int(cursor) > len(self._changes):
            raise CursorExpired("Cannot list since then", "it never was", "List everything")
        return set(self._changes[int(cursor) :])

    def _is_hidden(self, path: str) -> bool:
        return any(
            path == problem.id or (problem.subtree and path.startswith(problem.id + "/"))
            for problem in self.problems.values()
        )


def _covers(under: tuple[str, ...] | None, path: str) -> bool:
    return under is None or any(
        not part or path == part or path.startswith(part + "/") for part in under
    )
