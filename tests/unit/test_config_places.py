"""`[[source]]` of the kinds git and remote: what they become, and which mistakes are told."""

from pathlib import Path

import pytest

from connectors.git import GitConnector
from connectors.protocol import Item
from connectors.remote import RemoteConnector
from hopsyncd.config.configuration import load_config
from hopsyncd.errors import ConfigError
from hopsyncd.ingest.connector_setup import create_connector
from tests.fakes.git_repository import GitRepository, needs_git


def written(folder: Path, kind: str, lines: str) -> Path:
    file = folder / "config.toml"
    file.write_text(
        f'[daemon]\ndata_dir = "data"\n[[source]]\nname = "x"\nkind = "{kind}"\n{lines}\n'
    )
    return file


@needs_git
@pytest.mark.parametrize("key", ['path = "repository"', 'url = "file://{}/repository"'])
def test_a_git_source_lists_its_files(tmp_path: Path, key: str) -> None:
    repository = GitRepository(tmp_path / "repository")
    repository.put("a.md", b"# A")
    repository.put("b.txt", b"b")
    lines = key.format(tmp_path) + '\nbranch = "main"\nignore = ["*.txt"]'
    config = load_config(written(tmp_path, "git", lines))
    connector = create_connector(config.sources[0], config)
    assert isinstance(connector, GitConnector)
    found = list(connector.discover(None))
    assert [item.id for item in found if isinstance(item, Item)] == ["a.md"]
    assert (tmp_path / "data/git").exists() == ("url" in key)


def test_a_remote_source_has_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKET_SECRET", "hunter2")
    lines = 'url = "memory://notes"\noptions = { secret = "${BUCKET_SECRET}", nested = { a = 1 } }'
    config = load_config(written(tmp_path, "remote", lines))
    (source,) = config.sources
    assert isinstance(create_connector(source, config), RemoteConnector)
    assert source.options == {"secret": "hunter2", "nested": {"a": 1}}  # type: ignore[union-attr]
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("kind", "lines", "told"),
    [
        ("git", "", "neither `path` nor `url` is set"),
        ("git", 'path = "."\nurl = "https://example.org/a"', "only one of `path` and `url`"),
        ("git", 'url = "ext::sh -c id"', "could run any program|not the address"),
        ("git", 'url = "ext::id"', "could run any program"),
        ("git", 'url = "-oProxyCommand=id:a"', "not the address"),
        ("git", 'url = "http://example.org/a"', "is not supported"),
        ("git", 'url = "https://a:hunter2@example.org/a"', "contains a password"),
        ("git", 'url = "git@example.org:a"\ntoken = "hunter2"', "requires an https:// address"),
        ("git", 'path = "."\nbranch = "--all"', "not a valid branch name"),
        ("git", 'path = "."\ndepth = -1', "greater than or equal"),
        ("remote", "", "the key is missing"),
        ("remote", 'url = "file:///tmp"', 'a source of kind "folder"'),
        ("remote", 'url = "nothing://x"', "fsspec has no driver"),
        ("remote", 'url = "zip::s3://x/y.zip"', "chain"),
        ("remote", 'url = "memory://x"\ninclude = []', "must not be empty"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_without_secrets(
    tmp_path: Path, kind: str, lines: str, told: str
) -> None:
    file = written(tmp_path, kind, lines)
    with pytest.raises(ConfigError, match=told) as caught:
        load_config(file)
    assert f"{file}:" in str(caught.value)
    assert "hunter2" not in str(caught.value)
