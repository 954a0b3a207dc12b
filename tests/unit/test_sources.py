"""From configured sources to connectors, those of installed packages among them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from connectors.protocol import Item, SourceUnavailable
from connectors.sqlite_rows import SqliteConnector
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.config.source_kinds import PluginSource, list_known_kinds
from hopsyncd.ingest.connector_setup import create_connector, digest_settings

MODULE = """
class Shelf:
    def __init__(self, table):
        self.books = table["books"]

def broken(table):
    raise KeyError("books")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that brings two kinds."""
    site = tmp_path / "site"
    info = site / "shelf-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "shelf_connector.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hopsyncd.connectors]\nshelf = shelf_connector:Shelf\nbroken = shelf_connector:broken\n"
    )
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("shelf_connector", None)


def load(tmp_path: Path, text: str) -> Config:
    (tmp_path / "c.toml").write_text(text)
    return load_config(tmp_path / "c.toml")


def test_each_kind_has_its_connector(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        '[[source]]\nname = "a"\npath = "."\n'
        '[[source]]\nname = "b"\nkind = "sqlite"\npath = "x.db"\nkey = "id"\n'
        'text = ["body"]\nquery = "SELECT 1"\n',
    )
    made = [type(create_connector(source, config)) for source in config.sources]
    assert made == [FolderConnector, SqliteConnector]
    assert [source.location for source in config.sources] == [
        str(tmp_path),
        str(tmp_path / "x.db"),
    ]


def test_an_mbox_file_that_is_a_source_is_no_document_of_the_folder_around_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "all.mbox").write_text("From ann\nSubject: Sea\n\nText\n")
    (tmp_path / "old.mbox").write_text("From ann\nSubject: Old\n\nText\n")
    config = load(
        tmp_path,
        f'[[source]]\nname = "a"\npath = "{tmp_path}"\n'
        '[[source]]\nname = "b"\nkind = "mbox"\npath = "all.mbox"\n',
    )
    (folder, _) = (create_connector(source, config) for source in config.sources)
    assert [found.id for found in folder.discover(None) if isinstance(found, Item)] == ["old.mbox"]


@pytest.mark.usefixtures("package")
def test_a_package_brings_a_kind_with_keys_of_its_own(tmp_path: Path) -> None:
    config = load(
        tmp_path, '[[source]]\nname = "s"\nkind = "shelf"\nbooks = ["Ada"]\nscan_every_s = 60\n'
    )
    (source,) = config.sources
    assert isinstance(source, PluginSource)
    assert source.settings == {"name": "s", "kind": "shelf", "books": ["Ada"]}
    assert source.scan_every_s == 60
    assert create_connector(source, config).books == ["Ada"]  # type: ignore[attr-defined]
    assert {"shelf", "broken"} <= set(list_known_kinds())


@pytest.mark.usefixtures("package")
def test_a_package_that_fails_pauses_its_source_with_what_to_do(tmp_path: Path) -> None:
    config = load(tmp_path, '[[source]]\nname = "s"\nkind = "broken"\n')
    connector = create_connector(config.sources[0], config)
    with pytest.raises(SourceUnavailable, match=r'source "s".*KeyError.*install') as told:
        list(connector.discover(None))
    assert isinstance(told.value.__cause__, KeyError)
    connector.close()


def test_the_digest_covers_settings_that_select_items_and_no_times(tmp_path: Path) -> None:
    text = '[[source]]\nname = "a"\npath = "."\n'
    (plain,) = load(tmp_path, text).sources
    (timed,) = load(tmp_path, text + "scan_every_s = 9\n").sources
    (other,) = load(tmp_path, text + 'ignore = ["x"]\n').sources
    assert digest_settings(plain) == digest_settings(timed) != digest_settings(other)
