"""Print why a command failed, as text or JSON, and set its exit status."""

import errno
import json
import os
import re
import sys
from collections.abc import Sequence

import click

from hopsyncd.cli.terminal import choose_color, echo_line, measure_line_columns, wrap
from hopsyncd.client import RequestFailed
from hopsyncd.errors import REPORTABLE
from hopsyncd.printable import make_printable

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the arguments have `--json` before any `--`. Errors are then printed as JSON.

    >>> wants_json(["query", "who", "--json"]), wants_json(["query", "--", "--json"])
    (True, False)
    """
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def run_command(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command and return its exit status. Errors are printed on standard error."""
    as_json = wants_json(arguments)
    try:
        status = command.main(
            [*arguments],
            prog_name="hopsyncd",
            standalone_mode=False,
            color=choose_color(os.environ),
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_USAGE
    except click.ClickException as error:
        _print_usage_error(error, as_json)
        return error.exit_code
    except click.Abort:
        _print(as_json, "interrupted", "Interrupted", "")
        return INTERRUPTED
    except REPORTABLE as error:
        _print(as_json, _get_code(error), *_get_message(error))
        return FAILED
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _print(as_json, "unwritable", f"Cannot write the output: {error.strerror}", "")
        return FAILED
    return status if isinstance(status, int) else 0


def _get_message(error: Exception) -> tuple[str, str]:
    """Return the message of an error of REPORTABLE without its hint, and the hint."""
    hint = str(getattr(error, "hint", ""))
    text = str(error).strip()
    message = text.removesuffix(hint).rstrip()
    return (message.removesuffix("."), hint) if hint and message != text else (text, "")


def _get_code(error: Exception) -> str:
    """Return the kind of an error: the daemon's code, or the name of the class.

    >>> from hopsyncd.errors import DaemonUnavailable
    >>> _get_code(DaemonUnavailable("No daemon answers", "it is off", "Start it"))
    'daemon_unavailable'
    """
    if isinstance(error, RequestFailed):
        return error.code
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def _print(as_json: bool, code: str, message: str, hint: str) -> None:
    """Print an error. At a terminal, use colours, and print the hint on a separate line."""
    if as_json:
        failed = {"error": {"code": code, "message": message, "hint": hint}}
        click.echo(json.dumps(failed), err=True)
        return
    if hint and not sys.stderr.isatty():
        message, hint = f"{message}. {hint}", ""
    first, *more_lines = [*message.split("\n"), *([hint] if hint else [])]
    _print_named("hopsyncd:", make_printable(first))
    for line in more_lines:
        echo_line(make_printable(line), err=True)


def _print_named(name: str, text: str) -> None:
    """Print `text` after a name in red."""
    wrapped = wrap(f"{name} {text}", measure_line_columns(err=True))
    color = choose_color(os.environ)
    styled = click.style(name, fg="red", bold=True)
    click.echo(styled + wrapped.removeprefix(name), err=True, color=color)


def _print_usage_error(error: click.ClickException, as_json: bool) -> None:
    """Print a mistake in the command line, with the usage of the command."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_command = f"{context.command_path} --help" if context else "hopsyncd --help"
    if as_json:
        _print(as_json, "usage", message, f"See `{help_command}`")
        return
    if context:
        click.echo(f"{context.get_usage()}\nTry '{help_command}' for help.\n", err=True)
    _print_named("Error:", message)
