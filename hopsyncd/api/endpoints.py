"""Every endpoint of the API: the routes and the OpenAPI document are both made from this table."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from hopsyncd.answers import changed as answers_changes
from hopsyncd.answers import daemon_state as answers_status
from hopsyncd.answers import found as answers
from hopsyncd.api import requests
from hopsyncd.api import requests as parameters
from hopsyncd.api.metrics import METRICS_TYPE

Right = Literal["read", "admin"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`operation` is the method of the service that answers.

    request: what is asked, as the body of a POST, else as parameters. listens: the work is told of
    the client that waits, and ends with it. streams: it can be answered in NDJSON.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    right: Right
    operation: str
    summary: str
    request: type[BaseModel]
    answer: Any
    listens: bool = False
    streams: bool = False
    media_type: str = "application/json"


_NONE = parameters.NoParameters

ENDPOINTS = (
    Endpoint(
        "POST", "/v1/query", "read", "query", "Find the passages that answer a question",
        requests.QueryRequest, answers.QueryAnswer, listens=True,
    ),
    Endpoint(
        "POST", "/v1/queries", "read", "queries", "Answer several queries, at one version",
        requests.QueriesRequest, answers.QueriesAnswer, listens=True,
    ),
    Endpoint(
        "POST", "/v1/ask", "read", "ask", "Answer a question, with citations",
        requests.AskRequest, answers.AskAnswer, listens=True, streams=True,
    ),
    Endpoint(
        "GET", "/v1/passages/{id}", "read", "passage", "A passage and its questions",
        parameters.PassageRequest, answers.PassageAnswer,
    ),
    Endpoint(
        "GET", "/v1/documents", "read", "documents", "The documents, by source and path",
        parameters.DocumentsRequest, answers.DocumentsAnswer,
    ),
    Endpoint(
        "GET", "/v1/document", "read", "document", "The passages of a document, in reading order",
        parameters.DocumentRequest, answers.DocumentAnswer,
    ),
    Endpoint(
        "GET", "/v1/neighbours/{id}", "read", "neighbours", "The passages around one in the graph",
        parameters.NeighboursRequest, answers.NeighboursAnswer,
    ),
    Endpoint(
        "GET", "/v1/paths", "read", "paths", "The shortest ways between two passages",
        parameters.PathsRequest, answers.PathsAnswer,
    ),
    Endpoint(
        "GET", "/v1/log", "read", "log", "Versions, newest first",
        parameters.LogRequest, answers_changes.LogAnswer,
    ),
    Endpoint(
        "GET", "/v1/diff", "read", "diff", "What differs between two versions",
        parameters.DiffRequest, answers_changes.DiffAnswer,
    ),
    Endpoint(
        "GET", "/v1/status", "read", "status", "How the daemon and its sources are",
        _NONE, answers_status.StatusAnswer,
    ),
    Endpoint(
        "GET", "/v1/sources", "read", "sources", "How the sources are",
        _NONE, answers_status.SourcesAnswer,
    ),
    Endpoint(
        "GET", "/v1/health", "read", "health", "Whether it serves, cheaply",
        _NONE, answers_status.HealthAnswer,
    ),
    Endpoint(
        "GET", "/v1/schedule", "read", "schedule", "What runs when, and how it last went",
        _NONE, answers_status.ScheduleAnswer,
    ),
    Endpoint(
        "GET", "/v1/jobs", "read", "jobs", "What runs now, and what runs when",
        _NONE, answers_status.JobsAnswer,
    ),
    Endpoint(
        "GET", "/v1/stats", "read", "stats", "Requests since the start, by endpoint",
        _NONE, answers_status.StatsAnswer,
    ),
    Endpoint(
        "GET", "/v1/metrics", "admin", "metrics", "How the daemon is, for Prometheus",
        _NONE, str, media_type=METRICS_TYPE,
    ),
    Endpoint(
        "POST", "/v1/reload", "admin", "reload", "Take up a changed configuration",
        requests.ReloadRequest, answers_changes.ReloadAnswer,
    ),
    Endpoint(
        "GET", "/v1/openapi.json", "read", "openapi", "This document",
        _NONE, dict[str, Any],
    ),
    Endpoint(
        "POST", "/v1/sync", "admin", "sync", "Scan sources and bring the graph up to date",
        requests.SyncRequest, answers_changes.SyncAnswer | answers_changes.Accepted, streams=True,
    ),
    Endpoint(
        "POST", "/v1/preview", "admin", "preview", "What a sync would do and cost",
        requests.PreviewRequest, answers_changes.PreviewAnswer,
    ),
    Endpoint(
        "POST", "/v1/restore", "admin", "restore", "Commit a version equal to an earlier one",
        requests.RestoreRequest, answers_changes.RestoreAnswer,
    ),
    Endpoint(
        "POST", "/v1/release", "admin", "release", "End what restores hold, and sync",
        requests.ReleaseRequest, answers_changes.SyncAnswer, streams=True,
    ),
    Endpoint(
        "POST", "/v1/pause", "admin", "pause", "Leave a source alone until it is resumed",
        requests.PauseRequest, answers_changes.PauseAnswer,
    ),
    Endpoint(
        "POST", "/v1/resume", "admin", "resume", "End a pause",
        requests.PauseRequest, answers_changes.PauseAnswer,
    ),
    Endpoint(
        "POST", "/v1/remove", "admin", "remove", "Take a source's documents out of the graph",
        requests.RemoveRequest, answers_changes.RemoveAnswer,
    ),
    Endpoint(
        "POST", "/v1/tags", "admin", "tag", "Name a version",
        requests.TagRequest, answers_changes.TagAnswer,
    ),
    Endpoint(
        "DELETE", "/v1/tags/{name}", "admin", "untag", "Remove a name",
        parameters.UntagRequest, answers_changes.UntagAnswer,
    ),
    Endpoint(
        "POST", "/v1/check", "admin", "check", "Verify the database",
        requests.CheckRequest, answers_changes.CheckAnswer, listens=True, streams=True,
    ),
    Endpoint(
        "POST", "/v1/backup", "admin", "backup", "Copy the database",
        requests.BackupRequest, answers_changes.BackupAnswer,
    ),
    Endpoint(
        "POST", "/v1/rebuild", "admin", "rebuild", "Make everything derived anew",
        requests.RebuildRequest, answers_changes.RebuildAnswer,
    ),
    Endpoint(
        "POST", "/v1/gc", "admin", "gc", "Collect expired versions",
        requests.GcRequest, answers_changes.GcAnswer,
    ),
    Endpoint(
        "POST", "/v1/purge", "admin", "purge", "Remove a document from every version",
        requests.PurgeRequest, answers_changes.PurgeAnswer,
    ),
)  # fmt: skip
