"""A daemon whose workers cannot start, and then can: its Python is taken away for a while."""

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes import documents


@pytest.fixture
def small() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure(source("notes", made.notes))
        yield made


def own_python(folder: Path) -> Path:
    """A Python with the libraries of this one, at a path of its own."""
    packages = Path(sysconfig.get_path("purelib"))
    lib = folder / packages.parent.relative_to(sys.prefix)
    lib.mkdir(parents=True)
    (lib / packages.name).symlink_to(packages)
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix, 'bin')}\n")
    python = folder / "bin/python"
    python.parent.mkdir()
    python.symlink_to(Path(sys.executable).resolve())
    return python


def test_documents_wait_while_no_worker_can_start(small: Place) -> None:
    python = own_python(small.base / "venv")
    away = python.with_name("away")
    small.python = str(python)
    small.write("b.md", "Calm seas.\n")
    small.start()
    python.rename(away)
    (small.notes / "a.pdf").write_bytes(documents.pdf())
    small.sync()
    status = small.status()
    (problem,) = status["problems"]
    assert (status["documents"], status["quarantined"], problem["document"]) == (1, 0, "a.pdf")
    assert "No such file" in problem["why"]
    told = {reader["media_type"]: reader for reader in status["unavailable_readers"]}
    assert "No such file" in told["application/pdf"]["why"]
    assert "application/pdf cannot be read on this machine: " in small.run("status").stdout
    away.rename(python)
    small.sync()
    status = small.status()
    assert (status["documents"], status["problems"]) == (2, [])
    assert "application/pdf" not in {
        reader["media_type"] for reader in status["unavailable_readers"]
    }


def test_a_daemon_keeps_temporary_files_in_a_folder_of_its_own(small: Place) -> None:
    small.start()
    own = small.home / "data/tmp"
    assert own.stat().st_mode & 0o777 == 0o700
    small.stop()
    (own / "left").touch()
    small.start()
    assert not [*own.iterdir()]
    assert small.status()["unavailable_readers"] == []
