"""`hopsyncd init`, `serve`, `reload`, `schedule`, `doctor` and `mcp`."""

import gc
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from hopsyncd.cli.output import client_of, json_option, local_time, print_json, warn
from hopsyncd.client import Client
from hopsyncd.client.response import printable
from hopsyncd.config.configuration import config_path, load_config, write_config
from hopsyncd.errors import DaemonUnavailable


def import_torch_meanwhile() -> None:
    """Import torch on a thread of its own: it takes a second, part of it outside Python's lock.

    Meanwhile nothing is garbage-collected, and what is there by then never again: imports make
    objects by the hundred thousand that all stay, and going through them takes a quarter of the
    time.
    """
    threading.Thread(target=_import_torch, name="import torch").start()


def _import_torch() -> None:
    gc.disable()
    # Whoever needs it first meets the same error again, and can say what for.
    with suppress(ImportError, OSError):
        import torch  # noqa: F401
    gc.freeze()
    gc.enable()


@click.command()
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder to watch. Can be given several times.",
)
@click.pass_context
def init(context: click.Context, folders: tuple[Path, ...]) -> None:
    """Write a commented config.toml, ready to edit.

    Example: hopsyncd init --folder ~/notes --folder ~/papers
    """
    path = config_path(context.obj)
    write_config(path, folders)
    click.echo(f"Wrote {path}")
    if folders:
        click.echo(f"It watches {', '.join(str(folder.absolute()) for folder in folders)}.")
    else:
        click.echo(
            "It watches nothing yet: `hopsyncd add PATH` adds a [[source]], or write one as its end"
            " shows."
        )
    click.echo("Then start the daemon: hopsyncd serve")


@click.command()
@click.pass_context
def serve(context: click.Context) -> None:
    """Run the daemon in the foreground. SIGTERM or Ctrl-C stops it, SIGHUP reloads its config.

    Example: hopsyncd serve
    """
    config = load_config(context.obj)
    import_torch_meanwhile()
    # Takes long to import too; the other commands do without it.
    from hopsyncd.daemon import run

    run(config, config_file=context.obj)


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


@click.command()
@click.option(
    "--allow-write",
    is_flag=True,
    help="Offer the tools `sync` and `tag` too. Without it nothing can be changed.",
)
@click.pass_context
def mcp(context: click.Context, allow_write: bool) -> None:
    """Speak MCP with an agent, on standard input and output.

    An agent's client starts this command. It speaks to the running daemon and never starts one.

    Example: claude mcp add hopsyncd -- hopsyncd mcp
    """
    from hopsyncd.api.mcp.document_server import make_server

    if sys.stdin.isatty():
        click.echo("Waiting for an MCP client on standard input. docs/mcp.md has more.", err=True)
    with client_of(context) as client:
        make_server(client, allow_write).run()


_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Check whether hopsyncd can work here, and what to do if not.

    Works with or without a daemon, changes nothing, and sends no text anywhere. Exit status 1 if
    something fails.

    Example: hopsyncd doctor
    """
    from hopsyncd.doctor.examine import examine

    found = []
    for one in examine(context.obj):
        found.append(one)
        if not as_json:
            click.secho(f"{one.level:4} ", fg=_COLOURS[one.level], nl=False)
            click.echo(f"{printable(one.check)}: {printable(one.detail)}")
            if one.remedy:
                click.echo(f"     {printable(one.remedy)}")
    failed = any(one.level == "fail" for one in found)
    if as_json:
        print_json({"healthy": not failed, "findings": [asdict(one) for one in found]})
    if failed:
        context.exit(1)
