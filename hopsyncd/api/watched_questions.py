"""Watched questions are asked again when a version changes their dependencies. A separate thread
compares the answers, so a commit waits only while a change is recorded. The record of a change has
passages and versions but no text. When a user looks at a change, the question is asked again at
both versions. A change is recorded in one transaction with the new state. `watch_delivery` notifies
programs and webhooks, which are in `watch_actions`."""

import json
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import structlog

from hopsyncd.answers.daemon_state import WatchChange, Watched, WatchedPassage, WatchedState
from hopsyncd.api.version_log import moment_text, start_of, time_text
from hopsyncd.api.watch_delivery import (
    Delivery,
    WatchAction,
    WatchActions,
    WatchDelivery,
    action_in_record,
    digest_of,
)
from hopsyncd.config.values import Search
from hopsyncd.display import document_name, mail_name, title_of
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.sync_worker import SyncWorker
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import AskReply
from hopsyncd.retrieve.dependencies import Dependencies
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import Answer, id_text, placed_json
from store.contract import Connection
from store.exceptions import NoSuchVersion, StoreError
from store.history import log as history_log
from store.open_database import Database, open_reader
from store.operational import (
    Notification,
    Watch,
    add_watch,
    all_watches,
    kind_of_act,
    list_notifications,
    list_undelivered,
    note_delivery,
    pass_over,
    record_change,
    remove_watch,
    replace_act,
)

log = structlog.get_logger(__name__)

_PASSAGES = 5  # the first passages, whose changes are reported
_ANSWER_FROM = 8  # the default `k` of an ask
_MAX_WATCHES = 100
_MAX_REASONS = 10
_ROUND_S = 60.0  # a purge changes what is served without a new version
_STORE_S = 60.0


class WatchedQuestions:
    """Compares watched questions. `parts` returns the current engine and asker; `worker` writes.

    `actions` has the programs and webhooks of this machine.
    """

    def __init__(
        self,
        database: Database,
        parts: Callable[[], tuple[Engine, Asker]],
        worker: SyncWorker,
        now_ms: Callable[[], int],
        actions: WatchActions,
    ) -> None:
        self._database = database
        self._parts = parts
        self._worker = worker
        self._now_ms = now_ms
        self._actions = actions
        self.delivery = WatchDelivery(
            self._deliveries, self._report, self._note_delivery, self.note_version
        )
        self._off = 0  # actions that the record brought, as of the last round
        self._wake = threading.Event()
        self._stopping = False
        self._dependencies: dict[int, Dependencies] = {}
        self._checked: dict[int, int] = {}

    def start(self) -> None:
        """Start comparing, first with the last recorded state."""
        threading.Thread(target=self._run, name="watches", daemon=True).start()

    def stop(self) -> None:
        self._stopping = True
        self.delivery.stop()
        self._wake.set()

    def note_version(self) -> None:
        """Start the next comparison, because a new version is served or a watch was added."""
        self._wake.set()

    def add(
        self,
        question: str,
        program: Sequence[str] = (),
        webhook: str | None = None,
        mcp: bool = False,
    ) -> int:
        """Watch a question from the served version on. Returns the number of the watch.

        At each change, the program is started, the webhook is called, or agents are notified.
        Raises BadRequest, or DiskFailure if the program or webhook cannot be stored.
        """
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
        version, state, _ = self._ask(question)
        kinds = (("exec", program), ("webhook", webhook), ("mcp", mcp))
        act = next((json.dumps({kind: True}) for kind, given in kinds if given), None)
        number = self._worker.submit(
            lambda path: add_watch(path.connection, question, act, self._now_ms(), version, state)
        ).result(_STORE_S)
        if program or webhook:
            try:
                self._actions.add(
                    WatchAction(
                        watch=number,
                        question=digest_of(question),
                        exec=tuple(program),
                        webhook=webhook,
                    )
                )
            except StoreError:
                self.remove(number)
                raise
        self._wake.set()
        return number

    def remove(self, number: int) -> None:
        """End a watch. Raises NotFound."""
        removed = self._worker.submit(lambda path: remove_watch(path.connection, number))
        if not removed.result(_STORE_S):
            raise _not_watched(number)
        with suppress(StoreError):  # numbers are not used again
            self._actions.remove(number)
        self._wake.set()

    def allow(self, number: int, action: dict[str, Any]) -> None:
        """Put the action that the database names for a watch into effect.

        `action` is the action that the owner saw; if it differs, BadRequest is raised. Waiting
        changes are not delivered. Raises NotFound.
        """
        watch = self._watch(number)
        proposed = self._actions.find_proposed(number, watch.question)
        if proposed is None or proposed.to_json() != action:
            raise BadRequest(
                f"Watch {number} cannot be turned on",
                "its program or webhook is not the one that you saw",
                f"`hopsyncd watches {number}` shows it",
            )
        why = "it changed before the watch was turned on here"
        self._worker.submit(
            lambda path: pass_over(path.connection, number, self._now_ms(), why)
        ).result(_STORE_S)
        self._actions.add(proposed)
        self._off = self._count_off()
        self._wake.set()

    def problems(self) -> list[str]:
        """The reasons why programs or webhooks are off, each with a remedy."""
        found = [self._actions.problem] if self._actions.problem else []
        if off := self._off:
            found.append(
                f"{off} watch{'es' if off > 1 else ''} of this record name"
                f"{'' if off > 1 else 's'} a program or webhook that is turned off: it came with"
                " the record. `hopsyncd watches` shows it; `hopsyncd watches NUMBER --allow` turns"
                " it on."
            )
        return found

    def list_all(self) -> list[Watched]:
        """All watched questions, the oldest first."""
        with closing(open_reader(self._database)) as connection:
            return [self._describe(connection, one)[0] for one in self._all()]

    def details(
        self, number: int, limit: int
    ) -> tuple[Watched, WatchedState | None, list[WatchChange]]:
        """A watched question, its current result, and its newest changes. Raises NotFound."""
        watch = self._watch(number)
        with closing(open_reader(self._database)) as connection:
            description, notifications = self._describe(connection, watch)
        changes = [self._change(watch, notification) for notification in notifications[:limit]]
        return description, self._state_at(watch.question, "head"), changes

    def _describe(self, connection: Connection, watch: Watch) -> tuple[Watched, list[Notification]]:
        # Before the tellings are read: they have whatever was found up to that version.
        checked = self._checked.get(watch.id, watch.version)
        notifications = list_notifications(connection, watch.id, 100)
        action, disabled = self._find_action(watch), self._find_disabled_action(watch)
        return {
            "id": watch.id,
            "question": watch.question,
            "action": action,
            "disabled": disabled,
            "act": action,
            "off": disabled,
            "created": moment_text(watch.created_ms),
            "checked": checked,
            "changes": len(notifications),
            "changed": time_text(notifications[0].notified_ms) if notifications else None,
            "error": self.delivery.trouble(watch.id)
            or next((notification.error for notification in notifications), None),
        }, notifications

    def _find_action(self, watch: Watch) -> dict[str, Any] | None:
        """The action that runs at a change of the watch."""
        if action := self._actions.find(watch.id, watch.question):
            return action.to_json()
        return {"mcp": True} if _kind(watch) == "mcp" else None

    def _find_disabled_action(self, watch: Watch) -> dict[str, Any] | None:
        """The action that the database names but that is not allowed on this machine."""
        if self._actions.find(watch.id, watch.question):
            return None
        if proposed := self._actions.find_proposed(watch.id, watch.question):
            return proposed.to_json()
        kind = _kind(watch)
        return {kind: True} if kind in ("exec", "webhook") else None

    def _watch(self, number: int) -> Watch:
        watch = next((one for one in self._all() if one.id == number), None)
        if watch is None:
            raise _not_watched(number)
        return watch

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
                    log.warning(
                        "watched questions could not be compared, trying again later",
                        why=str(error),
                    )
            wait_s = self.delivery.next_s()
            self._wake.wait(_ROUND_S if wait_s is None else min(_ROUND_S, wait_s))
            self._wake.clear()

    def compare(self) -> None:
        """Compare every question with the served version, and deliver the changes.

        If several daemons share a database, only the writer compares.
        """
        if self._worker.is_following:
            return
        steps: list[Callable[[], None]] = [partial(self._check, watch) for watch in self._all()]
        errors = []
        for step in (self._take_out_acts, *steps, self.delivery.start_due):
            if self._stopping:
                return
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the others are compared all the same
                errors.append(error)
        if errors:
            raise errors[0]

    def _take_out_acts(self) -> None:
        """Move programs and addresses from the database to this machine's file, and turn them
        off."""
        for watch in self._all():
            kind = kind_of_act(watch.act)
            if watch.act is None or watch.act == kind:
                continue
            if proposed := action_in_record(watch.id, watch.question, watch.act):
                if self._actions.problem:
                    continue  # it stays in the record, without effect, until the file is mended
                self._actions.propose(proposed)
            self._worker.submit(partial(_replace_act, watch, kind)).result(_STORE_S)
            log.warning(
                "a watch's program or webhook came with the database and is turned off",
                watch=watch.id,
            )
        self._off = self._count_off()

    def _count_off(self) -> int:
        return sum(self._find_disabled_action(one) is not None for one in self._all())

    def _check(self, watch: Watch) -> None:
        """Ask the question again if its dependencies changed, and record a new state."""
        engine, _ = self._parts()
        head = engine.head
        if head is None:
            return
        known = self._dependencies.get(watch.id)
        if known is not None and not engine.may_differ(watch.question, known):
            self._checked[watch.id] = head.version.id
            return
        version, state, dependencies = self._ask(watch.question)
        if state != watch.state:
            old = self._checked.get(watch.id, watch.version)
            self._worker.submit(
                lambda path: record_change(
                    path.connection, watch.id, old, version, state, self._now_ms()
                )
            ).result(_STORE_S)
            log.info("the answer to a watched question changed", watch=watch.id, version=version)
        self._checked[watch.id] = version
        self._dependencies.pop(watch.id, None)
        if dependencies is not None:
            self._dependencies[watch.id] = dependencies

    def _ask(self, question: str) -> tuple[int, str, Dependencies | None]:
        """The served version, the question's state at that version, and the state's
        dependencies."""
        _, asker = self._parts()
        traced = asker.trace(question, _ANSWER_FROM, _PASSAGES)
        assert traced is not None  # a version is served
        found, reply, dependencies = traced
        return found.version, _state(found, reply), dependencies

    # Delivering

    def _deliveries(self) -> list[Delivery]:
        """The changes that wait for a program or webhook of this machine, the oldest first."""
        if self._worker.is_following:
            return []
        actions = {
            one.id: (one, action)
            for one in self._all()
            if (action := self._actions.find(one.id, one.question))
            # Whoever writes to a shared record could write changes too, as often as they like.
            and (action.webhook or isinstance(self._database, Path))
        }
        if not actions:
            return []
        with closing(open_reader(self._database)) as connection:
            waiting = list_undelivered(connection)
        return [
            Delivery(actions[one.watch][0], one, actions[one.watch][1])
            for one in waiting
            if one.watch in actions
        ]

    def _report(self, delivery: Delivery) -> str:
        watch = delivery.watch
        change = self._change(watch, delivery.notification)
        report = {"watch": watch.id, "question": watch.question, **change}
        return json.dumps(report, ensure_ascii=False)

    def _note_delivery(self, notification: int, error: str | None) -> None:
        self._worker.submit(
            lambda path: note_delivery(path.connection, notification, self._now_ms(), error)
        ).result(_STORE_S)

    def _change(self, watch: Watch, notification: Notification) -> WatchChange:
        before = self._state_at(watch.question, str(notification.old))
        after = self._state_at(watch.question, str(notification.new))
        return {
            "id": notification.id,
            "old": notification.old,
            "new": notification.new,
            "told": moment_text(notification.notified_ms),
            "delivered": time_text(notification.delivered_ms),
            "error": notification.error,
            "before": before,
            "after": after,
            "why": self._reasons(notification, before, after),
        }

    def _state_at(self, question: str, at: str) -> WatchedState | None:
        """The answer to the question at a version; None if that version is not kept."""
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
        self, notification: Notification, before: WatchedState | None, after: WatchedState | None
    ) -> list[str]:
        """Explain a change: the reasons of the versions in between, and the passages that entered
        or left the first results."""
        with closing(open_reader(self._database)) as connection:
            between = history_log(connection, _MAX_REASONS, notification.new + 1)
        why = [
            f"version {one.version.id}: {one.version.reason}"
            for one in reversed(between)
            if one.version.id > notification.old and one.version.reason
        ]
        if before is None or after is None:
            return why
        went, came = _beyond(before, after), _beyond(after, before)
        for reason, names in (
            ("edited", went & came),
            ("no longer among the first results", went - came),
            ("now among the first results", came - went),
        ):
            why += [f"{reason}: {name}" for name in sorted(names)]
        if before["answer"] != after["answer"]:
            why.append("the answer changed")
        return why


def checked_program(arguments: Sequence[str]) -> list[str]:
    """Resolve the program to its absolute path, and return it with its arguments. Raises BadRequest
    if there is no such program."""
    found = shutil.which(arguments[0])
    if found is None:
        raise BadRequest(
            "The question cannot be watched",
            f"there is no program {arguments[0]!r}",
            "Give its absolute path",
        )
    return [str(Path(found).absolute()), *arguments[1:]]


def _kind(watch: Watch) -> str | None:
    """The kind of the watch's act: exec, webhook or mcp."""
    kind = kind_of_act(watch.act)
    return next(iter(json.loads(kind))) if kind else None


def _replace_act(watch: Watch, kind: str | None, path: SourceSync) -> None:
    replace_act(path.connection, watch.id, watch.act, kind)


def _state(found: Answer, reply: AskReply) -> str:
    """The state to compare: the answer, and the set of the first passages."""
    first = sorted(id_text(one.passage) for one in found.ranked[:_PASSAGES])
    digest = blake2b(reply.text.encode(), digest_size=16).hexdigest() if reply.found else None
    return json.dumps({"answer": digest, "passages": first})


def _beyond(here: WatchedState, there: WatchedState) -> set[str]:
    """The first passages of a state that are not in the other state, by heading and document."""
    known = {one["id"] for one in there["passages"]}
    return {
        f"{title_of(one)} ({document_name(one)})"
        for one in here["passages"]
        if one["id"] not in known
    }


def _passage(found: Answer, rank: int) -> WatchedPassage:
    id_ = found.ranked[rank].passage
    whole = placed_json(id_, found.passages[id_], found.places.get(id_, ()))
    passage: WatchedPassage = {
        "id": whole["id"],
        "heading": whole["heading"],
        "source": whole["source"],
        "document": whole["document"],
        "start": start_of(whole["text"]),
    }
    if name := mail_name(whole["origin"], whole["heading"]):
        passage["document_name"] = name
    return passage


def _not_watched(number: int) -> NotFound:
    return NotFound(
        f"There is no watched question {number}",
        "none has that number",
        "`hopsyncd watches` lists them",
    )
