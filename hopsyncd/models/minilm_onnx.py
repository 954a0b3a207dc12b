"""all-MiniLM-L6-v2 in ONNX Runtime, with weights of 8 bits."""

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.encoder import (
    DEFAULT_DIMENSIONS,
    MAX_CHARACTERS,
    check_digest,
    create_session,
    find_default_folder,
    load_error,
    load_tokenizer,
)
from hopsyncd.models.minilm_graph import GRAPH, MODEL_FILE, WEIGHTS_SHA256, build_graph

_DIGEST_BYTES = 32

_Vectors = Callable[[Sequence[str]], NDArray[np.float32]]

log = structlog.get_logger(__name__)


class OnnxEncoder:
    """Encodes texts with the default model in ONNX Runtime. Texts are cut at 256 tokens.

    Several threads can encode at once, and each encodes one text at a time. In a batch, texts would
    share quantisation scales, so a vector would depend on the other texts.

    An installed hopsyncd contains the model. In a clone that was not built, the first text builds
    the model from the package of the published weights and stores it in `cache`. A damaged file is
    rebuilt. If `cache` is not writable, each process builds the model.
    """

    dimensions = DEFAULT_DIMENSIONS

    def __init__(self, cache: Path, folder: Path | None = None) -> None:
        """Find the model, or the published weights, in `folder`. A model built from the weights is
        stored in the folder `cache`. Raises ModelUnavailable."""
        self._folder = folder or find_default_folder()
        shipped = self._folder / MODEL_FILE
        self._shipped = shipped.is_file()
        self._file = shipped if self._shipped else cache / MODEL_FILE
        self.predecessor = f"model@{WEIGHTS_SHA256[:16]}"  # the name of the same model in torch
        self.name = f"{self.predecessor}/{GRAPH}"
        self.preparing = False
        self._lock = threading.Lock()
        self._vectors: _Vectors | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode the texts. Raises ModelUnavailable if the model cannot be loaded."""
        vectors = self._vectors or self._open()
        return vectors([text[:MAX_CHARACTERS] for text in texts])

    def _open(self) -> _Vectors:
        with self._lock:
            if self._vectors is None:
                try:
                    self._vectors = _load_vector_function(self._folder, self._read_or_write_model())
                except (OSError, ValueError) as error:
                    raise load_error(self._folder, error) from error
            return self._vectors

    def _read_or_write_model(self) -> bytes:
        """Read the model from the cache. If it is missing or damaged, build and store it."""
        try:
            cached = self._file.read_bytes()
        except OSError:
            cached = b""
        digest, graph = cached[:_DIGEST_BYTES], cached[_DIGEST_BYTES:]
        if graph and hashlib.sha256(graph).digest() == digest:
            return graph
        if self._shipped:
            raise ModelUnavailable(
                f"Cannot load the encoder in {self._folder}",
                "the model file is damaged",
                "Install hopsyncd again",
            )
        if cached:
            log.warning(
                "the encoder's cached model is damaged, so it is rebuilt", file=str(self._file)
            )
        self.preparing = True
        try:
            return self._build_model()
        finally:
            self.preparing = False

    def _build_model(self) -> bytes:
        check_digest(str(self._folder), WEIGHTS_SHA256)
        graph = build_graph(self._folder)
        new = self._file.with_suffix(f".{os.getpid()}-{id(self)}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.write_bytes(hashlib.sha256(graph).digest() + graph)
            new.replace(self._file)
        except OSError as error:
            log.warning(
                "the encoder's model cannot be cached, so the next start builds it again",
                file=str(self._file),
                why=str(error),
            )
        return graph


def _load_vector_function(folder: Path, graph: bytes) -> _Vectors:
    """Create the session for `graph`, with the tokenizer in `folder`. Returns a function that
    encodes texts."""
    # This setting is slower, but without it the sum of two products would saturate.
    precise = {} if _has_exact_byte_products() else {"x64quantprecision": "1"}
    session = create_session(graph, entries=precise)
    tokenizer = load_tokenizer(folder)

    def vectors_of(texts: Sequence[str]) -> NDArray[np.float32]:
        # Tokenise all texts first, because each run of the session evicts the tokenizer's tables
        # from the processor's cache.
        tokens = [np.array([tokenizer.encode(text).ids]) for text in texts]
        vectors = np.empty((len(texts), DEFAULT_DIMENSIONS), dtype=np.float32)
        for row, of_text in enumerate(tokens):
            vectors[row] = session.run(None, {"tokens": of_text})[0]
        return vectors

    return vectors_of


def _has_exact_byte_products() -> bool:
    """Return whether the processor is known to sum products of bytes exactly."""
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
