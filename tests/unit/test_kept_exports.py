"""Which exported encoders are removed from the cache, and which are kept."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hopsyncd.models.embedding.folder_model import Choice, Runtime
from hopsyncd.models.embedding.kept_exports import keep_in_use, remove_unused_exports


class User:
    """Stands for an encoder."""


def export(cache: Path, digest: str, graph: str = "", runtime: Runtime = "int8") -> Path:
    folder = cache / f"encoder-{digest}-e1"
    folder.mkdir(parents=True)
    (folder / "body.onnx").write_bytes(b"weights")
    Choice(runtime, graph=graph).write(folder)
    return folder


def names_in(cache: Path) -> set[str]:
    return {entry.name for entry in cache.iterdir()}


def test_an_export_is_removed_once_no_version_and_no_encoder_needs_it(tmp_path: Path) -> None:
    stored, opened, old = (export(tmp_path, name, f"{name}f") for name in ("aa", "bb", "cc"))
    (tmp_path / "minilm-x.model").write_bytes(b"the default encoder")
    (tmp_path / "other").mkdir()
    user = User()
    keep_in_use(user, opened)
    encoders = ["model@1234/int8-2", "minilm@99/e1-int8-aaf+v1:q"]
    assert remove_unused_exports(tmp_path, encoders) == [old.name]
    assert names_in(tmp_path) == {stored.name, opened.name, "minilm-x.model", "other"}
    assert remove_unused_exports(tmp_path, encoders) == []
    del user
    assert remove_unused_exports(tmp_path, []) == [stored.name, opened.name]
    assert names_in(tmp_path) == {"minilm-x.model", "other"}


def test_the_choice_of_torch_is_kept_only_while_it_is_in_use(tmp_path: Path) -> None:
    folder, user = export(tmp_path, "dd", runtime="torch"), User()
    keep_in_use(user, folder)
    assert remove_unused_exports(tmp_path, []) == []
    del user
    assert remove_unused_exports(tmp_path, ["minilm@99+v1"]) == [folder.name]


def test_an_export_that_another_process_uses_is_kept_until_that_ends(tmp_path: Path) -> None:
    folder = export(tmp_path, "ee", "eef")
    script = """
import sys
from pathlib import Path
from hopsyncd.models.embedding.kept_exports import keep_in_use
keep_in_use(sys, Path(sys.argv[1]))
print("in use", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"in use\n"
        assert remove_unused_exports(tmp_path, []) == []
        assert (folder / "body.onnx").is_file()
        other.kill()
    assert remove_unused_exports(tmp_path, []) == [folder.name]


def test_unfinished_and_half_removed_exports_are_removed_later(tmp_path: Path) -> None:
    fresh, old, half = (tmp_path / f"encoder-ff-e1{end}" for end in (".new", ".old", ".77.removed"))
    for folder in (fresh, old, half):
        folder.mkdir()
        (folder / "body.onnx").write_bytes(b"weights")
    long_ago_s = time.time() - 3 * 3600
    os.utime(old, (long_ago_s, long_ago_s))
    assert remove_unused_exports(tmp_path, []) == [half.name, old.name]
    assert names_in(tmp_path) == {fresh.name}
    assert remove_unused_exports(tmp_path / "absent", []) == []


def test_an_export_that_is_gone_cannot_be_kept_in_use(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        keep_in_use(User(), tmp_path / "encoder-aa-e1")
