"""What can be asked of the daemon: one function for each endpoint makes the request of it.

Options that are left out take the daemon's defaults. docs/api.md says what each of them means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from hopsyncd.answers import changed as answers_changes
    from hopsyncd.answers import daemon_state as answers_status
    from hopsyncd.answers import found as answers
    from hopsyncd.config.strategy import Profile, Reasoner, Strategy

    class QueryOptions(TypedDict, total=False):
        """How to search, and at which version."""

        k: int | None
        strategy: Strategy | None
        profile: Profile
        reasoner: Reasoner | None
        top_k: int
        n_hop: int | None
        at: str

    class Query(QueryOptions):
        """One of several queries."""

        question: str

    class AskOptions(TypedDict, total=False):
        """From how many passages, at which version, and whether the LLM puts it in words."""

        k: int
        at: str
        llm: bool


Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer_co]):
    """A request whose answer is an `Answer_co`, checked to be one where `answer` names the type.

    `is_text`: the answer is text as it is, else JSON.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    is_text: bool = False
    answer: str = ""


def query(question: str, **options: Unpack[QueryOptions]) -> Call[answers.QueryAnswer]:
    """The passages that answer a question, best first."""
    return Call("POST", "/v1/query", {"question": question, **options}, answer="QueryAnswer")


def queries(asked: Sequence[Query]) -> Call[answers.QueriesAnswer]:
    """Several queries, 100 at most; those with the same `at` are answered at one version."""
    return Call("POST", "/v1/queries", {"queries": list(asked)}, answer="QueriesAnswer")


def ask(question: str, **options: Unpack[AskOptions]) -> Call[answers.AskAnswer]:
    """An answer with citations."""
    return Call("POST", "/v1/ask", {"question": question, **options}, answer="AskAnswer")


def passage(id: str, at: str = "head") -> Call[answers.PassageAnswer]:
    """A passage, and the questions that it answers and raises."""
    return _get("PassageAnswer", f"/v1/passages/{quote(id, safe='')}", at=at)


def documents(
    source: str | None = None,
    under: str | None = None,
    after: str | None = None,
    limit: int = 100,
    at: str = "head",
) -> Call[answers.DocumentsAnswer]:
    """A page of the documents; its `next`, given as `after`, begins the following one."""
    return _get(
        "DocumentsAnswer",
        "/v1/documents",
        source=source,
        under=under,
        after=after,
        limit=limit,
        at=at,
    )


def document(source: str, document: str, at: str = "head") -> Call[answers.DocumentAnswer]:
    """The passages of a document, in reading order."""
    return _get("DocumentAnswer", "/v1/document", source=source, document=document, at=at)


def neighbours(
    id: str, hops: int = 1, limit: int = 50, at: str = "head"
) -> Call[answers.NeighboursAnswer]:
    """What lies around a passage in the graph."""
    return _get(
        "NeighboursAnswer", f"/v1/neighbours/{quote(id, safe='')}", hops=hops, limit=limit, at=at
    )


def paths(
    start: str, end: str, max_hops: int = 4, limit: int = 5, at: str = "head"
) -> Call[answers.PathsAnswer]:
    """The ways from one passage to another, the shortest first."""
    wanted = {"from": start, "to": end}
    return _get("PathsAnswer", "/v1/paths", **wanted, max_hops=max_hops, limit=limit, at=at)


def log(limit: int = 20, before: int | None = None) -> Call[answers_changes.LogAnswer]:
    """Versions, newest first; `before`: older than that one."""
    return _get("LogAnswer", "/v1/log", limit=limit, before=before)


def diff(old: str, new: str = "head", limit: int | None = None) -> Call[answers_changes.DiffAnswer]:
    """What differs between two versions; lists have at most `limit` lines."""
    return _get("DiffAnswer", "/v1/diff", **{"from": old, "to": new}, limit=limit)


def status() -> Call[answers_status.StatusAnswer]:
    """How the daemon and its sources are."""
    return _get("StatusAnswer", "/v1/status")


def sources() -> Call[answers_status.SourcesAnswer]:
    """How the sources are."""
    return _get("SourcesAnswer", "/v1/sources")


def health() -> Call[answers_status.HealthAnswer]:
    """Whether the daemon serves, cheaply."""
    return _get("HealthAnswer", "/v1/health")


def schedule() -> Call[answers_status.ScheduleAnswer]:
    """What runs when, and how it last went."""
    return _get("ScheduleAnswer", "/v1/schedule")


def jobs() -> Call[answers_status.JobsAnswer]:
    """What runs now, and what runs when."""
    return _get("JobsAnswer", "/v1/jobs")


def stats() -> Call[answers_status.StatsAnswer]:
    """Requests since the start, by endpoint."""
    return _get("StatsAnswer", "/v1/stats")


def metrics() -> Call[str]:
    """How the daemon is, in Prometheus's text format."""
    return Call("GET", "/v1/metrics", is_text=True)


def openapi() -> Call[dict[str, Any]]:
    """The OpenAPI document."""
    return Call("GET", "/v1/openapi.json")


def sync(
    sources: Sequence[str] = (), accept_empty: bool = False
) -> Call[answers_changes.SyncAnswer]:
    """Scan sources (none named: all), and wait until the served version has all that is on disk."""
    return Call(
        "POST",
        "/v1/sync",
        {"sources": list(sources), "accept_empty": accept_empty},
        answer="SyncAnswer",
    )


def start_sync(
    sources: Sequence[str] = (), accept_empty: bool = False
) -> Call[answers_changes.Accepted]:
    """Have sources scanned, without waiting."""
    body = {"sources": list(sources), "accept_empty": accept_empty, "wait": False}
    return Call("POST", "/v1/sync", body, answer="Accepted")


def preview(
    sources: Sequence[str] = (), limit: int | None = None
) -> Call[answers_changes.PreviewAnswer]:
    """What a sync would do and cost."""
    return Call(
        "POST", "/v1/preview", {"sources": list(sources), "limit": limit}, answer="PreviewAnswer"
    )


def restore(version: str, sources: Sequence[str] = ()) -> Call[answers_changes.RestoreAnswer]:
    """Commit a version whose documents are those of an earlier one."""
    return Call(
        "POST",
        "/v1/restore",
        {"version": version, "sources": list(sources)},
        answer="RestoreAnswer",
    )


def release(sources: Sequence[str] = ()) -> Call[answers_changes.SyncAnswer]:
    """End what restores hold, and sync."""
    return Call("POST", "/v1/release", {"sources": list(sources)}, answer="SyncAnswer")


def pause(name: str) -> Call[answers_changes.PauseAnswer]:
    """Leave a source alone until it is resumed."""
    return Call("POST", "/v1/pause", {"name": name}, answer="PauseAnswer")


def resume(name: str) -> Call[answers_changes.PauseAnswer]:
    """End a pause."""
    return Call("POST", "/v1/resume", {"name": name}, answer="PauseAnswer")


def remove(name: str, *, purge: bool = False) -> Call[answers_changes.RemoveAnswer]:
    """Take a source's documents out of the newest version, or out of all."""
    return Call("POST", "/v1/remove", {"name": name, "purge": purge}, answer="RemoveAnswer")


def tag(name: str, version: str = "head") -> Call[answers_changes.TagAnswer]:
    """Name a version."""
    return Call("POST", "/v1/tags", {"name": name, "version": version}, answer="TagAnswer")


def untag(name: str) -> Call[answers_changes.UntagAnswer]:
    """Remove a name."""
    return Call("DELETE", f"/v1/tags/{quote(name)}", answer="UntagAnswer")


def reload() -> Call[answers_changes.ReloadAnswer]:
    """Take up what changed in the configuration."""
    return Call("POST", "/v1/reload", {}, answer="ReloadAnswer")


def check(deep: bool = False) -> Call[answers_changes.CheckAnswer]:
    """Verify the database."""
    return Call("POST", "/v1/check", {"deep": deep}, answer="CheckAnswer")


def backup(file: str) -> Call[answers_changes.BackupAnswer]:
    """Copy the database to an absolute path that does not exist."""
    return Call("POST", "/v1/backup", {"file": file}, answer="BackupAnswer")


def rebuild() -> Call[answers_changes.RebuildAnswer]:
    """Make everything derived anew."""
    return Call("POST", "/v1/rebuild", {}, answer="RebuildAnswer")


def gc(dry_run: bool = False) -> Call[answers_changes.GcAnswer]:
    """Collect the versions that the configuration does not keep."""
    return Call("POST", "/v1/gc", {"dry_run": dry_run}, answer="GcAnswer")


def purge(
    document: str, source: str | None = None, again: bool = False
) -> Call[answers_changes.PurgeAnswer]:
    """Remove a document from every version; `again`: let scans index it again."""
    body = {"document": document, "source": source, "again": again}
    return Call("POST", "/v1/purge", body, answer="PurgeAnswer")


def _get(answer: str, path: str, **parameters: str | int | None) -> Call[Any]:
    given = {name: value for name, value in parameters.items() if value is not None}
    return Call("GET", f"{path}?{urlencode(given)}" if given else path, answer=answer)
