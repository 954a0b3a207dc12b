"""Stores state that is not versioned: job runs, quarantine, waits for the LLM, and watched
questions.

Answers never depend on this state.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass

from store.contract import Connection
from store.records import PassageId, SetId
from store.transactions import transaction

UNTRIED = "queued"
_MAX_QUARANTINED = 10_000
_KINDS_OF_ACTS = {"exec", "webhook", "mcp"}
_MAX_NOTIFICATIONS = 100  # kept for each watched question
_WATCH = "id, question, act, created_ms, version, state, maker, login, rights"
_NOTIFICATION = "id, number, watch, old, new, told_ms, before, after, delivered_ms, error"


@dataclass(frozen=True, slots=True)
class JobRow:
    """The last run of a job. Times are in Unix ms. `error` is None unless the run failed.

    `succeeded_ms` is the time of the last successful run, or None if there was none.
    """

    name: str
    ran_ms: int
    succeeded_ms: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a question set is still provisional, and when (Unix ms) to ask the LLM for its questions
    again."""

    question_set: SetId
    why: str
    tries: int
    next_ms: int


def note_run(connection: Connection, name: str, ran_ms: int, error: str | None) -> None:
    """Record the end of a job's run. A failed run does not change the time of the last success."""
    with transaction(connection):
        connection.execute(
            "INSERT INTO job VALUES (?, ?, ?, ?) ON CONFLICT (name)"
            " DO UPDATE SET ran_ms = excluded.ran_ms, error = excluded.error,"
            " succeeded_ms = coalesce(excluded.succeeded_ms, job.succeeded_ms)",
            [name, ran_ms, ran_ms if error is None else None, error],
        )


def read_jobs(connection: Connection) -> dict[str, JobRow]:
    """Return the last run of every job that has ever run, by name."""
    rows = connection.execute("SELECT name, ran_ms, succeeded_ms, error FROM job")
    return {row[0]: JobRow(*row) for row in rows}


def find_quarantined(connection: Connection, rules: str) -> dict[bytes, str]:
    """Return the reason for each quarantine under `rules`, by content hash. `rules` names the
    version of the code that reads documents."""
    rows = connection.execute("SELECT content, why FROM quarantine WHERE rules = ?", [rules])
    return dict(rows)


def count_quarantined(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM quarantine").fetchone()[0])


def put_quarantined(
    connection: Connection, content: bytes, rules: str, why: str, now_ms: int
) -> None:
    """Put a content hash into quarantine, with the reason `why`. Only the newest ten thousand
    hashes are kept."""
    with transaction(connection):
        connection.execute(
            "INSERT INTO quarantine VALUES (?, ?, ?, ?) ON CONFLICT (content) DO UPDATE"
            " SET rules = excluded.rules, why = excluded.why, since_ms = excluded.since_ms",
            [content, rules, why, now_ms],
        )
        connection.execute(
            "DELETE FROM quarantine WHERE content NOT IN (SELECT content FROM quarantine"
            " ORDER BY since_ms DESC, content LIMIT ?)",
            [_MAX_QUARANTINED],
        )


def end_quarantine(connection: Connection, rules: str) -> bool:
    """Release all content that was quarantined under rules other than `rules`. The next scans read
    this content again.

    Returns False if no content was released.
    """
    with transaction(connection):
        ended = connection.execute("DELETE FROM quarantine WHERE rules <> ?", [rules]).rowcount
        if ended:
            connection.execute(
                "UPDATE source_state SET cursor = NULL WHERE source IN"
                " (SELECT source FROM seen WHERE why IS NOT NULL)"
            )
            connection.execute("UPDATE seen SET revision = '' WHERE why IS NOT NULL")
    return bool(ended)


def read_waits(connection: Connection, sets: Iterable[SetId]) -> dict[SetId, Wait]:
    """Return the waits of these question sets. Sets without a recorded attempt are left out."""
    rows = connection.execute(
        "SELECT question_set, why, tries, next_ms FROM waiting"
        f" WHERE question_set IN {connection.dialect.select_ids()}",
        [json.dumps(list(sets))],
    )
    return {SetId(row[0]): Wait(*row) for row in rows}


def put_waits(connection: Connection, waits: Iterable[Wait]) -> None:
    """Record waits. Each wait replaces the earlier wait of its question set."""
    with transaction(connection):
        connection.executemany(
            "INSERT INTO waiting VALUES (?, ?, ?, ?) ON CONFLICT (question_set) DO UPDATE"
            " SET why = excluded.why, tries = excluded.tries, next_ms = excluded.next_ms",
            [(wait.question_set, wait.why, wait.tries, wait.next_ms) for wait in waits],
        )


def list_due_passages(
    connection: Connection, version: int, generation: int, now_ms: int, limit: int
) -> list[PassageId]:
    """Return at most `limit` passages with a provisional question set whose LLM request is due at
    `now_ms`. Passages with the fewest attempts come first."""
    rows = connection.execute(
        f"SELECT s.passage FROM {_select_provisional(connection)} AND s.recipe = ?2"
        " AND coalesce(w.next_ms, 0) <= ?3"
        " ORDER BY coalesce(w.tries, 0), s.passage LIMIT ?4",
        [version, generation, now_ms, limit],
    )
    return [PassageId(row[0]) for row in rows]


def count_waiting_by_reason(connection: Connection, version: int) -> dict[str, int]:
    """Count the waiting passages at a version, by the kind of error in the last attempt."""
    return dict(
        connection.execute(
            f"SELECT coalesce(w.why, '{UNTRIED}') AS why, count(*)"
            f" FROM {_select_provisional(connection)}"
            " GROUP BY why ORDER BY why",
            [version],
        )
    )


def end_waits(connection: Connection) -> None:
    """Make every waiting passage due now, because the cause may have been fixed."""
    with transaction(connection):
        connection.execute("UPDATE waiting SET next_ms = 0")


@dataclass(frozen=True, slots=True)
class Watch:
    """A watched question. schema/014_watches.sql describes `act` and `state`, which are JSON.

    `maker`, `login` and `rights` say who made the watch; schema/022_makers.sql describes them. The
    daemon trusts only the kind of an act (`reduce_act_to_kind`), because anyone with access to the
    database may have written the other values.
    """

    id: int
    question: str
    act: str | None
    created_ms: int
    version: int
    state: str
    maker: str | None = None
    login: str | None = None
    rights: str | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """A change of a watched question's answer between two versions; a row of the table `telling`.

    `id` numbers the changes of all watches, and `number` the changes of this watch.
    """

    id: int
    number: int
    watch: int
    old: int
    new: int
    notified_ms: int
    before: str
    after: str
    delivered_ms: int | None
    error: str | None


def add_watch(connection: Connection, watch: Watch) -> int:
    """Add a watched question with its state at its version. Returns its id.

    The `id` of the argument is ignored.
    """
    with transaction(connection):
        added = connection.execute(
            f"INSERT INTO watch ({_WATCH.removeprefix('id, ')})"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            astuple(watch)[1:],
        )
        return int(added.fetchone()[0])


def change_login(connection: Connection, number: int, login: str | None) -> None:
    """Change the login that identifies the maker of the watch with the id `number`."""
    with transaction(connection):
        connection.execute("UPDATE watch SET login = ? WHERE id = ?", [login, number])


def change_rights(connection: Connection, number: int, rights: str | None) -> None:
    """Record the access rights with which the answer of the watch with the id `number` was last
    compared."""
    with transaction(connection):
        connection.execute("UPDATE watch SET rights = ? WHERE id = ?", [rights, number])


def restart_watch(
    connection: Connection,
    number: int,
    version: int,
    state: str,
    rights: str | None,
    *,
    forgets: bool,
) -> None:
    """Record the state of a watch under changed access rights, without a notification. If `forgets`
    is true, earlier notifications are deleted."""
    with transaction(connection):
        connection.execute(
            "UPDATE watch SET version = ?, state = ?, rights = ? WHERE id = ?",
            [version, state, rights, number],
        )
        if forgets:
            connection.execute("DELETE FROM telling WHERE watch = ?", [number])


def reduce_act_to_kind(act: str | None) -> str | None:
    """Return an act (JSON) reduced to its kind, or None if the kind is unknown. An act is the
    program or webhook that receives notifications. Only its kind is stored in the database.

    The program or the webhook's address is in a file on the daemon's machine. So write access to
    the database is not enough to start a program or to send data to an address.
    """
    try:
        fields = json.loads(act) if act else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or len(fields) != 1 or not fields.keys() <= _KINDS_OF_ACTS:
        return None
    return json.dumps(dict.fromkeys(fields, True))


def replace_act(connection: Connection, number: int, old: str | None, new: str | None) -> None:
    """Set the act of a watch to `new` if it is still `old`."""
    with transaction(connection):
        connection.execute("UPDATE watch SET act = ? WHERE id = ? AND act = ?", [new, number, old])


def fail_undelivered(connection: Connection, number: int, now_ms: int, why: str) -> None:
    """Mark the undelivered notifications of a watch as failed, for the reason `why`."""
    with transaction(connection):
        connection.execute(
            "UPDATE telling SET delivered_ms = ?, error = ?"
            " WHERE watch = ? AND delivered_ms IS NULL",
            [now_ms, why, number],
        )


def remove_watch(connection: Connection, number: int) -> bool:
    """Remove a watched question and its notifications. Returns False if there is no watch with this
    id."""
    with transaction(connection):
        connection.execute("DELETE FROM telling WHERE watch = ?", [number])
        return bool(connection.execute("DELETE FROM watch WHERE id = ?", [number]).rowcount)


def list_watches(connection: Connection) -> list[Watch]:
    """Return all watched questions, oldest first."""
    rows = connection.execute(f"SELECT {_WATCH} FROM watch ORDER BY id")
    return [Watch(*row) for row in rows]


def record_change(
    connection: Connection, number: int, old: int, new: int, state: str, now_ms: int
) -> bool:
    """Record a new state of a watched question and a notification of the change.

    Returns False if the state has not changed, or if the watch was removed. The last hundred
    notifications of each question are kept, in the table `telling`.
    """
    with transaction(connection):
        rows = connection.execute(
            "INSERT INTO telling (number, watch, old, new, told_ms, before, after)"
            " SELECT (SELECT coalesce(max(number), 0) + 1 FROM telling WHERE watch = ?1),"
            " id, ?2, ?3, ?5, state, ?4 FROM watch WHERE id = ?1 AND state <> ?4",
            [number, old, new, state, now_ms],
        ).rowcount
        if rows:
            connection.execute(
                "UPDATE watch SET version = ?, state = ? WHERE id = ?", [new, state, number]
            )
            connection.execute(
                "DELETE FROM telling WHERE watch = ?1 AND id NOT IN"
                " (SELECT id FROM telling WHERE watch = ?1 ORDER BY id DESC LIMIT ?2)",
                [number, _MAX_NOTIFICATIONS],
            )
    return bool(rows)


def list_notifications(connection: Connection, number: int, limit: int) -> list[Notification]:
    """Return the notifications of a watched question, newest first."""
    rows = connection.execute(
        f"SELECT {_NOTIFICATION} FROM telling WHERE watch = ? ORDER BY id DESC LIMIT ?",
        [number, limit],
    )
    return [Notification(*row) for row in rows]


def list_undelivered(connection: Connection) -> list[Notification]:
    """Return the notifications that a program or webhook has not received yet, oldest first."""
    rows = connection.execute(
        f"SELECT {_NOTIFICATION} FROM telling WHERE delivered_ms IS NULL"
        " AND watch IN (SELECT id FROM watch WHERE act IS NOT NULL) ORDER BY id"
    )
    return [Notification(*row) for row in rows]


def note_delivery(
    connection: Connection, notification: int, now_ms: int, error: str | None
) -> None:
    """Record the delivery of a notification to its program or webhook. If the delivery failed,
    `error` is the reason."""
    with transaction(connection):
        connection.execute(
            "UPDATE telling SET delivered_ms = ?, error = ? WHERE id = ?",
            [now_ms, error, notification],
        )


def _select_provisional(connection: Connection) -> str:
    """Return a FROM clause for the provisional question sets in force. There are few of these sets,
    so SQLite must read them before the intervals."""
    return (
        f"question_set AS s {connection.dialect.first_join} life AS l"
        " ON l.passage = s.passage AND l.question_set = s.id AND l.born <= ?1 AND ?1 < l.died"
        " LEFT JOIN waiting AS w ON w.question_set = s.id WHERE s.provisional = 1"
    )


_KEPT = 1000  # answered requests to keep


@dataclass(frozen=True, slots=True)
class RequestedSync:
    """A request to sync the sources with these names. If `sources` is empty, all sources are
    synced."""

    id: int
    sources: tuple[str, ...]
    accept_empty: bool


@dataclass(frozen=True, slots=True)
class SyncReply:
    """The reply to a requested sync: the newest version, and a (source, problem) pair for each
    source. If the sync failed, `outcomes` is empty and `error` says why."""

    version: int
    outcomes: tuple[tuple[str, str | None], ...]
    error: str | None = None


def store_sync_request(connection: Connection, sources: Collection[str], accept_empty: bool) -> int:
    """Store a sync request for the current or next writer. Returns the request's id."""
    row = connection.execute(
        "INSERT INTO asked_sync (sources, accept_empty) VALUES (?, ?) RETURNING id",
        [json.dumps(sorted(sources)), int(accept_empty)],
    ).fetchone()
    return int(row[0])


def list_pending_syncs(connection: Connection) -> list[RequestedSync]:
    """Return the requests without a reply, oldest first."""
    rows = connection.execute(
        "SELECT id, sources, accept_empty FROM asked_sync WHERE version IS NULL ORDER BY id"
    )
    return [RequestedSync(row[0], tuple(json.loads(row[1])), bool(row[2])) for row in rows]


def store_reply(connection: Connection, request: int, done: SyncReply) -> None:
    outcomes = done.error if done.error is not None else done.outcomes
    connection.execute(
        "UPDATE asked_sync SET version = ?, outcomes = ? WHERE id = ?",
        [done.version, json.dumps(outcomes), request],
    )
    connection.execute("DELETE FROM asked_sync WHERE id < ?", [request - _KEPT])


def read_replies(connection: Connection, requests: Collection[int]) -> dict[int, SyncReply]:
    """Return the replies to these requests, by id. Requests without a reply are left out."""
    rows = connection.execute(
        "SELECT id, version, outcomes FROM asked_sync WHERE version IS NOT NULL"
        f" AND id IN {connection.dialect.select_ids()}",
        [json.dumps(sorted(requests))],
    )
    return {row[0]: _decode_reply(row[1], json.loads(row[2])) for row in rows}


def _decode_reply(version: int, outcomes: str | list[list[str | None]]) -> SyncReply:
    if isinstance(outcomes, str):
        return SyncReply(version, (), outcomes)
    return SyncReply(version, tuple((str(source), problem) for source, problem in outcomes))
