"""What several commands need."""

import json
from pathlib import Path
from typing import Any

import click

from hopsyncd.client import Client
from hopsyncd.config import load_config

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def client_of(context: click.Context) -> Client:
    """A client of the daemon that the configuration names."""
    config_file: Path | None = context.obj
    return Client(load_config(config_file).daemon.socket)


# Documents and their names are not ours: no terminal shall obey what is in them.
_CONTROLS = {
    code: chr(code).encode("unicode_escape").decode() for code in (*range(32), *range(127, 160))
}


def printable(text: str) -> str:
    """The text with its control characters as escapes.

    >>> printable("a\\x1b[2J\\n")
    'a\\\\x1b[2J\\\\n'
    """
    return text.translate(_CONTROLS)


def place_text(passage: dict[str, Any]) -> str:
    """Where a passage stands: source, document, the lines or pages in it, and whose it is."""
    name = f"{passage['source']}: {printable(passage['document'])}"
    if passage["lines"]:
        first, last = passage["lines"]
        place = f"{name}:{first}-{last}"
    else:
        place = f"{name}, {printable(passage['location'])}"
    origin = passage["origin"]
    told = [origin.get("author"), origin.get("date", "")[:10], origin.get("commit", "")[:10]]
    shown = ", ".join(printable(text) for text in (*told, origin.get("url")) if text)
    return f"{place} ({shown})" if shown else place


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def warn(reasons: list[str]) -> None:
    """Say on standard error why an answer may be behind."""
    for reason in reasons:
        click.secho(f"note: {reason}", fg="yellow", err=True)
