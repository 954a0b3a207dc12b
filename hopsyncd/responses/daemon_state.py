"""Types of the API responses that describe the daemon and its sources."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class Job(TypedDict):
    """A scheduled job with its schedule, next run and last run."""

    job: str
    times: str
    next: str
    last_run: str | None
    last_success: str | None
    last_error: str | None


class ScheduleAnswer(TypedDict):
    """The scheduled jobs, in the order of their next run."""

    jobs: list[Job]


class SyncProgress(TypedDict):
    """The progress of the sync of a source."""

    source: str
    again: bool
    documents_done: int
    documents_total: int
    passages_done: int
    passages_total: int
    share: float


class JobsAnswer(TypedDict):
    running: SyncProgress | None
    pending: bool
    jobs: list[Job]


class FolderRightsStatus(TypedDict):
    """A rule for folders of a source, and the number of documents that it applies to now."""

    match: str
    visible_to: list[str]
    documents: int


class SourceRights(TypedDict):
    """The configured rules for who may see a source and its folders.

    `kept_closed`: whether a stricter rule in the database hides the source or parts of the source
    from members.
    """

    visible_to: list[str]
    paths: list[FolderRightsStatus]
    kept_closed: bool


class SourceStatus(TypedDict):
    """The state of a source. Only admins and the owner get its `rights`.

    `left_out` counts the files and folders that a listing skipped: files by suffix, if their type
    is not included; `hidden folders`; files that look like secrets, as `secret: ` and their suffix;
    and `secret: folders`.
    """

    name: str
    kind: str
    location: str
    state: Literal["new", "ok", "paused", "unconfigured"]
    documents: int
    problems: int
    pinned: int
    scanned: str | None
    next: str | None
    problem: str | None
    hint: str | None
    left_out: dict[str, int]
    watching: bool
    watch_problem: str | None
    rights: SourceRights | None


class ItemProblem(TypedDict):
    """A document that cannot be read."""

    source: str
    document: str
    why: str
    hint: str


class SkippedParts(TypedDict):
    """Content that readers skip, such as navigation: the number of parts and of documents."""

    kind: str
    parts: int
    documents: int


class UnavailableReader(TypedDict):
    """A file type that cannot be read on this machine, although the files are valid."""

    media_type: str
    why: str
    hint: str


class LlmSpent(TypedDict):
    """The LLM's usage today for one purpose, source and version."""

    purpose: str
    source: str
    version: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    unsettled_tokens: int


class LlmFailure(TypedDict):
    """The last failure of the LLM."""

    kind: str
    message: str
    at: str


class LlmStatus(TypedDict):
    """The configured LLM and its usage."""

    endpoint: str
    model: str
    questions: str
    calls_today: int
    tokens_today: int
    max_calls_per_day: int
    max_tokens_per_day: int
    today: list[LlmSpent]
    ledger_problem: str | None
    last_failure: LlmFailure | None


class EncoderStatus(TypedDict):
    """The embedding endpoint and its usage today; `failure` is set while it is unavailable."""

    endpoint: str
    model: str
    calls_today: int
    tokens_today: int
    max_tokens_per_day: int
    ledger_problem: str | None
    failure: str | None
    failing_since: str | None


class RerankerStatus(TypedDict):
    """The reranker's endpoint and its usage today; `failure` is set if the last request failed."""

    endpoint: str
    model: str
    calls_today: int
    tokens_today: int
    max_tokens_per_day: int
    ledger_problem: str | None
    failure: str | None


class SwitchStatus(TypedDict):
    """The progress of the switch to the configured models: how many passages are prepared.

    `left_s` is the estimated remaining time, or null. `problem` says why there is no progress.
    """

    generation: str
    encoder: str
    passages_done: int
    passages_total: int
    left_s: float | None
    problem: str | None


class StatusModels(TypedDict):
    """The models in use. `switch` is set while the configured models are different and will replace
    them.

    `recipe` is the old name of `generation`, which the next version drops.
    """

    generation: str
    recipe: str
    encoder_endpoint: EncoderStatus | None
    reranker_endpoint: RerankerStatus | None
    encoder_due: str | None
    preparing: str | None
    switch: SwitchStatus | None
    cluster: str | None
    llm_endpoint: str | None


class StoreStatus(TypedDict):
    """Whether this daemon writes the database or follows another daemon, and how many versions it
    is behind.

    `lost`: the database server cannot be reached now.
    """

    role: Literal["writer", "reader"]
    behind: int
    lost: bool


class BackupStatus(TypedDict):
    """The scheduled backups.

    `newest` is the newest backup, with its `created` and `version`. `error`: why the last attempt
    failed. `succeeded`: the time of the last success. `next`: the time of the next attempt.
    """

    folder: str
    kept: int
    newest: str | None
    created: str | None
    version: int | None
    bytes: int | None
    running: bool
    succeeded: str | None
    next: str | None
    error: str | None


class ConfigurationStatus(TypedDict):
    """Why a changed configuration is not in use, and which settings need a restart."""

    refused: str | None
    restart_needed: list[str]


class ListeningStatus(TypedDict):
    """The TCP address, when its certificate expires, and why a changed certificate is not in
    use."""

    address: str
    expires: str | None
    problem: str | None


class AuditStatus(TypedDict):
    """The audit log. It records all requests if `enabled`, and their questions if `questions`.

    `lost` counts the lines that could not be written because of the `problem`.
    """

    enabled: bool
    questions: bool
    keep_days: int
    lost: int
    problem: str | None


class AuditEntry(TypedDict):
    """A recorded request. `asked` has its fields; `sources` and `results` describe its answer.

    `transport` is "socket" or "tcp"; `token` is the public id of a token, not the token.
    """

    time: str
    action: str
    asked: dict[str, Any]
    status: int
    sources: list[str]
    results: int | None
    user: str
    role: str
    transport: str
    program: str | None
    address: str | None
    token: str | None


class AuditAnswer(AuditStatus):
    """The audit log, the newest entry first. `torn` counts lines that cannot be read."""

    torn: int
    entries: list[AuditEntry]


class CallerState(TypedDict):
    """The user who asks, and the user's rights."""

    user: str
    role: str
    rights: list[str]


class StatusAnswer(TypedDict):
    """The state of the daemon. `llm_answers`: whether an LLM answers questions.

    `notes`: whether the caller may write notes.
    """

    caller: NotRequired[CallerState]
    version: int
    created: str | None
    documents: int
    passages: int
    edges: int
    edge_budget: int
    matches: int
    degraded: list[str]
    syncing: bool
    pending: bool
    progress: SyncProgress | None
    error: str | None
    sources: list[SourceStatus]
    problems: list[ItemProblem]
    skipped: list[SkippedParts]
    unavailable_readers: list[UnavailableReader]
    watch_problems: list[str]
    purging: int
    quarantined: int
    counters: dict[str, int]
    waiting: dict[str, int]
    models: StatusModels
    llm: LlmStatus | None
    llm_answers: bool
    notes: bool
    configuration: ConfigurationStatus
    store: StoreStatus
    backup: BackupStatus | None
    audit: AuditStatus
    database: str
    database_bytes: int | None
    socket: str
    listening: ListeningStatus | None
    pid: int
    started: str


class SourcesAnswer(TypedDict):
    version: int
    degraded: list[str]
    sources: list[SourceStatus]


class HealthAnswer(TypedDict):
    status: str
    version: int


class RequestStats(TypedDict):
    """Requests to an endpoint since the start. The times cover the last thousand requests."""

    count: int
    errors: int
    p50_ms: float
    p95_ms: float


class StatsAnswer(TypedDict):
    version: int
    degraded: list[str]
    passages: int
    queries: int
    requests: dict[str, RequestStats]
    connections: int
    refused: int
    queue: int


class WatchedPassage(TypedDict):
    """A passage among the first results of a watched question. `start`: how its text begins.

    `document_name` is present only for mail: the subject and sender.
    """

    id: str
    heading: list[str]
    source: str | None
    document: str | None
    document_name: NotRequired[str]
    start: str


class WatchedState(TypedDict):
    """The answer and first passages of a watched question at a version."""

    version: int
    answer: str | None
    passages: list[WatchedPassage]


class WatchChange(TypedDict):
    """A change between two versions. `before` or `after` is null if its version was collected.

    `id` counts the changes of one watch.

    `delivered` is when the program or webhook received the change, or null if it was not received.
    """

    id: int
    old: int
    new: int
    told: str
    delivered: str | None
    error: str | None
    before: WatchedState | None
    after: WatchedState | None
    why: list[str]


class Watched(TypedDict):
    """A watched question. `checked` is the version up to which it was compared.

    `user` made the watch; null in databases of earlier versions. `unavailable` says why the results
    are not shown, for example because the user's token was revoked.

    `action` is what happens after a change: `exec`, `webhook` or `mcp`. `disabled` is a program or
    webhook that came with the database and is turned off, or `true` if this machine does not have
    it. `act` and `off` are their old names, which the next version drops.
    """

    id: int
    question: str
    user: str | None
    action: dict[str, Any] | None
    disabled: dict[str, Any] | None
    act: dict[str, Any] | None
    off: dict[str, Any] | None
    created: str
    checked: int
    changes: int
    changed: str | None
    error: str | None
    unavailable: str | None


class WatchesAnswer(TypedDict):
    """The watched questions, oldest first."""

    version: int
    watches: list[Watched]


class WatchAnswer(TypedDict):
    """A watched question, its current answer and passages, and its changes, newest first."""

    version: int
    watch: Watched
    now: WatchedState | None
    changes: list[WatchChange]


class UnwatchAnswer(TypedDict):
    id: int
