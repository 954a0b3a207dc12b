"""Which ids the caller of a listing asked for: some items, and whole folders of items."""

from collections.abc import Sequence


class Parts:
    """The `under` of a listing; None asks for everything. Thousands of parts cost no more than one.

    >>> parts = Parts(["a/b", "c.md"])
    >>> [parts.has(id_) for id_ in ("a/b/x.md", "a/b", "a/bc.md", "c.md")]
    [True, True, False, True]
    >>> [parts.leads_to(folder) for folder in ("a", "a/b/x", "d")]
    [True, True, False]
    """

    def __init__(self, under: Sequence[str] | None) -> None:
        self._wanted = frozenset(("",) if under is None else under)
        self._above = frozenset(folder for part in self._wanted for folder in prefixes(part))

    def has(self, id_: str) -> bool:
        """Whether the item is one of the parts, or below one."""
        return "" in self._wanted or any(part in self._wanted for part in prefixes(id_))

    def leads_to(self, folder: str) -> bool:
        """Whether something below the folder may be asked for."""
        return folder in self._above or self.has(folder)


def prefixes(path: str) -> list[str]:
    """The folders above a path, the topmost first, and the path itself.

    >>> prefixes("a/b/c.md"), prefixes("")
    (['a', 'a/b', 'a/b/c.md'], [])
    """
    ends = [end for end, letter in enumerate(path) if letter == "/"]
    return [*(path[:end] for end in ends), path] if path else []
