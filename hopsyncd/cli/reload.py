"""`hopsyncd reload`."""

from pathlib import Path

import click

from hopsyncd.cli.shared import client_of, json_option, print_json, warn
from hopsyncd.client import Client
from hopsyncd.config import load_config
from hopsyncd.errors import DaemonUnavailable


@click.command()
@json_option
@click.pass_context
def reload(context: click.Context, as_json: bool) -> None:
    """Have the daemon take up a changed configuration.

    What cannot be taken up without a restart is named. A configuration with mistakes is refused
    as a whole, and the old one is kept.

    Example: hopsyncd reload
    """
    load_config(context.obj)  # its mistakes are told here, with their lines
    with client_of(context) as client:
        done = client.reload()
    if as_json:
        print_json(done)
        return
    sources = done["sources"]
    lines = [f"source added: {name}" for name in sources["added"]]
    lines += [f"source changed: {name}" for name in sources["changed"]]
    lines += [f"source removed: {name}" for name in sources["removed"]]
    lines += [f"changed: {key}" for key in done["changed"]]
    click.echo("\n".join(lines or ["Nothing has changed."]))
    if done["pending"]:
        warn(["it takes effect when the batch in hand has ended"])
    if waiting := done["restart_needed"]:
        warn([f"these wait for the next start: {', '.join(waiting)}"])


def reload_if_running(config_file: Path | None) -> str:
    """Tell a daemon that the file was edited; how that went, for people."""
    try:
        done = Client(load_config(config_file).daemon.socket).reload()
    except DaemonUnavailable:
        return "It takes effect when the daemon starts."
    if done["pending"]:
        return "The daemon takes it up when the batch in hand has ended."
    return "The daemon has taken it up."
