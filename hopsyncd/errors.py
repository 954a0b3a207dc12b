"""The errors of hopsyncd. Each error says what failed, why, and what to do.

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
    """The base class of hopsyncd's errors.

    `what` says what failed. `why` gives the reason. `hint` says what the user can do.
    """

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. {hint}")
        self.what = what
        self.why = why
        self.hint = hint


class ConfigError(HopsyncdError):
    """The configuration is invalid, so it is refused."""


class BadRequest(HopsyncdError):
    """A request is malformed or impossible, so repeating it does not help."""


class Forbidden(HopsyncdError):
    """The caller lacks the access rights for a request."""


class NotFound(HopsyncdError):
    """The requested document, passage, source or other object does not exist at the requested
    version."""


class Busy(HopsyncdError):
    """The daemon has too many requests. The caller should try again later."""


class TimedOut(HopsyncdError):
    """An answer took longer than the time limit."""


class DocumentUnreadable(HopsyncdError):
    """No reader can turn the bytes of a document into text."""


class ReaderUnavailable(HopsyncdError):
    """A reader of documents cannot work, because its process, a library or memory is missing.

    The documents themselves may be valid. They are read once the reader works again.
    """


class ModelUnavailable(HopsyncdError):
    """A model is missing or damaged, or is not the model that was named."""


class EncoderUnavailable(ModelUnavailable):
    """The embedding endpoint is unavailable. Indexing waits until it is available again."""


class DaemonUnavailable(HopsyncdError):
    """No process answers on the socket, or the process that answers is not a daemon."""


class DaemonUntrusted(HopsyncdError):
    """Another user could be answering on the socket in place of the daemon, so nothing was sent."""


class AlreadyRunning(HopsyncdError):
    """A daemon already listens on the socket."""


class SocketRefused(HopsyncdError):
    """The daemon cannot listen on a socket at the configured path."""


class SyncFailed(HopsyncdError):
    """A sync could not be completed."""


class LlmError(HopsyncdError):
    """A call to the LLM failed. `kind` names the failure in counts and in the status."""

    kind = "failed"


class LlmUnavailable(LlmError):
    """The LLM endpoint gave no answer in time."""

    kind = "unavailable"


class LlmRefused(LlmError):
    """The LLM endpoint refused the call, and would refuse it again."""

    kind = "refused"


class LlmNonsense(LlmError):
    """The reply of the LLM does not have the requested form."""

    kind = "nonsense"


class BudgetSpent(LlmError):
    """A limit of LLM calls or tokens (per query, sync or day) is reached, so no call was made."""

    kind = "budget"


class NotAsked(LlmError):
    """The LLM call was not made yet, because other calls come first."""

    kind = "queued"


REPORTABLE = (HopsyncdError, StoreError, ConnectorError)
