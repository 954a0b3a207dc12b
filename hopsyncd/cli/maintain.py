"""`hopsyncd check`, `rebuild`, `copy`, `recover`, `gc` and `purge`."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import confirm, json_option, print_if_json, print_json, send_long
from hopsyncd.client import calls
from hopsyncd.config.configuration import DATABASE_NAME, Config, load_config
from hopsyncd.config.values import check_database_url
from hopsyncd.display import format_duration, pluralise
from hopsyncd.errors import BadRequest, DaemonUnavailable
from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from store.contract import Connection


@click.command()
@click.option("--deep", is_flag=True, help="Verify every invariant, including all edges.")
@json_option
@click.pass_context
def check(context: click.Context, deep: bool, as_json: bool) -> None:
    """Verify the database. Needs no daemon.

    If something is wrong, the exit status is 1.

    Example: hopsyncd check --deep
    """
    report: Mapping[str, Any]
    try:
        report = send_long(context, calls.check(deep))
    except DaemonUnavailable:
        report = _check_without_daemon(context, deep)
    if as_json:
        print_json(report)
    for finding in () if as_json else report["findings"]:
        click.echo(
            f"{finding['invariant']}: {make_printable(finding['where'])}:"
            f" {make_printable(finding['detail'])}"
        )
        click.echo(f"    {finding['hint']}")
    if report["findings"]:
        context.exit(1)
    if not as_json:
        click.echo(f"Version {report['version']} has no errors{' (deep check)' if deep else ''}.")


def _check_without_daemon(context: click.Context, deep: bool) -> Mapping[str, Any]:
    from hopsyncd.ingest.upkeep import check_database

    with _open_database(load_config(context.obj), "There is nothing to check") as connection:
        return check_database(connection, deep, lambda *_: None)


@contextmanager
def _open_database(config: Config, failed: str) -> "Iterator[Connection]":
    """Open the database. If it does not exist, raises BadRequest, which begins with `failed`."""
    from store.open_database import exists, open_reader

    if not exists(config.database):
        raise BadRequest(
            failed,
            f"{config.database} does not exist",
            "Run `hopsyncd serve` to create the database and index the sources",
        )
    with closing(open_reader(config.database)) as connection:
        yield connection


@click.command()
@click.option("--encoder", is_flag=True, help="Switch to the newer encoder that `status` reports.")
@click.option("--dry-run", is_flag=True, help="With --encoder: only estimate the time.")
@click.option("--estimate", is_flag=True, help="Only estimate a switch to the configured models.")
@click.option(
    "--encoder-price", type=float, help="With --estimate: price per million encoder tokens."
)
@click.option("--llm-price", type=float, help="With --estimate: price per million LLM tokens.")
@json_option
@click.pass_context
def rebuild(
    context: click.Context,
    encoder: bool,
    dry_run: bool,
    estimate: bool,
    encoder_price: float | None,
    llm_price: float | None,
    as_json: bool,
) -> None:
    """Rebuild the graph from the stored passages and questions.

    The rebuilt graph is one new version.

    With --encoder, all passages are embedded again by the newer encoder. Until then, the old
    vectors are used, and edits are indexed as usual.

    If you changed the encoder, the spaCy model or `llm.questions` in the configuration,
    --estimate shows the passages, time, tokens and, with prices, cost of a reload. Nothing is
    rebuilt or sent.

    Example: hopsyncd rebuild --estimate --llm-price 0.6
    """
    if estimate:
        _print_estimate(load_config(context.obj), encoder_price, llm_price, as_json)
        return
    if dry_run and not encoder:
        raise click.UsageError("--dry-run works only with --encoder.")
    if encoder:
        planned = send_long(context, calls.rebuild(encoder, dry_run=True), "estimating")
        if dry_run and print_if_json(planned, as_json):
            return
        if not as_json:
            click.echo(
                f"New vectors for {pluralise(planned['passages'], 'passage')}:"
                f" about {planned['estimated_s']:,.0f} s."
            )
        if dry_run:
            return
    answer = send_long(context, calls.rebuild(encoder), "rebuilding")
    if print_if_json(answer, as_json):
        return
    detail = "All passages have new vectors." if encoder else "The stored questions were used."
    click.echo(f"Rebuilt. Serving version {answer['version']}. {detail}")


def _print_estimate(
    config: Config, encoder_price: float | None, llm_price: float | None, as_json: bool
) -> None:
    """Estimate in this process, so that the daemon is not slowed down. Prices are for a million
    tokens."""
    from hopsyncd.ingest.rebuild_estimate import estimate_rebuild

    with _open_database(config, "There is nothing to estimate") as connection:
        costs = estimate_rebuild(connection, config)
    cost = None
    if encoder_price is not None or llm_price is not None:
        spent = costs.encoder_tokens * (encoder_price or 0) + costs.llm_tokens * (llm_price or 0)
        cost = round(spent / 1e6, 4)
    if print_if_json({**asdict(costs), "cost": cost}, as_json):
        return
    if not costs.lacking and not costs.llm_calls:
        click.echo(
            f"All {pluralise(costs.passages, 'passage')} are ready for the configured models."
        )
        return
    click.echo(
        f"{costs.lacking:,} of {pluralise(costs.passages, 'passage')} need vectors of"
        f" {make_printable(costs.encoder)}: about {costs.texts:,} texts to embed."
    )
    if costs.seconds is not None:
        click.echo(f"time: about {format_duration(costs.seconds)} if the machine has no other work")
    elif address := config.models.encoder_address:
        click.echo(f"encoder: about {costs.encoder_tokens:,} tokens to {address.base_url}")
    if costs.llm_calls:
        click.echo(
            f"LLM: about {costs.llm_calls:,} calls, {costs.llm_tokens:,} tokens to"
            f" {config.llm.base_url}"
        )
    if cost is not None:
        click.echo(f"cost: about {cost:,.2f} at these prices")
    click.echo(
        "`hopsyncd reload` starts the switch. Until it is complete, the former models answer."
    )


@click.command()
@click.option("--to", "to", required=True, metavar="PLACE", help="A new file, or a PostgreSQL URL.")
@click.pass_context
def copy(context: click.Context, to: str) -> None:
    """Copy the database to a new SQLite file or to PostgreSQL.

    Stop the daemon first. To use the copy in PostgreSQL, set `url` in [store] to the URL. To use a
    new file, move the copy to hopsyncd.db in a new daemon.data_dir. If the copy is interrupted, run
    the command again.

    Example: hopsyncd copy --to postgresql://hopsyncd@db.example.org/notes
    """
    from store.copying import copy_database
    from store.open_database import format_place, hold_writer_lock, open_reader, open_writer
    from store.operational import list_watches

    try:
        place = check_database_url(to) if "://" in to else Path(to).absolute()
    except ValueError as error:
        hint = (
            "Use a PostgreSQL URL without a password; give the password in PGPASSWORD or a passfile"
        )
        raise BadRequest("Cannot copy the database to this URL", str(error), hint) from None
    source = load_config(context.obj).database
    with (
        hold_writer_lock(source),
        closing(open_reader(source)) as connection,
        hold_writer_lock(place),
        closing(open_writer(place)) as target,
    ):
        counts = copy_database(connection, target)
        actions = sum("mcp" not in (watch.act or "mcp") for watch in list_watches(target))
    click.echo(f"Copied {pluralise(sum(counts.values()), 'row')} to {format_place(place)}.")
    if actions:
        click.echo(
            f"The programs and webhooks of {pluralise(actions, 'watched question')} were not"
            " copied:"
            " they stay in watch_actions.json in the data folder."
        )


@click.command()
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.pass_context
def recover(context: click.Context, yes: bool) -> None:
    """Accept a database that has lost committed changes.

    The daemon refuses to start if its database log was lost or damaged, or if the database was
    replaced by an older copy. Stop the daemon before you run this command.

    Lost versions, tags, purges and pauses stay lost. The next scans index the documents as they are
    now, including documents whose purge was lost.

    Example: hopsyncd recover
    """
    # These import numpy, which most commands do without.
    from store.check import check
    from store.open_database import find_loss, hold_writer_lock, open_writer
    from store.versions import read_head

    database = load_config(context.obj).daemon.data_dir / DATABASE_NAME
    with hold_writer_lock(database):
        why = find_loss(database)
        if why is None:
            click.echo(f"{database} has not lost anything. Nothing was changed.")
            return
        click.echo(f"{database}: {why}.")
        if not yes:
            confirm("Continue without the lost changes?", "The database was not recovered")
        with closing(open_writer(database, accept_loss=True)) as connection:
            newest = read_head(connection)
            report = check(connection, deep=True)
    click.echo(
        f"The newest version is {newest.id if newest else 0}; `hopsyncd serve` continues from it."
    )
    for finding in report:
        click.echo(
            f"{finding.invariant}: {make_printable(finding.where)}:"
            f" {make_printable(finding.detail)}"
        )
    if report:
        click.echo(f"The check found {pluralise(len(report), 'error')}. Restore a backup instead.")
        context.exit(1)


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, without deleting it.")
@json_option
@click.pass_context
def gc(context: click.Context, dry_run: bool, as_json: bool) -> None:
    """Delete old versions that [retention] does not keep.

    The newest version and tagged versions are always kept. If gc is interrupted, run it again.

    Example: hopsyncd gc --dry-run
    """
    answer: Mapping[str, Any] = send_long(context, calls.gc(dry_run), "collecting")
    if print_if_json(answer, as_json):
        return
    verb = "would be deleted" if dry_run else "deleted"
    parts = ("documents", "passages", "question_sets", "matches")
    if not answer["versions"] and not any(answer[name] for name in parts):
        click.echo("Nothing to delete: [retention] or a tag keeps every version.")
        return
    counts = ", ".join(f"{answer[name]:,} {name.replace('_', ' ')}" for name in parts)
    freed = answer["bytes"] if dry_run else answer["freed_bytes"]
    click.echo(
        f"{pluralise(len(answer['versions']), 'version')} {verb}:"
        f" {_format_numbers(answer['versions'])}"
    )
    click.echo(f"Including {counts}; {'about ' if dry_run else ''}{freed / 1e6:.1f} MB freed.")


def _format_numbers(versions: list[int]) -> str:
    if not versions:
        return "none"
    first, last = versions[0], versions[-1]
    if len(versions) <= last - first:  # tagged versions between them are kept
        return f"between {first} and {last}"
    return str(first) if first == last else f"{first} to {last}"


@click.command()
@click.argument("document")
@click.option("--source", help="The source, if the path is in several sources.")
@click.option("--again", is_flag=True, help="Let scans index a purged document again.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
@click.pass_context
def purge(
    context: click.Context, document: str, source: str | None, again: bool, yes: bool, as_json: bool
) -> None:
    """Erase a document from all versions for good.

    DOCUMENT is not indexed again. The file itself is not changed. This cannot be undone.

    Example: hopsyncd purge letters/private.md --source notes
    """
    if not again and not yes:
        confirm(f"Erase {document} from all versions for good?", f"{document} was not purged")
    answer = send_long(context, calls.purge(document, source, again), "purging")
    if as_json:
        print_json(answer)
    elif again:
        click.echo(
            "The next scan indexes the document."
            if answer["included"]
            else "The document was not purged."
        )
    else:
        _print_purge(answer)
        folder = load_config(context.obj).backup.dir
        if folder and folder.exists():
            click.echo(f"Backups in {folder} may still contain the document.")


def _print_purge(answer: Mapping[str, Any]) -> None:
    click.echo(
        f"Purged {make_printable(answer['document'])} of {answer['source']}:"
        f" {pluralise(answer['revisions'], 'revision')},"
        f" {pluralise(answer['passages'], 'passage')},"
        f" in {pluralise(len(answer['versions']), 'version')}."
    )
    for source, document in answer["held_by"]:
        click.echo(
            f"{source}: {make_printable(document)} contains some of the same text and keeps it."
        )
    if not answer["erased"]:
        click.echo("A query was still reading the old data. Purge again to erase the rest.")
