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

from hopsyncd.cli.shared import client_of, json_option, print_json, warn
from hopsyncd.client import Client

_POLL_S = 0.3


@click.command()
@click.argument("names", nargs=-1, metavar="[SOURCE]...")
@click.option("--wait", is_flag=True, help="Return when all on disk now is in the served version.")
@click.option(
    "--accept-empty",
    is_flag=True,
    help="Let a source that lists nothing any more lose its documents.",
)
@json_option
@click.pass_context
def sync(
    context: click.Context, names: tuple[str, ...], wait: bool, accept_empty: bool, as_json: bool
) -> None:
    """Scan sources now (all, or those named) and bring the graph up to date."""
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
