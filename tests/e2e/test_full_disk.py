"""The disk is full: the daemon serves on, says so in words, and works again when there is room."""

import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from hopsyncd.client import RequestFailed
from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source
from tests.fakes.on_small_disk import NAMESPACE, SMALL_DISK

OLD, NEW = "The lamp of the pier is green.\n", "The lamp of the pier was painted by Odile.\n"
ASK_OLD, ASK_NEW = "lamp of the pier green", "Odile painted the lamp"
RECOVERY_S = 120.0  # the tries come ever later, up to a minute
DISK_BYTES = 3_000_000

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prlimit and tmpfs are Linux' own")


def write_notes(place: Place) -> None:
    place.write("pier.md", OLD)
    for number in range(30):
        place.write(f"sheds/{number}.md", f"# Shed {number}\n\nShed {number} stores Oar{number}.\n")


@contextmanager
def no_room(place: Place, size: int | None = None) -> Iterator[None]:
    """No file of the daemon's may grow beyond a size; that of its WAL, so that every commit is
    refused, if none is given."""
    assert place.process is not None
    pid = place.process.pid
    limit = size or (place.home / "data/hopsyncd.db-wal").stat().st_size
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def begin(place: Place, watch: str = "debounce_ms = 50") -> None:
    """Index the notes; gc is to keep nothing but the head."""
    retention = "[retention]\nkeep_versions = 1\nkeep_days = 0\n"
    place.configure(f"[watch]\n{watch}\n{retention}{GC_LATER}{source('notes', place.notes)}")
    write_notes(place)
    place.start()
    place.sync()
    # The first gc, which a new daemon owes, empties the WAL.
    place.until(lambda: "gc" in place.jobs() and place.jobs()["gc"]["last_run"] is not None)


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        begin(made)
        yield made


@pytest.fixture
def unwatched() -> Iterator[Place]:
    """Nothing is synced here that nobody asks for."""
    with new_place(SMALL) as made:
        begin(made, "enabled = false")
        yield made


def served(place: Place, question: str) -> list[str]:
    return [passage["text"] for passage in place.query(question, strategy="bm25", k=1)]


@contextmanager
def room_ends(
    place: Place, no_room: Callable[[], AbstractContextManager[None]], why: str
) -> Iterator[None]:
    """Edit with no room for it: what is told meanwhile, and what comes of it when there is room."""
    version = place.status()["version"]
    with no_room():
        place.write("pier.md", NEW)
        place.until(lambda: place.status()["error"] is not None)
        failed = (
            rf"Cannot use the database /.*/hopsyncd\.db: {why}.*syncs then continue automatically.*"
        )
        assert re.fullmatch(failed, place.status()["error"])
        answer = place.post("/v1/query", {"question": ASK_OLD, "strategy": "bm25", "k": 1})
        assert answer["version"] == version
        assert answer["passages"][0]["text"] == OLD.strip()
        (degraded,) = answer["degraded"]
        assert re.fullmatch(f"the last sync failed: {failed}", degraded)
        with pytest.raises(RequestFailed, match=why) as refused:
            place.sync()
        assert (refused.value.status, refused.value.code) == (503, "unavailable")
        yield
        assert place.status()["version"] == version
    place.until(lambda: served(place, ASK_NEW) == [NEW.strip()], RECOVERY_S)
    place.until(lambda: place.status()["error"] is None)
    assert served(place, ASK_OLD) == [NEW.strip()]
    place.until(lambda: place.sync()["degraded"] == [])
    assert place.post("/v1/check", {"deep": True})["findings"] == []
    now = place.status()
    assert now["counters"]["passages_generated"] == now["passages"] + 1
    assert "Traceback" not in place.log.read_text()


def test_with_no_room_for_its_files_the_old_version_is_served_and_work_resumes(
    place: Place,
) -> None:
    with room_ends(place, lambda: no_room(place), "the disk could not be read or written"):
        """Readers go on; what else was refused is in another test."""


@pytest.mark.parametrize("act", ["gc", "purge", "rebuild", "backup"])
def test_upkeep_on_a_full_disk_is_refused_with_a_reason_and_can_be_repeated(
    unwatched: Place, act: str
) -> None:
    for number in range(10):
        unwatched.write("sheds/0.md", f"# Shed 0\n\nShed 0 was emptied {number} times.\n")
        unwatched.sync()
    before = unwatched.status()
    copy = unwatched.base / "backups/copy.db"
    copy.parent.mkdir()
    body = {"purge": {"document": "pier.md"}, "backup": {"file": str(copy)}}.get(act, {})
    with no_room(unwatched, 100_000 if act == "backup" else None):
        with pytest.raises(RequestFailed) as refused:
            unwatched.post(f"/v1/{act}", body)
        assert "the disk could not be read or written" in refused.value.why
        assert refused.value.hint
        assert served(unwatched, ASK_OLD) == [OLD.strip()]
        assert not list(copy.parent.iterdir())
        now = unwatched.status()
        assert now["error"] is None, "no sync has failed"
        kept = ("version", "passages", "edges")
        assert [now[key] for key in kept] == [before[key] for key in kept]
    unwatched.post(f"/v1/{act}", body)
    assert unwatched.post("/v1/check", {"deep": True})["findings"] == []
    assert (served(unwatched, ASK_OLD) == [OLD.strip()]) == (act != "purge")


@contextmanager
def ballast(place: Place) -> Iterator[None]:
    """A file that takes all the room on the disk of the daemon's data."""
    assert place.process is not None
    file = Path(f"/proc/{place.process.pid}/root{place.home}/data/ballast")
    with suppress(OSError), file.open("wb", buffering=0) as disk:
        while True:
            disk.write(bytes(4096))
    try:
        yield
    finally:
        file.unlink()


def may_mount() -> bool:
    tried = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_on_a_full_disk_the_old_version_is_served_and_work_resumes() -> None:
    if not may_mount():
        pytest.skip("this user may not mount a tmpfs in a namespace of its own")
    with new_place((SMALL_DISK, str(DISK_BYTES), *SMALL)) as place:
        begin(place)
        with room_ends(place, lambda: ballast(place), "the disk is full"):
            with pytest.raises(RequestFailed, match="the disk is full"):
                place.post("/v1/rebuild", {})
            with pytest.raises(RequestFailed, match=r"Cannot write the backup .*the disk is full"):
                place.post("/v1/backup", {"file": str(place.home / "data/copy.db")})


def test_a_log_that_cannot_be_written_stops_nothing(place: Place) -> None:
    assert place.process is not None
    pid = place.process.pid
    with place.log.open("ab") as log:
        log.write(b"\n" * 10_000_000)
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (place.log.stat().st_size, hard))
    place.write("pier.md", NEW)
    place.until(lambda: served(place, ASK_NEW) == [NEW.strip()], RECOVERY_S)
    place.until(lambda: place.sync()["degraded"] == [])
