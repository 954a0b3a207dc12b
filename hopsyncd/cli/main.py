"""`hopsyncd`: all commands, in the groups that `--help` shows."""

import io
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

# One thread for numpy: a pool would spin on cores that the encoder and other programs need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import click

from hopsyncd import __version__
from hopsyncd.cli.access_token import token
from hopsyncd.cli.add import add, pause, remove, resume, sources
from hopsyncd.cli.audit import audit
from hopsyncd.cli.backup import backup
from hopsyncd.cli.completion import completion
from hopsyncd.cli.evaluate import evaluate
from hopsyncd.cli.failures import run_command
from hopsyncd.cli.graph import graph
from hopsyncd.cli.install import service
from hopsyncd.cli.llm import llm
from hopsyncd.cli.log import diff, log, release, restore, tag
from hopsyncd.cli.maintain import check, copy, gc, purge, rebuild, recover
from hopsyncd.cli.query import ask, query
from hopsyncd.cli.serve import doctor, init, mcp, reload, schedule, serve
from hopsyncd.cli.server import hoist_options, refuse_elsewhere, refused_tokens_explained
from hopsyncd.cli.show import open_, show
from hopsyncd.cli.support_bundle import support_bundle
from hopsyncd.cli.sync import sync
from hopsyncd.cli.top import status, top
from hopsyncd.cli.trial import try_
from hopsyncd.cli.watches import unwatch, watch, watches
from hopsyncd.cli.web import web
from hopsyncd.cli.why import why

# Names of commands in other tools. click suggests only similar spellings.
_SYNONYMS = {"search": "query", "find": "query", "index": "sync", "update": "sync", "ls": "sources",
          "list": "sources", "start": "serve", "history": "log", "rm": "remove"}  # fmt: skip


_GROUPS: Mapping[str, Sequence[click.Command]] = {
    "Ask": (ask, query, show, open_, web, graph, watch, watches, unwatch),
    "Sources": (add, sources, sync, pause, resume, remove),
    "History": (log, diff, why, tag, restore, release),
    "Run": (
        try_,
        init,
        serve,
        status,
        top,
        reload,
        schedule,
        service,
        mcp,
        token,
        completion,
        evaluate,
    ),
    "Repair": (
        doctor,
        support_bundle,
        llm,
        check,
        audit,
        backup,
        copy,
        rebuild,
        gc,
        purge,
        recover,
    ),
}
"""The commands as `--help` lists them."""


class _Commands(click.Group):
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
        for title, commands in _GROUPS.items():
            width = max(len(str(command.name)) for command in commands)
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{command.name:<{width}}", command.get_short_help_str(limit=1000))
                        for command in commands
                        if not command.hidden
                    ]
                )


@click.group(
    cls=_Commands,
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
    help="The file with your token for the server; only you may be able to read it.",
)
@click.option(
    "--ca",
    envvar="HOPSYNCD_CA",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The certificate of the authority that signed the server's, if it is not a public one.",
)
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context, /, config_file: Path | None, **_: object) -> None:
    """Search your documents, connect facts across files, and stay current as you edit."""
    context.obj = config_file


for command in chain.from_iterable(_GROUPS.values()):
    cli.add_command(command)


def main() -> None:
    """Run the command of the command line, and exit with its status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal cannot show must not end the command.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run_command(cli, hoist_options(sys.argv[1:])))
