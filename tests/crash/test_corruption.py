"""50 seeded corruptions of a database file: each is found, or the file is refused.

A flipped bit in a free or unused byte corrupts nothing. So a flip takes the bytes of a value that
is in use: it reads the value from a sound copy, finds a part of it in the file and flips one bit
there (wherever else the same bytes stand, too). The structural ones hit what every table's root
page needs: its type and its number of cells. What no byte can show is made with SQL instead: rows
that SQLite holds to be sound and that contradict each other.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.ingest.upkeep import verify_matches
from store.check import check, refuse_damaged
from store.contract import Connection
from store.engines.sqlite.acknowledged import refuse_lost_wal
from store.engines.sqlite.database import SqliteError, open_file, open_reader, open_writer
from store.exceptions import StoreError, VersionsLost
from tests.fakes.lived import lived

Corruption = Callable[[Path, random.Random], None]
ALIVE = 2**63 - 1


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a database of six versions, closed; and `killed`, as a kill -9 leaves it."""
    folder = tmp_path_factory.mktemp("sound")
    stack = lived(folder / "s.db")
    killed = folder / "killed"
    killed.mkdir()
    for file in folder.glob("s.db*"):
        shutil.copy(file, killed / file.name)
    stack.close()
    assert not (folder / "s.db-wal").exists()
    yield folder


def flip_in(sql: str) -> Corruption:
    """Flip one bit of a value that the query gives; `sql` gives one column of text or bytes."""

    def corrupt(path: Path, rng: random.Random) -> None:
        with closing(open_file(path)) as connection:
            connection.text_factory = bytes
            values = [row[0] for row in connection.execute(sql)]
        value = rng.choice([value for value in values if len(value) >= 8])
        start = rng.randrange(len(value) - 7)
        part = value[start : start + 64]
        data = path.read_bytes()
        while part not in data:  # it goes over the end of a page
            part = part[: len(part) - 8]
            assert part
        at = rng.randrange(len(part))
        flipped = part[:at] + bytes([part[at] ^ 1 << rng.randrange(8)]) + part[at + 1 :]
        path.write_bytes(data.replace(part, flipped))

    return corrupt


def flip_root_page(path: Path, rng: random.Random) -> None:
    """One bit of the type or the cell count of a table's or an index' root page."""
    with closing(open_file(path)) as connection:
        page_size = connection.execute("PRAGMA page_size").fetchone()[0]
        roots = [
            row[0]
            for row in connection.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 1")
        ]
    data = bytearray(path.read_bytes())
    at = (rng.choice(roots) - 1) * page_size + rng.choice((0, 4))
    data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def flip_magic(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(16)] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut_file_short(path: Path, rng: random.Random) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size * rng.randrange(5, 95) // 100)


def zero_page(path: Path, rng: random.Random) -> None:
    with closing(open_file(path)) as connection:
        page_size = connection.execute("PRAGMA page_size").fetchone()[0]
        roots = [
            row[0]
            for row in connection.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 1")
        ]
    data = bytearray(path.read_bytes())
    first = (rng.choice(roots) - 1) * page_size
    data[first : first + page_size] = bytes(page_size)
    path.write_bytes(data)


def _as_killed(path: Path) -> Path:
    for file in (path.parent / "killed").iterdir():
        shutil.copy(file, path.parent / file.name)
    return path.with_name(path.name + "-wal")


def cut_wal_short(path: Path, rng: random.Random) -> None:
    log = _as_killed(path)
    with log.open("r+b") as file:
        file.truncate(32 + (log.stat().st_size - 33) * rng.randrange(100) // 100)


def lose_wal(path: Path, rng: random.Random) -> None:
    _as_killed(path).unlink()


def damage(*statements: str) -> Corruption:
    """Statements that hit one row a time: {pick} is a random number, ORDER BY it picks a row."""

    def corrupt(path: Path, rng: random.Random) -> None:
        with closing(open_writer(path)) as connection:
            for pragma in ("foreign_keys = OFF", "ignore_check_constraints = ON"):
                connection.execute(f"PRAGMA {pragma}")
            for statement in statements:
                done = connection.execute(_aimed(connection, statement, rng))
                assert done.rowcount != 0, statement

    return corrupt


def _aimed(connection: Connection, statement: str, rng: random.Random) -> str:
    """Put random rows' keys in a statement's place-holders."""
    picks = {
        "life": "SELECT id FROM life ORDER BY id",
        "passage": "SELECT passage FROM life ORDER BY passage",
        "document": "SELECT id FROM document ORDER BY id",
        "question": f"SELECT question FROM match WHERE died = {ALIVE} ORDER BY question",
    }
    chosen = {
        name: rng.choice(connection.execute(sql).fetchall())[0] for name, sql in picks.items()
    }
    return statement.format(alive=ALIVE, noise=rng.randrange(1, 2**62), **chosen)


HEAD_MATCH = "WHERE question = {question} AND died = {alive}"
CORRUPTIONS: dict[str, tuple[int, Corruption]] = {
    # How many times, each with a seed of its own.
    "bit of a passage's text": (4, flip_in("SELECT text FROM passage")),
    "bit of a heading": (2, flip_in("SELECT heading FROM passage")),
    "bit of a question": (3, flip_in("SELECT text FROM question")),
    "bit of keywords": (3, flip_in("SELECT keywords FROM question")),
    "bit of a question's vector": (7, flip_in("SELECT vectors FROM question_set")),
    "bit of a document's hash": (2, flip_in("SELECT content FROM document")),
    "bit of the schema": (1, flip_in("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")),
    "bit of a root page": (6, flip_root_page),
    "bit of the magic": (1, flip_magic),
    "file cut short": (2, cut_file_short),
    "page of zeros": (4, zero_page),
    "truncated WAL": (2, cut_wal_short),
    "missing WAL": (1, lose_wal),
    "match to a missing question": (1, damage(f"UPDATE match SET target = {{noise}} {HEAD_MATCH}")),
    "match to a missing passage": (
        1,
        damage(
            "DELETE FROM life WHERE died = {alive} AND question_set = (SELECT question_set"
            f" FROM question WHERE id = (SELECT target FROM match {HEAD_MATCH}))"
        ),
    ),
    "wrong similarity": (
        1,
        damage(f"UPDATE match SET similarity = similarity + 1e-15 {HEAD_MATCH}"),
    ),
    "match to the second best": (
        1,
        damage(
            "UPDATE match SET target = (SELECT max(t.target) FROM match AS t"
            f" WHERE t.died = {{alive}} AND t.target <> match.target) {HEAD_MATCH}"
        ),
    ),
    "missing match": (1, damage(f"DELETE FROM match {HEAD_MATCH}")),
    "moved cut": (
        1,
        damage(
            "UPDATE version SET (cut_similarity, cut_question) = (SELECT similarity, question"
            f" FROM match {HEAD_MATCH} AND question <> version.cut_question) WHERE id = 6"
        ),
    ),
    "overlapping lives": (
        1,
        damage(
            "DROP INDEX life_alive",
            "INSERT INTO life (passage, born, died, question_set)"
            " SELECT passage, 5, died, question_set FROM life WHERE born = 1 AND died > 6 LIMIT 1",
        ),
    ),
    "life without a document": (1, damage("DELETE FROM document WHERE id = {document}")),
    "wrong birth": (1, damage("UPDATE life SET born = 2 WHERE born = 1 AND died > 2")),
    "wrong count": (1, damage("UPDATE version SET words = words + 1 WHERE id = 3")),
    "moved passage": (
        1,
        damage(
            "UPDATE placement SET last_line = last_line + 1"
            " WHERE document = {document} AND ordinal = 0"
        ),
    ),
    "lost version": (1, damage("DELETE FROM version WHERE id = 6")),
}
SEEDED = [
    (name, seed)
    for seed, name in enumerate(
        name for name, (times, _) in CORRUPTIONS.items() for _ in range(times)
    )
]


def refused_or_found(path: Path) -> str | None:
    """How the corruption shows: a refusal or the first finding; None if it does not."""
    try:
        with closing(open_reader(path)) as connection:
            found = check(connection, deep=True) + verify_matches(connection)
    except (StoreError, SqliteError) as error:
        return str(error)
    return str(found[0]) if found else None


def test_the_sound_database_is_found_sound(sound: Path) -> None:
    assert refused_or_found(sound / "s.db") is None
    assert len(SEEDED) == 50


@pytest.mark.parametrize(("name", "seed"), SEEDED)
def test_a_corruption_is_found_or_the_file_refused(
    sound: Path, tmp_path: Path, name: str, seed: int
) -> None:
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    CORRUPTIONS[name][1](tmp_path / "s.db", random.Random(seed))
    assert refused_or_found(tmp_path / "s.db"), f"seed {seed}: nothing found"


def test_a_killed_process_is_not_reported_as_corruption(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound / "killed", tmp_path, dirs_exist_ok=True)
    assert refused_or_found(tmp_path / "s.db") is None


@pytest.mark.parametrize("name", ["truncated WAL", "missing WAL"])
def test_a_lost_log_is_refused_with_a_remedy(sound: Path, tmp_path: Path, name: str) -> None:
    """And a log that SQLite itself cut off or emptied is not taken for one."""
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    CORRUPTIONS[name][1](tmp_path / "s.db", random.Random(1))
    with pytest.raises(VersionsLost, match=r"run `hopsyncd backup restore latest`"):
        open_writer(tmp_path / "s.db")
    open_writer(tmp_path / "s.db", accept_loss=True).close()


def test_an_emptied_log_is_no_lost_log(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound / "killed", tmp_path, dirs_exist_ok=True)
    with closing(open_writer(tmp_path / "s.db")) as writer:
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with closing(open_writer(tmp_path / "s.db")) as other:
            refuse_damaged(other)


def test_a_log_that_a_writer_empties_meanwhile_is_no_lost_log(tmp_path: Path) -> None:
    """Readers that open while checkpoints cut the log: none is told that it is lost."""
    path = tmp_path / "s.db"
    with closing(open_writer(path)) as writer, ThreadPoolExecutor(2) as pool:
        writer.execute("PRAGMA synchronous = OFF")
        end_s = time.monotonic() + 1.5

        def look() -> None:
            while time.monotonic() < end_s:
                refuse_lost_wal(path)

        looking = [pool.submit(look) for _ in range(2)]
        while time.monotonic() < end_s:
            writer.executemany("INSERT INTO counter VALUES (?, ?)", [("x", 1)])
            writer.execute("DELETE FROM counter")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for one in looking:
            one.result()
