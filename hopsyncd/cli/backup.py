"""`hopsyncd backup now`, `list` and `restore`."""

import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import confirm, json_option, print_if_json, send_long
from hopsyncd.client import Client, calls
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.display import format_relative_time, pluralise
from hopsyncd.errors import BadRequest, DaemonUnavailable
from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from store.backup_folder import Backup
    from store.exceptions import WriterBusy
    from store.restoring import Loss, Restored

_STOP_S = 60.0
_SHOWN = 3  # how many lost tags and watched questions are named
_LIKE_A_FILE = re.compile(r"[/.]")
_from_option = click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path),
    help="The folder of the backups. Default: backup.dir.",
)


class _BackupGroup(click.Group):
    """Accepts `hopsyncd backup FILE`, the form before there were subcommands, as `now --to FILE`.

    FILE must contain a slash or a dot, so that a mistyped subcommand is not taken for a file.
    """

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        words = [word for word in args if not word.startswith("-")]
        if words and words[0] not in self.commands and _LIKE_A_FILE.search(words[0]):
            index = args.index(words[0])
            args = ["now", "--to", args[index], *args[:index], *args[index + 1 :]]
        return super().parse_args(context, args)


@click.group(cls=_BackupGroup)
def backup() -> None:
    """Make, list and restore backups.

    If `dir` is set in [backup], the daemon also makes scheduled backups.

    Example: hopsyncd backup now
    """


@backup.command()
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this new file, without the deep check.",
)
@json_option
@click.pass_context
def now(context: click.Context, file: Path | None, as_json: bool) -> None:
    """Make a backup while the daemon keeps working.

    The backup is checked in depth. Then old backups are deleted, except the newest `keep` (in
    [backup]).

    Example: hopsyncd backup now
    """
    answer = send_long(context, calls.backup(str(file.absolute()) if file else None), "copying")
    if print_if_json(answer, as_json):
        return
    checked = ", and found no errors in it" if answer["name"] else ""
    click.echo(
        f"Wrote {answer['file']} ({answer['bytes'] / 1e6:.1f} MB), up to version"
        f" {answer['version']}{checked}."
    )
    for name in answer["removed"]:
        click.echo(f"Deleted the older backup {name}.")


@backup.command("list")
@_from_option
@json_option
@click.pass_context
def list_(context: click.Context, folder: Path | None, as_json: bool) -> None:
    """List the backups, newest first. Needs no daemon.

    Example: hopsyncd backup list
    """
    from hopsyncd.api.version_log import format_moment
    from store.restoring import list_replaced

    config = load_config(context.obj)
    place = folder or _require_folder(config)
    backups: list[dict[str, Any]] = [
        {
            "name": backup.name,
            "created": format_moment(backup.manifest.created_ms),
            "version": backup.manifest.version,
            "documents": backup.manifest.documents,
            "passages": backup.manifest.passages,
            "bytes": backup.manifest.bytes,
            "program": backup.manifest.program,
            "file": str(backup.database),
        }
        for backup in _list_backups(place)
    ]
    database = config.database
    replaced = [*map(str, list_replaced(database))] if isinstance(database, Path) else []
    if print_if_json({"folder": str(place), "backups": backups, "replaced": replaced}, as_json):
        return
    if not backups:
        click.echo(f"There is no backup in {place}. `hopsyncd backup now` makes one.")
    for row in backups:
        click.echo(
            f"{row['name']}: version {row['version']}, {pluralise(row['documents'], 'document')},"
            f" {row['bytes'] / 1e6:.1f} MB, {format_relative_time(row['created'])}"
        )
    for file in replaced:
        click.echo(f"A restore has replaced this database: {file}")


def _list_backups(folder: Path) -> "Sequence[Backup]":
    """List the finished backups, newest first. Raises BadRequest if the folder cannot be read."""
    from store.backup_folder import list_backups

    try:
        return list_backups(folder)
    except OSError as error:
        raise BadRequest(
            f"Cannot read the backups in {folder}",
            (error.strerror or str(error)).lower(),
            "Check that the path is a folder that you may read",
        ) from error


def _require_folder(config: Config) -> Path:
    if config.backup.dir is None:
        raise BadRequest(
            "Cannot list the backups",
            "no folder for backups is configured",
            "Set `dir` in [backup], or name the folder with --from",
        )
    return config.backup.dir


@backup.command()
@click.argument("name")
@_from_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
@click.pass_context
def restore(
    context: click.Context, name: str, folder: Path | None, yes: bool, as_json: bool
) -> None:
    """Replace the database with a backup.

    NAME is a name from `hopsyncd backup list`, `latest`, or the path of a database file. The
    command says what will be lost, and asks for confirmation. The daemon answers until the copy is
    ready, and is then stopped. The replaced database stays in the data folder until the next backup
    succeeds.

    Example: hopsyncd backup restore latest
    """
    from hopsyncd.api.tokens import TokenFile
    from hopsyncd.ingest.backup_process import verify_copy
    from store.backup_folder import Backup
    from store.restoring import describe_loss, find_pending_restore, stage_restore

    config = load_config(context.obj)
    database = _require_database_file(config)
    chosen = _choose(config, name, folder)
    copy = chosen.database if isinstance(chosen, Backup) else chosen
    if database.parent.exists() and find_pending_restore(database):
        _swap(config, database)  # complete a restore that was interrupted
    _refuse_detached_daemon(config, database)
    loss = describe_loss(database, copy)
    if not as_json:
        _describe(chosen, loss, database)
    if database.exists() and not yes:
        confirm("Replace the database?", "The database was not replaced")
    stage_restore(
        database,
        make_printable(copy.parent.name),
        chosen,
        verify_copy,
        time.time_ns() // 1_000_000,
    )
    restored, service = _swap(config, database)
    started = _start(service)
    if restored is None:
        message = "A daemon that was started meanwhile has completed the restore."
        click.echo(message, err=as_json)
        return
    answer = {**asdict(restored), "replaced": str(restored.replaced or ""), "started": started}
    if not print_if_json(answer, as_json):
        _print_report(restored, started)
        if closed := _list_closed_by_backup(config, database):
            click.echo(
                f"Closed to members in the backup, but not in your configuration:"
                f" {', '.join(map(make_printable, closed))}. They stay closed until you set"
                ' `visible_to`; ["members"] opens a source.'
            )
        if config.access.listen and not TokenFile.from_config(config).read():
            click.echo("A backup has no tokens. Make new tokens with `hopsyncd token create`.")


def _list_closed_by_backup(config: Config, database: Path) -> list[str]:
    """List the sources that are closed only by the rules in the restored database."""
    from contextlib import closing

    from hopsyncd.api.access_rules import AccessRules
    from store.open_database import open_reader
    from store.sources import read_access_rules

    with closing(open_reader(database)) as connection:
        rules = AccessRules.from_config(config, read_access_rules(connection))
    return rules.list_closed_by_record(config.sources)


def _require_database_file(config: Config) -> Path:
    if isinstance(config.database, Path):
        return config.database
    raise BadRequest(
        "Cannot restore a backup",
        "the database is on a PostgreSQL server",
        "Use `pg_restore`, as docs/operate.md describes",
    )


def _refuse_detached_daemon(config: Config, database: Path) -> None:
    """Raise BadRequest if a daemon runs without its data folder, which was deleted or replaced.

    Such a daemon holds the lock of a file that is gone, so `_swap` would not notice it.
    """
    from store.exceptions import WriterBusy
    from store.open_database import hold_writer_lock

    try:
        pid = Client(config.daemon.socket).status()["pid"]
    except DaemonUnavailable:
        return
    if database.parent.exists():
        try:
            with hold_writer_lock(database):
                pass
        except WriterBusy:
            return
    raise BadRequest(
        "Cannot restore a backup",
        f"a daemon still runs (pid {pid}), whose data folder was deleted or replaced",
        f"Stop the daemon first: `kill {pid}`",
    )


def _choose(config: Config, name: str, folder: Path | None) -> "Backup | Path":
    backup_name = name
    if "/" in name:
        file = Path(name).expanduser().absolute()
        if file.is_file():
            return file
        folder, backup_name = file.parent, file.name
    backups = _list_backups(folder or _require_folder(config))
    chosen = next((backup for backup in backups if backup_name in (backup.name, "latest")), None)
    if chosen is None:
        place = "there" if "/" in name else f"in {folder or config.backup.dir}"
        raise BadRequest(
            f"Cannot restore {name}",
            f"there is no finished backup of that name {place}",
            "`hopsyncd backup list` shows the names",
        )
    return chosen


def _describe(chosen: "Backup | Path", loss: "Loss", database: Path) -> None:
    """Describe the backup, and the changes since then that will be lost."""
    from hopsyncd.api.version_log import format_moment
    from store.backup_folder import Backup

    if isinstance(chosen, Backup):
        manifest = chosen.manifest
        click.echo(
            f"The backup {chosen.name} has version {manifest.version} with"
            f" {pluralise(manifest.documents, 'document')}, made"
            f" {format_relative_time(format_moment(manifest.created_ms))}."
        )
    if loss.unreadable:
        click.echo(f"All later changes in {database} will be lost.")
        click.echo(f"hopsyncd cannot list them: {loss.unreadable}.")
    elif loss.version:
        lines = _describe_loss(loss)
        effect = "This will be lost:" if lines else "Nothing will be lost."
        click.echo(f"{database} ends at version {loss.version}. {effect}")
        for line in lines:
            click.echo(f"  {line}")
        click.echo("Your files and notes are not touched: changes since then are indexed again.")


def _describe_loss(loss: "Loss") -> list[str]:
    from hopsyncd.api.version_log import format_moment

    lines = []
    newest = format_relative_time(format_moment(loss.created_ms))
    if loss.is_other:
        lines.append(
            f"{pluralise(loss.versions, 'version')}: all, because the backup is of another database"
        )
    elif loss.versions:
        lines.append(f"{pluralise(loss.versions, 'version')}, the newest {newest}")
    for noun, names in (("tag", loss.tags), ("watched question", loss.watches)):
        if names:
            listed_names = ", ".join(make_printable(name) for name in names[:_SHOWN])
            ellipsis = ", …" if len(names) > _SHOWN else ""
            lines.append(f"{pluralise(len(names), noun)}: {listed_names}{ellipsis}")
    return lines


def _swap(config: Config, database: Path) -> "tuple[Restored | None, Sequence[str]]":
    """Stop a running daemon and complete the restore.

    If the daemon ran as a service, the second value is the command that starts the service."""
    from store.exceptions import WriterBusy
    from store.open_database import hold_writer_lock
    from store.restoring import finish_restore

    service: Sequence[str] = ()
    end_s: float | None = None
    while True:
        try:
            with hold_writer_lock(database):
                return finish_restore(database, time.time_ns() // 1_000_000), service
        except WriterBusy as error:
            if end_s is None:
                service = _stop_daemon(config)
                end_s = time.monotonic() + _STOP_S
            elif time.monotonic() > end_s:
                raise _unfinished_error(database, error) from error
            time.sleep(0.1)


def _unfinished_error(database: Path, error: "WriterBusy") -> BadRequest:
    from store.restoring import get_order_path

    return BadRequest(
        "The restore is not complete",
        f"{error.why}, and did not end within {_STOP_S:g} s",
        "Stop that process and start the daemon, which completes the restore. To cancel it, delete"
        f" {get_order_path(database)} first",
    )


def _stop_daemon(config: Config) -> Sequence[str]:
    """Ask the daemon to stop. If it runs as a service, return the service's start command."""
    try:
        pid = Client(config.daemon.socket).status()["pid"]  # only a daemon of this machine
    except DaemonUnavailable:
        return ()  # the daemon is starting or stopping
    unit = _find_service_command(pid)
    os.kill(pid, signal.SIGTERM)
    return unit


def _find_service_command(pid: int) -> Sequence[str]:
    try:
        group = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ()
    if "hopsyncd.service" not in group:
        return ()
    scope = ["--user"] if "user.slice" in group else []
    return ["systemctl", *scope, "start", "hopsyncd.service"]


def _start(command: Sequence[str]) -> bool:
    import subprocess

    if not command:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _print_report(restored: "Restored", started: bool) -> None:
    click.echo(f"Restored. The newest version is {restored.version}.")
    if restored.replaced:
        click.echo(
            f"The replaced database is in {restored.replaced} until the next backup succeeds."
        )
    if restored.purged:
        click.echo(
            f"{pluralise(restored.purged, 'document')} purged since the backup will be purged"
            " again."
        )
    if restored.unread:
        click.echo(
            f"The replaced database cannot be read ({make_printable(restored.unread)}). If you have"
            " purged documents since the backup, purge them again."
        )
    click.echo("The daemon was started again." if started else "Now run `hopsyncd serve`.")
