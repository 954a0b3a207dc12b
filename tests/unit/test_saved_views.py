"""Saved ACL views: a start takes them from disk, and only if they are of the same content."""

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hopsyncd.index import acl_view
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.index_loading import load_snapshot
from hopsyncd.ingest.upkeep import purge_document
from hopsyncd.retrieve import acl_view_cache
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.transactions import snapshot
from store.visibility import HiddenFolders, Mask
from tests.fakes.dump import served_by
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

HIDDEN: Mask = frozenset({HiddenFolders("notes", ("closed/",), (True, False))})
FILES = {
    "rome.md": b"# Rome\n\nRome lies on the Tiber. Caesar ruled in Rome.\n",
    "paris.md": b"# Paris\n\nParis lies on the Seine. Caesar called Paris Lutetia.\n",
    "closed/gaul.md": b"# Gaul\n\nCaesar went to Gaul. Gaul is far from Rome and Paris.\n",
}


class Desk:
    """A record, its folder of views, and the versions of the graph that views were built from."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "index"
        self.folder.mkdir()
        self.database = folder / "s.db"
        self.files = MemoryConnector(dict(FILES))
        self.stack = Stack(self.database, self.files)
        self.stack.sync()
        self.built_from: list[Snapshot] = []

        def build(version: Any, hidden: Any, factor: Any, base: Snapshot) -> Snapshot:
            self.built_from.append(base)
            return acl_view.build_acl_view(version, hidden, factor, base)

        monkeypatch.setattr(acl_view_cache, "build_acl_view", build)

    def start(self, *, owns_views: bool = True) -> Engine:
        """An engine with an index loaded from the record, as after a start."""
        self.built_from.clear()
        engine = Engine(
            self.database,
            FakeEncoder(),
            WalkSettings(),
            saved_views=self.folder,
            owns_views=owns_views,
        )
        with snapshot(self.stack.connection):
            engine.publish(load_snapshot(self.stack.connection, self.stack.head))
        return engine

    def view(self, engine: Engine) -> dict[str, Any]:
        """What the view of the head serves."""
        with engine.reading(hidden=HIDDEN) as (_, view):
            assert view is not None
            return served_by(view)

    def saved(self) -> list[Path]:
        return sorted(self.folder.glob("view-*.bin"))

    def stop(self) -> None:
        """Have a view of the head, and stop as the daemon does."""
        engine = self.start()
        self.view(engine)
        engine.save_views()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    desk = Desk(tmp_path, monkeypatch)
    yield desk
    desk.stack.close()


def test_a_start_takes_the_view_from_disk(desk: Desk) -> None:
    engine = desk.start()
    built = desk.view(engine)
    engine.save_views()
    assert len(desk.built_from) == 1
    assert desk.view(desk.start()) == built
    assert desk.built_from == []


def test_the_view_of_a_newer_version_is_built_from_the_saved_one(desk: Desk) -> None:
    desk.stop()
    desk.files.put("oslo.md", b"# Oslo\n\nOslo is far from Rome and from Caesar.\n")
    desk.stack.sync()
    newer = desk.view(desk.start())
    (base,) = desk.built_from
    assert base.hidden == HIDDEN
    desk.saved()[0].unlink()
    assert desk.view(desk.start()) == newer


def test_a_purge_makes_saved_views_useless(desk: Desk) -> None:
    desk.stop()
    purge_document(desk.stack.path, "closed/gaul.md", "notes", 0)
    desk.view(desk.start())
    (base,) = desk.built_from
    assert base.hidden == frozenset()


def test_a_damaged_file_is_not_used(desk: Desk) -> None:
    desk.stop()
    (file,) = desk.saved()
    whole = file.read_bytes()
    for data in (b"", whole[: len(whole) // 2], whole.replace(b"stamp", b"stomp")):
        file.write_bytes(data)
        with capture_logs() as logs:
            desk.view(desk.start(owns_views=False))
        assert len(desk.built_from) == 1
        assert [
            log_file["log_level"] for log_file in logs if "saved ACL view" in log_file["event"]
        ] == ["warning"]


def test_a_view_for_which_the_disk_has_no_room_leaves_no_file(desk: Desk) -> None:
    engine = desk.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with capture_logs() as logged:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            desk.view(engine)
            engine.save_views()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {entry["event"] for entry in logged} == {"an ACL view could not be saved"}
    assert [*desk.folder.iterdir()] == []
    engine.save_views()
    assert len(desk.saved()) == 1


def test_other_rights_do_not_get_the_view(desk: Desk) -> None:
    desk.stop()
    engine = desk.start()
    others = frozenset({HiddenFolders("notes", ("closed/",), (False, True))})
    with engine.reading(hidden=others) as (_, view):
        assert view is not None
        assert view.hidden == others
    assert len(desk.built_from) == 1


def test_a_query_worker_reads_saved_views_but_does_not_write_them(desk: Desk) -> None:
    worker = desk.start(owns_views=False)
    built = desk.view(worker)
    worker.save_views()
    assert desk.saved() == []
    desk.stop()
    assert desk.view(desk.start(owns_views=False)) == built
    assert desk.built_from == []


def test_views_of_four_sets_of_rights_are_kept(desk: Desk) -> None:
    engine = desk.start()
    for number in range(6):
        hidden = frozenset({HiddenFolders("notes", (f"{number}/",), (True, False))})
        with engine.reading(hidden=hidden):
            pass
        engine.save_views()
    assert len(desk.saved()) == 4
