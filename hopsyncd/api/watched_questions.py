"""Watched questions: asked again when a version touches what they rest on; changes are told once.

A thread of its own compares, so a commit waits for nothing but the recording of a change. What is
recorded names passages and versions and holds no text: what a change was is asked of both versions
when somebody wants to know. A change is recorded in one transaction with the new state. A program
is noted as told once it has started, a webhook once it has answered; a kill between the two repeats
that telling, with the same id.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import structlog

from hopsyncd.answers.daemon_state import WatchChange, Watched, WatchedPassage, WatchedState
from hopsyncd.api.version_log import moment_text, start_of, time_text
from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.ingest.writer import SyncWorker
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import AskReply
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.footprint import Footprint
from hopsyncd.retrieve.results import Answer, id_text, placed_json
from store.exceptions import NoSuchVersion
from store.place import Database, open_reader
from store.sqlite.database import Connection
from store.sqlite.history import log as history_log
from store.sqlite.operational import (
    Telling,
    Watch,
    add_watch,
    all_watches,
    note_delivery,
    record_change,
    remove_watch,
    tellings_of,
    undelivered,
)

log = structlog.get_logger(__name__)

_PASSAGES = 5  # those whose change is told
_ANSWER_FROM = 8  # as many as an ask answers from
_MAX_WATCHES = 100
_MAX_REASONS = 10
_ROUND_S = 60.0  # a purge changes what is served without a new version
_PROGRAM_S, _WEBHOOK_S, _STORE_S = 30.0, 10.0, 60.0
# What a program gets of the daemon's environment: no keys.
_VARIABLES = (
    *("PATH", "HOME", "USER", "LANG", "TZ", "DISPLAY", "WAYLAND_DISPLAY"),
    *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
)


class WatchedQuestions:
    """`parts` gives the engine and the asker in use, `worker` writes to the store."""

    def __init__(
        self,
        database: Database,
        parts: Callable[[], tuple[Engine, Asker]],
        worker: SyncWorker,
        now_ms: Callable[[], int],
    ) -> None:
        self._database = database
        self._parts = parts
        self._worker = worker
        self._now_ms = now_ms
        self._wake = threading.Event()
        self._stopping = False
        self._footprints: dict[int, Footprint] = {}
        self._checked: dict[int, int] = {}

    def start(self) -> None:
        """Compare from now on, first with the state that was recorded last."""
        threading.Thread(target=self._run, name="watches", daemon=True).start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def note_version(self) -> None:
        """Another version is served."""
        self._wake.set()

    def add(self, question: str, act: Mapping[str, object] | None) -> int:
        """Watch a question from the served version on; returns its number."""
        engine, _ = self._parts()
        if engine.head is None:
            raise BadRequest(
                "The question cannot be watched",
                "nothing is indexed yet",
                "Try again once `hopsyncd status` shows a version",
            )
        if len(self._all()) >= _MAX_WATCHES:
            raise BadRequest(
                "The question cannot be watched",
                f"{_MAX_WATCHES} questions are watched",
                "`hopsyncd unwatch` ends one",
            )
        version, state, _ = self._asked(question)
        told = json.dumps(act) if act else None
        number = self._worker.submit(
            lambda path: add_watch(path.connection, question, told, self._now_ms(), version, state)
        ).result(_STORE_S)
        self._wake.set()
        return number

    def remove(self, number: int) -> None:
        """End a watch. Raises NotFound."""
        removed = self._worker.submit(lambda path: remove_watch(path.connection, number))
        if not removed.result(_STORE_S):
            raise _not_watched(number)
        self._wake.set()

    def listed(self) -> list[Watched]:
        """All watched questions, the oldest first."""
        with closing(open_reader(self._database)) as connection:
            return [self._told(connection, one)[0] for one in self._all()]

    def details(
        self, number: int, limit: int
    ) -> tuple[Watched, WatchedState | None, list[WatchChange]]:
        """A watched question, what it finds now, and its newest changes. Raises NotFound."""
        watch = next((one for one in self._all() if one.id == number), None)
        if watch is None:
            raise _not_watched(number)
        with closing(open_reader(self._database)) as connection:
            told, tellings = self._told(connection, watch)
        changes = [self._change(watch, one) for one in tellings[:limit]]
        return told, self._state_at(watch.question, "head"), changes

    def _told(self, connection: Connection, watch: Watch) -> tuple[Watched, list[Telling]]:
        # Before the tellings are read: they have whatever was found up to that version.
        checked = self._checked.get(watch.id, watch.version)
        tellings = tellings_of(connection, watch.id, 100)
        return {
            "id": watch.id,
            "question": watch.question,
            "act": _act(watch) or None,
            "created": moment_text(watch.created_ms),
            "checked": checked,
            "changes": len(tellings),
            "changed": time_text(tellings[0].told_ms) if tellings else None,
            "error": next((one.error for one in tellings), None),
        }, tellings

    def _all(self) -> Sequence[Watch]:
        with closing(open_reader(self._database)) as connection:
            return all_watches(connection)

    # Comparing

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.compare()
            except Exception as error:  # noqa: BLE001 - the edge of the loop; tried again
                if not self._stopping:
                    log.warning("watched questions wait for the next round", why=str(error))
            self._wake.wait(_ROUND_S)
            self._wake.clear()

    def compare(self) -> None:
        """Compare every question with what is served now, and tell what changed.

        Of several daemons on one record the writer does.
        """
        if self._worker.standby and self._worker.standby.follows:
            return
        for watch in self._all():
            if not self._stopping:
                self._check(watch)
        self._deliver()

    def _check(self, watch: Watch) -> None:
        """Ask again if what it rests on may have changed, and record another state."""
        engine, _ = self._parts()
        head = engine.head
        if head is None:
            return
        known = self._footprints.get(watch.id)
        if known is not None and not engine.may_differ(watch.question, known):
            self._checked[watch.id] = head.version.id
            return
        version, state, footprint = self._asked(watch.question)
        if state != watch.state:
            old = self._checked.get(watch.id, watch.version)
            self._worker.submit(
                lambda path: record_change(
                    path.connection, watch.id, old, version, state, self._now_ms()
                )
            ).result(_STORE_S)
            log.info("a watched question has another answer", watch=watch.id, version=version)
        self._checked[watch.id] = version
        self._footprints.pop(watch.id, None)
        if footprint is not None:
            self._footprints[watch.id] = footprint

    def _asked(self, question: str) -> tuple[int, str, Footprint | None]:
        """The served version, the state of the question there, and what that rests on."""
        _, asker = self._parts()
        traced = asker.trace(question, _ANSWER_FROM, _PASSAGES)
        assert traced is not None  # a version is served
        found, reply, footprint = traced
        return found.version, _state(found, reply), footprint

    # Telling

    def _deliver(self) -> None:
        """Tell programs and webhooks what was recorded and not told yet; agents ask for it."""
        watches = {one.id: one for one in self._all() if one.act and "mcp" not in _act(one)}
        if not watches:
            return
        with closing(open_reader(self._database)) as connection:
            waiting = undelivered(connection)
        for telling in waiting:
            if watch := watches.get(telling.watch):
                change = self._change(watch, telling)
                report = json.dumps(
                    {"watch": watch.id, "question": watch.question, **change}, ensure_ascii=False
                )
                self._tell(telling, _act(watch), report)

    def _tell(self, telling: Telling, act: Mapping[str, object], report: str) -> None:
        def note(error: str | None) -> None:
            self._worker.submit(
                lambda path: note_delivery(path.connection, telling.id, self._now_ms(), error)
            ).result(_STORE_S)

        if "webhook" in act:
            note(_posted(str(act["webhook"]), report))
            return
        if not isinstance(self._database, Path):  # whoever writes there could name a program
            note("it is not started: other machines write to the same record")
            return
        arguments: Sequence[str] = act["exec"]  # type: ignore[assignment]
        with tempfile.TemporaryFile() as given:
            given.write(report.encode())
            given.seek(0)
            try:
                program = subprocess.Popen(
                    arguments,
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
                    start_new_session=True,
                )
            except OSError as error:
                note(f"it cannot be started: {error.strerror}")
                return
        note(None)
        if failure := _outcome(program):
            note(failure)

    def _change(self, watch: Watch, telling: Telling) -> WatchChange:
        before = self._state_at(watch.question, str(telling.old))
        after = self._state_at(watch.question, str(telling.new))
        return {
            "id": telling.id,
            "old": telling.old,
            "new": telling.new,
            "told": moment_text(telling.told_ms),
            "delivered": time_text(telling.delivered_ms),
            "error": telling.error,
            "before": before,
            "after": after,
            "why": self._reasons(telling, before, after),
        }

    def _state_at(self, question: str, at: str) -> WatchedState | None:
        """What the question finds at a version; None if that is not kept."""
        _, asker = self._parts()
        try:
            found, reply = asker.ask(question, _ANSWER_FROM, Search("hop"), at)
        except NoSuchVersion:
            return None
        if found is None:
            return None
        return {
            "version": found.version,
            "answer": reply.text if reply.found else None,
            "passages": [_passage(found, at) for at in range(min(_PASSAGES, len(found.ranked)))],
        }

    def _reasons(
        self, telling: Telling, before: WatchedState | None, after: WatchedState | None
    ) -> list[str]:
        """What the versions in between changed, and which of the first passages came and went."""
        with closing(open_reader(self._database)) as connection:
            between = history_log(connection, _MAX_REASONS, telling.new + 1)
        why = [
            f"version {one.version.id}: {one.version.reason}"
            for one in reversed(between)
            if one.version.id > telling.old and one.version.reason
        ]
        if before is None or after is None:
            return why
        went, came = _beyond(before, after), _beyond(after, before)
        for told, names in (
            ("with another text among the first passages", went & came),
            ("no longer among the first passages", went - came),
            ("now among the first passages", came - went),
        ):
            why += [f"{told}: {name}" for name in sorted(names)]
        if before["answer"] != after["answer"]:
            why.append("the answer is another")
        return why


def checked_program(arguments: Sequence[str]) -> list[str]:
    """The program with its whole path, and its arguments. Raises BadRequest if there is none."""
    found = shutil.which(arguments[0])
    if found is None:
        raise BadRequest(
            "The question cannot be watched",
            f"there is no program {arguments[0]!r}",
            "Give its whole path",
        )
    return [str(Path(found).absolute()), *arguments[1:]]


def _act(watch: Watch) -> dict[str, Any]:
    return json.loads(watch.act) if watch.act else {}


def _state(found: Answer, reply: AskReply) -> str:
    """What is compared: the answer, and which passages come first, in any order."""
    first = sorted(id_text(one.passage) for one in found.ranked[:_PASSAGES])
    digest = blake2b(reply.text.encode(), digest_size=16).hexdigest() if reply.found else None
    return json.dumps({"answer": digest, "passages": first})


def _beyond(here: WatchedState, there: WatchedState) -> set[str]:
    """The passages that are first here and not there, by heading and document."""
    known = {one["id"] for one in there["passages"]}
    return {
        f"{' > '.join(one['heading']) or one['id']} ({one['document']})"
        for one in here["passages"]
        if one["id"] not in known
    }


def _passage(found: Answer, rank: int) -> WatchedPassage:
    id_ = found.ranked[rank].passage
    whole = placed_json(id_, found.passages[id_], found.places.get(id_, ()))
    return {
        "id": whole["id"],
        "heading": whole["heading"],
        "source": whole["source"],
        "document": whole["document"],
        "start": start_of(whole["text"]),
    }


def _posted(address: str, report: str) -> str | None:
    """Why a webhook could not be told; None if it was."""
    import httpx2  # takes 0.2 s to import

    try:
        # Not by a proxy, and not to where it redirects: what is told stays on this machine.
        with httpx2.Client(timeout=_WEBHOOK_S, trust_env=False, verify=False) as http:
            answer = http.post(
                address, content=report.encode(), headers={"Content-Type": "application/json"}
            )
    except httpx2.HTTPError as error:
        return f"{address} cannot be reached: {type(error).__name__}"
    return None if answer.is_success else f"{address} answered {answer.status_code}"


def _outcome(program: "subprocess.Popen[bytes]") -> str | None:
    """Why a program failed; None if it ended well."""
    try:
        status = program.wait(_PROGRAM_S)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)  # with what it started
        program.wait()
        return f"the program did not end within {_PROGRAM_S:g} s"
    return f"the program ended with status {status}" if status else None


def _not_watched(number: int) -> NotFound:
    return NotFound(
        f"There is no watched question {number}",
        "none has that number",
        "`hopsyncd watches` lists them",
    )
