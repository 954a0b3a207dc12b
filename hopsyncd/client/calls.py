"""What can be asked of the daemon: one function for each endpoint makes the request of it.

Made by `python scripts/api_docs.py` from hopsyncd/api/endpoints.py: change that, not this file.
Options that are left out take the daemon's defaults. docs/api.md says what each of them means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hopsyncd.client.daemon_call import Call, awaited, awaited_stream, call, sent, streamed

if TYPE_CHECKING:
    from typing import Required, TypedDict

    from hopsyncd.answers.changed import (
        Accepted,
        BackupAnswer,
        CheckAnswer,
        DiffAnswer,
        GcAnswer,
        LogAnswer,
        PauseAnswer,
        PreviewAnswer,
        PurgeAnswer,
        RebuildAnswer,
        ReloadAnswer,
        RemoveAnswer,
        RestoreAnswer,
        SyncAnswer,
        TagAnswer,
        UntagAnswer,
    )
    from hopsyncd.answers.daemon_state import (
        HealthAnswer,
        JobsAnswer,
        ScheduleAnswer,
        SourcesAnswer,
        StatsAnswer,
        StatusAnswer,
    )
    from hopsyncd.answers.found import (
        AskAnswer,
        DocumentAnswer,
        DocumentsAnswer,
        NeighboursAnswer,
        PassageAnswer,
        PathsAnswer,
        QueriesAnswer,
        QueryAnswer,
    )
    from hopsyncd.config.strategy import Profile, Reasoner, Strategy

    class Query(TypedDict, total=False):
        """One of several."""

        question: Required[str]
        k: int | None
        strategy: Strategy | None
        at: str
        profile: Profile
        reasoner: Reasoner | None
        top_k: int
        n_hop: int | None


def query(
    question: str,
    k: int | None = None,
    strategy: Strategy | None = None,
    at: str = "head",
    profile: Profile = "default",
    reasoner: Reasoner | None = None,
    top_k: int = 20,
    n_hop: int | None = None,
) -> Call[QueryAnswer]:
    """Find the passages that answer a question, best first."""
    return call(
        "POST",
        "/v1/query",
        {
            "question": question,
            "k": k,
            "strategy": strategy,
            "at": at,
            "profile": profile,
            "reasoner": reasoner,
            "top_k": top_k,
            "n_hop": n_hop,
        },
        "QueryAnswer",
    )


def queries(queries: Sequence[Query]) -> Call[QueriesAnswer]:
    """Answer up to 100 queries, those with the same `at` at one version."""
    return call("POST", "/v1/queries", {"queries": list(queries)}, "QueriesAnswer")


def ask(question: str, k: int = 8, at: str = "head", llm: bool = False) -> Call[AskAnswer]:
    """Answer a question, with citations."""
    return call(
        "POST", "/v1/ask", {"question": question, "k": k, "at": at, "llm": llm}, "AskAnswer"
    )


def passage(id: str, at: str = "head") -> Call[PassageAnswer]:
    """A passage, and the questions that it answers and raises."""
    return call("GET", "/v1/passages/{id}", {"id": id, "at": at}, "PassageAnswer")


def documents(
    source: str | None = None,
    under: str | None = None,
    after: str | None = None,
    limit: int = 100,
    at: str = "head",
) -> Call[DocumentsAnswer]:
    """A page of the documents, by source and path; pass its `next` as `after` for more."""
    return call(
        "GET",
        "/v1/documents",
        {"source": source, "under": under, "after": after, "limit": limit, "at": at},
        "DocumentsAnswer",
    )


def document(source: str, document: str, at: str = "head") -> Call[DocumentAnswer]:
    """The passages of a document, in reading order."""
    return call(
        "GET", "/v1/document", {"source": source, "document": document, "at": at}, "DocumentAnswer"
    )


def neighbours(id: str, hops: int = 1, limit: int = 50, at: str = "head") -> Call[NeighboursAnswer]:
    """The passages around one in the graph."""
    return call(
        "GET",
        "/v1/neighbours/{id}",
        {"id": id, "hops": hops, "limit": limit, "at": at},
        "NeighboursAnswer",
    )


def paths(
    start: str, end: str, max_hops: int = 4, limit: int = 5, at: str = "head"
) -> Call[PathsAnswer]:
    """The paths from one passage to another, the shortest first."""
    return call(
        "GET",
        "/v1/paths",
        {"from": start, "to": end, "max_hops": max_hops, "limit": limit, "at": at},
        "PathsAnswer",
    )


def log(limit: int = 20, before: int | None = None) -> Call[LogAnswer]:
    """Versions, newest first."""
    return call("GET", "/v1/log", {"limit": limit, "before": before}, "LogAnswer")


def diff(old: str = "head", new: str = "head", limit: int | None = None) -> Call[DiffAnswer]:
    """What differs between two versions."""
    return call("GET", "/v1/diff", {"from": old, "to": new, "limit": limit}, "DiffAnswer")


def status() -> Call[StatusAnswer]:
    """The state of the daemon and its sources."""
    return call("GET", "/v1/status", {}, "StatusAnswer")


def sources() -> Call[SourcesAnswer]:
    """The state of the sources."""
    return call("GET", "/v1/sources", {}, "SourcesAnswer")


def health() -> Call[HealthAnswer]:
    """Whether the daemon serves; cheap to ask."""
    return call("GET", "/v1/health", {}, "HealthAnswer")


def schedule() -> Call[ScheduleAnswer]:
    """The scheduled jobs, with their last runs."""
    return call("GET", "/v1/schedule", {}, "ScheduleAnswer")


def jobs() -> Call[JobsAnswer]:
    """The sync that runs now, and the scheduled jobs."""
    return call("GET", "/v1/jobs", {}, "JobsAnswer")


def stats() -> Call[StatsAnswer]:
    """Requests since the start, by endpoint."""
    return call("GET", "/v1/stats", {}, "StatsAnswer")


def metrics() -> Call[str]:
    """Metrics in Prometheus's text format."""
    return call("GET", "/v1/metrics", {}, is_text=True)


def reload() -> Call[ReloadAnswer]:
    """Apply the changed configuration."""
    return call("POST", "/v1/reload", {}, "ReloadAnswer")


def openapi() -> Call[dict[str, Any]]:
    """The OpenAPI 3.1 document."""
    return call("GET", "/v1/openapi.json", {})


def sync(sources: Sequence[str] = (), accept_empty: bool = False) -> Call[SyncAnswer]:
    """Scan sources, and bring the graph up to date with what is on disk now."""
    return call(
        "POST", "/v1/sync", {"sources": list(sources), "accept_empty": accept_empty}, "SyncAnswer"
    )


def start_sync(sources: Sequence[str] = (), accept_empty: bool = False) -> Call[Accepted]:
    """Scan sources, and bring the graph up to date with what is on disk now; without waiting."""
    return call(
        "POST",
        "/v1/sync",
        {"sources": list(sources), "accept_empty": accept_empty, "wait": False},
        "Accepted",
    )


def preview(sources: Sequence[str] = (), limit: int | None = None) -> Call[PreviewAnswer]:
    """What a sync would do and cost; only reads."""
    return call("POST", "/v1/preview", {"sources": list(sources), "limit": limit}, "PreviewAnswer")


def restore(version: str, sources: Sequence[str] = ()) -> Call[RestoreAnswer]:
    """Commit a version whose documents are those of an earlier one."""
    return call(
        "POST", "/v1/restore", {"version": version, "sources": list(sources)}, "RestoreAnswer"
    )


def release(sources: Sequence[str] = ()) -> Call[SyncAnswer]:
    """End the pins of restores, and sync."""
    return call("POST", "/v1/release", {"sources": list(sources)}, "SyncAnswer")


def pause(name: str) -> Call[PauseAnswer]:
    """Leave a source alone until it is resumed."""
    return call("POST", "/v1/pause", {"name": name}, "PauseAnswer")


def resume(name: str) -> Call[PauseAnswer]:
    """End a pause."""
    return call("POST", "/v1/resume", {"name": name}, "PauseAnswer")


def remove(name: str, purge: bool = False) -> Call[RemoveAnswer]:
    """Remove a source's documents from the newest version, or from all."""
    return call("POST", "/v1/remove", {"name": name, "purge": purge}, "RemoveAnswer")


def tag(name: str, version: str = "head") -> Call[TagAnswer]:
    """Name a version."""
    return call("POST", "/v1/tags", {"name": name, "version": version}, "TagAnswer")


def untag(name: str) -> Call[UntagAnswer]:
    """Remove the name of a version."""
    return call("DELETE", "/v1/tags/{name}", {"name": name}, "UntagAnswer")


def check(deep: bool = False) -> Call[CheckAnswer]:
    """Verify the database."""
    return call("POST", "/v1/check", {"deep": deep}, "CheckAnswer")


def backup(file: str) -> Call[BackupAnswer]:
    """Copy the database to an absolute path that does not exist."""
    return call("POST", "/v1/backup", {"file": file}, "BackupAnswer")


def rebuild() -> Call[RebuildAnswer]:
    """Compute again all that is derived from passages and questions."""
    return call("POST", "/v1/rebuild", {}, "RebuildAnswer")


def gc(dry_run: bool = False) -> Call[GcAnswer]:
    """Collect the versions that the configuration does not keep."""
    return call("POST", "/v1/gc", {"dry_run": dry_run}, "GcAnswer")


def purge(document: str, source: str | None = None, again: bool = False) -> Call[PurgeAnswer]:
    """Remove a document from every version; with `again`, let scans index it once more."""
    return call(
        "POST", "/v1/purge", {"document": document, "source": source, "again": again}, "PurgeAnswer"
    )


class BlockingMethods:
    """One method for each endpoint."""

    ask_events = streamed(ask)
    sync_events = streamed(sync)
    release_events = streamed(release)
    check_events = streamed(check)
    query = sent(query)
    queries = sent(queries)
    ask = sent(ask)
    passage = sent(passage)
    documents = sent(documents)
    document = sent(document)
    neighbours = sent(neighbours)
    paths = sent(paths)
    log = sent(log)
    diff = sent(diff)
    status = sent(status)
    sources = sent(sources)
    health = sent(health)
    schedule = sent(schedule)
    jobs = sent(jobs)
    stats = sent(stats)
    metrics = sent(metrics)
    reload = sent(reload)
    openapi = sent(openapi)
    sync = sent(sync)
    start_sync = sent(start_sync)
    preview = sent(preview)
    restore = sent(restore)
    release = sent(release)
    pause = sent(pause)
    resume = sent(resume)
    remove = sent(remove)
    tag = sent(tag)
    untag = sent(untag)
    check = sent(check)
    backup = sent(backup)
    rebuild = sent(rebuild)
    gc = sent(gc)
    purge = sent(purge)


class AsynchronousMethods:
    """One method for each endpoint."""

    ask_events = awaited_stream(ask)
    sync_events = awaited_stream(sync)
    release_events = awaited_stream(release)
    check_events = awaited_stream(check)
    query = awaited(query)
    queries = awaited(queries)
    ask = awaited(ask)
    passage = awaited(passage)
    documents = awaited(documents)
    document = awaited(document)
    neighbours = awaited(neighbours)
    paths = awaited(paths)
    log = awaited(log)
    diff = awaited(diff)
    status = awaited(status)
    sources = awaited(sources)
    health = awaited(health)
    schedule = awaited(schedule)
    jobs = awaited(jobs)
    stats = awaited(stats)
    metrics = awaited(metrics)
    reload = awaited(reload)
    openapi = awaited(openapi)
    sync = awaited(sync)
    start_sync = awaited(start_sync)
    preview = awaited(preview)
    restore = awaited(restore)
    release = awaited(release)
    pause = awaited(pause)
    resume = awaited(resume)
    remove = awaited(remove)
    tag = awaited(tag)
    untag = awaited(untag)
    check = awaited(check)
    backup = awaited(backup)
    rebuild = awaited(rebuild)
    gc = awaited(gc)
    purge = awaited(purge)
