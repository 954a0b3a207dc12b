"""Requests embeddings from an endpoint, within the budget, with retries and a checked reply.

Texts that are too long for the model are cut, and batches that are too large are divided.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopsyncd.errors import LlmError
from hopsyncd.models.embedding.reply import Embeddings, read_embeddings
from hopsyncd.models.llm.attempts import Attempts, Patience, Poster, Spending, Timing
from hopsyncd.models.llm.budget import Usage, estimate_tokens
from hopsyncd.models.llm.retry import MAX_ATTEMPTS, EndpointTexts, RequestFailure
from store.ledger import Ledger

MAX_BATCH = 64  # the most texts in a request
_SHORTEST_CHARS = 64  # A text of at most this length is not cut further.
_FORMAT = "encoding_format"
_SIZE_WORDS = (
    "too large",
    "too long",
    "too many",
    "context",
    "batch size",
    "maximum",
    "exceed",
)


@dataclass(frozen=True, slots=True)
class RequestKind:
    """How requests with one purpose are sent: their fields, time limit and attempts.

    purpose: the purpose in the ledger. fields: extra fields of each request.
    """

    purpose: str
    fields: Mapping[str, str | int | float | bool]
    timeout_s: float
    max_attempts: int = MAX_ATTEMPTS


class _TooLarge(Exception):
    """The endpoint refused a request because its texts are too long or too many."""


class EmbeddingEndpoint:
    """Requests embeddings from one model at an endpoint. Thread-safe."""

    def __init__(
        self,
        sender: Poster,
        model: str,
        texts: EndpointTexts,
        ledger: Ledger,
        timing: Timing,
    ) -> None:
        self._sender = sender
        self._model = model
        self._timing = timing
        self._attempts = Attempts(texts, ledger, timing)
        self._usage = Usage()
        self._asks_format = True
        self.max_batch = MAX_BATCH
        self.stop = threading.Event()

    def embed(
        self, texts: Sequence[str], kind: RequestKind, dimensions: int | None
    ) -> NDArray[np.float32]:
        """Return the (m, d) vectors of m texts (m >= 1) as the endpoint sends them. `dimensions` is
        d, or None if d is not known yet. Raises LlmError."""
        deadline_s = self._timing.monotonic_s() + kind.timeout_s
        try:
            return self._ask(texts, kind, dimensions, deadline_s).vectors
        except _TooLarge:
            pass
        if len(texts) == 1:
            shorter = [texts[0][: len(texts[0]) // 2]]
            return self.embed(shorter, kind, dimensions)
        half = len(texts) // 2
        first = self.embed(texts[:half], kind, dimensions)
        second = self.embed(texts[half:], kind, first.shape[1])
        return np.concatenate([first, second])

    def refuse(self, error: LlmError) -> None:
        """Open the circuit breaker: for 30 s, all calls fail immediately with this error."""
        self._attempts.breaker.record_refusal(error)

    def _ask(
        self, texts: Sequence[str], kind: RequestKind, dimensions: int | None, deadline_s: float
    ) -> Embeddings:
        """Send a request, with retries. Raises LlmError or _TooLarge."""

        def request() -> Embeddings:
            body: dict[str, Any] = {**kind.fields, "model": self._model, "input": list(texts)}
            if self._asks_format:
                body[_FORMAT] = "float"
            left_s = deadline_s - self._timing.monotonic_s()
            reply = self._sender.post("/embeddings", body, left_s, self.stop)
            return read_embeddings(reply, len(texts), dimensions)

        estimate = sum(map(estimate_tokens, texts))
        return self._attempts.send_with_retries(
            Spending(kind.purpose, "", self._usage, estimate),
            request,
            Patience(deadline_s, kind.max_attempts, self.stop),
            lambda failure: self._adapt(failure, texts),
        )

    def _adapt(self, failure: RequestFailure, texts: Sequence[str]) -> bool:
        """Change the form of later requests after a refusal. Returns False if no change can help.

        Raises _TooLarge if the endpoint may accept shorter or fewer texts.
        """
        is_about_format = failure.status in (400, 422) and _FORMAT in failure.message
        if self._asks_format and is_about_format:
            self._asks_format = False
            return True
        if _refuses_size(failure, texts):
            if "batch" in failure.message.lower():
                self.max_batch = max(1, min(self.max_batch, len(texts) // 2))
            raise _TooLarge from failure
        return False


def _refuses_size(failure: RequestFailure, texts: Sequence[str]) -> bool:
    """Return whether the endpoint may accept the request with shorter or fewer texts."""
    if len(texts) == 1 and len(texts[0]) <= _SHORTEST_CHARS:
        return False
    if failure.status == 413:
        return True
    message = failure.message.lower()
    if "deadline" in message:  # Ollama reports "context deadline exceeded" if it was too slow.
        return False
    # llama.cpp answers with 500 if a text is longer than its batch.
    return failure.status in (400, 422, 500) and any(word in message for word in _SIZE_WORDS)
