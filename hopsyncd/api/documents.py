"""Answers about the passages and documents of one version."""

from collections.abc import Sequence

from hopsyncd.answers.found import DocumentAnswer, DocumentsAnswer, PassageAnswer
from hopsyncd.api.requests import DocumentRequest, DocumentsRequest
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.retrieve.results import placed_json
from hopsyncd.retrieve.snapshot import Snapshot
from store.records import Direction, PassageId
from store.sqlite.content import known_passages
from store.sqlite.database import Connection
from store.sqlite.reads import Place, document_at, documents_after, places_at, questions_at

_FIRST = ("", "")  # before every key


def position_of(head: Snapshot | None, hexadecimal: str) -> int:
    """The position of a passage in a version's view, by its id or a unique beginning of it.

    Raises NotFound, BadRequest.
    """
    found = range(0)
    if head is not None:
        first, last = (int(hexadecimal.ljust(16, digit), 16) for digit in "0f")
        passages = head.view.passage
        found = range(
            int(passages.searchsorted(first)), int(passages.searchsorted(last, side="right"))
        )
    if len(found) == 1:
        return found[0]
    if found:
        raise BadRequest(
            "The request was refused",
            f"the ids of {len(found)} passages begin with {hexadecimal}",
            "Give more of the id",
        )
    raise _no_passage(hexadecimal, head)


def _no_passage(hexadecimal: str, head: Snapshot | None) -> NotFound:
    return NotFound(
        f"There is no passage {hexadecimal}",
        f"version {head.version.id if head else 0} has no such id",
        "Take an id from an answer, and give that answer's version as `at`",
    )


def passage_answer(
    connection: Connection, head: Snapshot | None, hexadecimal: str, degraded: Sequence[str]
) -> PassageAnswer:
    """A passage with its places and questions. Raises NotFound, BadRequest."""
    position = position_of(head, hexadecimal)
    assert head is not None
    id_, version = PassageId(int(head.view.passage[position])), head.version.id
    passage = known_passages(connection, [id_]).get(id_)
    if passage is None:  # a purge has removed it; the graph in memory still has it
        raise _no_passage(hexadecimal, head)
    places = places_at(connection, version, [id_], head.hidden).get(id_, [])
    questions = questions_at(connection, version, id_)
    return {
        "version": version,
        "degraded": list(degraded),
        "passage": placed_json(id_, passage, places),
        "questions": {
            "incoming": [text for way, text in questions if way is Direction.INCOMING],
            "outgoing": [text for way, text in questions if way is Direction.OUTGOING],
        },
    }


def documents_answer(
    connection: Connection,
    head: Snapshot | None,
    request: DocumentsRequest,
    degraded: Sequence[str],
) -> DocumentsAnswer:
    """A page of the documents; `next` is where the following page begins."""
    found = (
        documents_after(
            connection,
            head.version.id,
            _key(request.after),
            request.limit + 1,
            source=request.source,
            under=request.under.rstrip("/") if request.under else None,
            hidden=head.hidden,
        )
        if head
        else []
    )
    shown = found[: request.limit]
    return {
        "version": head.version.id if head else 0,
        "degraded": list(degraded),
        "documents": [
            {
                "source": one.source,
                "document": one.path,
                "title": one.title,
                "passages": one.passages,
            }
            for one in shown
        ],
        "next": f"{shown[-1].source}/{shown[-1].path}" if len(found) > len(shown) else None,
    }


def _key(after: str | None) -> tuple[str, str]:
    """Source and path. The name of a source contains no slash."""
    if after is None:
        return _FIRST
    source, _, path = after.partition("/")
    return source, path


def document_answer(
    connection: Connection, head: Snapshot | None, request: DocumentRequest, degraded: Sequence[str]
) -> DocumentAnswer:
    """The passages of a document, in reading order. Raises NotFound."""
    version = head.version.id if head else 0
    hidden = head is None or request.source in head.hidden
    found = None if hidden else document_at(connection, version, request.source, request.document)
    if found is None:
        raise NotFound(
            f"There is no document {request.document}",
            f"version {version} has no document of that path in a source named {request.source!r}",
            "Give source and path exactly as an answer has them",
        )
    media_type, placements = found
    ids = {one.passage for one in placements}
    passages = known_passages(connection, ids)
    places = places_at(connection, version, ids, head.hidden if head else ())
    return {
        "version": version,
        "degraded": list(degraded),
        "source": request.source,
        "document": request.document,
        "passages": [
            placed_json(
                one.passage,
                passages[one.passage],
                _with_first(
                    Place(
                        request.source,
                        request.document,
                        media_type,
                        one.first_line,
                        one.last_line,
                    ),
                    places[one.passage],
                ),
            )
            for one in placements
        ],
    }


def _with_first(here: Place, places: Sequence[Place]) -> list[Place]:
    return [here, *(place for place in places if place != here)]
