"""The encoder of a sentence-transformers folder, in ONNX Runtime if possible."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import structlog
from numpy.typing import NDArray

from hopsyncd.child_process import end_child, start_child
from hopsyncd.models.embedding.folder_model import EXPORT, Choice, FolderModel, read_choice
from hopsyncd.models.embedding.kept_exports import PREFIX, keep_in_use
from hopsyncd.models.encoder import (
    Encoder,
    SentenceEncoder,
    check_digest,
    has_sentence_transformers,
    load_error,
    locate,
)

# The files besides the weights that affect the vectors.
_SETTINGS = ("*.json", "*.txt", "*.model", "*/config.json", "*/*.safetensors", "onnx/model.onnx")
# This file has prompts and versions. They do not affect the vectors of a text without a prompt.
_IGNORED = ("config_sentence_transformers.json",)
_LONGEST_EXPORT_S = 3600

log = structlog.get_logger(__name__)


class FolderEncoder:
    """Encodes texts with a model that was exported for ONNX Runtime. Texts are cut at 256
    tokens."""

    def __init__(self, name: str, predecessor: str, folder: Path, choice: Choice, threads: int):
        """`folder` has the exported files. `predecessor` is the name of the same model in torch."""
        self.name = name
        self.predecessor = predecessor
        self.dimensions = choice.dimensions
        self._folder = folder
        self._choice = choice
        self._threads = threads
        self._lock = threading.Lock()
        self._model: FolderModel | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode the texts. Raises ModelUnavailable if the model cannot be loaded."""
        return (self._model or self._open()).encode(texts)

    def _open(self) -> FolderModel:
        with self._lock:
            if self._model is None:
                try:
                    self._model = FolderModel(self._folder, self._choice, self._threads)
                except (OSError, ValueError) as error:
                    raise load_error(self._folder, error) from error
            return self._model


def open_folder_encoder(model: str, sha256: str, threads: int, cache: Path) -> Encoder:
    """Open the encoder of a folder or a model name. Raises ModelUnavailable.

    The first call exports the model, which takes seconds to minutes. The export is stored in the
    folder `cache`, and reused until a file of the model changes.
    """
    path, expected = locate(model, sha256)
    folder = Path(path).resolve()
    digest = check_digest(path, expected)
    can_export = has_sentence_transformers() or (folder / "onnx" / "model.onnx").is_file()
    export = cache / f"{PREFIX}{_digest_settings(folder, digest)[:16]}-{EXPORT}"
    encoder: Encoder | None = None
    # Try twice, because another process may remove the export before it is locked.
    for _ in range(2):
        choice = read_choice(export)
        if choice is None and can_export:
            choice = _export(folder, export)
        if choice is None:
            encoder = None
            break
        if choice.runtime == "torch":
            encoder = encoder or SentenceEncoder(model, sha256, threads)
        else:
            predecessor = f"{Path(path).name}@{digest[:16]}"
            name = f"{predecessor}/{EXPORT}-{choice.runtime}-{choice.graph}"
            encoder = FolderEncoder(name, predecessor, export, choice, threads)
        try:
            keep_in_use(encoder, export)
            break
        except OSError as error:
            log.warning(
                "cannot lock the exported encoder, so another process may delete it",
                folder=str(export),
                why=str(error),
            )
    return encoder or SentenceEncoder(model, sha256, threads)


def _digest_settings(folder: Path, weights: str) -> str:
    """Compute a digest of all files that affect the vectors. `weights` is the weights' digest."""
    digest_so_far = hashlib.sha256(weights.encode())
    files = {file for pattern in _SETTINGS for file in folder.glob(pattern)}
    for file in sorted(files):
        if file.name not in _IGNORED and file.is_file():
            with suppress(OSError), file.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
                digest_so_far.update(f"{file.relative_to(folder)} {digest}\n".encode())
    return digest_so_far.hexdigest()


def _export(folder: Path, target: Path) -> Choice | None:
    """Export the model to the folder `target`. If that fails, returns None and logs the failure."""
    log.info("preparing the encoder for ONNX Runtime, which happens only once", folder=str(folder))
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = Path(mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    except OSError as error:
        log.warning(
            "the prepared encoder cannot be stored, so the next start prepares it again",
            folder=str(target),
            why=str(error),
        )
        return None
    try:
        _run_export(folder, new)
        if read_choice(new):
            if (
                target.exists()
            ):  # The export is damaged, or another process has written it meanwhile.
                shutil.rmtree(target, ignore_errors=True)
            with suppress(OSError):
                new.rename(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    choice = read_choice(target)
    if choice is None:
        log.warning(
            "the encoder could not be prepared for ONNX Runtime, so it runs in PyTorch",
            folder=str(folder),
        )
    else:
        log.info(
            "the encoder is prepared",
            runtime=choice.runtime,
            lowest_cosine=round(choice.lowest_cosine, 4),
            why=choice.why or None,
        )
    return choice


def _run_export(folder: Path, new: Path) -> None:
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "HOME": os.environ.get("HOME", "/"),
        "TMPDIR": str(new.parent),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    module = "hopsyncd.models.embedding.onnx_export"
    command = [sys.executable, "-P", "-m", module, str(folder), str(new)]
    process = start_child(command, environment)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LONGEST_EXPORT_S)
    finally:
        end_child(process)
