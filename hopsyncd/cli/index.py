"""`hopsyncd sync`, with a progress bar while it lasts."""

import sys
import threading
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from hopsyncd.cli.shared import client_of, json_option, print_json, printable, warn
from hopsyncd.client import Client
from hopsyncd.config import load_config
from hopsyncd.errors import BadRequest, DaemonUnavailable

_POLL_S = 0.3
_SHOWN = 10  # documents of each kind in a dry run


@click.command()
@click.argument("names", nargs=-1, metavar="[SOURCE]...")
@click.option("--wait", is_flag=True, help="Return when all on disk now is in the served version.")
@click.option(
    "--accept-empty",
    is_flag=True,
    help="Let a source that lists nothing any more lose its documents.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say what would change, and what asking the LLM would take. Needs no daemon.",
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
    """Scan sources now (all, or those named) and bring the graph up to date."""
    if dry_run:
        _dry_run(context, names, as_json)
        return
    body = {"sources": list(names), "wait": wait, "accept_empty": accept_empty}
    with client_of(context) as client, client_of(context) as watcher:
        result = (
            _post_with_progress(client, watcher, body) if wait else client.post("/v1/sync", body)
        )
    if as_json:
        print_json(result)
    elif wait:
        _print_outcomes(result)
    else:
        click.echo("The daemon scans. `hopsyncd sync --wait` waits until it is done.")


def _dry_run(context: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    limit = None if as_json else _SHOWN
    try:
        with client_of(context) as client:
            found = client.post("/v1/preview", {"sources": list(names), "limit": limit})
    except DaemonUnavailable:
        found = _preview_alone(context, names, limit)
    if as_json:
        print_json(found)
        return
    for source in found["sources"]:
        _print_preview(source)
    if waiting := sum(found["waiting"].values()):
        click.echo(f"{waiting:,} passages wait for questions from the LLM already.")
    click.echo("Nothing was changed, and nothing was asked.")


def _preview_alone(
    context: click.Context, names: tuple[str, ...], limit: int | None
) -> dict[str, Any]:
    from hopsyncd.preview import preview_file

    config = load_config(context.obj)
    known = [source.name for source in config.sources]
    if unknown := set(names) - set(known):
        raise BadRequest(
            "There is nothing to look at",
            f"there is no source named {sorted(unknown)[0]!r}",
            f"The sources are: {', '.join(known) or 'none'}",
        )
    return preview_file(config, names or known, limit)


def _print_preview(source: dict[str, Any]) -> None:
    if source["problem"]:
        click.echo(f"{source['name']}: paused: {source['problem']}. {source['hint']}")
        return
    counts = source["counts"]
    parts = [f"{count:,} {kind}" for kind, count in counts.items() if count]
    click.echo(f"{source['name']}: {', '.join(parts) or 'nothing changed'}")
    for kind, count in counts.items():
        for line in source[kind]:
            click.echo(f"  {kind}: {printable(line)}")
        if count > len(source[kind]):
            click.echo(f"  {kind}: and {count - len(source[kind]):,} more")
    if source["passages"]:
        cost = f"about {source['llm_calls']:,} LLM calls and {source['llm_tokens']:,} tokens"
        click.echo(
            f"  questions for {source['passages']:,} passages:"
            f" {cost if source['llm_calls'] else 'no LLM is asked'}"
        )


def _post_with_progress(client: Client, watcher: Client, body: dict[str, Any]) -> dict[str, Any]:
    if not sys.stderr.isatty():
        return client.post("/v1/sync", body)
    result: dict[str, Any] = {}
    failure: list[BaseException] = []

    def post() -> None:
        try:
            result.update(client.post("/v1/sync", body))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            failure.append(error)

    thread = threading.Thread(target=post, daemon=True)
    thread.start()
    _show_progress(watcher, thread)
    if failure:
        raise failure[0]
    return result


def _show_progress(watcher: Client, thread: threading.Thread) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=False),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("scanning", total=None, rate="")
        while thread.is_alive():
            now = watcher.get("/v1/status")["progress"]
            if now and now["documents_total"]:
                _move(bars, bar, now)
            thread.join(_POLL_S)


def _move(bars: Progress, bar: TaskID, now: dict[str, Any]) -> None:
    speed = bars.tasks[0].speed
    total = now["documents_total"]
    bars.update(
        bar,
        description=f"{now['source']}: {total} documents",
        total=total,
        completed=now["share"] * total,
        rate=f"{speed:.1f} documents/s" if speed else "",
    )


def _print_outcomes(result: dict[str, Any]) -> None:
    for source in result["sources"]:
        if source["problem"]:
            click.echo(f"{source['name']}: paused, its data is kept: {source['problem']}")
        else:
            click.echo(
                f"{source['name']}: {source['changed']} changed, {source['removed']} removed"
            )
    click.echo(f"Serving version {result['version']}.")
    warn(result["degraded"])
