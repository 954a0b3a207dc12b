"""Long work where no terminal shows a bar: a line now and then, on standard error."""

import time
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.client import Client
from hopsyncd.client.blocking import Answer
from hopsyncd.client.calls import Call
from hopsyncd.wording import counted, printable

if TYPE_CHECKING:
    from hopsyncd.serve.answers import ProgressEvent

_EVERY_S = 5.0


def send_and_tell(client: Client, call: Call[Answer], every_s: float = _EVERY_S) -> Answer:
    """Send what ends in a sync, and say now and then how far that is."""
    result: Any = None  # the last event has it, or the client raises
    next_s = time.monotonic() + every_s
    for event in client.events(call):
        if event["event"] == "answer":
            result = event["answer"]
        elif event["event"] == "progress" and time.monotonic() >= next_s:
            next_s = time.monotonic() + every_s
            if told := _far(event):
                click.echo(told, err=True)
    answer: Answer = result
    return answer


def _far(event: "ProgressEvent") -> str:
    """How far a check or a sync is."""
    if total := event.get("checks_total"):
        return f"checking {event.get('checking')}: {event.get('checks_done', 0)} of {total}"
    source = printable(event.get("source", ""))
    if total := event.get("documents_total"):
        return f"{source}: {event.get('share', 0.0):.0%} of {counted(total, 'document')}"
    return f"{source}: listing"
