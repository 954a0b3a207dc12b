"""A start with a damaged data folder: each derived file and each table of state by turns.

The daemon starts and answers from the last version. If the database itself is garbage, the error
says what to do. `test_log_damage.py` and `check` look after the record.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source

QUESTION = "Who wrote the program?"
FILES = (
    *("index/manifest.json", "index/columns.bin", "index/codes.bin", "index/remainders.bin"),
    *("index/passage_codes.bin", "index/texts.json", "hopsyncd.head", "watch_actions.json"),
    *("token", "audit.log", "temporary", "cache"),
)
_NUMBERS = count(1)
DAMAGES = ("deleted", "cut short", "flipped", "garbage", "empty", "a folder", "unreadable")
TABLES = (
    *("source_state", "seen", "counter", "job", "watch", "telling", "tag", "pin", "unused"),
    *("excluded", "waiting", "quarantine", "purging"),
)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A home with a version, a watch, a tag and a saved index; no daemon runs."""
    with new_place(SMALL) as made:
        for number in range(4):
            made.write(f"n{number}.md", f"# Note {number}\n\nAda wrote the program {number}.\n")
        made.configure(source("notes", made.notes))
        made.start()
        made.sync()
        made.post("/v1/watches", {"question": QUESTION, "exec": ["true"]})
        made.post("/v1/tags", {"name": "first"})
        made.stop()
        shutil.copytree(made.home, made.base / "sound")
        yield made


@pytest.fixture
def data(place: Place) -> Path:
    """The data folder as it was at the end of a sound daemon."""
    if place.process:
        place.kill()
    shutil.rmtree(place.home)
    shutil.copytree(place.base / "sound", place.home)
    return place.home / "data"


def answers(place: Place, *, follows: bool = True) -> None:
    """Start, ask, and see that a new file is indexed too if the source `follows` its folder."""
    place.start()
    assert place.documents(QUESTION, k=4)
    status = place.status()
    assert status["version"]
    assert place.get("/v1/watches")
    assert place.get("/v1/schedule")
    if follows:
        word = f"zebra{next(_NUMBERS)}"
        place.write("fresh.md", f"# Fresh\n\nThe {word} runs.\n")
        place.until(lambda: place.documents(word)[:1] == ["fresh.md"])
    place.kill()


def damage(path: Path, kind: str) -> None:
    before = path.read_bytes() if path.is_file() else b""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    half = len(before) // 2
    changed = {
        "cut short": before[:half],
        "flipped": before[:half] + bytes(byte ^ 0xFF for byte in before[half : half + 64])
        + before[half + 64 :],
        "garbage": b"\x00\xff{]garbage" * 500,
        "empty": b"",
        "unreadable": before,
    }  # fmt: skip
    if kind == "a folder":
        (path / "inside").mkdir(parents=True)
    elif kind != "deleted":
        path.write_bytes(changed[kind])
        path.chmod(0 if kind == "unreadable" else 0o600)


def turns() -> list[tuple[str, str]]:
    """Each file with one kind of damage, each kind in turn."""
    return [(file, DAMAGES[index % len(DAMAGES)]) for index, file in enumerate(FILES)]


@pytest.mark.parametrize(("file", "kind"), turns())
def test_the_daemon_starts_with_a_damaged_derived_file(
    place: Place, data: Path, file: str, kind: str
) -> None:
    damage(data / file, kind)
    answers(place)


@pytest.mark.nightly
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", DAMAGES)
def test_the_daemon_starts_whichever_derived_file_is_damaged(
    place: Place, data: Path, file: str, kind: str
) -> None:
    damage(data / file, kind)
    answers(place)


@pytest.mark.parametrize("table", TABLES)
def test_the_daemon_starts_with_garbage_in_a_state_table(
    place: Place, data: Path, table: str
) -> None:
    with closing(sqlite3.connect(data / "hopsyncd.db")) as connection:
        spoil(connection, table)
    answers(place, follows=table != "source_state")  # garbage there says that it is paused


def test_the_daemon_starts_after_its_state_files_are_deleted(place: Place, data: Path) -> None:
    with closing(sqlite3.connect(data / "hopsyncd.db")) as connection:
        for table in set(TABLES) - {"counter"}:  # without it, the start would see a loss
            connection.execute(f"DELETE FROM {table}")
        connection.commit()
    answers(place)


def spoil(connection: sqlite3.Connection, table: str) -> None:
    """One row with garbage in all columns, and garbage in all rows that there are."""
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("PRAGMA foreign_keys = OFF")
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    assert columns, table
    keys = [column[1] for column in columns if column[5]]
    garbage = {"TEXT": "\u202e{]garbage", "INTEGER": 2**53, "BLOB": b"\x00\xff", "REAL": -1e300}
    names = [column[1] for column in columns]
    values = [garbage[column[2]] for column in columns]
    for name, value in zip(names, values, strict=True):
        if name not in keys:
            connection.execute(f"UPDATE {table} SET {name} = ?", [value])
    marks = ", ".join("?" * len(names))
    connection.execute(
        f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({marks})", values
    )
    connection.commit()


@pytest.mark.parametrize("kind", ["garbage", "cut short", "a folder"])
def test_a_garbage_database_is_reported_with_a_remedy(place: Place, data: Path, kind: str) -> None:
    damage(data / "hopsyncd.db", kind)
    ran = place.run("serve", timeout_s=60)
    assert ran.returncode
    assert "hopsyncd.db" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert any(word in ran.stderr for word in ("backup", "recover", "Move", "Restore"))
