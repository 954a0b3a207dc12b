"""What a listing names, as against the cursor at its end."""

from collections.abc import Iterable, Iterator

from connectors.protocol import Cursor, Found, Gone, Item, Problem

Named = Item | Gone | Problem


def named(found: Iterable[Found]) -> Iterator[Named]:
    """What is found, none of it a cursor."""
    for one in found:
        assert not isinstance(one, Cursor)
        yield one
