"""Progress bars for long work. Imported only at a terminal, because rich takes 0.1 s to load."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from hopsyncd.client import Client
from hopsyncd.client.call import Answer, Call
from hopsyncd.display import pluralise
from hopsyncd.printable import make_printable
from hopsyncd.responses.results import AskAnswer, Event


class _RateColumn(ProgressColumn):
    """A column with the rate of a task, in its `unit` per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f} {task.fields['unit']}/s" if speed else "")


def make_bars() -> Progress:
    """Make bars on standard error with rate and remaining time. Each task needs a `unit`."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        _RateColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
        transient=True,
    )


def send_and_wait(client: Client, call: Call[Answer], doing: str) -> Answer:
    """Send a request for work of unknown length, and show the elapsed time."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as running:
        running.add_task(doing, total=None)
        return client.send(call)


def show_draft(first: Event, events: Iterator[Event]) -> AskAnswer:
    """Show the LLM's searches and its draft, and return the final answer. `first` is the first
    event."""
    result: Any = None  # the last event has the answer, or the client raises
    draft = ""
    with Live(console=Console(), transient=True) as live:
        for event in chain([first], events):
            if event["event"] == "answer":
                result = event["answer"]
            elif event["event"] == "text":
                draft += event["text"]
            elif event["event"] == "withdrawn":
                draft = ""
            elif event["event"] == "progress" and (questions := event.get("questions")):
                draft = f"{event.get('stage')}: {'; '.join(questions)}"
            elif event["event"] == "progress":
                draft = ""
            live.update(Text(make_printable(draft), style="dim"))
    answer: AskAnswer = result
    return answer


def send_and_follow(client: Client, call: Call[Answer]) -> Answer:
    """Send a request for a sync or a check, and show its progress."""
    result: Any = None  # the last event has the answer, or the client raises
    checks = call.path == "/v1/check"
    begins, unit = ("checking", "checks") if checks else ("scanning", "documents")
    with make_bars() as progress:
        bar = progress.add_task(begins, total=None, unit=unit)
        # By source: the finished share, and the number of documents.
        sources: dict[str, tuple[float, int]] = {}
        for event in client.stream_events(call):
            if event["event"] == "answer":
                result = event["answer"]
            elif event["event"] == "progress" and (total := event.get("checks_total")):
                name = f"checking {event.get('checking')}"
                progress.update(bar, description=name, total=total, completed=event["checks_done"])
            elif event["event"] == "progress" and (total := event.get("documents_total")):
                sources[str(event.get("source"))] = (event.get("share", 0.0), total)
                name, done, total = _sum_progress(sources)
                progress.update(bar, description=name, total=total, completed=done)
    answer: Answer = result
    return answer


def _sum_progress(sources: Mapping[str, tuple[float, int]]) -> tuple[str, float, int]:
    """Sum up the progress of all sources: description, documents done and documents in total.

    `sources` has the finished share and the number of documents of each source.

    >>> _sum_progress({"notes": (0.5, 10), "mail": (1.0, 2)})
    ('2 sources: 12 documents', 7.0, 12)
    """
    total = sum(documents for _, documents in sources.values())
    done = sum(share * documents for share, documents in sources.values())
    name = next(iter(sources)) if len(sources) == 1 else pluralise(len(sources), "source")
    return f"{make_printable(name)}: {pluralise(total, 'document')}", done, total
