"""A source in memory, whose every trouble can be arranged."""

from collections.abc import Iterator, Sequence
from itertools import count

from connectors.errors import ItemUnreadable, ItemVanished, SourceUnavailable
from connectors.protocol import Fetched, Item, Problem


class MemoryConnector:
    """Items in a dict, by path. Every write gives an item a revision that it never had.

    What is in `unreadable` is listed and cannot be fetched, what is in `vanishing` is gone when
    fetched, and each of `problems` is listed in place of its item, or of the items below it.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self._ticks = count()
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

    def remove(self, path: str) -> None:
        del self.files[path], self.revisions[path]

    def move(self, path: str, to: str) -> None:
        self.put(to, self.files[path])
        self.remove(path)

    def discover(self, under: Sequence[str] | None = None) -> Iterator[Item | Problem]:
        if not self.available:
            raise SourceUnavailable("Cannot list the source", "it is away", "Bring it back")
        wanted = None if under is None else tuple(under)
        for problem in self.problems.values():
            if _covers(wanted, problem.id):
                yield problem
        for path in sorted(self.files):
            if _covers(wanted, path) and not self._is_hidden(path):
                yield Item(path, self.revisions[path], len(self.files[path]))

    def fetch(self, item: Item) -> Fetched:
        self.fetched.append(item.id)
        if item.id not in self.files or item.id in self.vanishing:
            raise ItemVanished(f"Cannot read {item.id}", "it is gone", "The next scan decides")
        if item.id in self.unreadable:
            raise ItemUnreadable(f"Cannot read {item.id}", "it is locked", "Unlock it")
        return Fetched(self.files[item.id], self.revisions[item.id], "text/markdown")

    def close(self) -> None:
        """Nothing is held."""

    def _is_hidden(self, path: str) -> bool:
        return any(
            path == problem.id or (problem.subtree and path.startswith(problem.id + "/"))
            for problem in self.problems.values()
        )


def _covers(under: tuple[str, ...] | None, path: str) -> bool:
    return under is None or any(
        not part or path == part or path.startswith(part + "/") for part in under
    )
