"""Delivers the changes of watched questions to programs and webhooks.

The database only stores whether a watch has a program or a webhook. The program or address is in
`watch_actions.json` in the data folder, a file that only the daemon's user can write. An action
belongs to the number of a watch and to the digest of its question. So a user who can write to the
database, or who brings another database, cannot name a program or start a program for another
question. `copy`, backups and PostgreSQL never contain an action. An action in an older database is
moved into the file as `proposed`, and does nothing until the owner allows it.

Each delivery runs on its own thread, at most four at once, and at most one for each watch. The
database is the queue: a change waits there until it is recorded as delivered, and the last hundred
changes of each watch are kept. Watches take turns, so a slow receiver delays only its own changes.

A change is delivered once its program has started, or its webhook has answered. If the daemon is
killed before recording that, the delivery is repeated with the same id. If a webhook cannot be
reached, or answers with 429 or a server error (5xx), it is called again after 5, 30 and 120 s.
"""

import json
import os
import re
import shlex
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hopsyncd.api.requests import Argument, WebhookUrl, get_host
from hopsyncd.child_process import end_child, start_child
from store.exceptions import DiskFailure
from store.files import replace_file
from store.operational import Notification, Watch

ACTIONS_NAME = "watch_actions.json"  # the file in the data_dir
_MAX_BYTES = 4 << 20
_MAX_KEPT = 300  # actions in effect, and as many proposed; there are at most 300 watches
_MAX_ARGUMENTS = 100


class WatchAction(BaseModel):
    """The action at each change of a watch: start a program, or call a webhook."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    watch: int
    question: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]  # the digest of the question
    exec: Annotated[tuple[Argument, ...], Field(max_length=_MAX_ARGUMENTS)] = ()
    webhook: WebhookUrl = None

    @model_validator(mode="after")
    def _check_action(self) -> "WatchAction":
        if bool(self.exec) == bool(self.webhook):
            raise ValueError("an action must be either a program or a webhook")
        if self.exec and not self.exec[0].startswith("/"):
            raise ValueError("a program must have an absolute path")
        return self

    def to_json(self) -> dict[str, Any]:
        """Format the program and its arguments as `exec`, or the address as `webhook`."""
        return {"exec": list(self.exec)} if self.exec else {"webhook": self.webhook}


class OpenToOthers(ValueError):
    """Other users can read the file of programs and webhooks, or may have added a program to it."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    actions: tuple[WatchAction, ...] = ()
    proposed: tuple[WatchAction, ...] = ()


Key = tuple[int, str]


class WatchActions:
    """Reads and writes the programs and webhooks of watches in `file`. Thread-safe.

    If the file cannot be used, no action is in effect, and `problem` says why and what to do.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._actions: dict[Key, WatchAction] = {}
        self._proposed: dict[Key, WatchAction] = {}
        self.problem: str | None = None
        try:
            content = _read(file)
        except (OSError, ValueError, RecursionError) as error:
            self.problem = (
                f"The programs and webhooks of all watches are off: {file}"
                f" {_describe_error(error)}. {_suggest_remedy(error, file)}"
            )
        else:
            self._actions = {(action.watch, action.question): action for action in content.actions}
            self._proposed = {(entry.watch, entry.question): entry for entry in content.proposed}

    def find(self, watch: int, question: str) -> WatchAction | None:
        """Return the action in effect for the watch with this number and question."""
        with self._lock:
            return self._actions.get((watch, digest_of(question)))

    def find_proposed(self, watch: int, question: str) -> WatchAction | None:
        """Return the action that the database names for this watch, if it is not in effect."""
        with self._lock:
            return self._proposed.get((watch, digest_of(question)))

    def add(self, action: WatchAction) -> None:
        """Put an action into effect instead of the watch's earlier action. Raises DiskFailure."""
        with self._lock:
            actions = {key: old for key, old in self._actions.items() if key[0] != action.watch}
            proposed = {key: old for key, old in self._proposed.items() if key[0] != action.watch}
            actions[action.watch, action.question] = action
            self._write(actions, proposed)

    def propose(self, action: WatchAction) -> None:
        """Store an action without putting it into effect. Raises DiskFailure."""
        with self._lock:
            key = action.watch, action.question
            if self._actions.get(key) != action:
                self._write(self._actions, {**self._proposed, key: action})

    def remove(self, watch: int) -> None:
        """Remove the actions of this watch. Raises DiskFailure."""
        with self._lock:
            actions = {key: action for key, action in self._actions.items() if key[0] != watch}
            proposed = {key: action for key, action in self._proposed.items() if key[0] != watch}
            if (actions, proposed) != (self._actions, self._proposed):
                self._write(actions, proposed)

    def _write(self, actions: dict[Key, WatchAction], proposed: dict[Key, WatchAction]) -> None:
        if self.problem:
            raise DiskFailure(
                f"Cannot write {self._file}",
                "the file's current content cannot be read, and would be overwritten",
                self.problem,
            )
        actions = dict(list(actions.items())[-_MAX_KEPT:])
        proposed = dict(list(proposed.items())[-_MAX_KEPT:])
        content = _File(actions=tuple(actions.values()), proposed=tuple(proposed.values()))
        text = content.model_dump_json(indent=2, exclude_defaults=True)
        try:
            replace_file(self._file, text.encode() + b"\n")
        except OSError as error:
            raise DiskFailure(
                f"Cannot write {self._file}",
                (error.strerror or str(error)).lower(),
                "Free some space, or make the data folder writable for this user",
            ) from error
        self._actions, self._proposed = actions, proposed


def digest_of(question: str) -> str:
    """Compute the digest of a question, which ties an action to the question."""
    return blake2b(question.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def parse_action(watch: int, question: str, act: str) -> WatchAction | None:
    """Return the action in the database's column `act`, or None if the action is invalid."""
    try:
        action = json.loads(act)
        if not isinstance(action, dict) or not action.keys() <= {"exec", "webhook"}:
            return None
        return WatchAction.model_validate(
            {"watch": watch, "question": digest_of(question), **action}
        )
    except (ValueError, RecursionError):  # pydantic's errors are ValueErrors
        return None


def _read(file: Path) -> _File:
    """Read the file. Raises OSError, or ValueError if it is damaged or open to other users."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return _File()
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            raise ValueError(f"is not a regular file of at most {_MAX_BYTES >> 20} MiB")
        if status.st_uid != os.geteuid():
            raise ValueError("belongs to another user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise OpenToOthers("can be read or written by other users")
        return _File.model_validate_json(stream.read(_MAX_BYTES))


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read ({(error.strerror or str(error)).lower()})"
    if isinstance(error, RecursionError):
        return "is not valid JSON (nested too deeply)"
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return f"is not valid JSON ({first['ctx']['error']})"
    place = ".".join(map(str, first["loc"])) or "the whole"
    return f"has a mistake at {place} ({first['msg'].removeprefix('Value error, ').lower()})"


def _suggest_remedy(error: Exception, file: Path) -> str:
    if isinstance(error, OpenToOthers):
        command = f"`chmod 600 {shlex.quote(str(file))}`"
        return f"Check that nobody has changed the file, run {command}, then restart the daemon."
    return (
        "Correct the file or move it away, then restart the daemon. If you moved it, add programs"
        " and webhooks again after the restart."
    )


log = structlog.get_logger(__name__)

PROGRAM_S, WEBHOOK_S = 30.0, 10.0
MAX_AT_ONCE = 4
_RETRIES_S = 5.0, 30.0, 120.0
_FAILED_NOTE_S = 60.0  # after this time, a delivery that could not be recorded is repeated
_MAX_ANSWER_BYTES = 16384
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]")
_TOO_MANY_REQUESTS, _SERVER_ERRORS = 429, 500
# The daemon's environment variables that a program gets. They contain no keys.
_VARIABLES = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "DISPLAY", "WAYLAND_DISPLAY"),
    *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A change that waits for delivery, with its program or webhook."""

    watch: Watch
    notification: Notification
    action: WatchAction


@dataclass(frozen=True, slots=True)
class _Retry:
    notification: int
    failures: int
    due_s: float
    error: str


@dataclass(eq=False, repr=False)
class WatchDelivery:
    """Delivers changes to programs and webhooks.

    waiting: returns all changes to deliver, oldest first. report: returns the JSON of a change.
    note: records that a change was delivered, or why the delivery failed. If `note` raises an
    error, the delivery is repeated later. wake: called when `compute_next_s` changes.
    """

    _waiting: Callable[[], Sequence[Delivery]]
    _report: Callable[[Delivery], str]
    _note: Callable[[int, str | None], None]
    _wake: Callable[[], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: set[int] = field(default_factory=set)  # the numbers of watches with a running delivery
    _served_s: dict[int, float] = field(default_factory=dict)
    _retries: dict[int, _Retry] = field(default_factory=dict)  # by number of the watch
    _stopping: bool = False

    @property
    def running(self) -> int:
        return len(self._busy)

    def explain_delay(self, watch: int) -> str | None:
        """Explain why the oldest waiting change of this watch was not delivered yet."""
        retry = self._retries.get(watch)
        return f"{retry.error}; the delivery will be retried" if retry else None

    def compute_next_s(self) -> float | None:
        """Return the seconds until a failed delivery is retried. None: no delivery has failed."""
        due_s = [retry.due_s for retry in dict(self._retries).values()]
        return max(0.0, min(due_s) - time.monotonic()) if due_s else None

    def start_due(self) -> None:
        """Start the deliveries that are due, up to the limit. Each finished delivery starts the
        next."""
        while delivery := self._take():
            threading.Thread(
                target=self._deliver_all, args=(delivery,), name="watch delivery", daemon=True
            ).start()

    def stop(self) -> None:
        """Stop starting deliveries. Running deliveries continue."""
        self._stopping = True

    def _take(self) -> Delivery | None:
        """Take the next delivery that is due, from the watch whose last delivery is longest ago."""
        with self._lock:
            if self._stopping or len(self._busy) >= MAX_AT_ONCE:
                return None
            oldest: dict[int, Delivery] = {}
            for delivery in self._waiting():
                oldest.setdefault(delivery.watch.id, delivery)
            self._retries = {
                number: retry
                for number, retry in self._retries.items()
                if number in oldest and oldest[number].notification.id == retry.notification
            }
            now_s = time.monotonic()
            ready = [
                delivery
                for number, delivery in oldest.items()
                if number not in self._busy
                and (number not in self._retries or self._retries[number].due_s <= now_s)
            ]
            if not ready:
                return None
            chosen = min(
                ready, key=lambda due: (self._served_s.get(due.watch.id, 0.0), due.watch.id)
            )
            self._served_s[chosen.watch.id] = now_s
            self._busy.add(chosen.watch.id)
            return chosen

    def _deliver_all(self, first: Delivery) -> None:
        delivery: Delivery | None = first
        while delivery:
            try:
                self._deliver(delivery)
            except Exception as error:  # noqa: BLE001 - the edge of the thread; tried again
                if not self._stopping:
                    log.warning(
                        "a change of a watch was not delivered",
                        watch=delivery.watch.id,
                        why=str(error) or type(error).__name__,
                    )
                self._put_off(
                    delivery, "the change could not be read or recorded", _FAILED_NOTE_S, 0
                )
            finally:
                with self._lock:
                    self._busy.discard(delivery.watch.id)
            try:
                delivery = self._take()
            except Exception as error:  # noqa: BLE001 - the next round takes it
                log.warning(
                    "cannot read the changes of watched questions to deliver; will retry later",
                    why=str(error),
                )
                return

    def _deliver(self, delivery: Delivery) -> None:
        report = self._report(delivery)
        if delivery.action.exec:
            self._start_program(delivery, report)
            return
        answer = post(str(delivery.action.webhook), report.encode())
        retry = self._retries.get(delivery.watch.id)
        failures = retry.failures if retry and retry.notification == delivery.notification.id else 0
        if answer.error and answer.may_pass and failures < len(_RETRIES_S):
            self._put_off(delivery, answer.error, _RETRIES_S[failures], failures + 1)
        else:
            self._note(delivery.notification.id, answer.error)
            with self._lock:
                self._retries.pop(delivery.watch.id, None)

    def _put_off(self, delivery: Delivery, error: str, wait_s: float, failures: int) -> None:
        due_s = time.monotonic() + wait_s
        retry = _Retry(delivery.notification.id, failures, due_s, error)
        with self._lock:
            self._retries[delivery.watch.id] = retry
        self._wake()

    def _start_program(self, delivery: Delivery, report: str) -> None:
        with tempfile.TemporaryFile() as message_file:
            message_file.write(report.encode())
            message_file.seek(0)
            try:
                program = start_child(
                    delivery.action.exec,
                    {name: os.environ[name] for name in _VARIABLES if name in os.environ},
                    stdin=message_file,
                    stdout=subprocess.DEVNULL,
                )
            except OSError as error:
                self._note(delivery.notification.id, f"cannot start the program: {error.strerror}")
                return
        self._note(delivery.notification.id, None)
        if failure := _wait_for(program):
            self._note(delivery.notification.id, failure)


def _wait_for(program: "subprocess.Popen[bytes]") -> str | None:
    """Wait until a program ends. Returns why it failed, or None if it succeeded."""
    try:
        status = program.wait(PROGRAM_S)
    except subprocess.TimeoutExpired:
        end_child(program)
        return f"the program did not end within {PROGRAM_S:g} s"
    return f"the program ended with status {status}" if status else None


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """The result of a call to a webhook.

    error: why the call failed; None if the webhook accepted it. may_pass: whether a retry may
    succeed.
    """

    error: str | None
    may_pass: bool = False


def post(address: str, body: bytes, timeout_s: float = WEBHOOK_S) -> WebhookAnswer:
    """Post JSON to an http address, without a proxy, within `timeout_s` of wall clock in total.

    Only the status line of the answer is read: no body, and no redirect is followed.
    """
    host = get_host(address)
    try:
        status = _read_status(address, body, time.monotonic() + timeout_s)
    except TimeoutError:
        return WebhookAnswer(f"{host} did not answer within {timeout_s:g} s", may_pass=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return WebhookAnswer(f"{host} cannot be reached: {why}", may_pass=True)
    if 200 <= status < 300:
        return WebhookAnswer(None)
    may_pass = status >= _SERVER_ERRORS or status == _TOO_MANY_REQUESTS
    return WebhookAnswer(f"{host} answered {status}", may_pass)


def _read_status(address: str, body: bytes, end_s: float) -> int:
    parts = urlsplit(address)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: hopsyncd\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    place = (str(parts.hostname), parts.port or 80)
    with socket.create_connection(place, _compute_left_s(end_s)) as connection:
        connection.settimeout(_compute_left_s(end_s))
        connection.sendall(head.encode("ascii") + body)  # the timeout is for the whole call
        received = b""
        while True:
            while match := _STATUS_LINE.match(received):
                if not match[1].startswith(b"1"):
                    return int(match[1])
                _, end, rest = received.partition(b"\r\n\r\n")  # skip an interim answer (1xx)
                if not end:
                    break
                received = rest
            connection.settimeout(_compute_left_s(end_s))
            block = connection.recv(_MAX_ANSWER_BYTES - len(received))
            if not block:  # the receiver closed the connection, or sent too much
                raise ValueError("the answer of the webhook is not HTTP")
            received += block


def _compute_left_s(end_s: float) -> float:
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
