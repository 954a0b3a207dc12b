"""Databases that earlier versions of hopsyncd wrote: of each release, and before each migration.

`tests/data/schemas` has them as their own code wrote them. Each is the history that
`tests/fakes/lived.py` makes: six versions, of which 4 is a restore of 1.
"""

import lzma
import re
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.ingest.backup_process import verify_copy
from hopsyncd.ingest.upkeep import check_database
from store.check import check
from store.engines.sqlite.database import open_file, open_reader, open_writer
from store.engines.sqlite.migrations import SCHEMA_VERSION
from store.exceptions import NewerSchema, OlderSchema
from store.restoring import finish_restore, stage_restore
from store.sources import release_pins
from store.versions import list_kept_versions, read_head
from tests.fakes.dump import Rows, graph_at
from tests.fakes.lived import lived
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

DATA = Path(__file__).parents[1] / "data/schemas"
RELEASES = {"0.1.0": 10, "0.2.0": 15, "0.3.0": 16}
FORMER = {
    **RELEASES,
    **{
        f"schema-{number:02}": number
        for number in (5, 7, 9, 11, 12, 13, 14, 17, 18, 19, 20, 21, 22, 23)
    },
}
PAGE = Path(__file__).parents[2] / "docs/operate.md"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The final files of the history."""
    stack = lived(tmp_path_factory.mktemp("lived") / "s.db")
    assert isinstance(stack.connector, MemoryConnector)
    return dict(stack.connector.files)


@pytest.fixture(scope="module")
def fresh(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The graph that is made from these files today."""
    path = tmp_path_factory.mktemp("fresh") / "s.db"
    stack = Stack(path, MemoryConnector(files), budget_factor=0.1)
    stack.sync()
    return graph_at(stack.connection, stack.head.id)


@pytest.fixture(params=FORMER)
def former(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int]:
    """A former database, and the number of its schema."""
    path = tmp_path / "data/hopsyncd.db"
    path.parent.mkdir()
    path.write_bytes(lzma.decompress((DATA / f"{request.param}.db.xz").read_bytes()))
    return path, FORMER[request.param]


def test_a_former_database_opens_whole_and_goes_on(
    former: tuple[Path, int], files: dict[str, bytes], fresh: Rows
) -> None:
    path, number = former
    with closing(open_file(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (number,)
    with closing(open_writer(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert [*list_kept_versions(connection)] == [1, 2, 3, 4, 5, 6]
        assert check(connection, deep=True) == []
    stack = Stack(path, MemoryConnector(files), budget_factor=0.1)
    stack.writer.renew()  # as the daemon's start does
    release_pins(stack.connection, stack.source.id)
    stack.sync()
    assert check_database(stack.connection, True, lambda *_: None)["findings"] == []
    assert graph_at(stack.connection, stack.head.id) == fresh


def test_a_backup_of_a_former_version_can_be_restored(
    former: tuple[Path, int], tmp_path: Path
) -> None:
    database = tmp_path / "now/data/hopsyncd.db"
    former[0].chmod(0o644)
    stage_restore(database, "a file", former[0], verify_copy, 0)
    assert (restored := finish_restore(database, 0)) and restored.version == 6
    assert database.stat().st_mode & 0o777 == 0o600, "only its owner may read it"
    with closing(open_reader(database)) as connection:
        newest = read_head(connection)
        assert newest and newest.id == 6


def test_a_reader_refuses_an_older_schema_and_changes_nothing(former: tuple[Path, int]) -> None:
    before = former[0].read_bytes()
    with pytest.raises(OlderSchema, match="`hopsyncd serve`, which migrates the database"):
        open_reader(former[0])
    assert former[0].read_bytes() == before


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    stack = Stack(path, MemoryConnector({"a.md": b"# Rome\n"}))
    stack.close()
    with closing(open_file(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match="Nothing was changed"):
        open_writer(path)
    assert path.read_bytes() == before


def test_the_documented_table_has_the_schema_of_each_release() -> None:
    rows = re.findall(r"^\| (\S+) \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {version: int(schema) for version, schema in rows[:-1]} == RELEASES
    assert int(rows[-1][1]) == SCHEMA_VERSION
