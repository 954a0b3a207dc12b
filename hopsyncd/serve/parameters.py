"""The parameters of requests without a body, in the path and after the question mark."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hopsyncd.serve.requests import At, SourceName

_MAX_NUMBER = 1_000_000_000


def _digits(given: object) -> object:
    """Digits alone: pydantic would also take ` 1_0 ` for a number."""
    if isinstance(given, str) and not (given.isascii() and given.isdecimal()):
        raise ValueError(f"{given!r} is no whole number")
    return given


Digits = BeforeValidator(_digits)
Limit = Annotated[int, Field(ge=1, le=_MAX_NUMBER), Digits]
# An id, or as much of its beginning as tells it from the others of the version.
PASSAGE_ID = "^[0-7][0-9a-f]{3,15}$"
PassageHex = Annotated[str, Field(pattern=PASSAGE_ID)]
# A source and a document's path in it: the name of a source has no slash.
DOCUMENT_KEY = r"^[^/]+/[\s\S]+$"
DocumentKey = Annotated[str, Field(max_length=4400, pattern=DOCUMENT_KEY)]
Path = Annotated[str, Field(min_length=1, max_length=4096)]


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NoParameters(_Parameters):
    """A request that says all by its path."""


class PassageRequest(_Parameters):
    """GET /v1/passages/{id}."""

    id: PassageHex
    at: At = "head"


class DocumentsRequest(_Parameters):
    """GET /v1/documents. `under`: a folder; `after`: the `next` of an earlier answer."""

    source: SourceName | None = None
    under: Path | None = None
    after: DocumentKey | None = None
    limit: Annotated[int, Field(ge=1, le=1000), Digits] = 100
    at: At = "head"


class DocumentRequest(_Parameters):
    """GET /v1/document."""

    source: SourceName
    document: Path
    at: At = "head"


class NeighboursRequest(_Parameters):
    """GET /v1/neighbours/{id}."""

    id: PassageHex
    hops: Annotated[int, Field(ge=1, le=4), Digits] = 1
    limit: Annotated[int, Field(ge=1, le=1000), Digits] = 50
    at: At = "head"


class PathsRequest(_Parameters):
    """GET /v1/paths."""

    from_: Annotated[PassageHex, Field(alias="from")]
    to: PassageHex
    max_hops: Annotated[int, Field(ge=1, le=6), Digits] = 4
    limit: Annotated[int, Field(ge=1, le=50), Digits] = 5
    at: At = "head"


class LogRequest(_Parameters):
    """GET /v1/log. `before`: only versions older than this one."""

    limit: Limit = 20
    before: Limit | None = None


class DiffRequest(_Parameters):
    """GET /v1/diff. Lists are cut to `limit` lines."""

    from_: Annotated[At, Field(alias="from")] = "head"
    to: At = "head"
    limit: Limit | None = None


class UntagRequest(_Parameters):
    """DELETE /v1/tags/{name}."""

    name: Annotated[str, Field(min_length=1)]
