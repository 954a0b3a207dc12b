"""`hopsyncd`: all commands, in the groups that `--help` shows."""

import gc
import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

# One thread for numpy: a pool would spin on cores that the encoder and other programs need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import click

from hopsyncd import __version__
from hopsyncd.cli.failures import run_command
from hopsyncd.cli.server import hoist_options, refuse_elsewhere, refused_tokens_explained

# Names of commands in other tools. click suggests only similar spellings.
_SYNONYMS = {"search": "query", "find": "query", "index": "sync", "update": "sync", "ls": "sources",
          "list": "sources", "start": "serve", "history": "log", "rm": "remove"}  # fmt: skip


GROUPS: Mapping[str, Mapping[str, str]] = {
    "Ask": {
        "ask": "query:ask",
        "query": "query:query",
        "show": "show:show",
        "open": "show:open_",
        "web": "web:web",
        "graph": "graph:graph",
        "watch": "watches:watch",
        "watches": "watches:watches",
        "unwatch": "watches:unwatch",
    },
    "Sources": {
        "add": "add:add",
        "sources": "add:sources",
        "sync": "sync:sync",
        "pause": "add:pause",
        "resume": "add:resume",
        "remove": "add:remove",
    },
    "History": {
        "log": "log:log",
        "diff": "log:diff",
        "why": "why:why",
        "tag": "log:tag",
        "restore": "log:restore",
        "release": "log:release",
    },
    "Run": {
        "try": "trial:try_",
        "init": "serve:init",
        "serve": "serve:serve",
        "status": "top:status",
        "top": "top:top",
        "reload": "serve:reload",
        "schedule": "serve:schedule",
        "service": "install:service",
        "mcp": "serve:mcp",
        "token": "access_token:token",
        "completion": "completion:completion",
        "eval": "evaluate:evaluate",
    },
    "Repair": {
        "doctor": "serve:doctor",
        "support-bundle": "support_bundle:support_bundle",
        "llm": "llm:llm",
        "check": "maintain:check",
        "audit": "audit:audit",
        "backup": "backup:backup",
        "copy": "maintain:copy",
        "rebuild": "maintain:rebuild",
        "gc": "maintain:gc",
        "purge": "maintain:purge",
        "recover": "maintain:recover",
    },
}
"""The commands as `--help` lists them, each with its module and function."""

_PLACES = {name: place for commands in GROUPS.values() for name, place in commands.items()}


class _Commands(click.Group):
    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import the command. Importing all commands would take longer than most commands run."""
        if name not in _PLACES:
            return None
        module, _, function = _PLACES[name].partition(":")
        command: click.Command = getattr(import_module(f"hopsyncd.cli.{module}"), function)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if name in _SYNONYMS and name not in self.commands:
            context.fail(f"No such command {name!r}. Did you mean {_SYNONYMS[name]!r}?")
        if not (context.resilient_parsing or {"-h", "--help"} & {*arguments}):
            refuse_elsewhere(context, name)
        return super().resolve_command(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        with refused_tokens_explained(context):
            return super().invoke(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            width = max(map(len, names))
            commands = [(name, self.get_command(context, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:<{width}}", command.get_short_help_str(limit=1000))
                        for name, command in commands
                        if command and not command.hidden
                    ]
                )


@click.group(
    cls=_Commands,
    commands={name: click.Command(name) for name in _PLACES},  # the names, for suggestions
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with `hopsyncd init --folder ~/notes`, then `hopsyncd serve`.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The configuration file. Default: $HOPSYNCD_HOME/config.toml, else "
    "~/.config/hopsyncd/config.toml.",
)
@click.option(
    "--server",
    envvar="HOPSYNCD_SERVER",
    metavar="URL",
    help="Use this server instead of this machine's daemon: https://HOST:PORT.",
)
@click.option(
    "--token-file",
    envvar="HOPSYNCD_TOKEN_FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with your token for the server, readable only by you.",
)
@click.option(
    "--ca",
    envvar="HOPSYNCD_CA",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The certificate of the server's CA, if the CA is not public.",
)
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context, /, config_file: Path | None, **_: object) -> None:
    """Search your documents, connect facts across files, and stay current as you edit."""
    context.obj = config_file


def main() -> None:
    """Run the command that the command line names, and exit with its status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal cannot show must not end the command.
            stream.reconfigure(errors="backslashreplace")
    status = run_command(cli, hoist_options(sys.argv[1:]))
    gc.freeze()  # else Python searches all that was imported for garbage before it exits
    sys.exit(status)
