"""`hopsyncd add` says if a folder and a source overlap."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopsyncd.cli.main import cli


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
    assert ('add "mail/" to `ignore`' in " ".join(ran.output.split())) == bool(note)


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
    assert ('add "tool/" to `ignore` of "known"' in " ".join(ran.output.split())) == note
