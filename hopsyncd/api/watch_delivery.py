"""Delivers the changes of watched questions to programs and webhooks.

Each delivery runs in a thread of its own, at most four at once, and at most one for each watch. The
queue is the record: a change waits there until it is noted as delivered, and the record keeps the
last hundred of each watch. Watches take turns, so a slow listener delays only its own changes.

A program counts as told once it has started, a webhook once it has answered. A kill between that
and the note repeats the delivery, with the same id. A webhook that cannot be reached, or that
reports an error of its own (5xx), is tried again after 5, 30 and 120 s.
"""

import os
import re
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from hopsyncd.api.requests import host_of
from hopsyncd.api.watch_actions import WatchAction
from hopsyncd.child_process import end_child, start_child
from store.operational import Notification, Watch

log = structlog.get_logger(__name__)

PROGRAM_S, WEBHOOK_S = 30.0, 10.0
MAX_AT_ONCE = 4
_RETRIES_S = 5.0, 30.0, 120.0
_FAILED_NOTE_S = 60.0  # until a delivery is repeated that could not be noted
_MAX_ANSWER_BYTES = 16384
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]")
_TOO_MANY_REQUESTS, _SERVER_ERRORS = 429, 500
# A program gets only these environment variables of the daemon: they hold no keys.
_VARIABLES = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "DISPLAY", "WAYLAND_DISPLAY"),
    *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A change that waits, with what to do at it."""

    watch: Watch
    notification: Notification
    action: WatchAction


@dataclass(frozen=True, slots=True)
class _Retry:
    notification: int
    failures: int
    due_s: float
    error: str


class WatchDelivery:
    """`waiting` gives all changes to deliver, the oldest first; `report` the JSON of one.

    `note` records that a change was delivered, or why it was not. It may raise; then the delivery
    is repeated later. `wake` is called when `next_s` changes.
    """

    def __init__(
        self,
        waiting: Callable[[], Sequence[Delivery]],
        report: Callable[[Delivery], str],
        note: Callable[[int, str | None], None],
        wake: Callable[[], None],
    ) -> None:
        self._waiting = waiting
        self._report = report
        self._note = note
        self._wake = wake
        self._lock = threading.Lock()
        self._busy: set[int] = set()  # the watches with a delivery under way
        self._served_s: dict[int, float] = {}
        self._retries: dict[int, _Retry] = {}  # by watch
        self._stopping = False

    @property
    def running(self) -> int:
        """How many deliveries are under way."""
        return len(self._busy)

    def trouble(self, watch: int) -> str | None:
        """Why the oldest waiting change of this watch was not delivered yet."""
        retry = self._retries.get(watch)
        return f"{retry.error}; it is tried again" if retry else None

    def next_s(self) -> float | None:
        """Seconds until a delivery is to be tried again; None if there is none."""
        due_s = [one.due_s for one in dict(self._retries).values()]
        return max(0.0, min(due_s) - time.monotonic()) if due_s else None

    def start_due(self) -> None:
        """Start what is due, as far as the limit allows; finished deliveries start the rest."""
        while taken := self._take():
            threading.Thread(
                target=self._work, args=(taken,), name="watch delivery", daemon=True
            ).start()

    def stop(self) -> None:
        """Stop starting deliveries; those under way go on."""
        self._stopping = True

    def _take(self) -> Delivery | None:
        """The next delivery, of the watch that was served longest ago."""
        with self._lock:
            if self._stopping or len(self._busy) >= MAX_AT_ONCE:
                return None
            oldest: dict[int, Delivery] = {}
            for one in self._waiting():
                oldest.setdefault(one.watch.id, one)
            self._retries = {
                number: retry
                for number, retry in self._retries.items()
                if number in oldest and oldest[number].notification.id == retry.notification
            }
            now_s = time.monotonic()
            due = [
                one
                for number, one in oldest.items()
                if number not in self._busy
                and (number not in self._retries or self._retries[number].due_s <= now_s)
            ]
            if not due:
                return None
            taken = min(due, key=lambda one: (self._served_s.get(one.watch.id, 0.0), one.watch.id))
            self._served_s[taken.watch.id] = now_s
            self._busy.add(taken.watch.id)
            return taken

    def _work(self, first: Delivery) -> None:
        taken: Delivery | None = first
        while taken:
            try:
                self._deliver(taken)
            except Exception as error:  # noqa: BLE001 - the edge of the thread; tried again
                if not self._stopping:
                    log.warning(
                        "a change of a watch was not delivered",
                        watch=taken.watch.id,
                        why=str(error) or type(error).__name__,
                    )
                self._put_off(taken, "it could not be noted", _FAILED_NOTE_S, failures=0)
            finally:
                with self._lock:
                    self._busy.discard(taken.watch.id)
            try:
                taken = self._take()
            except Exception as error:  # noqa: BLE001 - the next round takes it
                log.warning(
                    "cannot read the changes of watched questions to deliver, trying again later",
                    why=str(error),
                )
                return

    def _deliver(self, taken: Delivery) -> None:
        report = self._report(taken)
        if taken.action.exec:
            self._start_program(taken, report)
            return
        answer = post(str(taken.action.webhook), report.encode())
        known = self._retries.get(taken.watch.id)
        failures = known.failures if known and known.notification == taken.notification.id else 0
        if answer.error and answer.may_pass and failures < len(_RETRIES_S):
            self._put_off(taken, answer.error, _RETRIES_S[failures], failures + 1)
        else:
            self._note(taken.notification.id, answer.error)
            with self._lock:
                self._retries.pop(taken.watch.id, None)

    def _put_off(self, taken: Delivery, error: str, wait_s: float, failures: int) -> None:
        due_s = time.monotonic() + wait_s
        retry = _Retry(taken.notification.id, failures, due_s, error)
        with self._lock:
            self._retries[taken.watch.id] = retry
        self._wake()

    def _start_program(self, taken: Delivery, report: str) -> None:
        with tempfile.TemporaryFile() as given:
            given.write(report.encode())
            given.seek(0)
            try:
                program = start_child(
                    taken.action.exec,
                    {name: os.environ[name] for name in _VARIABLES if name in os.environ},
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                )
            except OSError as error:
                self._note(taken.notification.id, f"it cannot be started: {error.strerror}")
                return
        self._note(taken.notification.id, None)
        if failure := _wait_for(program):
            self._note(taken.notification.id, failure)


def _wait_for(program: "subprocess.Popen[bytes]") -> str | None:
    """Why a program failed; None if it ended well."""
    try:
        status = program.wait(PROGRAM_S)
    except subprocess.TimeoutExpired:
        end_child(program)
        return f"the program did not end within {PROGRAM_S:g} s"
    return f"the program ended with status {status}" if status else None


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """`error` is None if the webhook accepted; `may_pass` if another attempt may succeed."""

    error: str | None
    may_pass: bool = False


def post(address: str, body: bytes, timeout_s: float = WEBHOOK_S) -> WebhookAnswer:
    """POST JSON to an http address, over no proxy, within `timeout_s` of wall clock in all.

    Only the status line of the answer is read: no body, and no redirect is followed.
    """
    where = host_of(address)
    try:
        status = _status_of(address, body, time.monotonic() + timeout_s)
    except TimeoutError:
        return WebhookAnswer(f"{where} did not answer within {timeout_s:g} s", may_pass=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return WebhookAnswer(f"{where} cannot be reached: {why}", may_pass=True)
    if 200 <= status < 300:
        return WebhookAnswer(None)
    may_pass = status >= _SERVER_ERRORS or status == _TOO_MANY_REQUESTS
    return WebhookAnswer(f"{where} answered {status}", may_pass)


def _status_of(address: str, body: bytes, end_s: float) -> int:
    parts = urlsplit(address)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: hopsyncd\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    place = (str(parts.hostname), parts.port or 80)
    with socket.create_connection(place, _left_s(end_s)) as connection:
        connection.settimeout(_left_s(end_s))
        connection.sendall(head.encode("ascii") + body)  # within the timeout as a whole
        read = b""
        while True:
            while found := _STATUS_LINE.match(read):
                if not found[1].startswith(b"1"):
                    return int(found[1])
                _, end, rest = read.partition(b"\r\n\r\n")  # an interim answer
                if not end:
                    break
                read = rest
            connection.settimeout(_left_s(end_s))
            more = connection.recv(_MAX_ANSWER_BYTES - len(read))
            if not more:  # the listener ended it, or has sent as much as is read
                raise ValueError("its answer is not HTTP")
            read += more


def _left_s(end_s: float) -> float:
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
