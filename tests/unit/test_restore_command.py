"""`hopsyncd backup restore` and the lines of `hopsyncd status`, without a daemon."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from hopsyncd.cli import backup as backup_command
from hopsyncd.cli.main import cli
from hopsyncd.cli.top import _print_backups, _print_rights
from hopsyncd.errors import BadRequest
from hopsyncd.ingest.backup_process import verify_copy
from store.backup_folder import make_backup
from store.open_database import hold_writer_lock
from store.restoring import find_pending_restore, finish_restore
from store.sources import put_access_rules
from tests.fakes.lived import lived


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """A fresh configuration of the source "notes", which is closed in the only backup."""
    stack = lived(tmp_path / "former.db")
    put_access_rules(stack.connection, {"notes": (("user:root",),)})
    make_backup(stack.connection, tmp_path / "backups", verify_copy, 1_795_662_000_000, "0.3.0")
    stack.close()
    (tmp_path / "notes").mkdir()
    file = tmp_path / "config.toml"
    file.write_text(
        f'[daemon]\ndata_dir = "{tmp_path}/data"\nsocket = "{tmp_path}/run/s"\n'
        f'[backup]\ndir = "{tmp_path}/backups"\n'
        f'[[source]]\nname = "notes"\npath = "{tmp_path}/notes"\n'
    )
    return file


def restore(config_file: Path) -> Result:
    arguments = ["--config", str(config_file), "backup", "restore", "latest", "--yes"]
    return CliRunner().invoke(cli, arguments)


def test_a_restore_names_the_sources_that_only_the_backup_closes(config_file: Path) -> None:
    shown = restore(config_file)
    assert "Closed to members in the backup, but not in your configuration: notes." in shown.output
    with config_file.open("a") as file:
        file.write('visible_to = ["user:root"]\n')
    assert "Restored." in (again := restore(config_file)).output
    assert "Closed to members" not in again.output


def test_a_restore_that_a_daemon_completes_prints_no_text_instead_of_json(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_command, "_swap", lambda config, database: (None, ()))
    arguments = ["--config", str(config_file), "backup", "restore", "latest", "--yes", "--json"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0 and done.stdout == ""
    assert "has completed the restore" in done.stderr


def test_a_daemon_whose_data_folder_is_gone_must_be_stopped_first(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RunningDaemon:
        def __init__(self, _: Path) -> None:
            pass

        def status(self) -> dict[str, int]:
            return {"pid": 4711}

    monkeypatch.setattr(backup_command, "Client", RunningDaemon)
    refused = restore(config_file)
    assert refused.exit_code and "a daemon still runs (pid 4711)" in str(refused.exception)
    assert not (config_file.parent / "data/hopsyncd.db").exists()


def printed(show: Any, status: dict[str, Any]) -> str:
    @click.command()
    def command() -> None:
        show(status)

    return CliRunner().invoke(command).output


def test_status_shows_who_may_see_a_closed_source() -> None:
    closed = {"visible_to": ["group:hr", "user:ann"], "paths": []}
    assert printed(_print_rights, closed) == "  visible to group:hr, user:ann\n"
    assert printed(_print_rights, {"visible_to": ["members"], "paths": []}) == ""


def test_an_overdue_backup_is_shown_as_due_now() -> None:
    due = {"folder": "/b", "kept": 0, "version": None, "created": None, "error": None}
    now = datetime.now(UTC).isoformat()
    assert printed(_print_backups, {**due, "next": now}) == "0 backups in /b; the next now\n"


def test_a_restore_that_waits_for_another_process_says_so_and_can_be_cancelled(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_command, "_STOP_S", 0.2)
    database = config_file.parent / "data/hopsyncd.db"
    database.parent.mkdir(0o700)
    with hold_writer_lock(database):
        waiting = str(restore(config_file).exception)
    assert "The restore is not complete: another hopsyncd process" in waiting
    order = database.parent / "restore/restore.json"
    assert waiting.endswith(f"To cancel it, delete {order} first") and find_pending_restore(
        database
    )
    order.unlink()
    assert finish_restore(database, 0) is None and not database.exists()


@pytest.mark.parametrize("command", [["list"], ["restore", "latest"]])
def test_a_folder_of_backups_that_cannot_be_read_is_named(
    config_file: Path, command: list[str]
) -> None:
    arguments = ["--config", str(config_file), "backup", *command, "--from", str(config_file)]
    refused = CliRunner().invoke(cli, arguments).exception
    assert isinstance(refused, BadRequest)
    assert str(refused).startswith(f"Cannot read the backups in {config_file}: not a directory")
