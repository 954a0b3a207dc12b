"""`hopsyncd sync`."""

from collections.abc import Mapping
from typing import Any

import click

from hopsyncd.cli.completion import complete_source
from hopsyncd.cli.output import json_option, make_client, print_if_json, print_json, send_long, warn
from hopsyncd.client import calls
from hopsyncd.config.configuration import load_config
from hopsyncd.display import pluralise
from hopsyncd.errors import BadRequest, DaemonUnavailable
from hopsyncd.printable import make_printable

_SHOWN = 10  # documents shown per kind of change in a dry run


@click.command()
@click.argument("names", nargs=-1, metavar="[SOURCE]...", shell_complete=complete_source)
@click.option("--wait", is_flag=True, help="Wait until every current file is searchable.")
@click.option(
    "--accept-empty",
    is_flag=True,
    help=(
        "Remove all documents of a source that is now empty. Without this option, the source "
        "is paused."
    ),
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the changes and LLM calls that a sync would make. Needs no daemon.",
)
@json_option
@click.pass_context
def sync(
    context: click.Context,
    names: tuple[str, ...],
    wait: bool,
    accept_empty: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Scan all sources, or only the named sources, and update the index.

    Example: hopsyncd sync --wait notes
    """
    if dry_run:
        _preview(context, names, as_json)
        return
    result: Mapping[str, Any]
    if wait:
        result = send_long(context, calls.sync(names, accept_empty))
    else:
        result = make_client(context).start_sync(names, accept_empty)
    if as_json:
        print_json(result)
    elif wait:
        print_sync_report(result)
    else:
        click.echo("The daemon is scanning. `hopsyncd sync --wait` waits until the scan is done.")


def _preview(context: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    limit = None if as_json else _SHOWN
    answer: Mapping[str, Any]
    try:
        answer = make_client(context).preview(names, limit)
    except DaemonUnavailable:
        answer = _preview_alone(context, names, limit)
    if print_if_json(answer, as_json):
        return
    for source in answer["sources"]:
        _print_preview(source)
    if waiting := sum(answer["waiting"].values()):
        click.echo(f"Already waiting for questions from the LLM: {pluralise(waiting, 'passage')}.")
    click.echo("This was a dry run: nothing was changed, and no LLM was called.")


def _preview_alone(
    context: click.Context, names: tuple[str, ...], limit: int | None
) -> Mapping[str, Any]:
    from hopsyncd.ingest.preview import preview_file

    config = load_config(context.obj)
    all_names = [source.name for source in config.sources]
    if unknown := set(names) - set(all_names):
        raise BadRequest(
            f"Cannot preview {sorted(unknown)[0]}",
            f"no source is called {sorted(unknown)[0]!r}",
            f"The sources are: {', '.join(all_names) or 'none'}",
        )
    return preview_file(config, names or all_names, limit)


def _print_preview(source: Mapping[str, Any]) -> None:
    if source["problem"]:
        why = make_printable(source["problem"])
        click.echo(f"{source['name']}: paused: {why}. {source['hint']}")
        return
    counts = source["counts"]
    parts = [f"{count:,} {kind}" for kind, count in counts.items() if count]
    click.echo(f"{source['name']}: {', '.join(parts) or 'nothing changed'}")
    for kind, count in counts.items():
        for line in source[kind]:
            click.echo(f"  {kind}: {make_printable(line)}")
        if count > len(source[kind]):
            click.echo(f"  {kind}: and {count - len(source[kind]):,} more")
    if source["passages"]:
        cost = (
            f"about {pluralise(source['llm_calls'], 'LLM call')}, {source['llm_tokens']:,} tokens"
        )
        click.echo(
            f"  {pluralise(source['passages'], 'new passage')}:"
            f" {cost if source['llm_calls'] else 'no LLM call'}"
        )


def print_sync_report(result: Mapping[str, Any]) -> None:
    """Print the changes in each source since the caller's last sync, and unreadable documents."""
    for source in result["sources"]:
        click.echo(f"{source['name']}: {_format_changes(source)}")
        unreadable = source["unreadable"]
        if unreadable and not source["problem"]:
            click.echo(f"  {pluralise(len(unreadable), 'document')} cannot be read:")
        for problem in unreadable[:_SHOWN]:
            click.echo(
                f"    {make_printable(problem['document'])}: {make_printable(problem['why'])}"
            )
        if len(unreadable) > _SHOWN:
            click.echo(f"    and more; `hopsyncd sources {source['name']}` lists more")
    click.echo(f"Serving version {result['version']}.")
    warn(result["degraded"])


def _format_changes(source: Mapping[str, Any]) -> str:
    counts = {kind: source[kind] for kind in ("added", "changed", "moved", "removed")}
    parts = [f"{count:,} {kind}" for kind, count in counts.items() if count]
    if source["problem"]:
        parts.append(f"paused, documents are kept: {make_printable(source['problem'])}")
    since = source["since"]
    return ", ".join(parts) or (
        f"nothing changed since version {since}" if since else "no documents yet"
    )
