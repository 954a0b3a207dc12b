"""`hopsyncd schedule`."""

import click

from hopsyncd.cli.shared import client_of, json_option, local_time, print_json
from hopsyncd.wording import printable


@click.command()
@json_option
@click.pass_context
def schedule(context: click.Context, as_json: bool) -> None:
    """Say what runs when, and when it last ran.

    Example: hopsyncd schedule
    """
    with client_of(context) as client:
        now = client.schedule()
    if as_json:
        print_json(now)
        return
    for job in now["jobs"]:
        click.echo(f"{job['job']}: {job['times']}")
        ran, succeeded = local_time(job["last_run"]), local_time(job["last_success"])
        click.echo(f"  next {local_time(job['next'])}; last {ran}")
        if job["last_error"]:
            click.echo(f"  it failed: {printable(job['last_error'])}; last success {succeeded}")
