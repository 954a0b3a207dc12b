"""The requests of all endpoints, with the limits of each field.

POST requests are JSON bodies. GET and DELETE requests are path and query parameters.
"""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from hopsyncd.config.values import (
    DEFAULT_BEAM,
    DEFAULT_TOP_K,
    Match,
    Method,
    Profile,
    Reasoner,
    Rerank,
    Strategy,
    Unit,
)

MAX_QUESTION_CHARACTERS = 10_000
MAX_QUERIES = 100
MAX_TURNS = 20  # the most earlier turns of a conversation
# At least one character that is not a space, a control character or of zero width.
NOT_BLANK = r"[^\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
ABSOLUTE = r"^/[^\x00]+$"
# An id, or the beginning of an id if it is unique in the version.
PASSAGE_ID = "^[0-7][0-9a-f]{3,15}$"
# SOURCE/PATH; the name of a source contains no slash.
DOCUMENT_KEY = r"^[^/]+/[\s\S]+$"
# Only loopback addresses, because notifications contain text of documents.
LOOPBACK_URL = r"^http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/[!-~]*)?$"
_MAX_NUMBER = 1_000_000_000
_MAX_DIGITS = 30


def _check_port(address: str | None) -> str | None:
    """Refuse ports above 65535: the pattern allows any five digits."""
    if address:
        try:
            port = urlsplit(address).port
        except ValueError:
            port = 0
        if port == 0:
            raise ValueError("the port must be a number from 1 to 65535")
    return address


def get_host(address: str) -> str:
    """Return the scheme, host and port of a URL, without its user, path and query, which may be
    secrets."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _require_digits(value: object) -> object:
    """Accept only digits, because pydantic also reads ` 1_0 ` as a number."""
    if not isinstance(value, str):
        return value
    if len(value) > _MAX_DIGITS:
        raise ValueError(f"too long for a number: {len(value):,} characters")
    if not (value.isascii() and value.isdecimal()):
        raise ValueError(f"{value!r} is not an integer")
    return value


def _require_boolean(value: object) -> object:
    """Accept only JSON's true and false, because pydantic also reads `yes` as true."""
    if isinstance(value, str) and value not in ("true", "false"):
        raise ValueError(f"{value[:_MAX_DIGITS]!r} is neither true nor false")
    return value


At = Annotated[str, Field(min_length=1, max_length=200)]
SourceName = Annotated[str, Field(min_length=1, max_length=200)]
Digits = BeforeValidator(_require_digits)
TrueOrFalse = BeforeValidator(_require_boolean)
Limit = Annotated[int, Field(ge=1, le=_MAX_NUMBER), Digits]
PassageHex = Annotated[str, Field(pattern=PASSAGE_ID)]
DocumentKey = Annotated[str, Field(max_length=4400, pattern=DOCUMENT_KEY)]
# A filter is `key:value`; `-key:value` excludes documents.
FilterTexts = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=400)], ...],
    Field(max_length=20, strict=False),
]
Argument = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]
Path = Annotated[str, Field(min_length=1, max_length=4096)]


class _Body(BaseModel):
    # Built at the first use, because building all models would delay the start.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class QueryRequest(_Body):
    """A search request. A field that is None has the configured default."""

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS, pattern=NOT_BLANK)
    k: int | None = Field(default=None, ge=1, le=1000)
    strategy: Strategy | None = None
    at: At = "head"
    profile: Profile = "default"
    reasoner: Reasoner | None = None
    top_k: int = Field(default=DEFAULT_TOP_K, ge=1, le=1000)
    n_hop: int | None = Field(default=None, ge=1, le=20)
    beam: int = Field(default=DEFAULT_BEAM, ge=1, le=100)
    rerank: Rerank = "mean"
    unit: Unit = "passage"
    method: Method = "direct"
    match: Match = "auto"
    filters: FilterTexts = ()

    @property
    def wants_llm(self) -> bool:
        return self.method == "logic" or self.reasoner in ("llm", "llm-relevance")


class QueriesRequest(_Body):
    """Several search requests; those with the same `at` are answered at one version."""

    queries: Annotated[
        tuple[QueryRequest, ...], Field(min_length=1, max_length=MAX_QUERIES, strict=False)
    ]

    @property
    def wants_llm(self) -> bool:
        return any(query.wants_llm for query in self.queries)


class ThreadTurn(_Body):
    """An earlier question, and the answer that was given."""

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS, pattern=NOT_BLANK)
    answer: str = Field(default="", max_length=MAX_QUESTION_CHARACTERS)


class AskRequest(_Body):
    """A question to answer.

    `k`: the number of passages to answer from, by default 8, or up to 20 for an LLM. `llm`: whether
    the LLM writes the answer, using `method`; by default, if an LLM is configured. `passages`:
    include all passages found, as a query does. `thread`: earlier questions of the same
    conversation, oldest first, to which the question may refer.
    """

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS, pattern=NOT_BLANK)
    k: int | None = Field(default=None, ge=1, le=50)
    at: At = "head"
    llm: bool | None = None
    method: Method = "direct"
    strategy: Strategy | None = None
    match: Match = "auto"
    filters: FilterTexts = ()
    passages: bool = False
    thread: Annotated[tuple[ThreadTurn, ...], Field(max_length=MAX_TURNS, strict=False)] = ()

    @property
    def wants_llm(self) -> bool:
        return self.llm is not False


class FacetsRequest(_Body):
    """A request for facets. `documents`: documents, as SOURCE/PATH, whose dates of last
    modification are wanted."""

    at: At = "head"
    filters: FilterTexts = ()
    documents: Annotated[tuple[DocumentKey, ...], Field(max_length=100, strict=False)] = ()


class NoteRequest(_Body):
    """A note in Markdown, for the folder `mcp.inbox`. The title becomes its first line."""

    # Excluded, because the audit log records requests but no texts.
    title: str = Field(min_length=1, max_length=300, pattern=NOT_BLANK, exclude=True)
    text: str = Field(min_length=1, max_length=100_000, pattern=NOT_BLANK, exclude=True)
    tags: Annotated[tuple[Argument, ...], Field(max_length=20, strict=False)] = ()


class MapRequest(_Body):
    """A request for the map. `filters` choose documents, as in a query."""

    at: At = "head"
    filters: FilterTexts = ()


class SyncRequest(_Body):
    """A request to sync these sources. An empty list means all sources."""

    sources: tuple[SourceName, ...] = Field(default=(), strict=False)
    wait: bool = True
    accept_empty: bool = False


class PreviewRequest(_Body):
    """A request to preview a sync. An empty list means all sources. `limit` shortens the lists."""

    sources: tuple[SourceName, ...] = Field(default=(), strict=False)
    limit: int | None = Field(default=None, ge=0, le=_MAX_NUMBER)


class RestoreRequest(_Body):
    """A request to restore these sources. An empty list means all sources."""

    version: At
    sources: tuple[SourceName, ...] = Field(default=(), strict=False)


class ReleaseRequest(_Body):
    """A request to release these sources. An empty list means all sources."""

    sources: tuple[SourceName, ...] = Field(default=(), strict=False)


class PauseRequest(_Body):
    name: SourceName


class RemoveRequest(_Body):
    """A request to remove a source. `purge`: whether to erase its documents from all versions."""

    name: SourceName
    purge: bool = False


class TagRequest(_Body):
    name: str = Field(min_length=1, max_length=100)
    version: At = "head"


class CheckRequest(_Body):
    deep: bool = False


class BackupRequest(_Body):
    """A request for a backup. `file`: an absolute path that does not exist yet; by default, a path
    in the configured folder."""

    file: str | None = Field(default=None, min_length=2, max_length=4096, pattern=ABSOLUTE)


class GcRequest(_Body):
    dry_run: bool = False


class PurgeRequest(_Body):
    """A request to purge a document. `document`: its path in the source, or an absolute path.

    With `again`, later scans may index the purged document again.
    """

    document: str = Field(min_length=1, max_length=4096)
    source: SourceName | None = None
    again: bool = False


class ReloadRequest(_Body):
    """A request to reload the configuration: an empty object."""


class RebuildRequest(_Body):
    """A request to rebuild. `encoder`: re-embed with the newer encoder that `status` reports."""

    encoder: bool = False
    dry_run: bool = False


def _keep_program(arguments: tuple[str, ...]) -> list[str]:
    return list(arguments[:1])


def _keep_host(address: str | None) -> str | None:
    return address and get_host(address)


# Serialized for the audit log without arguments, paths and queries, which often contain tokens.
Program = Annotated[
    tuple[Argument, ...], Field(max_length=100, strict=False), PlainSerializer(_keep_program)
]
WebhookUrl = Annotated[
    str | None, Field(max_length=2000, pattern=LOOPBACK_URL), AfterValidator(_check_port)
]
Webhook = Annotated[WebhookUrl, PlainSerializer(_keep_host)]


class WatchRequest(_Body):
    """A question to watch.

    `exec`: a program with its arguments to start at a change; `webhook`: an http address of this
    machine to call; `mcp`: notify listening agents.
    """

    # Excluded, because the audit log records requests but no texts.
    question: str = Field(
        min_length=1, max_length=MAX_QUESTION_CHARACTERS, pattern=NOT_BLANK, exclude=True
    )
    exec: Program = ()
    webhook: Webhook = None
    mcp: bool = False


class AllowWatchRequest(_Body):
    """A request to turn on a program or webhook. `id`: the number of the watched question.

    `exec` or `webhook`: the value in the question's `disabled`.
    """

    id: Annotated[int, Field(ge=1, le=_MAX_NUMBER)]
    exec: Program = ()
    webhook: Webhook = None


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoParameters(_Parameters):
    """A request without parameters besides its path."""


class AuditRequest(_Parameters):
    """A request for the audit log. `since`: a time such as `2 days ago`."""

    since: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    user: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    limit: Annotated[int, Field(ge=1, le=10_000), Digits] = 100


class PassageRequest(_Parameters):
    id: PassageHex
    at: At = "head"


class DocumentsRequest(_Parameters):
    """A request for documents. `under`: a folder; `after`: the `next` of an earlier answer."""

    source: SourceName | None = None
    under: Path | None = None
    after: DocumentKey | None = None
    limit: Annotated[int, Field(ge=1, le=1000), Digits] = 100
    at: At = "head"


class DocumentRequest(_Parameters):
    source: SourceName
    document: Path
    at: At = "head"


class PageImageRequest(_Parameters):
    """A request for a picture. `page`: by default the first page of the passage."""

    id: PassageHex
    at: At = "head"
    page: Limit | None = None


class FileTextRequest(_Parameters):
    """A request for the text of a file."""

    source: SourceName
    document: Path


class HistoryRequest(_Parameters):
    """A request for a document's changes. `limit`: the number of changes."""

    source: SourceName
    document: Path
    limit: Annotated[int, Field(ge=1, le=100), Digits] = 10


class NeighboursRequest(_Parameters):
    id: PassageHex
    hops: Annotated[int, Field(ge=1, le=4), Digits] = 1
    limit: Annotated[int, Field(ge=1, le=1000), Digits] = 50
    at: At = "head"


class PathsRequest(_Parameters):
    start: Annotated[PassageHex, Field(alias="from")]
    end: Annotated[PassageHex, Field(alias="to")]
    max_hops: Annotated[int, Field(ge=1, le=6), Digits] = 4
    limit: Annotated[int, Field(ge=1, le=50), Digits] = 5
    at: At = "head"


class LogRequest(_Parameters):
    """A request for versions. `before`: only versions older than this version."""

    limit: Limit = 20
    before: Limit | None = None


class DiffRequest(_Parameters):
    """A request to compare two versions.

    Lists have at most `limit` lines. Without `graph`, passages and edges are only counted.
    """

    old: Annotated[At, Field(alias="from")] = "head"
    new: Annotated[At, Field(alias="to")] = "head"
    limit: Limit | None = None
    graph: Annotated[bool, TrueOrFalse] = True


class WatchNumber(_Parameters):
    id: Limit


class WatchDetails(_Parameters):
    """A request for a watched question. `limit`: the number of changes."""

    id: Limit
    limit: Annotated[int, Field(ge=1, le=100), Digits] = 10


class UntagRequest(_Parameters):
    name: Annotated[str, Field(min_length=1)]
