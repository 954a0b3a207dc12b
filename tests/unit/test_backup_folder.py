"""Where an admin who is not the owner may have a backup written."""

from pathlib import Path

import pytest

from hopsyncd.api.backup_service import resolve_backup_path
from hopsyncd.errors import Forbidden


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "backups"
    (made / "weekly").mkdir(parents=True)
    for one in (made, made / "weekly"):
        one.chmod(0o755)
    return made


def test_without_a_folder_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(Forbidden, match="only the owner"):
        resolve_backup_path(None, tmp_path / "notes.db")


def test_below_the_folder_a_backup_has_the_path_that_was_asked_for(folder: Path) -> None:
    assert resolve_backup_path(folder, folder / "notes.db") == folder / "notes.db"
    assert resolve_backup_path(folder, folder / "weekly/notes.db") == folder / "weekly/notes.db"


@pytest.mark.parametrize("file", ["../notes.db", "weekly/../../notes.db", "../backups2/notes.db"])
def test_nothing_beside_the_folder_is_written(folder: Path, file: str) -> None:
    (folder.parent / "backups2").mkdir()
    with pytest.raises(Forbidden, match="is not below"):
        resolve_backup_path(folder, folder / file)


def test_a_link_in_the_backup_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (folder / "out").symlink_to(tmp_path / "home")
    with pytest.raises(Forbidden, match="is not below"):
        resolve_backup_path(folder, folder / "out/.bash_profile")


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert resolve_backup_path(tmp_path / "link", tmp_path / "link/notes.db") == folder / "notes.db"


@pytest.mark.parametrize("below", [".", "weekly"])
def test_no_backup_is_written_to_a_folder_that_others_can_write_to(
    folder: Path, below: str
) -> None:
    (folder / below).chmod(0o777)
    with pytest.raises(Forbidden, match="other users may write"):
        resolve_backup_path(folder, folder / "weekly/notes.db")


def test_a_folder_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(Forbidden, match="monthly cannot be used"):
        resolve_backup_path(folder, folder / "monthly/notes.db")


def test_nobody_may_be_able_to_replace_the_folder(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(Forbidden, match="other users may write") as refused:
        resolve_backup_path(folder, folder / "notes.db")
    assert refused.value.hint == f"Run `chmod go-w {tmp_path}`"
    tmp_path.chmod(0o1777)
    assert resolve_backup_path(folder, folder / "notes.db") == folder / "notes.db"
