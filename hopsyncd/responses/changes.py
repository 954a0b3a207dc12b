"""Types of the API responses to requests that change the index or ask about its versions."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class UnreadableDocument(TypedDict):
    """A document that cannot be read now."""

    document: str
    why: str
    hint: str


class SyncedSource(TypedDict):
    """The number of changes in a source after version `since`. `problem` says why the source is
    paused."""

    name: str
    since: int
    added: int
    changed: int
    moved: int
    removed: int
    unreadable: list[UnreadableDocument]
    problem: str | None


class SyncAnswer(TypedDict):
    version: int
    sources: list[SyncedSource]
    degraded: list[str]


class Accepted(TypedDict):
    """The answer to a sync without `wait`, with status 202."""

    accepted: Literal[True]


class PreviewedSource(TypedDict):
    """The changes that a sync would make in a source, and their cost."""

    name: str
    problem: str | None
    hint: str | None
    counts: dict[str, int]
    new: list[str]
    changed: list[str]
    gone: list[str]
    unreadable: list[str]
    passages: int
    llm_calls: int
    llm_tokens: int


class PreviewAnswer(TypedDict):
    version: int
    degraded: list[str]
    sources: list[PreviewedSource]
    llm_calls: int
    llm_tokens: int
    waiting: dict[str, int]


class LoggedVersion(TypedDict):
    """A version with its changes. `about` sums up the changes, or is null if they are not known."""

    version: int
    created: str
    collected: str | None
    reason: str
    about: str | None
    tags: list[str]
    documents: int
    passages: int
    edges: int
    documents_added: int
    documents_changed: int
    documents_removed: int
    documents_renamed: int
    passages_added: int
    passages_removed: int
    counters: dict[str, int]


class LogAnswer(TypedDict):
    """The versions, newest first."""

    version: int
    degraded: list[str]
    versions: list[LoggedVersion]


class DiffFolder(TypedDict):
    """The number of documents of a folder that differ."""

    source: str
    folder: str
    added: int
    changed: int
    removed: int
    renamed: int


class DiffDocument(TypedDict):
    """A document that differs.

    `document_name` is the subject and sender of a mail; other documents lack this field.
    """

    source: str
    document: str
    document_name: NotRequired[str]


class RenamedDocument(DiffDocument):
    """A document that moved to another path of its source. `was` is the old path."""

    was: str


class DiffPassage(TypedDict):
    """A passage that differs; `start` is the beginning of its text."""

    id: str
    heading: list[str]
    start: str


DiffEdge = TypedDict("DiffEdge", {"from": DiffPassage, "to": DiffPassage, "question": str})


class DiffDocuments(TypedDict):
    """The documents that differ."""

    added: list[DiffDocument]
    changed: list[DiffDocument]
    removed: list[DiffDocument]
    renamed: list[RenamedDocument]


class DiffPassages(TypedDict):
    """The passages that differ."""

    added: list[DiffPassage]
    removed: list[DiffPassage]


class DiffEdges(TypedDict):
    """The edges that differ."""

    added: list[DiffEdge]
    removed: list[DiffEdge]


class ChangedText(DiffDocument):
    """The changed sentences of a document, one per line, after ` `, `-` or `+`; `@@` marks a
    heading."""

    lines: list[str]


class DocumentChange(TypedDict):
    """A version that changed a document, and the changed sentences as in ChangedText."""

    version: int
    created: str
    what: Literal["added", "changed", "removed"]
    lines: list[str]


class HistoryAnswer(TypedDict):
    """The changes of a document, newest first."""

    version: int
    source: str
    document: str
    changes: list[DocumentChange]


DiffAnswer = TypedDict(
    "DiffAnswer",
    {
        "from": int,
        "to": int,
        "counts": dict[str, dict[str, int]],
        "folders": list[DiffFolder],
        "documents": DiffDocuments,
        "texts": list[ChangedText],
        "passages": DiffPassages,
        "edges": DiffEdges,
    },
)


class TagAnswer(TypedDict):
    name: str
    version: int


class UntagAnswer(TypedDict):
    name: str


class RestoredSource(TypedDict):
    """The number of pinned documents of a source."""

    name: str
    pinned: int


class RestoreAnswer(TypedDict):
    version: int
    restored: int
    changed: bool
    sources: list[RestoredSource]


class PauseAnswer(TypedDict):
    name: str
    paused: bool


class RemoveAnswer(TypedDict):
    """The effect of removing a source. `held_by` lists the [source, document] pairs that share text
    with the removed source. If `erased` is false, repeat the purge to erase all bytes."""

    name: str
    version: int
    documents: int
    purged: bool
    held_by: list[list[str]]
    erased: bool


class CheckFinding(TypedDict):
    """A broken invariant."""

    invariant: str
    where: str
    detail: str
    hint: str


class CheckAnswer(TypedDict):
    version: int
    deep: bool
    findings: list[CheckFinding]


class BackupAnswer(TypedDict):
    """The backup. `name` is null unless the backup was made and verified in the configured folder.

    `removed`: the names of older backups that were deleted.
    """

    file: str
    bytes: int
    version: int
    name: str | None
    removed: list[str]


class RebuildAnswer(TypedDict):
    """The number of passages to embed again, and the estimated time."""

    version: int
    passages: int
    estimated_s: float


class GcAnswer(TypedDict):
    """The result of a garbage collection. A dry run has the estimate `bytes`, a real run
    `freed_bytes`."""

    dry_run: bool
    versions: list[int]
    documents: int
    lives: int
    matches: int
    passages: int
    question_sets: int
    bytes: NotRequired[int]
    freed_bytes: NotRequired[int]


class PurgeAnswer(TypedDict):
    """The result of a purge. `held_by` lists the [source, document] pairs that contain some of the
    purged text, which is therefore still stored. If `erased` is false, purge again to erase all
    bytes. With `again`, the result has only `source`, `document` and `included`: whether the
    document had been excluded."""

    source: str
    document: str
    revisions: NotRequired[int]
    passages: NotRequired[int]
    matches: NotRequired[int]
    versions: NotRequired[list[int]]
    held_by: NotRequired[list[list[str]]]
    erased: NotRequired[bool]
    included: NotRequired[bool]


class ReloadedSources(TypedDict):
    """The names of the sources that a reload added, removed or changed."""

    added: list[str]
    changed: list[str]
    removed: list[str]


class ReloadAnswer(TypedDict):
    """The result of a reload. `pending`: the changes take effect after the current batch."""

    changed: list[str]
    restart_needed: list[str]
    sources: ReloadedSources
    pending: bool
