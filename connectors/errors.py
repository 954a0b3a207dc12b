"""What can go wrong while listing or fetching.

ConnectorError
├── SourceUnavailable   the whole source cannot be listed now: pause it, keep its data
├── CursorExpired       a listing cannot begin there any more: list everything
├── ItemVanished        the item was listed and is gone when fetched: the next scan decides
└── ItemUnreadable      the item is there and cannot be used: report it, keep its last good version
"""


class ConnectorError(Exception):
    """Base: `what` failed on which thing, `why`, and a `hint` on what to do."""

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. {hint}")
        self.what = what
        self.why = why
        self.hint = hint


class SourceUnavailable(ConnectorError):
    """The source cannot be listed completely, so nothing may be concluded from its silence."""


class CursorExpired(ConnectorError):
    """The cursor is unknown, of another origin, or from the future."""


class ItemVanished(ConnectorError):
    """The item disappeared between its listing and its fetch."""


class ItemUnreadable(ConnectorError):
    """The item exists and cannot be read or is not something to index."""
