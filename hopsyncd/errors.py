"""One tree of errors; each says what failed, on what, why, and what to do.

HopsyncdError
├── ConfigError          the configuration cannot be used: file, line, key, suggestion
├── BadRequest           a request that can never be answered as it stands (HTTP 400)
├── Forbidden            the caller has not the right to ask this (HTTP 403)
├── NotFound             there is nothing of that name at this version (HTTP 404)
├── DocumentUnreadable   bytes that no extractor can turn into text
├── ReaderUnavailable    documents, or those of one type, cannot be read on this machine now
├── ModelUnavailable     a model is missing, damaged or not the one named
├── DaemonUnavailable    no daemon answers on the socket
├── DaemonUntrusted      another user could be answering on the socket
├── AlreadyRunning       another daemon serves this socket
├── SocketRefused        the socket path is unusable
├── SyncFailed           a sync could not be completed
└── LlmError             a call to the LLM gave nothing that can be used
    ├── LlmUnavailable   no answer in time: down, slow, cut off, over its rate
    ├── LlmRefused       it will not answer this, now or later: key, model, size
    ├── LlmNonsense      its reply is not of the form that was asked for
    ├── BudgetSpent      a limit of calls or tokens is reached; it was not asked
    └── NotAsked         other calls came first; its turn comes later

Beside it stand `store.exceptions.StoreError` and `connectors.protocol.ConnectorError`, which have
the same three parts: those packages import nothing of this one.
"""

from connectors.protocol import ConnectorError
from store.exceptions import StoreError


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


class Forbidden(HopsyncdError):
    """The caller may not do that."""


class NotFound(HopsyncdError):
    """What was asked for is not there."""


class Busy(HopsyncdError):
    """Too much is asked at once; it can be asked again."""


class TimedOut(HopsyncdError):
    """The answer took too long."""


class DocumentUnreadable(HopsyncdError):
    """The document's bytes yield no text."""


class ReaderUnavailable(HopsyncdError):
    """What a reader needs is not there: its process, its library, memory. No document is at fault,
    so none is given up: it is read when the machine allows it."""


class ModelUnavailable(HopsyncdError):
    """A model cannot be loaded."""


class DaemonUnavailable(HopsyncdError):
    """Nothing answers on the socket, or nothing that is an answer."""


class DaemonUntrusted(HopsyncdError):
    """Another user could be answering in the daemon's place; nothing was sent."""


class AlreadyRunning(HopsyncdError):
    """The socket belongs to a living daemon."""


class SocketRefused(HopsyncdError):
    """The socket cannot be bound at its path."""


class SyncFailed(HopsyncdError):
    """A sync ended without a version."""


class LlmError(HopsyncdError):
    """A call to the LLM failed; `kind` names how in counts and in the status."""

    kind = "failed"


class LlmUnavailable(LlmError):
    """The endpoint gave no answer in time."""

    kind = "unavailable"


class LlmRefused(LlmError):
    """The endpoint refuses the call, and would again."""

    kind = "refused"


class LlmNonsense(LlmError):
    """The reply cannot be read as what was asked for."""

    kind = "nonsense"


class BudgetSpent(LlmError):
    """A budget forbids the call."""

    kind = "budget"


class NotAsked(LlmError):
    """The call's turn has not come."""

    kind = "queued"


REPORTABLE = (HopsyncdError, StoreError, ConnectorError)
