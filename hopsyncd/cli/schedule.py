"""`hopsyncd schedule`."""

from datetime import datetime

import click

from hopsyncd.cli.shared import client_of, json_option, print_json, printable


@click.command()
@json_option
@click.pass_context
def schedule(context: click.Context, as_json: bool) -> None:
    """Say what runs when, and when it last ran."""
    with client_of(context) as client:
        now = client.get("/v1/schedule")
    if as_json:
        print_json(now)
        return
    for job in now["jobs"]:
        click.echo(f"{job['job']}: {job['times']}")
        ran, succeeded = _local(job["last_run"]), _local(job["last_success"])
        click.echo(f"  next {_local(job['next'])}; last {ran}")
        if job["last_error"]:
            click.echo(f"  it failed: {printable(job['last_error'])}; last success {succeeded}")


def _local(time: str | None) -> str:
    """A time of the API, in this machine's time zone, to the second."""
    if time is None:
        return "never"
    return datetime.fromisoformat(time).astimezone().isoformat(" ", timespec="seconds")
