"""What the commands share: options, the client, the progress of long work, and printing."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from hopsyncd.cli.completion import complete_version
from hopsyncd.client import Client
from hopsyncd.client.response import Answer, Call, counted, mail_subject, title_of
from hopsyncd.client.starting import is_starting
from hopsyncd.config.configuration import daemon_socket
from hopsyncd.config.values import Match
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hopsyncd.answers.found import ProgressEvent


_TELL_EVERY_S = 5.0
_SIGN_OF_LIFE_S = 0.5
_WHOLE = re.compile("-?[0-9]+")
_PIPED_COLUMNS = 92  # of running text
_LEAST_COLUMNS, _MOST_COLUMNS = 20, 110  # longer lines are hard to read
_UNWRAPPED_COLUMNS = 100_000
_CONTROLS_IN_JSON = {code: f"\\u{code:04x}" for code in range(127, 160)}  # json escapes the others

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
at_option = click.option(
    "--at",
    default="head",
    shell_complete=complete_version,
    help="A version: a number, a tag, or a time such as 2026-11-01T09:00. Default: the newest.",
)


_FILTERS = {
    "source": "Only of this source.",
    "path": "Only where the path has this, or is like this pattern: 'Projects/**'.",
    "type": "Only of this type or extension: md, pdf, message/rfc822.",
    "author": "Only by this author.",
    "tag": "Only with this tag.",
    "property": "Only with this property of the front matter: status=done.",
    "since": "Only written on this day or later: 2026-01-31, 2026-01, or 30d for 30 days ago.",
    "before": "Only written before this day.",
    "created-since": "Only begun on this day or later.",
    "created-before": "Only begun before this day.",
}


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that narrow a question; they may be given several times."""
    for key, text in reversed(_FILTERS.items()):
        command = click.option(f"--{key}", multiple=True, metavar="TEXT", help=text)(command)
    return command


def filter_texts(given: dict[str, Any]) -> list[str]:
    """The filters as the daemon reads them, taken out of a command's options.

    A value that begins with `!` excludes.
    """
    return [
        f"-{key}:{value[1:]}" if value.startswith("!") else f"{key}:{value}"
        for key in _FILTERS
        for value in given.pop(key.replace("-", "_"))
    ]


class WholeNumber(click.IntRange):
    """A number in a range, in ASCII digits: int() would accept `1_0` and digits of any script."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        if isinstance(value, str) and not _WHOLE.fullmatch(value):
            self.fail(f"{value!r} is not a whole number.", parameter, context)
        return super().convert(value, parameter, context)


def client_of(context: click.Context) -> Client:
    """A client of the configured daemon, even if the rest of the configuration has mistakes."""
    config_file: Path | None = context.obj
    socket, error = daemon_socket(config_file)
    if error:
        mistakes = str(error).partition("\n")[0]
        warn([f"the configuration has mistakes, so `hopsyncd reload` would refuse it: {mistakes}"])
    _await_sign_of_life(socket)
    return Client(socket)


def _await_sign_of_life(socket: Path) -> None:
    """Give a daemon that was started with this command the time to announce its start."""
    end_s = time.monotonic() + _SIGN_OF_LIFE_S
    while not socket.exists() and not is_starting(socket) and time.monotonic() < end_s:
        time.sleep(0.02)


def send_long(context: click.Context, call: Call[Answer], doing: str | None = None) -> Answer:
    """Send a request for long work, and show a bar at a terminal.

    doing: what to write beside the bar, for work that does not report how far it is.
    """
    with client_of(context) as client:
        try:
            return _send_and_show(client, call, doing)
        except KeyboardInterrupt:
            click.echo(
                "The daemon continues what it has begun: `hopsyncd status` shows it.", err=True
            )
            raise


def _send_and_show(client: Client, call: Call[Answer], doing: str | None) -> Answer:
    if not sys.stderr.isatty():
        if doing:
            return client.send(call)
        return send_and_tell(client, call)
    # Takes 0.1 s to import.
    from hopsyncd.cli.progress import send_and_follow, send_and_wait

    if doing:
        return send_and_wait(client, call, doing)
    return send_and_follow(client, call)


def send_and_tell(client: Client, call: Call[Answer], every_s: float = _TELL_EVERY_S) -> Answer:
    """Send a request for long work, and print now and then how far it is."""
    result: Any = None  # the last event has it, or the client raises
    next_s = time.monotonic() + every_s
    for event in client.events(call):
        if event["event"] == "answer":
            result = event["answer"]
        elif event["event"] == "progress" and time.monotonic() >= next_s:
            next_s = time.monotonic() + every_s
            if text := _progress_text(event):
                click.echo(text, err=True)
    answer: Answer = result
    return answer


def _progress_text(event: "ProgressEvent") -> str:
    """How far a check or a sync is."""
    if total := event.get("checks_total"):
        return f"checking {event.get('checking')}: {event.get('checks_done', 0)} of {total}"
    source = printable(event.get("source", ""))
    if total := event.get("documents_total"):
        return f"{source}: {event.get('share', 0.0):.0%} of {counted(total, 'document')}"
    return f"{source}: listing"


def heading_text(end: Mapping[str, Any]) -> str:
    return printable(title_of(end))


def text_columns() -> int:
    """The width of running text: the terminal's, within limits; fixed in a pipe."""
    if not sys.stdout.isatty():
        return _PIPED_COLUMNS
    return min(max(shutil.get_terminal_size().columns, _LEAST_COLUMNS), _MOST_COLUMNS)


def echo_drawn(drawing: "RenderableType", indent: str = "") -> None:
    """Print a drawing: in colour at the terminal's width, or plain and unwrapped in a pipe."""
    from rich.console import Console

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNWRAPPED_COLUMNS
    console = Console(width=columns - len(indent), highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(drawing)
    for line in captured.get().splitlines():
        click.echo(f"{indent}{line}".rstrip())


def local_time(time: str | None) -> str:
    """A time of the API in the local time zone, to the second."""
    if time is None:
        return "never"
    return datetime.fromisoformat(time).astimezone().isoformat(" ", timespec="seconds")


def place_text(passage: Mapping[str, Any]) -> str:
    """Where a passage stands: source, document, lines or pages, and its author if known.

    A mail is named by its subject: people know no message ids.
    """
    name = f"{passage['source']}: {printable(passage['document'])}"
    if subject := mail_subject(passage):
        place = f"{passage['source']}: {printable(subject)}"
    elif passage["lines"]:
        first, last = passage["lines"]
        place = f"{name}:{first}" if first == last else f"{name}:{first}-{last}"
    else:
        place = f"{name}, {printable(passage['location'])}"
    origin = passage.get("origin") or {}
    told = [origin.get("author"), origin.get("date", "")[:10], origin.get("commit", "")[:10]]
    shown = ", ".join(printable(text) for text in (*told, origin.get("url")) if text)
    return f"{place} ({shown})" if shown else place


def target_of(
    place: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]
) -> tuple[str, bool]:
    """An address or an absolute path, and whether an editor can go to a line of it.

    Raises NotFound where the document is nothing that a program here could open.
    """
    origin, document = place["origin"] or {}, str(place["document"])
    for address in (origin.get("url", ""), document):
        if address.startswith(("http://", "https://")):
            return address, False
    location = sources.get(place["source"], {}).get("location", "")
    file = Path(location) / document
    # Unlike is_file(), it raises nothing for a folder that we may not enter.
    if location and file.is_absolute() and os.path.isfile(file):  # noqa: PTH113
        return str(file), bool(place["lines"])
    if message := origin.get("message_id"):
        return f"mid:{quote(message)}", False
    raise NotFound(
        f"Cannot open {document}",
        f"there is no such file on this machine: {place['source']} is at {location or 'no place'}",
        f"`hopsyncd show {place['id']}` prints it",
    )


# Of terminals that show hyperlinks: variables that only they set, and what they call themselves.
_LINKING = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM", "WEZTERM_PANE")
_LINKING_PROGRAMS = {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "mintty", "zed"}
_LINKING_VTE = 5000
_LINKING_TERMS = {"xterm-kitty", "alacritty", "foot", "foot-extra", "xterm-ghostty"}


def _shows_links(variables: Mapping[str, str]) -> bool:
    """Whether a terminal with these variables shows hyperlinks; FORCE_HYPERLINK decides, if set.

    >>> _shows_links({"TERM": "foot"}), _shows_links({"TERM": "foot", "FORCE_HYPERLINK": "0"})
    (True, False)
    """
    forced = variables.get("FORCE_HYPERLINK")
    if forced is not None:
        return forced != "0"
    version = variables.get("VTE_VERSION", "")
    return (
        any(name in variables for name in _LINKING)
        or variables.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or variables.get("TERM") in _LINKING_TERMS
        or (version.isdecimal() and int(version) >= _LINKING_VTE)
    )


def linked_places(client: Client) -> Callable[[Mapping[str, Any]], str]:
    """`place_text`, as a hyperlink to the file or page where the terminal shows such."""
    if not sys.stdout.isatty() or not _shows_links(os.environ):
        return place_text
    sources = {one["name"]: one for one in client.sources()["sources"]}

    def linked(passage: Mapping[str, Any]) -> str:
        text = place_text(passage)
        try:
            target, _ = target_of(passage, sources)
        except NotFound:
            return text
        uri = Path(target).as_uri() if target.startswith("/") else target
        return f"\x1b]8;;{printable(uri)}\x1b\\{text}\x1b]8;;\x1b\\"

    return linked


def confirm(question: str, refused: str) -> None:
    """Ask before something that cannot be undone; a no ends the command.

    Raises BadRequest, which begins with `refused`, if there is no terminal to ask at.
    """
    if not sys.stdin.isatty():
        raise BadRequest(
            refused,
            "there is no terminal to ask for confirmation",
            "`--yes` does it without asking",
        )
    click.confirm(question, abort=True)


def print_json(value: Mapping[str, Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2).translate(_CONTROLS_IN_JSON))


def printed_json(value: Mapping[str, Any], as_json: bool) -> bool:
    """Print the object if the command was asked for JSON; returns whether it was."""
    if as_json:
        print_json(value)
    return as_json


def warn(reasons: list[str]) -> None:
    """Print notes on standard error: why an answer may be behind the documents."""
    for reason in reasons:
        click.secho(f"note: {printable(reason)}", fg="yellow", err=True)


_EXACT = click.option(
    "--exact", is_flag=True, help="Find only passages that have every word as typed."
)
_SEMANTIC = click.option(
    "--semantic", is_flag=True, help="Rank by meaning, even where words stand as typed."
)


def match_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --exact and --semantic."""
    return _EXACT(_SEMANTIC(command))


def chosen_match(exact: bool, semantic: bool) -> Match:
    """How words are matched. Raises UsageError if both options are given."""
    if exact and semantic:
        raise click.UsageError("Give --exact or --semantic, not both.")
    return "exact" if exact else "semantic" if semantic else "auto"


def tell_understood(answer: Mapping[str, Any]) -> None:
    """What was looked for, and in how much, where the question had typos or filters."""
    meant = answer["understood"]
    if not meant:
        return
    if meant["absent"]:
        absent = " or ".join(f"'{printable(one)}'" for one in meant["absent"])
        click.secho(f"No passage contains {absent}.", fg="yellow", err=True)
    for word in meant["words"]:
        told = f"understood {printable(word['typed'])!r} as {printable(word['meant'])!r}"
        click.secho(told, fg="cyan", err=True)
    if not meant["filter"]:
        return
    left = f"{counted(meant['documents'], 'document')}, {counted(meant['passages'], 'passage')}"
    what = f"{printable(meant['question'])!r} in {printable(meant['filter'])}"
    click.secho(f"looked for {what}: {left}", fg="cyan", err=True)
    if meant["hint"]:
        warn([meant["hint"]])
