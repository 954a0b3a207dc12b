"""`hopsyncd check`, `rebuild`, `backup`, `recover`, `gc` and `purge`."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from hopsyncd.cli.output import confirm, json_option, print_json, printed_json, send_long
from hopsyncd.client import calls
from hopsyncd.client.response import counted
from hopsyncd.config.configuration import DATABASE_NAME, load_config
from hopsyncd.config.values import is_database
from hopsyncd.errors import BadRequest, DaemonUnavailable
from hopsyncd.printable import printable


@click.command()
@click.option("--deep", is_flag=True, help="Verify every invariant, including the matches.")
@json_option
@click.pass_context
def check(context: click.Context, deep: bool, as_json: bool) -> None:
    """Verify the database. Needs no daemon. Exit status 1 if something is wrong.

    Example: hopsyncd check --deep
    """
    found: Mapping[str, Any]
    try:
        found = send_long(context, calls.check(deep))
    except DaemonUnavailable:
        found = _checked_alone(context, deep)
    if as_json:
        print_json(found)
    for one in () if as_json else found["findings"]:
        click.echo(f"{one['invariant']}: {printable(one['where'])}: {printable(one['detail'])}")
        click.echo(f"    {one['hint']}")
    if found["findings"]:
        context.exit(1)
    if not as_json:
        click.echo(f"Version {found['version']} is whole{' in every detail' if deep else ''}.")


def _checked_alone(context: click.Context, deep: bool) -> Mapping[str, Any]:
    """The check, done here because no daemon runs."""
    from hopsyncd.ingest.upkeep import checked
    from store.open_database import exists, open_reader

    database = load_config(context.obj).database
    if not exists(database):
        raise BadRequest(
            "There is nothing to check",
            f"{database} does not exist",
            "`hopsyncd serve` makes it, and indexes the configured sources",
        )
    with closing(open_reader(database)) as connection:
        return checked(connection, deep, lambda *_: None)


@click.command()
@click.option("--encoder", is_flag=True, help="Switch to the newer encoder that status names.")
@click.option("--dry-run", is_flag=True, help="With --encoder: only estimate what it takes.")
@json_option
@click.pass_context
def rebuild(context: click.Context, encoder: bool, dry_run: bool, as_json: bool) -> None:
    """Compute the graph again from the stored passages and questions, as one version.

    With --encoder, every passage gets vectors of the newer encoder. The old ones serve until all
    the new ones are there; edits are taken in meanwhile.

    Example: hopsyncd rebuild --encoder --dry-run
    """
    if dry_run and not encoder:
        raise click.UsageError("--dry-run goes with --encoder")
    if encoder:
        planned = send_long(context, calls.rebuild(encoder, dry_run=True), "estimating")
        if dry_run and printed_json(planned, as_json):
            return
        if not as_json:
            click.echo(
                f"New vectors for {counted(planned['passages'], 'passage')}:"
                f" about {planned['estimated_s']:,.0f} s."
            )
        if dry_run:
            return
    done = send_long(context, calls.rebuild(encoder), "rebuilding")
    if printed_json(done, as_json):
        return
    made = "Every passage has its new vectors." if encoder else "No question was generated."
    click.echo(f"Rebuilt; serving version {done['version']}. {made}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
@click.pass_context
def backup(context: click.Context, file: Path, as_json: bool) -> None:
    """Copy the whole database to FILE while the daemon keeps working.

    Example: hopsyncd backup ~/backups/notes.db
    """
    done = send_long(context, calls.backup(str(file.absolute())), "copying")
    if not printed_json(done, as_json):
        click.echo(
            f"Wrote {done['file']} ({done['bytes'] / 1e6:.1f} MB), up to version {done['version']}."
        )


@click.command()
@click.option("--to", "to", required=True, metavar="PLACE", help="A new file, or a URL.")
@click.pass_context
def copy(context: click.Context, to: str) -> None:
    """Copy the whole record to PLACE: a new SQLite file, or the URL of a PostgreSQL database.

    Stop the daemon first, and set [store] url or daemon.data_dir to the copy afterwards. A copy
    that was cut short goes on when it is run again.

    Example: hopsyncd copy --to postgresql://hopsyncd@db.example.org/notes
    """
    from store.copying import copy_record
    from store.open_database import displayed_url, hold_writer_lock, open_reader, open_writer
    from store.operational import all_watches

    try:
        place = is_database(to) if "://" in to else Path(to).absolute()
    except ValueError as error:
        hint = (
            "Use a URL of PostgreSQL without a password: PGPASSWORD, a service or passfile has it"
        )
        raise BadRequest("Cannot copy the record there", str(error), hint) from None
    source = load_config(context.obj).database
    with (
        hold_writer_lock(source),
        closing(open_reader(source)) as connection,
        hold_writer_lock(place),
        closing(open_writer(place)) as target,
    ):
        counts = copy_record(connection, target)
        told = sum("mcp" not in (one.act or "mcp") for one in all_watches(target))
    click.echo(f"Copied {counted(sum(counts.values()), 'row')} to {displayed_url(place)}.")
    if told:
        click.echo(
            f"The programs and webhooks of {counted(told, 'watched question')} are not in the copy:"
            " they stay in watch_actions.json in the data folder."
        )


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def recover(context: click.Context, yes: bool) -> None:
    """Accept a database that has lost acknowledged changes.

    The daemon refuses to start if the log of its database was lost or damaged, or if a backup took
    the database's place. Stop the daemon first. Lost versions, tags, purges and pauses stay lost,
    and the numbers of lost versions are not used again. The next scans bring back the documents as
    they are now, including those whose purge was lost.

    Example: hopsyncd recover
    """
    # These import numpy, which most commands do without.
    from store.check import check
    from store.open_database import find_loss, hold_writer_lock, open_writer
    from store.versions import head

    database = load_config(context.obj).daemon.data_dir / DATABASE_NAME
    with hold_writer_lock(database):
        why = find_loss(database)
        if why is None:
            click.echo(f"{database} has lost nothing that was acknowledged; nothing was changed.")
            return
        click.echo(f"{database}: {why}.")
        if not yes:
            confirm("Continue with what is left, for good?", "Nothing was recovered")
        with closing(open_writer(database, accept_loss=True)) as connection:
            newest = head(connection)
            found = check(connection, deep=True)
    click.echo(
        f"The newest version is {newest.id if newest else 0}; `hopsyncd serve` continues from it."
    )
    for one in found:
        click.echo(f"{one.invariant}: {printable(one.where)}: {printable(one.detail)}")
    if found:
        click.echo(f"The check has {counted(len(found), 'finding')}: restore a backup instead.")
        context.exit(1)


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be collected, and do nothing.")
@json_option
@click.pass_context
def gc(context: click.Context, dry_run: bool, as_json: bool) -> None:
    """Collect the versions that [retention] does not keep.

    That section of the configuration says how many versions to keep, and for how long. The newest
    version and tagged ones are always kept. gc works in small steps: queries go on meanwhile, and
    a gc that was killed continues when it is run again.

    Example: hopsyncd gc --dry-run
    """
    done: Mapping[str, Any] = send_long(context, calls.gc(dry_run), "collecting")
    if printed_json(done, as_json):
        return
    would = "would go" if dry_run else "went"
    parts = ("documents", "passages", "question_sets", "matches")
    if not done["versions"] and not any(done[name] for name in parts):
        click.echo(f"Nothing {would}: [retention] or a tag keeps every version.")
        return
    counts = ", ".join(f"{done[name]:,} {name.replace('_', ' ')}" for name in parts)
    freed = done["bytes"] if dry_run else done["freed_bytes"]
    click.echo(f"{counted(len(done['versions']), 'version')} {would}: {_numbers(done['versions'])}")
    click.echo(f"With them: {counts}; {'about ' if dry_run else ''}{freed / 1e6:.1f} MB.")


def _numbers(versions: list[int]) -> str:
    if not versions:
        return "none"
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


@click.command()
@click.argument("document")
@click.option("--source", help="The source, if several have a document of that path.")
@click.option("--again", is_flag=True, help="Undo the exclusion, so that scans index it again.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@click.pass_context
def purge(
    context: click.Context, document: str, source: str | None, again: bool, yes: bool, as_json: bool
) -> None:
    """Erase a document from every version, for good.

    DOCUMENT is removed from every version, cache and index, and not indexed again. Past versions
    lose its passages and their edges. The file itself is not touched. This cannot be undone.

    Example: hopsyncd purge letters/private.md --source notes
    """
    if not again and not yes:
        confirm(f"Remove {document} from every version, for good?", f"{document} was not purged")
    done = send_long(context, calls.purge(document, source, again), "purging")
    if as_json:
        print_json(done)
    elif again:
        click.echo(
            "The next scan indexes it again." if done["included"] else "It was not excluded."
        )
    else:
        _print_purge(done)


def _print_purge(done: Mapping[str, Any]) -> None:
    click.echo(
        f"Purged {printable(done['document'])} of {done['source']}:"
        f" {counted(done['revisions'], 'revision')}, {counted(done['passages'], 'passage')},"
        f" in {counted(len(done['versions']), 'version')}."
    )
    for source, document in done["held_by"]:
        click.echo(f"{source}: {printable(document)} has some of the same text, and keeps it.")
    if not done["erased"]:
        click.echo("A query was still reading the old data: run the purge again to erase the rest.")
