"""What a path or an address is taken for, when a source is added."""

import mailbox
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.edit import add_source
from hopsyncd.config.source_detection import detect_source
from hopsyncd.errors import ConfigError

TICKETS = """
    CREATE TABLE ticket (id INTEGER PRIMARY KEY, subject TEXT, body TEXT, created_at TEXT);
    CREATE TABLE setting (name VARCHAR, value INTEGER);
"""


def database(path: Path, script: str) -> str:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)
    return str(path)


def test_a_path_is_recognised_by_the_file_at_it(tmp_path: Path) -> None:
    for name in ("bare", "tree"):
        bare = ["--bare"] if name == "bare" else []
        subprocess.run(["git", "init", "-q", *bare, tmp_path / name], check=True)
    (tmp_path / "x").mkdir()
    mailbox.Maildir(tmp_path / "mail").close()
    (tmp_path / "old.mbox").write_text("From ann@example.org Sat Nov  1 09:00:00 2026\n\nHi\n")
    kinds = {"bare": "git", "tree": "folder", "x": "folder", "mail": "maildir", "old.mbox": "mbox"}
    for name, kind in kinds.items():
        assert detect_source(f"{tmp_path}/x/../{name}").keys == {
            "kind": kind,
            "path": f"{tmp_path}/{name}",
        }
    assert "--kind git" in detect_source(f"{tmp_path}/tree").notes[0]
    assert detect_source(f"git+{tmp_path}/tree").keys["kind"] == "git"
    assert detect_source(f"file://{tmp_path}/x").keys == {"kind": "folder", "path": f"{tmp_path}/x"}


def test_the_json_of_an_export_is_included(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text("[]")
    assert "include" not in detect_source(str(tmp_path)).keys
    (tmp_path / "channels.json").write_text("[]")
    detected = detect_source(str(tmp_path))
    assert detected.keys["include"] == ["@text", "@documents", "@tables", "*.json"]
    assert detected.notes == ("The folder has an export of Slack, so `include` has *.json.",)


def test_a_zip_archive_must_be_unpacked(tmp_path: Path) -> None:
    (tmp_path / "notes.zip").write_bytes(b"PK\x03\x04 and the members of the archive")
    with pytest.raises(ConfigError, match="Unpack it"):
        detect_source(str(tmp_path / "notes.zip"))


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("https://example.org/a.git", {"kind": "git", "url": "https://example.org/a.git"}),
        ("git@example.org:a/b.git", {"kind": "git", "url": "git@example.org:a/b.git"}),
        ("git+https://example.org/a", {"kind": "git", "url": "https://example.org/a"}),
        ("https://github.com/ann/notes", {"kind": "git", "url": "https://github.com/ann/notes"}),
        ("https://e.org/sitemap.xml", {"kind": "web", "start": ["https://e.org/sitemap.xml"]}),
        ("https://e.org/docs/", {"kind": "web", "start": ["https://e.org/docs/"], "depth": 1}),
        (
            "http://localhost:8000/a.html",
            {"kind": "web", "start": ["http://localhost:8000/a.html"], "allow_private": True},
        ),
        ("github://ann:book@main", {"kind": "remote", "url": "github://ann:book@main"}),
        ("s3://bucket/folder", {"kind": "remote", "url": "s3://bucket/folder"}),
        (
            "imap://ann@example.org@imap.example.org",
            {
                "kind": "imap",
                "host": "imap.example.org",
                "user": "ann@example.org",
                "password_env": "HOPSYNCD_IMAP_PASSWORD_ANN_EXAMPLE_ORG",
            },
        ),
        (
            "imap://ann@localhost:143/Lists",
            {
                "kind": "imap",
                "host": "localhost",
                "user": "ann",
                "password_env": "HOPSYNCD_IMAP_PASSWORD_ANN",
                "port": 143,
                "tls": "starttls",
                "folders": ["Lists"],
            },
        ),
    ],
)
def test_an_address_is_recognised_by_its_form(
    place: str, keys: dict[str, Any], tmp_path: Path
) -> None:
    assert detect_source(place).keys == keys
    (tmp_path / "config.toml").write_text("")
    name, block = add_source(tmp_path / "config.toml", keys, None)
    assert f'name = "{name}"' in block


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("/no/such/thing", "no such file or folder"),
        ("https://me:secret@example.org/a.git", r"contains a password.*\$\{NAME\}"),
        ("imap://me:secret@example.org", "contains a password.*environment variable"),
        ("gopher://example.org", "no kind of source has addresses with gopher://"),
        ("imap://imap.example.org", "Write imap://user@host"),
    ],
)
def test_a_text_that_is_no_source_is_refused_with_a_reason(place: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        detect_source(place)


def test_a_kind_can_be_named(tmp_path: Path) -> None:
    assert detect_source("https://github.com/ann/notes", "web").keys["kind"] == "web"
    assert detect_source(str(tmp_path), "maildir").keys == {
        "kind": "maildir",
        "path": str(tmp_path),
    }
    with pytest.raises(ConfigError, match=r"there is no kind of source 'folders'.*folder"):
        detect_source(str(tmp_path), "folders")


def test_a_plain_file_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    with pytest.raises(ConfigError, match=r"neither a mailbox nor.*Add its folder"):
        detect_source(str(tmp_path / "a.md"))


def test_the_one_table_with_texts_is_chosen_and_named(tmp_path: Path) -> None:
    path = database(tmp_path / "t.db", TICKETS)
    found = detect_source(path)
    assert found.keys == {
        "kind": "sqlite",
        "path": path,
        "table": "ticket",
        "key": "id",
        "text": ("body",),
        "title": "subject",
    }
    assert found.notes == (
        "Chosen from the database: table ticket; key id; text body; title subject.",
    )
    assert detect_source(path, user_keys={"text": ["subject", "body"]}).keys["text"] == [
        "subject",
        "body",
    ]


def two_tables(path: Path) -> str:
    return database(path, TICKETS + "CREATE TABLE wiki (slug TEXT PRIMARY KEY, page TEXT);")


def no_key(path: Path) -> str:
    return database(path, "CREATE TABLE log (line TEXT)")


@pytest.mark.parametrize("make", [two_tables, no_key])
def test_if_several_tables_fit_the_tables_and_flags_are_listed(
    tmp_path: Path, make: Callable[[Path], str]
) -> None:
    path = make(tmp_path / "t.db")
    with pytest.raises(ConfigError, match=r"(wiki \(slug, page\)|log \(line\)).*--table.*--key"):
        detect_source(path)


def test_a_table_or_a_query_that_is_named_is_taken(tmp_path: Path) -> None:
    path = two_tables(tmp_path / "t.db")
    assert detect_source(path, user_keys={"table": "wiki"}).keys["key"] == "slug"
    query = {"query": "SELECT 1 AS a, 'x' AS b", "key": "a", "text": ["b"]}
    assert detect_source(path, user_keys=query).keys == {"kind": "sqlite", "path": path, **query}
    with pytest.raises(ConfigError, match="--key and --text too"):
        detect_source(path, user_keys={"query": "SELECT 1"})
    with pytest.raises(ConfigError, match="can be used only with a SQLite database"):
        detect_source(str(tmp_path), user_keys={"table": "wiki"})
