"""What readers and sources leave out on purpose is counted and said."""

import json
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from connectors.settings import FileSettings
from hopsyncd.cli.top import _print_source, print_problems
from store.sources import (
    count_problems,
    count_skipped_by_kind,
    list_item_problems,
    list_sources,
    read_skipped_of_item,
)
from store.visibility import HiddenFolders, Mask
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

PAGE = "<nav><a href=/a>A page</a></nav><h1>Mill</h1><p>It grinds.</p><script>f()</script>"


def stack(
    folder: Path,
    database: Path,
    ignore: tuple[str, ...] = (),
    not_secret: tuple[str, ...] = (),
) -> Stack:
    return Stack(
        database, FolderConnector(folder, FileSettings(ignore=ignore, not_secret=not_secret))
    )


def test_skipped_parts_are_stored_with_the_document(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "mill.html").write_text(PAGE)
    (folder / "barn.html").write_text(PAGE + "<p>Old <del>name</del>")
    (folder / "plain.md").write_text("All of it.")
    notes = stack(folder, tmp_path / "a.sqlite")
    notes.sync()
    of_mill = read_skipped_of_item(notes.connection, "notes", "mill.html")
    assert of_mill == {"navigation": 1, "scripts": 1}
    assert read_skipped_of_item(notes.connection, "notes", "plain.md") == {}
    assert read_skipped_of_item(notes.connection, "notes", "no such") == {}
    assert count_skipped_by_kind(notes.connection) == [
        ("deletions", 1, 1), ("navigation", 2, 2), ("scripts", 2, 2),
    ]  # fmt: skip
    assert count_skipped_by_kind(notes.connection, frozenset({"notes"})) == []
    (folder / "mill.html").touch()  # read no part of it again
    notes.sync()
    assert read_skipped_of_item(notes.connection, "notes", "mill.html") == of_mill


@pytest.mark.parametrize(
    ("content", "is_problem"),
    [
        ("<script>only()</script>", True),
        ("<!-- nothing --><p></p>", False),
        ("", False),
        ("<p>text</p>", False),
    ],
)
def test_a_file_with_content_and_without_text_is_a_problem(
    tmp_path: Path, content: str, is_problem: bool
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "page.html").write_text(content)
    notes = stack(folder, tmp_path / "a.sqlite")
    notes.sync()
    problems = list_item_problems(notes.connection, 10)
    assert [path for _, path, _, _ in problems] == (["page.html"] if is_problem else [])
    assert all("no text could be read" in why for _, _, why, _ in problems)
    assert all("scripts (1)" in hint for *_, hint in problems)
    (folder / "page.html").write_text("<p>Now it has text.</p>")
    notes.sync()
    assert list_item_problems(notes.connection, 10) == []


@pytest.mark.parametrize("pattern", ["hr/**", "hr/", "hr"])
def test_a_hidden_folder_that_is_a_problem_is_hidden(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "page.html").write_text("<script>only()</script>")
    notes = stack(folder, tmp_path / "a.sqlite")
    notes.sync()
    notes.connection.execute("UPDATE seen SET path = 'hr'")  # so is a folder without rights kept
    for hidden, count in ((pattern, 0), ("hr2/**", 1)):
        mask: Mask = frozenset({HiddenFolders("notes", (hidden,), (True, False))})
        assert len(list_item_problems(notes.connection, 10, mask)) == count
        assert count_problems(notes.connection, "notes", mask) == count


def test_files_of_other_types_are_counted_by_their_suffix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "notes"
    (folder / "below").mkdir(parents=True)
    for name in ("a.md", "b.foo", "below/c.FOO", "below/d.zip", "e", ".git/x.bar", "f.skip"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x y")
    notes = stack(folder, tmp_path / "a.sqlite", ignore=("*.skip",))
    notes.sync()
    (source,) = list_sources(notes.connection)
    assert json.loads(source.left_out) == {".foo": 2, ".zip": 1, "no suffix": 1}
    notes.sync(("a.md",))  # a part of the source tells nothing about the rest
    (source,) = list_sources(notes.connection)
    assert json.loads(source.left_out) == {".foo": 2, ".zip": 1, "no suffix": 1}
    shown = {"name": "notes", "kind": "folder", "location": "/n", "state": "ok", "documents": 1,
             "problems": 0, "pinned": 0, "problem": None, "scanned": None, "watch_problem": None,
             "watching": True, "left_out": json.loads(source.left_out)}  # fmt: skip
    _print_source(shown)
    output = capsys.readouterr().out
    assert "files of types that are not included: 2 .foo, 1 .zip, 1 no suffix" in output
    assert "`include`" in output
    assert "hidden" not in output
    _print_source({**shown, "left_out": {".bin": 1, ".js": 12}})
    assert '["@text", ..., "*.js"]' in capsys.readouterr().out
    _print_source({**shown, "left_out": {"hidden folders": 2}})
    output = capsys.readouterr().out
    assert "hidden folders (names that begin with a dot) that are left out: 2\n" in output
    assert "types" not in output


def test_files_and_folders_that_look_like_secrets_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "notes"
    (folder / "secrets").mkdir(parents=True)
    (folder / "open").mkdir()
    for name in ("a.md", "token.txt", "open/my-token.txt", "id_rsa", "secrets/b.md", "key.pem"):
        (folder / name).write_text("x y")
    notes = stack(folder, tmp_path / "a.sqlite", not_secret=("my-token.txt",))
    notes.sync()
    (source,) = list_sources(notes.connection)
    left_out = json.loads(source.left_out)
    assert left_out == {
        "secret: .pem": 1,
        "secret: .txt": 1,
        "secret: folders": 1,
        "secret: no suffix": 1,
    }
    _print_source(
        {"name": "notes", "kind": "folder", "location": "/n", "state": "ok", "documents": 2,
         "problems": 0, "pinned": 0, "problem": None, "scanned": None, "watch_problem": None,
         "watching": True, "left_out": left_out}
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert "looks like a secret: 1 .pem, 1 .txt, 1 folders, 1 no suffix\n" in printed
    assert "`not_secret`" in printed
    assert "types" not in printed


def test_the_status_reads_only_items_with_problems_or_skipped_parts(tmp_path: Path) -> None:
    """By their indexes: the others may be a million."""
    made = Stack(tmp_path / "s.db", MemoryConnector({"a.md": b"Rome."}))
    made.sync()
    asked: list[str] = []
    made.file.set_trace_callback(asked.append)
    list_sources(made.connection)
    count_skipped_by_kind(made.connection)
    list_item_problems(made.connection, 10)
    count_problems(made.connection, "notes", frozenset())
    made.file.set_trace_callback(None)
    used = []
    for sql in asked:
        plan = made.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
        of_items = [row[3] for row in plan if row[3].startswith(("SCAN", "SEARCH"))]
        used += [step for step in of_items if step.split()[1] in ("seen", "i")]
    assert len(used) == 4
    assert all("INDEX seen_problem" in step or "INDEX seen_skipped" in step for step in used), used
    made.close()


def test_documents_with_the_same_problem_are_listed_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    empty = {"source": "code", "why": "no text could be read", "hint": "Add it to `ignore`"}
    torn = {"source": "code", "why": "not a valid PDF", "hint": "Export it again"}
    print_problems(
        [
            {**empty, "document": "a.html"}, {**torn, "document": "t.pdf"},
            {**empty, "document": "b.html"}, {**torn, "document": "u.pdf"},
            {**empty, "document": "c.html"}, {**empty, "document": "d.html", "source": "mail"},
        ]
    )  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "  code: 3 documents: no text could be read. Add it to `ignore`",
        "    a.html, b.html, c.html",
        "  code: t.pdf: not a valid PDF. Export it again",
        "  code: u.pdf: not a valid PDF. Export it again",
        "  mail: d.html: no text could be read. Add it to `ignore`",
    ]
