"""`hopsyncd init`, `serve`, `reload`, `schedule`, `doctor` and `mcp`."""

import gc
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from hopsyncd.cli.output import client_of, json_option, local_time, print_json, printed_json, warn
from hopsyncd.client import Client
from hopsyncd.client.starting import StartLock
from hopsyncd.config.configuration import config_path, load_config, write_config
from hopsyncd.config.values import host_and_port
from hopsyncd.errors import DaemonUnavailable
from hopsyncd.printable import printable


@click.command()
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder to watch. Repeatable.",
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
            "It watches nothing yet: add a source with `hopsyncd add PATH`, or write a [[source]]"
            " as at the end of the file."
        )
    click.echo("Then start the daemon: hopsyncd serve")


@click.command()
@click.pass_context
def serve(context: click.Context) -> None:
    """Run the daemon in the foreground. SIGTERM or Ctrl-C stops it; SIGHUP reloads its config.

    Example: hopsyncd serve
    """
    config = load_config(context.obj)
    start = StartLock(config.daemon.socket, may_create_folder=not config.access.group)
    imported_run()(config, config_file=context.obj, on_listening=start.release)


def imported_run() -> Callable[..., None]:
    """`hopsyncd.daemon.run`: slow to import, and the other commands do without it."""
    # What it leaves stays for good: looking through it for garbage would cost the start, and every
    # later collection.
    gc.disable()
    # Of rich, structlog would take a printer of tracebacks that our logs have no use for.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]
    from hopsyncd.daemon import run

    gc.freeze()
    gc.enable()
    return run


@click.command()
@json_option
@click.pass_context
def reload(context: click.Context, as_json: bool) -> None:
    """Make the daemon apply a changed configuration.

    It names the keys that need a restart. A configuration with mistakes is refused as a whole, and
    the old one stays in force.

    Example: hopsyncd reload
    """
    load_config(context.obj)  # reports mistakes here, with their lines
    done = client_of(context).reload()
    if printed_json(done, as_json):
        return
    sources = done["sources"]
    lines = [f"source added: {name}" for name in sources["added"]]
    lines += [f"source changed: {name}" for name in sources["changed"]]
    lines += [f"source removed: {name}" for name in sources["removed"]]
    lines += [f"changed: {key}" for key in done["changed"]]
    click.echo("\n".join(lines or ["Nothing has changed."]))
    if done["pending"]:
        warn(["it takes effect after the current batch"])
    if waiting := done["restart_needed"]:
        warn([f"these take effect at the next start: {', '.join(waiting)}"])


def reload_if_running(config_file: Path | None) -> str:
    """Make a running daemon apply the edited file; returns a sentence on the result."""
    try:
        done = Client(load_config(config_file).daemon.socket).reload()
    except DaemonUnavailable:
        return "It takes effect when the daemon starts."
    if done["pending"]:
        return "The daemon applies it after the current batch."
    return "The daemon has applied it."


@click.command()
@json_option
@click.pass_context
def schedule(context: click.Context, as_json: bool) -> None:
    """List the scheduled jobs: when each runs next, and how it last ran.

    Example: hopsyncd schedule
    """
    now = client_of(context).schedule()
    if printed_json(now, as_json):
        return
    for job in now["jobs"]:
        click.echo(f"{job['job']}: {job['times']}")
        ran, succeeded = local_time(job["last_run"]), local_time(job["last_success"])
        click.echo(f"  next {local_time(job['next'])}; last {ran}")
        if job["last_error"]:
            click.echo(f"  it failed: {printable(job['last_error'])}; last success {succeeded}")


def _loopback(_: click.Context, __: click.Parameter, address: str | None) -> str | None:
    try:
        if address is not None:
            host_and_port(address)
    except ValueError as error:
        raise click.BadParameter(f"{error}, such as 127.0.0.1:7719") from error
    return address


@click.command()
@click.option(
    "--allow-write",
    is_flag=True,
    help="Also offer the tools `sync`, `tag` and, with mcp.inbox configured, `note`. Without it an"
    " agent can change nothing.",
)
@click.option(
    "--http",
    "address",
    metavar="ADDRESS",
    callback=_loopback,
    help="Serve over HTTP on a loopback address such as 127.0.0.1:7719, to whoever sends the token"
    " in the file mcp_token of the data folder.",
)
@click.pass_context
def mcp(context: click.Context, allow_write: bool, address: str | None) -> None:
    """Serve MCP to an agent, on standard input and output or over HTTP.

    The agent's client starts this command, which needs a running daemon and never starts one.

    Example: claude mcp add hopsyncd -- hopsyncd mcp
    """
    from hopsyncd.api.mcp.document_server import make_server

    config = load_config(context.obj) if allow_write or address else None
    inbox = config.mcp.inbox if config else None
    if config and address:
        from hopsyncd.api.mcp.document_server import PATH, guarded
        from hopsyncd.api.server import bound_address, loopback_server

        app = guarded(make_server(client_of(context), allow_write, inbox), config)
        server = loopback_server(app, config.limits)
        with bound_address(*host_and_port(address), "Give --http another port") as listener:
            listener.listen()  # an agent may come before we serve
            click.echo(f"http://{address}{PATH}\nCtrl-C stops it.")
            server.run(sockets=[listener])
        return
    if sys.stdin.isatty():
        click.echo("Waiting for an MCP client on standard input; see docs/agents.md.", err=True)
    with client_of(context) as client:
        make_server(client, allow_write, inbox).run()


_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Check whether hopsyncd can work here, and say what to do if not.

    Works with or without a daemon, changes nothing, and sends no text anywhere. Exit status 1 if a
    check fails.

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
