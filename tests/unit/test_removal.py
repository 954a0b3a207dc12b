"""A source that is removed: what the versions and the files have of it, and what comes after."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.configuration import INDEX_NAME, Config, load_config
from hopsyncd.config.source_kinds import GitSource
from hopsyncd.ingest.connector_setup import find_mirror_folder
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.read import Batch
from hopsyncd.ingest.removal import drop_mirror, remove_source_documents, remove_source_offline
from hopsyncd.ingest.upkeep import verify_matches
from hopsyncd.responses.changes import RemoveAnswer
from store.check import check
from store.engines.sqlite.database import open_reader
from store.exceptions import PurgeRefused
from store.purge import purge, request_source_purge
from store.reads import read_live_documents
from store.sources import read_seen_items, register_source
from tests.fakes.dump import graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack, fake_maker

NOTES = {
    "rome.md": b"# Rome\n\nCaesar met Brutus in Rome. Nero burnt Rome.\n",
    "oslo.md": b"# Oslo\n\nAda sailed to Oslo. Oslo has a fjord.\n",
}
# Its words stand nowhere else.
MORE = {
    "brutus.md": b"# Brutus\n\nBrutus told Ada of Zqtext.\n",
    "same.md": NOTES["rome.md"],
}


class TwoSources:
    """`notes` and `more` in one database, as version 1 and 2."""

    def __init__(self, folder: Path) -> None:
        (folder / "c.toml").write_text('[daemon]\ndata_dir = "data"\n')
        self.config: Config = load_config(folder / "c.toml")
        self.folder = self.config.daemon.data_dir
        self.folder.mkdir()
        self.maker = fake_maker()
        self.stack = Stack(self.folder / "hopsyncd.db", MemoryConnector(NOTES), self.maker)
        self.stack.sync()
        row = register_source(self.stack.connection, "more", "memory", "")
        self.more = Source(row, "more", MemoryConnector(MORE, cursors=True))
        self.sync_more()

    def sync_more(self) -> None:
        self.stack.path.sync(self.more, Scope())

    def remove(self, *, purge: bool = False) -> RemoveAnswer:
        return remove_source_documents(
            self.stack.connection, self.stack.writer.apply, "more", purge
        )

    def head(self) -> dict[str, Any]:
        return graph_at(self.stack.connection, self.stack.head.id)

    def holds(self, word: bytes) -> bool:
        return any(word in file.read_bytes() for file in self.folder.iterdir())

    def close(self) -> None:
        self.stack.close()


@pytest.fixture
def two(tmp_path: Path) -> Any:
    with closing(TwoSources(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("daemon", [True, False])
def test_without_the_source_the_graph_is_that_of_the_others_alone(
    two: TwoSources, daemon: bool
) -> None:
    alone, both = graph_at(two.stack.connection, 1), two.head()
    assert alone["edges"] != both["edges"]
    if daemon:
        done = two.remove()
    else:
        two.close()
        done = remove_source_offline(two.config, "more", purge=False)
    assert (done["documents"], done["version"]) == (2, 3)
    with closing(open_reader(two.folder / "hopsyncd.db")) as reader:
        assert graph_at(reader, 3) == alone
        assert graph_at(reader, 2) == both
        assert check(reader, deep=True) == verify_matches(reader) == []


@pytest.mark.parametrize("purge", [False, True])
def test_a_purge_without_a_daemon_leaves_no_saved_index(two: TwoSources, purge: bool) -> None:
    two.close()
    saved = two.folder / INDEX_NAME
    saved.mkdir()
    (saved / "texts.json").write_text('["brutus"]')
    remove_source_offline(two.config, "more", purge=purge)
    assert saved.exists() is not purge


def test_a_source_that_is_added_again_is_indexed_again_despite_its_old_cursor(
    two: TwoSources,
) -> None:
    both, generated = two.head(), [*two.maker.made]
    two.remove()
    two.sync_more()
    assert two.head() == both
    assert two.maker.made == generated


def test_a_removal_that_was_cut_short_is_finished_by_the_next(two: TwoSources) -> None:
    def killed(_: Batch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        remove_source_documents(two.stack.connection, killed, "more", purge=False)
    assert read_live_documents(two.stack.connection, two.more.id).keys() == MORE.keys()
    assert read_seen_items(two.stack.connection, two.more.id) == {}
    assert two.remove()["documents"] == 2
    assert two.remove()["documents"] == 0
    assert two.stack.head.id == 3


def test_a_purged_source_is_in_no_version_and_no_file(two: TwoSources) -> None:
    alone = graph_at(two.stack.connection, 1)
    assert two.holds(b"Zqtext")
    with pytest.raises(PurgeRefused, match="newest version"):
        purge(two.stack.connection, request_source_purge(two.stack.connection, two.more.id))
    done = two.remove(purge=True)
    assert done["erased"]
    assert done["held_by"] == [["notes", "rome.md"]]
    assert not two.holds(b"qtext")
    for rows in (two.head(), graph_at(two.stack.connection, 2)):
        assert rows["documents"] == alone["documents"]
        assert rows["passages"] == alone["passages"]
    assert check(two.stack.connection, deep=True) == []
    two.sync_more()
    assert read_live_documents(two.stack.connection, two.more.id).keys() == MORE.keys()


def test_a_source_that_was_never_indexed_has_nothing_to_lose(two: TwoSources) -> None:
    done = remove_source_documents(
        two.stack.connection, two.stack.writer.apply, "other", purge=True
    )
    assert (done["documents"], done["version"], done["erased"]) == (0, 2, True)


def test_a_fetched_repository_is_deleted_with_its_last_source(tmp_path: Path) -> None:
    home = f'[daemon]\ndata_dir = "{tmp_path}/data"\n'
    block = '[[source]]\nname = "{}"\nkind = "git"\nurl = "https://example.org/a.git"\n'
    for names in (("a", "b"), ("a",)):
        (tmp_path / "c.toml").write_text(home + "".join(map(block.format, names)))
        config = load_config(tmp_path / "c.toml")
        source = config.sources[0]
        assert isinstance(source, GitSource)
        mirror = find_mirror_folder(source, config)
        mirror.mkdir(parents=True, exist_ok=True)
        drop_mirror(config, "a")
        assert mirror.exists() == (names == ("a", "b"))
