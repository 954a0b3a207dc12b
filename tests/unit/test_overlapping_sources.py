"""`hopsyncd add` says if a folder and a source overlap."""

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
