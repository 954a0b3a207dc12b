"""Opening the database: what is refused, who may write, and who may read the file."""

import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from store.engines.sqlite.database import (
    OperationalError,
    hold_writer_lock,
    open_memory_database,
    open_reader,
    open_writer,
)
from store.engines.sqlite.migrations import SCHEMA_VERSION
from store.exceptions import NewerSchema, NotADatabase, OlderSchema, WriterBusy
from store.space import release_memory
from store.transactions import snapshot, transaction


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.db"


def test_a_new_database_has_the_schema_and_is_private(path: Path) -> None:
    connection = open_writer(path)
    assert connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    assert connection.execute("SELECT count(*) FROM version").fetchone() == (0,)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_opening_a_database_again_does_not_change_it(path: Path) -> None:
    open_writer(path).close()
    before = path.read_bytes()
    open_writer(path).close()
    assert path.read_bytes() == before


def test_the_schema_comes_whole_or_not_at_all(path: Path) -> None:
    """A database left empty by a kill during its creation is taken up again."""
    path.touch()
    connection = open_writer(path)
    assert connection.execute("SELECT count(*) FROM passage").fetchone() == (0,)


@pytest.mark.parametrize("content", [b"not a database at all, but some text\n" * 100, b"SQLite"])
def test_a_file_that_is_no_database_is_refused_untouched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for opened in (open_writer, open_reader):
        with pytest.raises(NotADatabase, match=r"graph\.db"):
            opened(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused_untouched(path: Path) -> None:
    other = open_memory_database()
    other.execute("CREATE TABLE song (name TEXT)")
    other.execute(f"VACUUM INTO '{path}'")
    before = path.read_bytes()
    for opened in (open_writer, open_reader):
        with pytest.raises(NotADatabase, match="another program"):
            opened(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_untouched(path: Path) -> None:
    connection = open_writer(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    for opened in (open_writer, open_reader):
        with pytest.raises(NewerSchema, match="Nothing was changed"):
            opened(path)
    assert path.read_bytes() == before


def test_an_older_schema_is_for_a_writer_to_bring_up_to_date(path: Path) -> None:
    connection = open_writer(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    connection.close()
    with pytest.raises(OlderSchema, match="`hopsyncd serve`, which migrates the database"):
        open_reader(path)
    open_writer(path).close()
    open_reader(path).close()


def test_only_one_process_can_be_the_writer(path: Path) -> None:
    with (
        hold_writer_lock(path),
        pytest.raises(WriterBusy, match="another hopsyncd"),
        hold_writer_lock(path),
    ):
        pass
    with hold_writer_lock(path):
        """Free again."""


def test_a_reader_cannot_write(path: Path) -> None:
    open_writer(path)
    with pytest.raises(OperationalError, match="readonly"):
        open_reader(path).execute("INSERT INTO counter VALUES ('a', 1)")


def test_a_reader_that_opens_leaves_the_locks_of_its_process_on_the_log(path: Path) -> None:
    writer = open_writer(path)
    open_reader(path).close()
    locking = (
        "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    )
    program = [sys.executable, "-c", locking, f"{path}-shm"]
    another = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "BlockingIOError" in another.stderr, "else it could truncate the index of the log"
    writer.close()


def test_a_reader_sees_one_state_and_never_waits_for_the_writer(path: Path) -> None:
    writer = open_writer(path)
    reader = open_reader(path)
    count = "SELECT count(*) FROM counter WHERE name = 'a'"
    with snapshot(reader):
        assert reader.execute(count).fetchone() == (0,)
        with transaction(writer):
            writer.execute("INSERT INTO counter VALUES ('a', 1)")
            assert reader.execute(count).fetchone() == (0,)
        assert reader.execute(count).fetchone() == (0,)
    assert reader.execute(count).fetchone() == (1,)


def test_a_transaction_that_fails_leaves_nothing(path: Path) -> None:
    writer = open_writer(path)
    with pytest.raises(KeyboardInterrupt), transaction(writer):
        writer.execute("INSERT INTO counter VALUES ('a', 1)")
        raise KeyboardInterrupt
    assert writer.execute("SELECT count(*) FROM counter").fetchone() == (0,)
    assert not writer.in_transaction


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_of_pages_that_were_read_is_given_back(path: Path) -> None:
    with closing(open_writer(path)) as connection:
        connection.execute("CREATE TABLE large (bytes BLOB)")
        connection.execute(
            "WITH numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 5000)"
            " INSERT INTO large SELECT zeroblob(3000) FROM numbers"
        )
        release_memory(connection)
        connection.execute("SELECT sum(length(bytes)) FROM large NOT INDEXED").fetchall()
        held_kib = _own_kib()
        release_memory(connection)
        assert held_kib - _own_kib() > 8_000
        assert connection.execute("PRAGMA cache_size").fetchone()[0] == -32768


def _own_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
