"""Writes structured logs: readable lines at a terminal, otherwise JSON lines. Secrets are
redacted."""

import io
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast
from urllib.parse import quote

import structlog

from hopsyncd.errors import ConfigError
from hopsyncd.log_limits import SUMMARY, LimitedEvents, LimitedRecords, RepeatLimit, RotatingFile
from hopsyncd.printable import make_printable

log = structlog.get_logger(__name__)

_REDACTED = "[secret]"
_MIN_SECRET_CHARACTERS = 4  # redacting shorter secrets would hide ordinary words
# Secrets recognised by their form, in an address, a header or a parameter of a request.
_SECRET_FORMS = re.compile(
    r"(?i)(?P<address>://[^\s/@:]*:)[^\s/@]+(?=@)"
    r"|(?P<header>authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"',;]+"
    r"|(?P<bearer>\bbearer\s+)[\w.~+/=-]{8,}"
    r"|(?P<parameter>[?&](?:[\w-]*(?:token|key|secret|password|signature)|sig)=)[^\s&#\"']+"
)
_OF_RENDERERS = "\n\t\x1b"  # renderers use these for tracebacks and colours
# As syslog numbers them.
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}

Processors = list[structlog.typing.Processor]


class _Output:
    """Writes log lines to standard error or a file, and redacts secrets in every line.

    If a line cannot be written, it is lost, but the caller continues.
    """

    def __init__(self, secrets: Iterable[str], file: RotatingFile | None = None) -> None:
        self._file = file
        forms = {form for secret in secrets for form in _list_forms(secret)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def write(self, text: str) -> None:
        text = make_printable(redact(self._secrets.sub(_REDACTED, text)), keep=_OF_RENDERERS)
        with suppress(OSError):
            (self._file or sys.stderr).write(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def redact(text: str) -> str:
    """Replace secrets that can be recognized by their form, such as passwords in URLs."""
    return _SECRET_FORMS.sub(lambda found: f"{found[found.lastgroup or 0]}{_REDACTED}", text)


def _list_forms(secret: str) -> Iterable[str]:
    """Return the forms in which a secret may appear: plain, in JSON, in a repr, or in a URL."""
    if len(secret) < _MIN_SECRET_CHARACTERS:
        return ()
    return secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret), quote(secret, "")


_limit = RepeatLimit(lambda level, text: getattr(log, level)(text, **{SUMMARY: True}))
_files: dict[Path, RotatingFile] = {}


def configure_logs(
    level: str, form: str, secrets: Iterable[str] = (), file: Path | None = None
) -> None:
    """Log to `file`, or to standard error if it is None. `secrets` are redacted. `form` is auto,
    console or json.

    Warnings and errors of libraries are logged in the same form. Messages that are repeated too
    often are only counted. This function may be called again to change the settings. Raises
    ConfigError if the file cannot be written.
    """
    at_terminal = file is None and sys.stderr.isatty()
    console = form == "console" or (form == "auto" and at_terminal)
    stream = cast(TextIO, _Output(secrets, _get_file(file) if file else None))
    before, render = _make_processors(console=console, journal=file is None and _is_journal())
    structlog.configure(
        processors=[LimitedEvents(_limit), *before, *render],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,  # the level can change
    )
    handler = logging.StreamHandler(stream)
    handler.addFilter(LimitedRecords(_limit))
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before, processors=[without_meta, *render]
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    threading.excepthook = _log_thread


def reopen_log_files() -> None:
    """Continue in a new file if another program, such as logrotate, has moved the log file."""
    for file in _files.values():
        with suppress(OSError):
            file.reopen()


def _get_file(path: Path) -> RotatingFile:
    try:
        if path not in _files:
            _files[path] = RotatingFile(path)
    except OSError as error:
        raise ConfigError(
            f"Cannot write the log file {path}",
            str(error.strerror).lower(),
            "Set daemon.log_file to a file in a folder that you may write to, or remove it",
        ) from error
    return _files[path]


def _make_processors(*, console: bool, journal: bool) -> tuple[Processors, Processors]:
    """Return the processors that add to an event, and the processors that render it."""
    before: Processors = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
    ]
    if console:
        # By default structlog prints the local variables of a traceback, which have document text.
        plain, colors = _write_plain_traceback, sys.stderr.isatty()
        render: Processors = [
            _escape_fields,
            structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain),
        ]
    else:
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    if journal:
        render[-1] = _with_priority(render[-1])
    else:
        before.append(structlog.processors.TimeStamper(fmt="iso", utc=True))
    return before, render


def _write_plain_traceback(stream: TextIO, error: structlog.typing.ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write(make_printable(text.getvalue(), keep="\n\t"))


def _escape_fields(
    logger: Any, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters in the fields of an event, because untrusted text must not control
    a terminal.

    This is not needed for JSON, which escapes control characters itself.
    """
    return {
        key: make_printable(value) if isinstance(value, str) and key != "exception" else value
        for key, value in event.items()
    }


def _is_journal() -> bool:
    """Return whether standard error goes to systemd's journal, which adds the time to each line."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        stream = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return (device, inode) == (str(stream.st_dev), str(stream.st_ino))


def _with_priority(render: structlog.typing.Processor) -> structlog.typing.Processor:
    """Return a processor that prefixes each rendered line with its priority, as systemd's journal
    expects."""

    def render_with_priority(logger: Any, method: str, event: structlog.typing.EventDict) -> str:
        priority = _PRIORITIES[event["level"]]  # rendering may remove the level
        return f"<{priority}>{render(logger, method, event)!s}"

    return render_with_priority


def _log_thread(ended: threading.ExceptHookArgs) -> None:
    name = ended.thread.name if ended.thread else "unknown"
    log.error("a thread ended in an error", thread=name, exc_info=ended.exc_value)
