"""Write docs/cli.md from the commands themselves: `python scripts/cli_docs.py`, with `--print` to
standard output."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from hopsyncd.cli.main import cli

ROOT = Path(__file__).parents[1]

_INTRODUCTION = """\
# The commands

Made from the program by `python scripts/cli_docs.py`; `hopsyncd COMMAND --help` says the same.
"""
_CLOSING = """\
## Exit status

0: done. 1: it failed, and standard error says what, on what, why, and what to do; or, where a
command's text above says so, it found something wrong. 2: the command line is wrong. 3: no service
runs (`service status`).
"""


def main() -> None:
    text = "\n".join([_INTRODUCTION, *_commands(cli, "hopsyncd"), _CLOSING])
    if "--print" in sys.argv:
        print(text, end="")
    else:
        (ROOT / "docs/cli.md").write_text(text, encoding="utf-8")


def _commands(command: click.Command, name: str) -> Iterator[str]:
    """A section for the command, then those of the commands below it."""
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    rows = [f"| {left} | {right} |" for left, right in _options(command, context)]
    table = ["", "| option | |", "|---|---|", *rows] if rows else []
    yield "\n".join([f"## {name}", "", f"`{usage}`", "", text, *table, ""])
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from _commands(found, f"{name} {below}")


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        names, text = parameter.get_help_record(context) or ("", "")
        if text:
            yield f"`{_cell(names)}`", _cell(text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
