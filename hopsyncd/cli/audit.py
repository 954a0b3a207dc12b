"""`hopsyncd audit`: shows the recorded requests."""

import json
from collections.abc import Mapping
from typing import Any

import click

from hopsyncd.cli.output import json_option, make_client, print_if_json, warn
from hopsyncd.display import format_relative_time, pluralise
from hopsyncd.printable import make_printable


@click.command()
@click.option(
    "--since", metavar="TIME", help="Only requests since this time, such as `2 days ago`."
)
@click.option("--user", metavar="NAME", help="Only requests by this user.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="How many requests to show.",
)
@json_option
@click.pass_context
def audit(
    context: click.Context, since: str | None, user: str | None, limit: int, as_json: bool
) -> None:
    """Show the recorded requests, newest last. Only the owner can see them.

    Unless `enabled` is set in [audit], only changes and refused changes are recorded.

    Example: hopsyncd audit --since yesterday --user ann
    """
    answer = make_client(context).audit(since=since, user=user, limit=limit)
    if print_if_json(answer, as_json):
        return
    for entry in reversed(answer["entries"]):
        click.echo(_format_line(entry))
    if not answer["entries"]:
        click.echo("Nothing is recorded.")
    if not answer["enabled"]:
        click.echo("Searches are not recorded: set `enabled = true` in [audit] to record them.")
    if answer["problem"]:
        warn([f"{pluralise(answer['lost'], 'request')} could not be recorded: {answer['problem']}"])
    if answer["torn"]:
        warn([f"{pluralise(answer['torn'], 'line')} of the audit log cannot be read"])


def _format_line(entry: Mapping[str, Any]) -> str:
    """Format a recorded request as a line."""
    origin = entry["address"] or entry["program"] or entry["transport"]
    parameters = "".join(
        f" {key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in entry["asked"].items()
    )
    results = "" if entry["results"] is None else f", {pluralise(entry['results'], 'result')}"
    sources = f" from {', '.join(entry['sources'])}" if entry["sources"] else ""
    return make_printable(
        f"{format_relative_time(entry['time'])}  {entry['user']} ({entry['role']}, {origin}):"
        f" {entry['action']}{parameters}: {entry['status']}{results}{sources}"
    )
