"""Encodes texts with a model behind an endpoint.

Passages are sent in batches, several at a time. Each batch also contains a fixed text, the probe.
If the vector of the probe differs from the stored vector, the endpoint has another model under the
same name, and its vectors are refused. Questions do not wait for batches of passages.
"""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b

import numpy as np
import structlog
from numpy.typing import NDArray

from hopsyncd.config.configuration import ModelsConfig
from hopsyncd.config.values import EncoderAddress
from hopsyncd.errors import EncoderUnavailable, LlmError, LlmRefused
from hopsyncd.models.centring import (
    CENTRE_TEXTS,
    VERSION,
    compute_centre,
    subtract_centre,
)
from hopsyncd.models.embedding.endpoint import EmbeddingEndpoint, RequestKind
from hopsyncd.models.encoder import MAX_CHARACTERS, PromptedEncoder
from hopsyncd.models.llm.attempts import (
    Abandoned,
    Poster,
    Timing,
    find_endpoint_host,
    read_spent_today,
)
from hopsyncd.models.llm.retry import EndpointTexts
from hopsyncd.models.prompts import Prompts
from hopsyncd.responses.daemon_state import EncoderStatus
from store.ledger import Ledger
from store.records import GRID, Vectors, compact_json, to_grid

log = structlog.get_logger(__name__)

PROBE = "The harbour master keeps a red notebook of every ship that arrived in March 1911."
_SAME = 0.99  # If the cosine of the probe to its stored vector is lower, the model has changed.
_TIMEOUT_S = 60.0
_QUESTION_S = 10.0  # After this time, a question is answered without its vector.
_QUESTION_ATTEMPTS = 2
_CHECK_EVERY_S = 300.0  # how often the vectors of questions are checked with the probe
_REAL_TIME = Timing()


@dataclass(slots=True, eq=False)
class _Piece:
    text: str
    vector: "Future[NDArray[np.float32]]" = field(default_factory=Future)


class HttpEncoder(PromptedEncoder):
    """Encodes texts with a model behind an endpoint. Thread-safe.

    No request is sent before the first vector is needed. Methods raise EncoderUnavailable if the
    endpoint is unavailable.
    """

    def __init__(
        self,
        config: ModelsConfig,
        address: EncoderAddress,
        prompts: Prompts,
        ledger: Ledger,
        sender: Poster,
        timing: Timing = _REAL_TIME,
    ) -> None:
        self.host = find_endpoint_host(address.base_url)
        self.model = address.model
        self.prompts = prompts
        self.ledger = ledger
        self._max_tokens_per_day = config.encoder_max_tokens_per_day
        self._revision = config.encoder_revision
        self._timing = timing
        texts = EndpointTexts.of_model(
            self.host,
            address.key_env,
            "The embedding endpoint",
            "encoder",
            "Until the endpoint responds, indexing waits and searches use words and stored vectors",
        )
        self._endpoint = EmbeddingEndpoint(sender, address.model, texts, ledger, timing)
        passage, question = config.encoder_passage_fields, config.encoder_query_fields
        self._passage = RequestKind("passages", passage, _TIMEOUT_S)
        self._question = RequestKind("questions", question, _QUESTION_S, _QUESTION_ATTEMPTS)
        self._verification = replace(self._question, purpose="verification", fields=passage)
        self._pool = ThreadPoolExecutor(config.encoder_concurrency, "embedding")
        self._lock = threading.Lock()
        self._waiting: deque[_Piece] = deque()
        self._learning = threading.Lock()
        self._probe: Vectors | None = None
        self._checked_s = -_CHECK_EVERY_S
        self._last_failure: tuple[float, EncoderUnavailable] | None = None

    @property
    def name(self) -> str:
        """A name made of the model, the revision in the configuration, the request fields and the
        prompts.

        The address is not part of the name, because the same model may move to another machine.
        """
        parts = [f"{self.model}@api-{VERSION}"]
        if self._revision:
            parts.append(self._revision)
        if self._question.fields or self._passage.fields:
            fields = compact_json([self._question.fields, self._passage.fields])
            parts.append(f"fields-{blake2b(fields, digest_size=4).hexdigest()}")
        return "+".join(parts) + self.prompts.suffix

    @property
    def is_known(self) -> bool:
        """Whether the length of the vectors is known without a request."""
        return self._probe is not None

    @property
    def dimensions(self) -> int:
        """The length of a vector, which the endpoint is asked for only once. Raises
        EncoderUnavailable."""
        return int(self.probe().shape[1])

    def probe(self) -> Vectors:
        """Return the vector of the probe and the centre, as a (2, d) array. The endpoint is asked
        for them only once."""
        return self._learn(self._verification)

    def _learn(self, kind: RequestKind) -> Vectors:
        with self._learning:
            if self._probe is None:
                texts = [self.prompts.passage + text for text in (PROBE, *CENTRE_TEXTS)]
                vectors = self._ask(texts, kind, None)
                self._probe = np.stack([to_grid(vectors[:1])[0], compute_centre(vectors[1:])])
                self._checked_s = self._timing.monotonic_s()
            return self._probe

    def expect(self, probe: Vectors) -> None:
        """From now on, refuse a model whose vector of the probe differs from the stored vector.

        `probe` is the (2, d) array of the probe's vector and the centre that was stored with the
        first passage.
        """
        self._probe = probe

    def verify(self) -> None:
        """Check the endpoint by requesting the probe's vector, and the first time also the vectors
        of the centre texts.

        Raises EncoderUnavailable if that fails or if the vector is from another model.
        """
        if self.is_known:
            self._embed([], self._verification, with_probe=True)
        else:
            self.probe()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (m, d) vectors of passages. Raises EncoderUnavailable."""
        pieces = [_Piece(self.prompts.passage + text[:MAX_CHARACTERS]) for text in texts]
        if not pieces:
            return np.empty((0, self.dimensions), dtype=np.float32)
        with self._lock:
            self._waiting.extend(pieces)
        try:
            for _ in range(-(-len(pieces) // self._endpoint.max_batch)):
                self._pool.submit(self._send_batches)
        except RuntimeError as error:  # The pool was shut down.
            raise _make_stopped_error() from error
        return np.stack([piece.vector.result() for piece in pieces])

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (m, d) vectors of questions. Raises EncoderUnavailable."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        if self._timing.monotonic_s() - self._checked_s >= _CHECK_EVERY_S:
            self.verify()
        prompted = [self.prompts.query + text[:MAX_CHARACTERS] for text in texts]
        return self._embed(prompted, self._question, with_probe=False)

    def close(self) -> None:
        """Cancel the requests in progress, and refuse further requests."""
        self._endpoint.stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for piece in waiting:
            piece.vector.set_exception(_make_stopped_error())
        self.ledger.close()

    def describe_status(self) -> EncoderStatus:
        """Return the part of /v1/status about this endpoint. Reads the ledger once."""
        spent, problem = read_spent_today(self.ledger, self._timing)
        failure = self._last_failure
        return {
            "endpoint": self.host,
            "model": self.model,
            "calls_today": sum(row.calls for row in spent),
            "tokens_today": sum(row.tokens for row in spent),
            "max_tokens_per_day": self._max_tokens_per_day,
            "ledger_problem": problem,
            "failure": str(failure[1]) if failure else None,
            "failing_since": _format_time(failure[0]) if failure else None,
        }

    def _send_batches(self) -> None:
        """Send the waiting texts in batches. A batch may have texts of several callers."""
        while batch := self._take_batch():
            try:
                texts = [piece.text for piece in batch]
                vectors = self._embed(texts, self._passage, with_probe=True)
            except BaseException as error:  # noqa: BLE001 - raised again in the callers' threads
                for piece in batch:
                    piece.vector.set_exception(error)
            else:
                for piece, vector in zip(batch, vectors, strict=True):
                    piece.vector.set_result(vector)

    def _take_batch(self) -> list[_Piece]:
        with self._lock:
            # Each batch also contains the probe.
            size = min(max(1, self._endpoint.max_batch - 1), len(self._waiting))
            return [self._waiting.popleft() for _ in range(size)]

    def _embed(
        self, texts: Sequence[str], kind: RequestKind, *, with_probe: bool
    ) -> NDArray[np.float32]:
        expected, centre = self._learn(
            self._passage if kind is self._passage else self._verification
        )
        if not with_probe:
            return subtract_centre(self._ask(texts, kind, len(expected)), centre)
        vectors = self._ask([self.prompts.passage + PROBE, *texts], kind, None, expected)
        return subtract_centre(vectors[1:], centre)

    def _ask(
        self,
        texts: Sequence[str],
        kind: RequestKind,
        dimensions: int | None,
        expected: Vectors | None = None,
    ) -> NDArray[np.float32]:
        """Request vectors. With `expected`, the first text is the probe, and its vector must match
        `expected`."""
        try:
            vectors = self._endpoint.embed(texts, kind, dimensions)
            if expected is not None:
                self._check_probe(vectors[0], expected)
        except LlmError as error:
            raise self._note_failure(error) from error
        self._last_failure = None
        return vectors

    def _check_probe(self, vector: NDArray[np.float32], expected: Vectors) -> None:
        """Compare the probe's vector with the stored vector. Raises LlmRefused if they differ."""
        (rounded,) = to_grid(vector[np.newaxis])
        if len(rounded) != len(expected):
            self._refuse(f"vectors have {len(rounded)} numbers, not {len(expected)} as before")
        cosine = float(rounded.astype(np.float64) @ expected.astype(np.float64)) / GRID**2
        if cosine < _SAME:
            self._refuse(f"a test text no longer has its stored vector (cosine {cosine:.2f})")
        self._checked_s = self._timing.monotonic_s()

    def _refuse(self, why: str) -> None:
        error = LlmRefused(
            f"Refused the vectors of {self.model} at {self.host}",
            f"another model answers under this name: {why}",
            "Serve the former model again. To embed all passages with the present model instead,"
            " set models.encoder_revision to a new word, and restart the daemon",
        )
        self._endpoint.refuse(error)
        raise error

    def _note_failure(self, error: LlmError) -> EncoderUnavailable:
        failure = EncoderUnavailable(error.what, error.why, error.hint)
        if isinstance(error, Abandoned):
            return failure
        since_s = self._last_failure[0] if self._last_failure else self._timing.unix_s()
        self._last_failure = since_s, failure
        return failure


def _make_stopped_error() -> EncoderUnavailable:
    return EncoderUnavailable(
        "No request was sent to the embedding endpoint",
        "the daemon is stopping",
        "Start the daemon again",
    )


def _format_time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds")
