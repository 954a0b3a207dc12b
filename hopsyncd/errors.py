"""One tree of errors; each says what failed, on what, why, and what to do.

HopsyncdError
├── ConfigError          the configuration cannot be used: file, line, key, suggestion
├── BadRequest           a request that can never be answered as it stands (HTTP 400)
├── DocumentUnreadable   bytes that no extractor can turn into text
├── ModelUnavailable     a model is missing, damaged or not the one named
├── DaemonUnavailable    no daemon answers on the socket
├── AlreadyRunning       another daemon serves this socket
├── SocketRefused        the socket path is unusable
└── SyncFailed           a sync could not be completed

Beside it stand `store.errors.StoreError` and `connectors.errors.ConnectorError`, which have the
same three parts: those packages import nothing of this one.
"""

from connectors.errors import ConnectorError
from store.errors import StoreError


class HopsyncdError(Exception):
    """Base: `what` failed on which thing, `why`, and a `hint` on what to do."""

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. {hint}")
        self.what = what
        self.why = why
        self.hint = hint


class ConfigError(HopsyncdError):
    """The configuration is refused."""


class BadRequest(HopsyncdError):
    """The request is malformed."""


class DocumentUnreadable(HopsyncdError):
    """The document's bytes yield no text."""


class ModelUnavailable(HopsyncdError):
    """A model cannot be loaded."""


class DaemonUnavailable(HopsyncdError):
    """Nothing answers on the socket."""


class AlreadyRunning(HopsyncdError):
    """The socket belongs to a living daemon."""


class SocketRefused(HopsyncdError):
    """The socket cannot be bound at its path."""


class SyncFailed(HopsyncdError):
    """A sync ended without a version."""


REPORTABLE = (HopsyncdError, StoreError, ConnectorError)
