"""Functions that commands share: options, the client, progress of long work, and printing."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.completion import complete_version
from hopsyncd.cli.server import find_server
from hopsyncd.cli.terminal import echo_line, shows_links
from hopsyncd.client import Client
from hopsyncd.client.call import Answer, Call
from hopsyncd.client.local_files import add_paths, map_local_sources, names_documents
from hopsyncd.client.opening import find_target
from hopsyncd.client.starting import is_starting
from hopsyncd.config.configuration import read_daemon_socket
from hopsyncd.config.values import Match
from hopsyncd.display import describe_offered_filter, find_mail_subject, format_title, pluralise
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from hopsyncd.responses.results import ProgressEvent


_REPORT_EVERY_S = 5.0
_SIGN_OF_LIFE_S = 0.5
_WHOLE_NUMBER = re.compile("-?[0-9]+")
# The json module itself escapes codes below 32.
_CONTROLS_IN_JSON = {code: f"\\u{code:04x}" for code in range(127, 160)}


class _Words(click.Argument):
    """An argument that may be typed as several words, without quotes."""

    def process_value(self, context: click.Context, value: Any) -> str:
        words = super().process_value(context, value)
        if words and not any(map(str.strip, words)):
            raise click.UsageError(
                "The question is empty. Type a question, or words to search for."
            )
        return " ".join(words) if words else ""


def add_question_argument(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument QUESTION, which may be typed without quotes."""
    return click.argument("question", cls=_Words, nargs=-1, required=True)(command)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show more details.")
at_option = click.option(
    "--at",
    default="head",
    shell_complete=complete_version,
    help="Search this version: a number, a tag, or a time such as 2026-11-01T09:00 or '2 days ago'."
    " Default: the newest.",
)


_FILTERS = {
    "source": "Only documents of this source.",
    "path": "Only paths that contain this text or match this pattern: 'Projects/**'.",
    "type": "Only this file type: md, pdf, message/rfc822.",
    "author": "Only documents by this author.",
    "tag": "Only documents with this tag.",
    "property": "Only documents with this front matter property: status=done.",
    "since": "Only documents modified on or after this day: 2026-01-31, 2026-01, 30d,"
    " yesterday or 'last week'.",
    "before": "Only documents modified before this day.",
    "created-since": "Only documents created on or after this day.",
    "created-before": "Only documents created before this day.",
}


def add_filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the filter options to a command. Each may be repeated."""
    for key, text in reversed(_FILTERS.items()):
        command = click.option(f"--{key}", multiple=True, metavar="TEXT", help=text)(command)
    return command


def take_filters(options: dict[str, Any]) -> list[str]:
    """Remove the filters from a command's options, and return them in the daemon's notation.

    A value that begins with `!` excludes documents.
    """
    return [
        f"-{key}:{value[1:]}" if value.startswith("!") else f"{key}:{value}"
        for key in _FILTERS
        for value in options.pop(key.replace("-", "_"))
    ]


class WholeNumber(click.IntRange):
    """An integer in ASCII digits. int() would accept `1_0` and digits of any script."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        if isinstance(value, str) and not _WHOLE_NUMBER.fullmatch(value):
            self.fail(f"{value!r} is not an integer.", parameter, context)
        return super().convert(value, parameter, context)


def make_client(context: click.Context) -> Client:
    """Make a client of the server that the user named, or of the configured daemon of this machine.

    Mistakes in the configuration cause only a warning, unless they hide the daemon's socket.
    """
    if server := find_server(context):
        return server.connect()
    config_file: Path | None = context.obj
    socket, error = read_daemon_socket(config_file)
    if error:
        mistakes = str(error).partition("\n")[0]
        warn([f"the configuration has mistakes, and `hopsyncd reload` would refuse it: {mistakes}"])
    _await_sign_of_life(socket)
    return Client(socket)


def _await_sign_of_life(socket: Path) -> None:
    """Wait briefly until a daemon that was started at the same time announces its start."""
    end_s = time.monotonic() + _SIGN_OF_LIFE_S
    with suppress(PermissionError):  # the request will report it
        while not socket.exists() and not is_starting(socket) and time.monotonic() < end_s:
            time.sleep(0.02)


def send_long(context: click.Context, call: Call[Answer], doing: str | None = None) -> Answer:
    """Send a request for long work, and show a progress bar at a terminal.

    `doing` is the text beside the bar, for work that reports no progress.
    """
    with make_client(context) as client:
        try:
            return _send_and_show(client, call, doing)
        except KeyboardInterrupt:
            click.echo(
                "The daemon continues the work. `hopsyncd status` shows its progress.", err=True
            )
            raise


def _send_and_show(client: Client, call: Call[Answer], doing: str | None) -> Answer:
    if not sys.stderr.isatty():
        if doing:
            return client.send(call)
        return send_and_report(client, call)
    # Takes 0.1 s to import.
    from hopsyncd.cli.progress import send_and_follow, send_and_wait

    if doing:
        return send_and_wait(client, call, doing)
    return send_and_follow(client, call)


def send_and_report(client: Client, call: Call[Answer], every_s: float = _REPORT_EVERY_S) -> Answer:
    """Send a request for long work, and print its progress every `every_s` seconds."""
    result: Any = None  # the last event has the answer, or the client raises
    next_s = time.monotonic() + every_s
    for event in client.stream_events(call):
        if event["event"] == "answer":
            result = event["answer"]
        elif event["event"] == "progress" and time.monotonic() >= next_s:
            next_s = time.monotonic() + every_s
            if text := _format_progress(event):
                click.echo(text, err=True)
    answer: Answer = result
    return answer


def _format_progress(event: "ProgressEvent") -> str:
    """Format the progress of a check or a sync as a line.

    >>> sync = {"event": "progress", "source": "notes", "share": 0.94, "documents_total": 288}
    >>> _format_progress({**sync, "passages_done": 120, "passages_total": 380})
    'notes: 94% of 288 documents (this batch: 120 of 380 passages)'
    """
    if total := event.get("checks_total"):
        return f"checking {event.get('checking')}: {event.get('checks_done', 0)} of {total}"
    source = make_printable(event.get("source", ""))
    if total := event.get("documents_total"):
        done, passages = event.get("passages_done", 0), event.get("passages_total", 0)
        batch = f" (this batch: {done:,} of {pluralise(passages, 'passage')})" if passages else ""
        return f"{source}: {event.get('share', 0.0):.0%} of {pluralise(total, 'document')}{batch}"
    return f"{source}: listing"


def format_heading(passage: Mapping[str, Any]) -> str:
    return make_printable(format_title(passage))


def format_place(passage: Mapping[str, Any]) -> str:
    """Describe the place of a passage: source, document, lines or pages, and if known its author,
    date, commit and address.

    A mail is named by its subject, because users do not know message ids.
    """
    name = f"{passage['source']}: {make_printable(passage['document'])}"
    if subject := find_mail_subject(passage):
        place = f"{passage['source']}: {make_printable(subject)}"
    elif passage.get("document_name"):
        place = f"{passage['source']}: {make_printable(passage['document_name'])}"
    elif passage["lines"]:
        first, last = passage["lines"]
        place = f"{name}:{first}" if first == last else f"{name}:{first}-{last}"
    else:
        place = f"{name}, {make_printable(passage['location'])}"
    origin = passage.get("origin") or {}
    facts = [origin.get("author"), origin.get("date", "")[:10], origin.get("commit", "")[:10]]
    details = ", ".join(make_printable(fact) for fact in (*facts, origin.get("url")) if fact)
    return f"{place} ({details})" if details else place


def make_place_formatter(client: Client) -> Callable[[Mapping[str, Any]], str]:
    """Make a function like `format_place` that adds a hyperlink to the file or page if the terminal
    shows hyperlinks."""
    if not sys.stdout.isatty() or not shows_links(os.environ):
        return format_place
    sources = map_local_sources(client)

    def link(passage: Mapping[str, Any]) -> str:
        text = format_place(passage)
        try:
            target, _ = find_target(passage, sources)
        except NotFound:
            return text
        uri = Path(target).as_uri() if target.startswith("/") else target
        return f"\x1b]8;;{make_printable(uri)}\x1b\\{text}\x1b]8;;\x1b\\"

    return link


def confirm(question: str, refused: str) -> None:
    """Ask for confirmation; the answer "no" ends the command.

    If standard input is not a terminal, raises BadRequest, whose message begins with `refused`.
    """
    if not sys.stdin.isatty():
        raise BadRequest(
            refused,
            "the command needs your confirmation, but standard input is not a terminal",
            "Use --yes to skip the confirmation",
        )
    click.confirm(question, abort=True)


def print_json(value: Mapping[str, Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2).translate(_CONTROLS_IN_JSON))


def print_if_json(value: Mapping[str, Any], as_json: bool, client: Client | None = None) -> bool:
    """If `as_json` is true, print the object as JSON. Returns `as_json`.

    With a client, the object's documents get their absolute paths on this machine.
    """
    if as_json:
        if client and names_documents(value):
            value = add_paths(value, map_local_sources(client))
        print_json(value)
    return as_json


def warn(reasons: list[str]) -> None:
    """Print the reasons why an answer may be out of date, or other warnings, on standard error."""
    for reason in reasons:
        echo_line(f"note: {make_printable(reason)}", fg="yellow", err=True)


_EXACT = click.option("--exact", is_flag=True, help="Find only passages with all words as typed.")
_SEMANTIC = click.option("--semantic", is_flag=True, help="Rank by meaning instead of exact words.")


def add_match_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --exact and --semantic."""
    return _EXACT(_SEMANTIC(command))


def choose_match(exact: bool, semantic: bool) -> Match:
    """Return the value of `match` for --exact or --semantic. Raises UsageError for both."""
    if exact and semantic:
        raise click.UsageError("Give --exact or --semantic, not both.")
    return "exact" if exact else "semantic" if semantic else "auto"


def print_understood(answer: Mapping[str, Any]) -> None:
    """Print how the query was read, if typos were corrected, words are absent or filters apply."""
    query = answer["understood"]
    if not query:
        return
    if query["absent"] and (query["passages"] or not query["filter"]):
        absent = " or ".join(f"'{make_printable(word)}'" for word in query["absent"])
        place = f" in {make_printable(query['filter'])}" if query["filter"] else ""
        echo_line(f"No passage{place} contains {absent}.", fg="yellow", err=True)
    for word in query["words"]:
        meant, typed = make_printable(word["meant"]), make_printable(word["typed"])
        text = f"searched for {meant!r} instead of {typed!r}"
        echo_line(text, fg="cyan", err=True)
    for word in query["offered"]:
        meant, typed = make_printable(word["meant"]), make_printable(word["typed"])
        text = f"Did you mean {meant!r} instead of {typed!r}?"
        echo_line(text, fg="cyan", err=True)
    if query["offered_filter"]:
        options = " ".join(
            f"--{part.replace(':', ' ')}" for part in query["offered_filter"].split()
        )
        echo_line(
            f"For {describe_offered_filter(query['offered_filter'])}, add {options}",
            fg="cyan",
            err=True,
        )
    if not query["filter"]:
        return
    scope = (
        f"{pluralise(query['documents'], 'document')}, {pluralise(query['passages'], 'passage')}"
    )
    words = f"searched for {make_printable(query['question'])!r} in " if query["question"] else ""
    echo_line(f"{words}{make_printable(query['filter'])}: {scope}", fg="cyan", err=True)
    if query["hint"]:
        warn([query["hint"]])
