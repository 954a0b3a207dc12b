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


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def warn(reasons: list[str]) -> None:
    """Say on standard error why an answer may be behind."""
    for reason in reasons:
        click.secho(f"note: {reason}", fg="yellow", err=True)
