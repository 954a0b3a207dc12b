"""The terminal: its width, whether it shows colours and links, and text that breaks at words."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_PIPED_COLUMNS = 92  # width of running text in a pipe
_LEAST_COLUMNS, _MOST_COLUMNS = 20, 110  # longer lines are hard to read
_UNWRAPPED_COLUMNS = 100_000
_GAP = "   "  # the space between facts in a line
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;.*?\x1b\\")
_SHORT_ID, _WHOLE_ID = 8, 16
COMMON_WORDS = (
    "who what when where why how which did do does is are was were be has have can the a an and or"
    " of to in on at by for from with it its that this"
)
_SPIN_AFTER_S, _FRAME_S = 0.6, 0.1
_FRAMES = "|/-\\"

# Terminals that show hyperlinks, recognised by a variable that they set or by their name.
_LINKING = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM", "WEZTERM_PANE")
_LINKING_PROGRAMS = {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "mintty", "zed"}
_LINKING_VTE = 5000
_LINKING_TERMS = {"xterm-kitty", "alacritty", "foot", "foot-extra", "xterm-ghostty"}


def choose_color(variables: Mapping[str, str]) -> bool | None:
    """Return whether to print colours. None means only at a terminal.

    NO_COLOR and a dumb terminal switch colours off; FORCE_COLOR switches them on.

    >>> choose_color({"TERM": "dumb"}), choose_color({"NO_COLOR": "1"}), choose_color({})
    (False, False, None)
    """
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR", "0") != "0":
        return True
    return False if variables.get("TERM") == "dumb" else None


def shows_links(variables: Mapping[str, str]) -> bool:
    """Return whether a terminal with these environment variables shows hyperlinks.

    FORCE_HYPERLINK, if set, decides.

    >>> shows_links({"TERM": "foot"}), shows_links({"TERM": "foot", "FORCE_HYPERLINK": "0"})
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


def measure_text_columns() -> int:
    """Return how many columns running text may fill: the terminal's width, but at least 20 and at
    most 110; in a pipe, 92."""
    if not sys.stdout.isatty():
        return _PIPED_COLUMNS
    return min(measure_line_columns(), _MOST_COLUMNS)


def measure_line_columns(*, err: bool = False) -> int:
    """Return the width of a line: the terminal's, or unlimited in a pipe.

    err: whether the line goes to standard error instead of standard output.
    """
    if not (sys.stderr if err else sys.stdout).isatty():
        return _UNWRAPPED_COLUMNS
    return max(shutil.get_terminal_size().columns, _LEAST_COLUMNS)


def wrap(text: str, columns: int, indent: str = "", hanging: str | None = None) -> str:
    """Break text between words. A word that is wider than the line stays whole.

    `hanging` is the indentation of all lines but the first; by default it is `indent`.
    """
    return textwrap.fill(
        text,
        columns,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def echo_line(
    text: str, *, indent: str = "", hanging: str = "", err: bool = False, **style: Any
) -> None:
    """Print a line, broken between words at a terminal."""
    wrapped = wrap(text, measure_line_columns(err=err), indent, hanging) or indent
    set_styles = {name: value for name, value in style.items() if value is not None}
    click.echo(click.style(wrapped, **set_styles) if set_styles else wrapped, err=err)


def echo_facts(facts: Iterable[str], indent: str = "") -> None:
    """Print facts side by side. At a terminal, facts that do not fit continue on the next line."""
    columns = measure_line_columns()
    line = ""
    for fact in facts:
        if line and len(indent) + measure_visible_length(line + _GAP + fact) > columns:
            click.echo(indent + line)
            line = fact
        else:
            line = f"{line}{_GAP}{fact}" if line else fact
    click.echo(indent + line)


@contextmanager
def spinner(doing: str) -> Iterator[None]:
    """If the block takes longer than a moment, show `doing` at a terminal."""
    if not sys.stderr.isatty() or choose_color(os.environ) is False:
        yield
        return
    stopped = Event()

    def turn() -> None:
        if stopped.wait(_SPIN_AFTER_S):
            return
        for frame in cycle(_FRAMES):
            sys.stderr.write(f"\r{frame} {doing}")
            sys.stderr.flush()
            if stopped.wait(_FRAME_S):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                return

    turning = Thread(target=turn, daemon=True)
    turning.start()
    try:
        yield
    finally:
        stopped.set()
        turning.join()


def mark_words(line: str, question: str, **style: Any) -> str:
    """Mark the question's words in any form: styled at a terminal, else between `**`."""
    if not question:
        return line
    # Loads SQLite and NumPy.
    from hopsyncd.text.words import list_index_terms

    marked_terms = {*list_index_terms(question)} - {*list_index_terms(COMMON_WORDS)}

    def mark(word: re.Match[str]) -> str:
        if not marked_terms & {*list_index_terms(word[0])}:
            return word[0]
        return click.style(word[0], **style) if sys.stdout.isatty() else f"**{word[0]}**"

    return re.sub(r"\w+", mark, line) if marked_terms else line


def measure_visible_length(text: str) -> int:
    """Count the characters that a terminal shows, without escape sequences for colour or links.

    >>> measure_visible_length(click.style("red", fg="red"))
    3
    """
    return len(_ESCAPES.sub("", text))


def format_id(id_: str) -> str:
    """Return the id of a passage or, at a terminal, its beginning, which every command accepts."""
    short_id = id_[: _SHORT_ID if sys.stdout.isatty() else _WHOLE_ID]
    return click.style(f"id {make_printable(short_id)}", dim=True)


def echo_drawn(drawing: "RenderableType", indent: str = "") -> None:
    """Print a table or tree: coloured and wrapped at a terminal, plain and unwrapped in a pipe."""
    from rich.console import Console

    console = Console(
        width=measure_line_columns() - len(indent), highlight=False, markup=False, emoji=False
    )
    with console.capture() as captured:
        console.print(drawing)
    for line in captured.get().splitlines():
        click.echo(f"{indent}{line}".rstrip())
