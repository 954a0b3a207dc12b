"""`hopsyncd add` says if a folder and a source overlap."""

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from connectors.folder import FolderConnector
from connectors.protocol import Item
from connectors.settings import FileSettings
from hopsyncd.cli.main import cli
from hopsyncd.config.configuration import load_config
from hopsyncd.config.source_kinds import FolderSource


@pytest.mark.parametrize(
    ("known", "new", "note"),
    [
        ("notes", "notes/mail", 'This folder is inside the source "known"'),
        ("notes/mail", "notes", 'The source "known" is inside this folder'),
        ("notes", "notes-old", ""),
    ],
)
def test_a_folder_whose_files_would_be_indexed_twice_is_reported(
    tmp_path: Path, known: str, new: str, note: str
) -> None:
    for name in (known, new):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    file = tmp_path / "config.toml"
    file.write_text(f'[[source]]\nname = "known"\npath = "{tmp_path / known}"\n')
    ran = CliRunner().invoke(
        cli,
        ["--config", str(file), "add", str(tmp_path / new), "--dry-run"],
        catch_exceptions=False,
    )
    assert ran.exit_code == 0
    assert note in ran.output
    assert ("indexed twice" in ran.output) == bool(note)
    assert ('add "/mail/" to `ignore`' in " ".join(ran.output.split())) == bool(note)


def add(file: Path, *arguments: str) -> str:
    ran = CliRunner().invoke(
        cli, ["--config", str(file), "add", *arguments, "--dry-run"], catch_exceptions=False
    )
    assert ran.exit_code == 0
    return " ".join(ran.output.split())


def test_the_suggested_pattern_excludes_only_the_folder_that_overlaps(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    for name in ("[1] $a*", "old/[1] $a*", "1 $a"):
        (notes / name).mkdir(parents=True)
        (notes / name / "a.md").write_text("a")
    file = tmp_path / "config.toml"
    written = f'[[source]]\nname = "known"\npath = "{notes}"\n'
    file.write_text(written)
    found = re.search('add (".*") to `ignore` of "known"', add(file, str(notes / "[1] $a*")))
    assert found
    file.write_text(f"{written}ignore = [{found[1]}]\n")
    (source,) = load_config(file).sources
    assert isinstance(source, FolderSource)
    items = FolderConnector(notes, FileSettings(ignore=source.ignore)).discover(None)
    assert {item.id for item in items if isinstance(item, Item)} == {
        "old/[1] $a*/a.md",
        "1 $a/a.md",
    }
    assert "indexed twice" not in add(file, str(notes / "[1] $a*"))


@pytest.mark.parametrize(
    ("pattern", "warns"),
    [
        ("/a/mail/", False),
        ("a/", False),
        ("mail/**", True),
        ("/a/mail/**", False),
        ("/mail/", True),
        ("/a/mail/*.pdf", True),
    ],
)
@pytest.mark.parametrize("is_new_inside", [True, False])
def test_an_overlap_that_is_excluded_already_is_not_reported(
    tmp_path: Path, pattern: str, warns: bool, is_new_inside: bool
) -> None:
    outer, inner = tmp_path / "notes", tmp_path / "notes/a/mail"
    inner.mkdir(parents=True)
    known, new = (outer, inner) if is_new_inside else (inner, outer)
    ignore = f'ignore = ["{pattern}"]\n' if is_new_inside else ""
    file = tmp_path / "config.toml"
    file.write_text(f'[[source]]\nname = "known"\npath = "{known}"\n{ignore}')
    told = add(file, str(new), *([] if is_new_inside else ["--ignore", pattern]))
    assert ("indexed twice" in told) == warns


@pytest.mark.parametrize(
    ("bare", "place", "note"),
    [
        ((), "tool", True),
        (("--bare",), "tool", False),  # It has no files that the folder's source reads.
        ((), "else", False),
    ],
)
def test_a_working_tree_inside_a_source_is_reported(
    tmp_path: Path, bare: tuple[str, ...], place: str, note: bool
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    repository = notes / place if place == "tool" else tmp_path / place
    subprocess.run(["git", "init", "-q", *bare, repository], check=True)
    file = tmp_path / "config.toml"
    file.write_text(f'[[source]]\nname = "known"\npath = "{notes}"\n')
    ran = CliRunner().invoke(
        cli,
        ["--config", str(file), "add", f"git+{repository}", "--dry-run"],
        catch_exceptions=False,
    )
    assert ran.exit_code == 0
    assert ('add "/tool/" to `ignore` of "known"' in " ".join(ran.output.split())) == note
