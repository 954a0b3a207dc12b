"""The errors of hopsyncd. Each says what failed, on what, why, and what to do.

HopsyncdError
├── ConfigError          the configuration is invalid: file, line, key, suggestion
├── BadRequest           a request that is malformed or impossible (HTTP 400)
├── Forbidden            the caller lacks the right to do this (HTTP 403)
├── NotFound             nothing with that name exists at this version (HTTP 404)
├── Busy                 too many requests at once (HTTP 503)
├── TimedOut             the answer took too long (HTTP 503)
├── DocumentUnreadable   bytes that no reader can turn into text
├── ReaderUnavailable    this machine cannot read documents, or one type of them, for now
├── ModelUnavailable     a model is missing, damaged or not the named model
│   └── EncoderUnavailable   the embedding endpoint gives no vectors for now
├── DaemonUnavailable    no daemon answers on the socket
├── DaemonUntrusted      another user could be answering on the socket
├── AlreadyRunning       another daemon serves this socket
├── SocketRefused        the socket path is unusable
├── SyncFailed           a sync could not be completed
└── LlmError             a call to the LLM brought no usable reply
    ├── LlmUnavailable   no answer in time: down, slow, cut off, rate limited
    ├── LlmRefused       the call would always be refused: wrong key, model or size
    ├── LlmNonsense      the reply does not have the requested form
    ├── BudgetSpent      a limit of calls or tokens is reached; no call was made
    └── NotAsked         other calls come first; the call is made later

`store.exceptions.StoreError` and `connectors.protocol.ConnectorError` have the same three parts.
They are separate because those packages import nothing from this one.
"""

from connectors.protocol import ConnectorError
from store.exceptions import StoreError


class HopsyncdError(Exception):
    """The base of these errors.

    what: what failed, on which thing. why: the reason. hint: what the user can do.
    """

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. {hint}")
        self.what = what
        self.why = why
        self.hint = hint


class ConfigError(HopsyncdError):
    """The configuration is refused."""


class BadRequest(HopsyncdError):
    """The request is malformed or impossible, so repeating it does not help."""


class Forbidden(HopsyncdError):
    """The caller lacks the right to do this."""


class NotFound(HopsyncdError):
    """Nothing with that name exists at this version."""


class Busy(HopsyncdError):
    """There are too many requests; try again later."""


class TimedOut(HopsyncdError):
    """The answer took too long."""


class DocumentUnreadable(HopsyncdError):
    """The document's bytes yield no text."""


class ReaderUnavailable(HopsyncdError):
    """A reader cannot work, because its process, a library or memory is missing.

    The documents are not at fault, so they are not skipped for good. They are read once the machine
    allows it.
    """


class ModelUnavailable(HopsyncdError):
    """A model cannot be loaded."""


class EncoderUnavailable(ModelUnavailable):
    """The embedding endpoint is unavailable for now. Indexing waits for it."""


class DaemonUnavailable(HopsyncdError):
    """No process answers on the socket, or the process that answers is not a daemon."""


class DaemonUntrusted(HopsyncdError):
    """Another user could be answering in the daemon's place; nothing was sent."""


class AlreadyRunning(HopsyncdError):
    """The socket belongs to a running daemon."""


class SocketRefused(HopsyncdError):
    """The socket cannot be bound at its path."""


class SyncFailed(HopsyncdError):
    """A sync could not be completed."""


class LlmError(HopsyncdError):
    """A call to the LLM failed. `kind` names the failure in counts and in the status."""

    kind = "failed"


class LlmUnavailable(LlmError):
    """The endpoint gave no answer in time."""

    kind = "unavailable"


class LlmRefused(LlmError):
    """The endpoint refused the call, and would refuse it again."""

    kind = "refused"


class LlmNonsense(LlmError):
    """The reply does not have the requested form."""

    kind = "nonsense"


class BudgetSpent(LlmError):
    """A limit of calls or tokens is reached, so the call was not made."""

    kind = "budget"


class NotAsked(LlmError):
    """The call was not made yet, because other calls come first."""

    kind = "queued"


REPORTABLE = (HopsyncdError, StoreError, ConnectorError)
