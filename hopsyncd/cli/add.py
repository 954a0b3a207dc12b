"""`hopsyncd add`, `sources`, `pause`, `resume` and `remove`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from connectors.ignore import DEFAULT_INCLUDE, Rules
from connectors.protocol import list_prefixes
from hopsyncd.cli.completion import complete_source
from hopsyncd.cli.output import confirm, json_option, make_client, print_if_json
from hopsyncd.cli.serve import reload_if_running
from hopsyncd.cli.top import print_problems
from hopsyncd.client import Client, RequestFailed
from hopsyncd.config.configuration import Config, find_config_path, load_config
from hopsyncd.config.source_kinds import FolderSource, GitSource
from hopsyncd.config.values import CRON_HINT
from hopsyncd.display import KEPT_CLOSED, TO_OPEN, format_relative_time, pluralise
from hopsyncd.errors import BadRequest, ConfigError, DaemonUnavailable
from hopsyncd.printable import make_printable

# Kinds that are scanned instead of watched for file events.
_SCANNED_KINDS = ("git", "mbox", "maildir", "sqlite", "imap", "remote")
_FILE_KINDS = ("folder", "git", "remote")  # kinds whose documents are files
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _parse_seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Parse a duration such as `30m` to seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text.strip())
    if not match:
        raise click.BadParameter("use a number and s, m, h or d, such as 30m")
    return float(match[1]) * _UNITS_S[match[2]]


def _check_times(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Check a cron expression, and return it unchanged."""
    if text is not None:
        from hopsyncd.config.schedule import parse_cron

        try:
            parse_cron(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}. {CRON_HINT}") from error
    return text


def _split_columns(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [name.strip() for text in values for name in text.split(",") if name.strip()]


@click.command()
@click.argument("place", metavar="PATH|URL")
@click.option("--name", help="The name of the source. Default: taken from the path or URL.")
@click.option("--kind", default="", help="The kind of source, if it cannot be detected.")
@click.option(
    "--every",
    callback=_parse_seconds,
    metavar="DURATION",
    help="Time between two scans, such as 90s, 30m or 2h.",
)
@click.option(
    "--at",
    callback=_check_times,
    metavar="CRON",
    help='Scan times as a cron expression, such as "30 3 * * mon-fri".',
)
@click.option(
    "--include",
    multiple=True,
    help="Index only files that match this pattern, such as *.md. Repeatable.",
)
@click.option(
    "--ignore", multiple=True, help="Skip files that match this gitignore pattern. Repeatable."
)
@click.option("--table", help="SQLite: the table or view whose rows are documents.")
@click.option("--query", help="SQLite: a SELECT statement instead of a table.")
@click.option("--key", help="SQLite: the column that identifies a row.")
@click.option(
    "--text",
    multiple=True,
    callback=_split_columns,
    help="SQLite: the columns that hold the text, such as title,body.",
)
@click.option("--title", help="SQLite: the column that holds the title.")
@click.option("--dry-run", is_flag=True, help="Print the new section without writing it.")
@click.pass_context
def add(
    context: click.Context,
    /,
    place: str,
    name: str | None,
    kind: str,
    every: float | None,
    at: str | None,
    include: tuple[str, ...],
    ignore: tuple[str, ...],
    dry_run: bool,
    **database_options: Any,
) -> None:
    """Add a source to the configuration.

    PATH is a folder, a git repository, a Maildir, an mbox file or a SQLite database. URL is a web
    page, a sitemap or a feed (https://), a git repository (https://….git, git@host:path, git+URL),
    an IMAP account (imap://user@host), or a bucket or share (s3://, gs://, sftp:// …). The rest of
    the configuration file is not changed.

    Example: hopsyncd add https://example.org/project.git --name project --every 30m
    """
    from hopsyncd.config.edit import add_source
    from hopsyncd.config.source_detection import detect_source

    detected = detect_source(
        place, kind, {key: value for key, value in database_options.items() if value}
    )
    patterns = {"include": list(include) or None, "ignore": list(ignore) or None}
    if any(patterns.values()) and detected.keys["kind"] not in _FILE_KINDS:
        raise BadRequest(
            f"Cannot add {place}",
            f"--include and --ignore do not apply to a source of kind {detected.keys['kind']}",
            "Leave out --include and --ignore",
        )
    more = {"scan_every_s": every, "scan_at": at, **patterns}
    keys = {**detected.keys, **{key: value for key, value in more.items() if value is not None}}
    file = find_config_path(context.obj)
    config = load_config(context.obj)
    chosen, block = add_source(file, keys, name, dry_run=dry_run)
    overlaps = _describe_overlaps(keys, config)
    click.echo(block)
    for note in [*detected.notes, *overlaps, *_describe_kind(detected.keys["kind"], every, at)]:
        click.echo(note)
    if dry_run:
        click.echo(f"This was a dry run: {file} was not changed.")
        return
    click.echo(f'Added "{chosen}" to {file}. {reload_if_running(context.obj)}')


def _describe_overlaps(keys: Mapping[str, Any], config: Config) -> list[str]:
    """Tell the user which sources contain the files of the new source, or are inside it."""
    from hopsyncd.config.edit import escape_dollars, make_exact_pattern
    from hopsyncd.config.mistakes import format_toml_value

    folder = _find_folder(keys["kind"], Path(keys["path"])) if "path" in keys else None
    if folder is None:
        return []
    notes = []
    for source in config.sources:
        if not isinstance(source, FolderSource | GitSource) or source.path is None:
            continue
        known = _find_folder(source.kind, source.path)
        if known is None or known == folder:
            continue
        if source.kind == "folder" and folder.is_relative_to(known):
            inner, rules = folder.relative_to(known).as_posix(), _build_rules(source)
            where, files = f'This folder is inside the source "{source.name}"', "this folder"
            outer_name = f'"{source.name}"'
        elif keys["kind"] == "folder" and known.is_relative_to(folder):
            inner = known.relative_to(folder).as_posix()
            rules = Rules(keys.get("include", DEFAULT_INCLUDE), keys.get("ignore", ()))
            where, files = f'The source "{source.name}" is inside this folder', f'"{source.name}"'
            outer_name = "the new source"
        else:
            continue
        if not _excludes_all(rules, inner):
            pattern = format_toml_value(escape_dollars(f"{make_exact_pattern(inner)}/"))
            notes.append(
                f"{where}, so the files of {files} are indexed twice. To index them once, add"
                f" {pattern} to `ignore` of {outer_name}."
            )
    return notes


def _build_rules(source: FolderSource | GitSource) -> Rules:
    return Rules(
        source.include, source.ignore, source.deny, source.index_secrets, source.not_secret
    )


def _excludes_all(rules: Rules, folder: str) -> bool:
    """Return whether the rules exclude a folder, or all files and folders in it."""
    if any(rules.hides(path, True, ()) for path in list_prefixes(folder)):
        return True
    return all(rules.hides(f"{folder}/_", is_folder, ()) for is_folder in (True, False))


def _find_folder(kind: str, path: Path) -> Path | None:
    """Return the folder with the files of a source. Returns None for other kinds of sources, and
    for a repository without a working tree."""
    folder = path.expanduser().resolve()
    is_tree = kind == "git" and (folder / ".git").exists()
    return folder if kind == "folder" or is_tree else None


def _describe_kind(kind: str, every: object, at: object) -> list[str]:
    """Tell the user when changes of a new source are found, and which of its files are read."""
    notes = []
    if kind in _SCANNED_KINDS and not every and not at:
        notes.append(
            f"A source of kind {kind} is scanned every 5 minutes, unless watch.scan_every_s says"
            " otherwise. To scan it more often, set scan_every_s of the source, for example"
            " scan_every_s = 60.0. To scan it now, or from a hook, run `hopsyncd sync NAME`."
        )
    if kind == "git":
        notes.append(
            "Source code, scripts and style sheets are read too. For documents only:"
            " --include '*.md' --include '*.rst' --include '*.txt'."
        )
    return notes


@click.command()
@click.argument("name", shell_complete=complete_source)
@click.option("--purge", is_flag=True, help="Erase the documents from all versions for good.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
@click.pass_context
def remove(context: click.Context, name: str, purge: bool, yes: bool, as_json: bool) -> None:
    """Take a source out of the configuration and the index.

    The source's documents are removed from the newest version. Older versions keep them until `gc`
    collects those versions. The files are not changed. Needs no daemon.

    Example: hopsyncd remove project
    """
    from hopsyncd.config.edit import remove_source
    from hopsyncd.ingest.removal import list_stored_sources

    config = load_config(context.obj)
    configured = {source.name for source in config.sources}
    if name not in configured | (stored := list_stored_sources(config)):
        names = ", ".join(sorted(configured | stored)) or "none"
        raise ConfigError(
            f"Cannot remove {name}", f"no source is called {name!r}", f"The sources are: {names}"
        )
    if not yes:
        versions = "all versions for good" if purge else "the newest version"
        confirm(f"Remove {name}, and its documents from {versions}?", f"{name} was not removed")
    file = find_config_path(context.obj)
    if name in configured:
        # First, so that a daemon that starts now does not fetch the documents again.
        remove_source(file, name)
    answer = _remove(config, name, purge)
    reload_if_running(context.obj)
    if not print_if_json(answer, as_json):
        _print_removal(answer)


def _remove(config: Config, name: str, purge: bool) -> Mapping[str, Any]:
    from hopsyncd.ingest.removal import remove_source_offline
    from store.open_database import exists

    try:
        with Client(config.daemon.socket) as client:
            return client.remove(name, purge=purge)
    except RequestFailed as error:
        if error.code != "not_found":  # "not_found": the daemon has not loaded the source
            raise
    except DaemonUnavailable:
        if exists(config.database):
            return remove_source_offline(config, name, purge)
    return {"name": name, "version": 0, "documents": 0, "purged": purge, "held_by": [],
            "erased": True}  # fmt: skip


def _print_removal(answer: Mapping[str, Any]) -> None:
    what_remains = "erased from all versions" if answer["purged"] else "older versions keep them"
    click.echo(
        f"Removed {answer['name']} with {pluralise(answer['documents'], 'document')}"
        f" ({what_remains})."
        + (f" The newest version is {answer['version']}." if answer["version"] else "")
    )
    for source, document in answer["held_by"]:
        click.echo(
            f"{source}: {make_printable(document)} contains some of the same text and keeps it."
        )
    if not answer["erased"]:
        click.echo(
            "A query was still reading the old data. Run the command again to erase the rest."
        )


@click.command()
@click.argument("name", required=False, shell_complete=complete_source)
@json_option
@click.pass_context
def sources(context: click.Context, name: str | None, as_json: bool) -> None:
    """List the sources and their state, or show one source in detail.

    Example: hopsyncd sources notes
    """
    with make_client(context) as client:
        now: Mapping[str, Any] = client.status() if name else client.sources()
    shown = [source for source in now["sources"] if name in (None, source["name"])]
    if name and not shown:
        names = ", ".join(source["name"] for source in now["sources"]) or "none"
        raise BadRequest(
            f"Cannot show {name}", f"no source is called {name!r}", f"The sources are: {names}"
        )
    if print_if_json(shown[0] if name else now, as_json):
        return
    for source in shown:
        if name:
            _print_details(source)
        else:
            _print_line(source)
    if name:
        print_problems([problem for problem in now["problems"] if problem["source"] == name])


def _print_line(source: dict[str, Any]) -> None:
    parts = [pluralise(source["documents"], "document")]
    parts += [f"{source['problems']} with problems"] if source["problems"] else []
    parts += [f"{source['pinned']} restored"] if source["pinned"] else []
    parts.append(f"scanned {format_relative_time(source['scanned'])}")
    parts += [f"next scan {format_relative_time(source['next'])}"] if source["next"] else []
    problem = (
        f": {make_printable(source['problem'])}. {source['hint']}" if source["problem"] else ""
    )
    click.echo(
        f"{source['name']} ({source['kind']}): {source['state']}, {', '.join(parts)}{problem}"
    )


def _print_details(source: dict[str, Any]) -> None:
    rows = {
        "kind": source["kind"],
        "location": source["location"],
        "state": source["state"],
        "error": source["problem"],
        "what to do": source["hint"],
        "documents": source["documents"],
        "with problems": source["problems"],
        "restored": source["pinned"] or None,
        "last scan": format_relative_time(source["scanned"]),
        "next scan": format_relative_time(source["next"]) if source["next"] else None,
        "file events": source["watch_problem"] or ("working" if source["watching"] else None),
    }
    rights = source.get("rights") or {"visible_to": ["members"], "paths": []}
    if rights["paths"] or rights["visible_to"] != ["members"]:
        rows["visible to"] = ", ".join(rights["visible_to"])
    if rights.get("kept_closed"):
        rows["rights"] = f"{KEPT_CLOSED}. {TO_OPEN}"
    for rule in rights["paths"]:
        viewers = ", ".join(rule["visible_to"])
        rows[f"  {rule['match']}"] = f"{viewers} ({pluralise(rule['documents'], 'document')})"
    click.echo(source["name"])
    for title, value in rows.items():
        if value is not None:
            click.echo(f"  {title + ':':<15}{make_printable(str(value))}")


@click.command()
@click.argument("name", shell_complete=complete_source)
@json_option
@click.pass_context
def pause(context: click.Context, name: str, as_json: bool) -> None:
    """Stop scanning a source until you resume it. Its documents stay searchable.

    The pause lasts across restarts of the daemon.

    Example: hopsyncd pause project
    """
    answer = make_client(context).pause(name)
    if not print_if_json(answer, as_json):
        click.echo(f"Paused {name}. Its documents stay searchable.")


@click.command()
@click.argument("name", shell_complete=complete_source)
@json_option
@click.pass_context
def resume(context: click.Context, name: str, as_json: bool) -> None:
    """Resume a paused source, and scan it at once.

    Example: hopsyncd resume project
    """
    answer = make_client(context).resume(name)
    if not print_if_json(answer, as_json):
        click.echo(f"Resumed {name}. The source is being scanned.")
