"""When the jobs of the schedule last ran: operational records beside the versioned ones."""

from dataclasses import dataclass

from store.database import Connection, transaction


@dataclass(frozen=True, slots=True)
class JobRow:
    """The end of a job's last run, in Unix time; `error` is None unless that failed.

    `succeeded_ms` is None before the first run that succeeded.
    """

    name: str
    ran_ms: int
    succeeded_ms: int | None
    error: str | None


def note_run(connection: Connection, name: str, ran_ms: int, error: str | None) -> None:
    """Record how a run ended that ended now; one that failed keeps the time of the last success."""
    with transaction(connection):
        connection.execute(
            "INSERT INTO job VALUES (?1, ?2, iif(?3 IS NULL, ?2, NULL), ?3) ON CONFLICT (name)"
            " DO UPDATE SET ran_ms = excluded.ran_ms, error = excluded.error,"
            " succeeded_ms = coalesce(excluded.succeeded_ms, succeeded_ms)",
            [name, ran_ms, error],
        )


def all_jobs(connection: Connection) -> dict[str, JobRow]:
    """The last run of every job that ever ran, by its name."""
    rows = connection.execute("SELECT name, ran_ms, succeeded_ms, error FROM job")
    return {row[0]: JobRow(*row) for row in rows}
