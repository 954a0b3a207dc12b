"""`hopsyncd init`, `serve`, `reload`, `schedule`, `doctor` and `mcp`."""

import gc
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from hopsyncd.cli.output import json_option, make_client, print_if_json, print_json, warn
from hopsyncd.cli.server import find_server
from hopsyncd.client import Client
from hopsyncd.client.starting import StartLock
from hopsyncd.config.configuration import find_config_path, load_config, write_config
from hopsyncd.config.values import split_loopback_address
from hopsyncd.display import format_relative_time
from hopsyncd.errors import DaemonUnavailable
from hopsyncd.printable import make_printable


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
    from hopsyncd.doctor.local_llms import find_local_llms

    path = find_config_path(context.obj)
    write_config(path, folders)
    click.echo(f"Wrote {path}")
    if folders:
        click.echo(
            f"The daemon will watch {', '.join(str(folder.absolute()) for folder in folders)}."
        )
    else:
        click.echo(
            "The file has no source yet. Add one with `hopsyncd add PATH`, or write a [[source]]"
            " section like the example at the end of the file."
        )
    for server in find_local_llms():
        click.echo(
            f"{server.program} runs on this machine. hopsyncd needs no LLM; to let this LLM write"
            " the answers of `ask`, set these two keys in [llm]:"
        )
        for line in server.settings:
            click.echo(f"  {line}")
    click.echo("Now start the daemon: hopsyncd serve")


@click.command()
@click.pass_context
def serve(context: click.Context) -> None:
    """Run the daemon in the foreground.

    SIGTERM or Ctrl-C stops the daemon. SIGHUP reloads the configuration.

    Example: hopsyncd serve
    """
    config = load_config(context.obj)
    start = StartLock(config.daemon.socket, may_create_folder=not config.access.group)
    import_run()(config, config_file=context.obj, on_listening=start.release)


def import_run() -> Callable[..., None]:
    """Import `hopsyncd.daemon.run` only when needed, because the import is slow."""
    # Imported objects live as long as the process. Freezing them saves time in each collection.
    gc.disable()
    # structlog would import rich for tracebacks, which our logs do not use.
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

    The output lists changed settings that need a restart. If the configuration has a mistake,
    nothing is applied.

    Example: hopsyncd reload
    """
    load_config(context.obj)  # reports mistakes with their line numbers
    answer = make_client(context).reload()
    if print_if_json(answer, as_json):
        return
    sources = answer["sources"]
    lines = [f"source added: {name}" for name in sources["added"]]
    lines += [f"source changed: {name}" for name in sources["changed"]]
    lines += [f"source removed: {name}" for name in sources["removed"]]
    lines += [f"changed: {key}" for key in answer["changed"]]
    if lines or not answer["restart_needed"]:
        click.echo("\n".join(lines or ["Nothing has changed."]))
    if answer["pending"]:
        warn(["the changes take effect after the current batch"])
    if waiting := answer["restart_needed"]:
        warn([f"takes effect after a restart of the daemon: {', '.join(waiting)}"])


def reload_if_running(config_file: Path | None) -> str:
    """Make a running daemon apply the changed file, and return a sentence about the result."""
    try:
        answer = Client(load_config(config_file).daemon.socket).reload()
    except DaemonUnavailable:
        return "The change takes effect when the daemon starts."
    if answer["pending"]:
        return "The daemon will apply the change after the current batch."
    return "The daemon has applied the change."


@click.command()
@json_option
@click.pass_context
def schedule(context: click.Context, as_json: bool) -> None:
    """List the scheduled jobs with their next and last run.

    Example: hopsyncd schedule
    """
    now = make_client(context).schedule()
    if print_if_json(now, as_json):
        return
    for job in now["jobs"]:
        click.echo(f"{job['job']}: {job['times']}")
        ran, succeeded = (
            format_relative_time(job["last_run"]),
            format_relative_time(job["last_success"]),
        )
        click.echo(f"  next run {format_relative_time(job['next'])}; last run {ran}")
        if job["last_error"]:
            click.echo(f"  failed: {make_printable(job['last_error'])}; last success {succeeded}")


def _check_loopback(_: click.Context, __: click.Parameter, address: str | None) -> str | None:
    try:
        if address is not None:
            split_loopback_address(address)
    except ValueError as error:
        raise click.BadParameter(f"{error}. Give an address such as 127.0.0.1:7719.") from error
    return address


@click.command()
@click.option(
    "--allow-write",
    is_flag=True,
    help="Also offer the tools `sync`, `tag` and, if mcp.inbox is configured, `note`. Without this"
    " option agents can only read.",
)
@click.option(
    "--http",
    "address",
    metavar="ADDRESS",
    callback=_check_loopback,
    help="Serve over HTTP on this loopback address, such as 127.0.0.1:7719. Clients must send the"
    " bearer token in the file mcp_token of the data folder.",
)
@click.option(
    "--structured",
    "is_structured",
    is_flag=True,
    help="Send results as structured content too, for programs that read it.",
)
@click.pass_context
def mcp(
    context: click.Context, allow_write: bool, address: str | None, is_structured: bool
) -> None:
    """Serve your documents to an agent through MCP.

    The agent's client runs this command, and uses its standard input and output. The command
    needs a running daemon, on this machine or on a --server.

    Example: claude mcp add hopsyncd -- hopsyncd mcp
    """
    from hopsyncd.api.mcp.document_server import make_server

    config = load_config(context.obj) if allow_write or address else None
    inbox = config.mcp.inbox if config and not find_server(context) else None
    if config and address:
        from hopsyncd.api.mcp.document_server import PATH, guard_app
        from hopsyncd.api.server import bind_address, make_loopback_server

        mcp_server = make_server(
            make_client(context), allow_write, inbox, is_structured=is_structured
        )
        app = guard_app(mcp_server, config)
        server = make_loopback_server(app, config.limits)
        with bind_address(*split_loopback_address(address), "Give --http another port") as listener:
            listener.listen()  # an agent may connect before we serve
            click.echo(f"http://{address}{PATH}\nCtrl-C stops it.")
            server.run(sockets=[listener])
        return
    if sys.stdin.isatty():
        click.echo("Waiting for an MCP client on standard input; see docs/agents.md.", err=True)
    with make_client(context) as client:
        make_server(client, allow_write, inbox, is_structured=is_structured).run()


_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Find problems with this installation, and say how to fix them.

    The command needs no daemon, changes nothing and sends none of your text to other machines. It
    also checks the server in [client] and your token. If a check fails, the exit status is 1.

    Example: hopsyncd doctor
    """
    from hopsyncd.doctor.examine import examine

    findings = []
    server = find_server(context)
    for finding in examine(context.obj, server.connect if server else None):
        findings.append(finding)
        if not as_json:
            click.secho(f"{finding.level:4} ", fg=_COLOURS[finding.level], nl=False)
            first, *more_lines = f"{finding.check}: {finding.detail}".split("\n")
            click.echo(make_printable(first))
            for line in [*more_lines, *(finding.remedy or "").split("\n")]:
                if line.strip():
                    click.echo(f"     {make_printable(line.strip())}")
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        print_json({"healthy": not failed, "findings": [asdict(finding) for finding in findings]})
    if failed:
        context.exit(1)
