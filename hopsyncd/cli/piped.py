"""Long work where no terminal shows a bar: a line now and then, on standard error."""

import time
from typing import Any

import click

from hopsyncd.cli.shared import counted, printable
from hopsyncd.client import Client
from hopsyncd.client.calls import Call

_EVERY_S = 5.0


def post_and_tell(
    client: Client, path: str, body: dict[str, Any], every_s: float = _EVERY_S
) -> dict[str, Any]:
    """POST what ends in a sync, and say now and then how far that is."""
    result: dict[str, Any] = {}
    next_s = time.monotonic() + every_s
    for event in client.events(Call("POST", path, body)):
        if event["event"] == "answer":
            result = event["answer"]
        elif event["event"] == "progress" and time.monotonic() >= next_s:
            next_s = time.monotonic() + every_s
            total = event["documents_total"]
            far = f"{event['share']:.0%} of {counted(total, 'document')}" if total else "listing"
            click.echo(f"{printable(event['source'])}: {far}", err=True)
    return result
