"""Asks watched questions again when a version changes their dependencies.

A separate thread compares the answers, so a commit waits only while a change is recorded. The
record of a change has passages and versions but no text. When a user looks at a change, the
question is asked again at both versions. A change is recorded in one transaction with the new
state. `watch_delivery` notifies programs and webhooks, which are in `watch_actions.json`.
"""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.version_log import format_moment, format_time
from hopsyncd.api.watch_delivery import (
    Delivery,
    WatchAction,
    WatchActions,
    WatchDelivery,
    digest_of,
    parse_action,
)
from hopsyncd.api.watch_rights import Makers, Rights, encode_login, is_maker, refuse_too_many
from hopsyncd.api.watch_states import answer_at, ask_head, list_reasons
from hopsyncd.display import pluralise
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.ingest.sync_worker import SyncWorker
from hopsyncd.responses.daemon_state import WatchChange, Watched, WatchedState
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.dependencies import Dependencies
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.visible_sources import NOTHING, Acl
from store.contract import Connection
from store.exceptions import StoreError
from store.open_database import Database, open_reader
from store.operational import (
    Notification,
    Watch,
    add_watch,
    change_login,
    change_rights,
    fail_undelivered,
    list_notifications,
    list_undelivered,
    list_watches,
    note_delivery,
    record_change,
    reduce_act_to_kind,
    remove_watch,
    replace_act,
    restart_watch,
)
from store.sources import read_source_names

log = structlog.get_logger(__name__)

_ROUND_S = 60.0  # compare also without a new version, because purges make none
_STORE_S = 60.0

_Result = TypeVar("_Result")


class WatchedQuestions:
    """Stores, compares and reports watched questions.

    parts: returns the current engine and asker. worker: writes to the database. makers: finds the
    rights of the users who made the watches. actions: the programs and webhooks of this machine.
    """

    def __init__(
        self,
        database: Database,
        parts: Callable[[], tuple[Engine, Asker]],
        worker: SyncWorker,
        now_ms: Callable[[], int],
        makers: Makers,
        actions: WatchActions,
    ) -> None:
        self._database = database
        self._parts = parts
        self._worker = worker
        self._now_ms = now_ms
        self._makers = makers
        self._actions = actions
        self.delivery = WatchDelivery(
            self._list_deliveries, self._make_report, self._note_delivery, self.note_version
        )
        self._off = 0  # actions from the database, at the last comparison
        self._wake = threading.Event()
        self._stopping = False
        self._dependencies: dict[int, Dependencies] = {}
        self._checked: dict[int, int] = {}

    def start(self) -> None:
        """Start the thread that compares each question's answer with its last recorded answer."""
        threading.Thread(target=self._run, name="watches", daemon=True).start()

    def stop(self) -> None:
        self._stopping = True
        self.delivery.stop()
        self._wake.set()

    def note_version(self) -> None:
        """Start the next comparison after a new version is served or a watch is added."""
        self._wake.set()

    def add(
        self,
        question: str,
        caller: Caller,
        program: Sequence[str] = (),
        webhook: str | None = None,
        mcp: bool = False,
    ) -> int:
        """Watch a question from the served version on, with the caller's rights. Returns the
        number of the watch.

        A paused watch of the caller for the same question continues. At each change, the program is
        started, the webhook is called, or agents are notified. Raises BadRequest, or DiskFailure if
        the program or webhook cannot be stored.
        """
        engine, asker = self._parts()
        if engine.head is None:
            raise BadRequest(
                "The question cannot be watched",
                "nothing is indexed yet",
                "Try again once `hopsyncd status` shows a version",
            )
        kinds = (("exec", program), ("webhook", webhook), ("mcp", mcp))
        act = next((json.dumps({kind: True}) for kind, is_set in kinds if is_set), None)
        if paused := self._makers.find_paused(self._list_all(), question, act, caller):
            self._store(lambda database: change_login(database, paused.id, encode_login(caller)))
            self._wake.set()
            return paused.id
        refuse_too_many(self._list_all(), caller)
        version, state, _ = ask_head(asker, question, caller.acl)
        watch = Watch(
            0,
            question,
            act,
            self._now_ms(),
            version,
            state,
            caller.name,
            encode_login(caller),
            self._read_rights(caller).to_json(),
        )
        number = self._store(lambda database: add_watch(database, watch))
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
                self.remove(number, caller)
                raise
        self._wake.set()
        return number

    def _store(self, change: Callable[[Connection], _Result]) -> _Result:
        """Change the database on the writer's thread. Returns the result of `change`."""
        done = self._worker.submit(lambda pipeline: change(pipeline.connection))
        return done.result(_STORE_S)

    def _read_rights(self, caller: Caller | None) -> Rights:
        with closing(open_reader(self._database)) as connection:
            return _make_rights(connection, caller)

    def remove(self, number: int, caller: Caller) -> None:
        """End a watch. Raises NotFound."""
        self._find_watch(number, caller)
        if not self._store(lambda database: remove_watch(database, number)):
            raise _not_watched_error(number)
        with suppress(StoreError):  # a leftover action is harmless: numbers are never reused
            self._actions.remove(number)
        self._wake.set()

    def allow(self, number: int, action: dict[str, Any]) -> None:
        """Put the action that the database names for a watch into effect.

        `action` is the action that the owner saw. Raises BadRequest if the database now names a
        different action, and NotFound if there is no such watch. Waiting changes are not delivered.
        """
        watch = self._find_watch(number, None)
        proposed = self._actions.find_proposed(number, watch.question)
        if proposed is None or proposed.to_json() != action:
            raise BadRequest(
                f"Watch {number} cannot be turned on",
                "the program or webhook has changed since you saw it",
                f"`hopsyncd watches {number}` shows the new program or webhook",
            )
        why = "the change is older than the permission to run the action"
        self._store(lambda database: fail_undelivered(database, number, self._now_ms(), why))
        self._actions.add(proposed)
        self._off = self._count_off()
        self._wake.set()

    def list_problems(self) -> list[str]:
        """List why programs or webhooks are off, each with what to do."""
        problems = [self._actions.problem] if self._actions.problem else []
        if off := self._off:
            problems.append(
                f"Programs or webhooks are off for {pluralise(off, 'watched question')},"
                " because the database was copied, restored or made by an older version."
                " `hopsyncd watches` shows how to turn them on."
            )
        return problems

    def list_all(self, caller: Caller) -> list[Watched]:
        """List the caller's watched questions, oldest first. An admin gets all users' questions."""
        with closing(open_reader(self._database)) as connection:
            return [
                self._describe(connection, watch, caller)[0]
                for watch in self._list_all()
                if _is_listed(watch, caller)
            ]

    def read_details(
        self, number: int, limit: int, caller: Caller
    ) -> tuple[Watched, WatchedState | None, list[WatchChange]]:
        """Return a watched question, its current result and its newest changes. Raises NotFound."""
        watch = self._find_watch(number, caller)
        with closing(open_reader(self._database)) as connection:
            description, notifications = self._describe(connection, watch, caller)
        if description["unavailable"]:
            return description, None, []
        acl = self._make_acl(watch)
        changes = [self._read_change(watch, entry, acl) for entry in notifications[:limit]]
        _, asker = self._parts()
        return description, answer_at(asker, watch.question, "head", acl), changes

    def _make_acl(self, watch: Watch) -> Acl:
        """Return the sources and folders that the watch may currently read."""
        maker = self._makers.find(watch)
        return maker.acl if maker else NOTHING

    def _describe(
        self, connection: Connection, watch: Watch, caller: Caller
    ) -> tuple[Watched, list[Notification]]:
        # Read before the changes, so that these include all changes up to that version.
        checked = self._checked.get(watch.id, watch.version)
        sources = read_source_names(connection).values()
        unavailable = self._makers.explain_unavailable(watch, caller, sources)
        notifications, error = list[Notification](), None
        if unavailable is None:
            if not self._has_lost(connection, watch):
                notifications = list_notifications(connection, watch.id, 100)
            error = self.delivery.explain_delay(watch.id)
        action, disabled = self._find_action(watch), self._find_disabled_action(watch)
        return {
            "id": watch.id,
            "question": watch.question,
            "user": watch.maker,
            "action": action,
            "disabled": disabled,
            "act": action,
            "off": disabled,
            "created": format_moment(watch.created_ms),
            "checked": checked,
            "changes": len(notifications),
            "changed": format_time(notifications[0].notified_ms) if notifications else None,
            "error": error or next((notification.error for notification in notifications), None),
            "unavailable": unavailable,
        }, notifications

    def _has_lost(self, connection: Connection, watch: Watch) -> bool:
        """Return whether the maker saw documents at the last comparison that are hidden now."""
        now = _make_rights(connection, self._makers.find(watch))
        return Rights.from_json(watch.rights).has_lost(now)

    def _find_action(self, watch: Watch) -> dict[str, Any] | None:
        if action := self._find_allowed(watch):
            return action.to_json()
        return {"mcp": True} if _get_kind(watch) == "mcp" else None

    def _find_allowed(self, watch: Watch) -> WatchAction | None:
        """Return the program or webhook in effect.

        After a restore, the action in the file may belong to a lost watch of the same number.
        """
        action = self._actions.find(watch.id, watch.question)
        return action if action and _get_kind(watch) in action.to_json() else None

    def _find_disabled_action(self, watch: Watch) -> dict[str, Any] | None:
        """Return the action that the database names but that is not allowed on this machine."""
        kind = _get_kind(watch)
        if kind not in ("exec", "webhook") or self._find_allowed(watch):
            return None
        proposed = self._actions.find_proposed(watch.id, watch.question)
        return proposed.to_json() if proposed else {kind: True}

    def _find_watch(self, number: int, caller: Caller | None) -> Watch:
        """Return the watch if the caller (None: anybody) may know of it. Raises NotFound."""
        watch = next((watch for watch in self._list_all() if watch.id == number), None)
        if watch is None or (caller and not _is_listed(watch, caller)):
            raise _not_watched_error(number)
        return watch

    def _list_all(self) -> Sequence[Watch]:
        with closing(open_reader(self._database)) as connection:
            return list_watches(connection)

    # Comparing

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.compare()
            except Exception as error:  # noqa: BLE001 - the edge of the loop; tried again
                if not self._stopping:
                    log.warning(
                        "watched questions could not be compared; will retry later",
                        why=str(error),
                    )
            wait_s = self.delivery.compute_next_s()
            self._wake.wait(_ROUND_S if wait_s is None else min(_ROUND_S, wait_s))
            self._wake.clear()

    def compare(self) -> None:
        """Compare every question with the served version, and deliver the changes.

        If several daemons share a database, only the writer compares.
        """
        if self._worker.is_following:
            return
        # Sorted by rights, so that each ACL view is computed only once.
        watches = sorted(self._list_all(), key=lambda watch: (watch.rights or "", watch.id))
        steps: list[Callable[[], None]] = [partial(self._check, watch) for watch in watches]
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
        for watch in self._list_all():
            kind = reduce_act_to_kind(watch.act)
            if watch.act is None or watch.act == kind:
                continue
            if proposed := parse_action(watch.id, watch.question, watch.act):
                if self._actions.problem:
                    continue  # stays in the database, without effect, until the file is usable
                self._actions.propose(proposed)
            self._store(partial(replace_act, number=watch.id, old=watch.act, new=kind))
            log.warning(
                "a watch's program or webhook came with the database and is turned off",
                watch=watch.id,
            )
        self._off = self._count_off()

    def _count_off(self) -> int:
        return sum(self._find_disabled_action(watch) is not None for watch in self._list_all())

    def _check(self, watch: Watch) -> None:
        """Ask the question again if its dependencies changed, and record a new state.

        The watch is paused while its maker has no valid login. If the maker's rights have changed,
        the state is recorded without a notification; if the maker lost rights, the former changes
        are deleted.
        """
        engine, asker = self._parts()
        head, maker = engine.head, self._makers.find(watch)
        if head is None or maker is None:
            self._dependencies.pop(watch.id, None)
            return
        old_dependencies = self._dependencies.get(watch.id)
        if old_dependencies is not None and not engine.may_differ(watch.question, old_dependencies):
            self._checked[watch.id] = head.version.id
            return
        version, state, dependencies = ask_head(asker, watch.question, maker.acl)
        self._record(watch, version, state, self._read_rights(maker))
        self._checked[watch.id] = version
        self._dependencies.pop(watch.id, None)
        if dependencies is not None:
            self._dependencies[watch.id] = dependencies

    def _record(self, watch: Watch, version: int, state: str, rights: Rights) -> None:
        """Record the result of a comparison if it differs from the last recorded state."""
        before, old = Rights.from_json(watch.rights), self._checked.get(watch.id, watch.version)
        text = rights.to_json()
        if before.differs(rights):
            restart = partial(restart_watch, forgets=before.has_lost(rights))
            self._store(lambda database: restart(database, watch.id, version, state, text))
            log.info("the rights of a watch have changed", watch=watch.id, version=version)
            return
        if text != watch.rights:
            self._store(lambda database: change_rights(database, watch.id, text))
        if state != watch.state:
            now_ms = self._now_ms()
            self._store(
                lambda database: record_change(database, watch.id, old, version, state, now_ms)
            )
            log.info("the answer to a watched question changed", watch=watch.id, version=version)

    # Delivering

    def _list_deliveries(self) -> list[Delivery]:
        """List the changes that wait for a program or webhook of this machine, oldest first."""
        if self._worker.is_following:
            return []
        actions = {
            watch.id: (watch, action)
            for watch in self._list_all()
            if (action := self._find_allowed(watch))
            and (maker := self._makers.find(watch))
            and maker.may("admin")
            # Users who can write to a shared database could trigger programs at will.
            and (action.webhook or isinstance(self._database, Path))
        }
        if not actions:
            return []
        with closing(open_reader(self._database)) as connection:
            undelivered = list_undelivered(connection)
        return [
            Delivery(actions[waiting.watch][0], waiting, actions[waiting.watch][1])
            for waiting in undelivered
            if waiting.watch in actions
        ]

    def _make_report(self, delivery: Delivery) -> str:
        watch = delivery.watch
        change = self._read_change(watch, delivery.notification, self._make_acl(watch))
        report = {"watch": watch.id, "question": watch.question, **change}
        return json.dumps(report, ensure_ascii=False)

    def _note_delivery(self, notification: int, error: str | None) -> None:
        self._store(lambda database: note_delivery(database, notification, self._now_ms(), error))

    def _read_change(self, watch: Watch, notification: Notification, acl: Acl) -> WatchChange:
        _, asker = self._parts()
        before = answer_at(asker, watch.question, str(notification.old), acl)
        after = answer_at(asker, watch.question, str(notification.new), acl)
        with closing(open_reader(self._database)) as connection:
            hidden = acl.select_hidden(read_source_names(connection).values())
            why = list_reasons(connection, notification, before, after, hidden)
        return {
            "id": notification.number,
            "old": notification.old,
            "new": notification.new,
            "told": format_moment(notification.notified_ms),
            "delivered": format_time(notification.delivered_ms),
            "error": notification.error,
            "before": before,
            "after": after,
            "why": why,
        }


def _is_listed(watch: Watch, caller: Caller) -> bool:
    """Return whether the caller may know of a watch: an admin, or the user who made it."""
    return caller.may("admin") or is_maker(caller, watch)


def _make_rights(connection: Connection, caller: Caller | None) -> Rights:
    acl = caller.acl if caller else NOTHING
    return Rights.from_acl(acl, read_source_names(connection).values())


def _get_kind(watch: Watch) -> str | None:
    """Return the kind of the watch's action: exec, webhook or mcp."""
    kind = reduce_act_to_kind(watch.act)
    return next(iter(json.loads(kind))) if kind else None


def _not_watched_error(number: int) -> NotFound:
    return NotFound(
        f"There is no watched question {number}",
        "no watched question has that number",
        "`hopsyncd watches` lists the watched questions",
    )
