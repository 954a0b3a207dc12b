"""A killed daemon's log is cut short, flipped, deleted or swapped: no older head is served."""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from store.check import refuse_damaged
from store.engines.sqlite.acknowledged import Acknowledged, note_path, read_state
from store.engines.sqlite.database import SqliteError, open_reader, open_writer
from store.engines.sqlite.space import truncate_wal
from store.exceptions import StoreError, VersionsLost
from store.history import delete_tag, set_tag
from tests.fakes.lived import page
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

NAME = "s.db"


@dataclass(frozen=True, slots=True)
class Killed:
    """The files as a kill left them, what was acknowledged, and older logs of the same life."""

    folder: Path
    acknowledged: Acknowledged
    older: tuple[Path, ...]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    life, left = tmp_path_factory.mktemp("life"), tmp_path_factory.mktemp("left")
    files = MemoryConnector({"rome.md": page("Rome", "Paris"), "oslo.md": page("Oslo", "Rome")})
    stack = Stack(life / NAME, files)
    older = []
    for number in range(1, 13):
        files.put("lima.md", page("Lima", *("Rome",) * number))
        stack.sync()
        if number % 4 == 0:
            set_tag(stack.connection, f"release-{number}", stack.head.id, 0)
        older.append(life / f"log-{number}")
        shutil.copy(life / f"{NAME}-wal", older[-1])
        if number == 5:  # from here on the log begins anew
            truncate_wal(stack.connection, wait=True)
    for file in (*life.glob(f"{NAME}*"), note_path(life / NAME)):
        shutil.copy(file, left / file.name)
    acknowledged = read_state(stack.connection)
    yield Killed(left, acknowledged, tuple(older[:-1]))
    stack.close()


def damage(path: Path, older: tuple[Path, ...], rng: random.Random) -> str:
    """Do one thing to the log or its index; what it was."""
    log, index = path.with_name(f"{NAME}-wal"), path.with_name(f"{NAME}-shm")
    file = rng.choice((log, log, index))
    act = rng.choice(("cut", "flip", "flip", "delete", "delete both", "swap", "cut and delete"))
    if act in ("cut", "cut and delete"):
        with file.open("r+b") as opened:
            opened.truncate(rng.choice((0, rng.randrange(file.stat().st_size))))
        if act == "cut and delete":
            index.unlink()
    elif act == "flip":
        data = bytearray(file.read_bytes())
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        act = f"flip at {at}"
    elif act == "swap":
        shutil.copy(rng.choice(older), log)
        if rng.random() < 0.5:
            index.unlink()
    else:
        for one in (log, index) if act == "delete both" else (file,):
            one.unlink()
    return f"{act}: {file.name}"


def judge(killed: Killed, folder: Path, seed: int) -> bool:
    """Damage a copy; whether it was refused. What opens has all that was acknowledged."""
    shutil.copytree(killed.folder, folder)
    rng = random.Random(seed)
    done = damage(folder / NAME, killed.older, rng)
    try:
        with closing(open_reader(folder / NAME) if seed % 2 else open_writer(folder / NAME)) as it:
            refuse_damaged(it)
            assert read_state(it) == killed.acknowledged, f"seed {seed}: {done}"
    except (StoreError, SqliteError) as error:
        assert isinstance(error, VersionsLost), f"seed {seed}: {done}: {error}"
        assert "`hopsyncd recover`" in error.hint
        return True
    finally:
        shutil.rmtree(folder)
    return False


def test_a_damaged_log_is_refused_or_has_lost_nothing(killed: Killed, tmp_path: Path) -> None:
    refused = [judge(killed, tmp_path / "copy", seed) for seed in range(80)]
    assert 20 < sum(refused) < 80


@pytest.mark.nightly
def test_500_damaged_logs_are_refused_or_have_lost_nothing(killed: Killed, tmp_path: Path) -> None:
    for seed in range(500):
        judge(killed, tmp_path / "copy", 1000 + seed)


def test_a_loss_is_accepted_by_hand_and_no_version_number_is_reused(
    killed: Killed, tmp_path: Path
) -> None:
    path = tmp_path / "copy" / NAME
    shutil.copytree(killed.folder, path.parent)
    for suffix in ("-wal", "-shm"):
        path.with_name(NAME + suffix).unlink()
    before = path.read_bytes()
    with pytest.raises(
        VersionsLost, match=r"version 12 was acknowledged, but the database ends at version"
    ):
        open_writer(path)
    assert path.read_bytes() == before
    open_writer(path, accept_loss=True).close()
    stack = Stack(path, MemoryConnector({"rome.md": page("Rome", "Cairo")}))
    stack.sync()
    assert stack.head.id == 13
    stack.close()
    open_writer(path).close()


def test_a_lost_tag_is_reported_too(killed: Killed, tmp_path: Path) -> None:
    path = tmp_path / "copy" / NAME
    shutil.copytree(killed.folder, path.parent)
    with closing(open_writer(path)) as connection:
        truncate_wal(connection, wait=True)
        delete_tag(connection, "release-4")
        note = note_path(path).read_bytes()
    with closing(open_writer(path)) as connection:
        shutil.copy(path, tmp_path / NAME)
        delete_tag(connection, "release-8")
        assert note_path(path).read_bytes() != note
        shutil.copy(note_path(path), tmp_path)
    with pytest.raises(VersionsLost, match="a tag, a purge, a pause"):
        open_writer(tmp_path / NAME)
