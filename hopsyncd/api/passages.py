"""Answers about the passages of one version: documents, neighbours, and paths between passages."""

from collections.abc import Iterable, Sequence

import numpy as np

from hopsyncd.api.requests import DocumentRequest, DocumentsRequest, NeighboursRequest, PathsRequest
from hopsyncd.api.version_log import start_of
from hopsyncd.config.values import Search
from hopsyncd.display import format_mail_name
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.responses.results import (
    DocumentAnswer,
    DocumentsAnswer,
    NearEdge,
    NearPassage,
    NeighboursAnswer,
    PassageAnswer,
    PathHop,
    PathsAnswer,
)
from hopsyncd.retrieve.around import Joint, Surroundings, find_paths, find_surroundings
from hopsyncd.retrieve.query_parser import find_similar_names
from hopsyncd.retrieve.ranking import Hop
from hopsyncd.retrieve.results import Answer, format_hop, format_placed, write_name
from store.content import read_passages, read_question_texts
from store.contract import Connection
from store.reads import Place, list_documents_after, read_document, read_places, read_questions
from store.records import Direction, Passage, PassageId
from store.sources import read_skipped_of_item
from store.visibility import hides

_FIRST = ("", "")  # sorts before every key
_MAX_ID = 2**63 - 1


def find_passage_row(head: Snapshot | None, hexadecimal: str) -> int:
    """Find the row of a passage at a version by its id, or by a unique beginning of the id.

    Raises NotFound or BadRequest.
    """
    matches = np.empty(0, dtype=np.int64)
    if head is not None:
        first, last = (min(int(hexadecimal.ljust(16, digit), 16), _MAX_ID) for digit in "0f")
        entries = head.passage_rows
        ids = head.passage_ids[entries]
        matches = entries[(first <= ids) & (ids <= last)]
    if len(matches) == 1:
        return int(matches[0])
    if len(matches):
        raise BadRequest(
            "The request was refused",
            f"the ids of {len(matches)} passages begin with {hexadecimal}",
            "Give more digits of the id",
        )
    raise _no_passage_error(hexadecimal, head)


def _no_passage_error(hexadecimal: str, head: Snapshot | None) -> NotFound:
    return NotFound(
        f"There is no passage {hexadecimal}",
        f"version {head.version.id} has no passage with this id"
        if head
        else "nothing is indexed yet",
        "Copy the id from an answer, and set `at` to the version of that answer",
    )


def read_passage(
    connection: Connection, head: Snapshot | None, hexadecimal: str
) -> tuple[Passage, list[Place]]:
    """Read a passage and its visible places. Raises NotFound or BadRequest."""
    entry = find_passage_row(head, hexadecimal)
    assert head is not None
    id_ = _split_id(head, entry)
    passage = read_passages(connection, [id_]).get(id_)
    if passage is None:  # a purge removed the passage, but the graph in memory still has it
        raise _no_passage_error(hexadecimal, head)
    return passage, read_places(connection, head.version.id, [id_], head.hidden).get(id_, [])


def answer_passage(
    connection: Connection, head: Snapshot | None, hexadecimal: str, degraded: Sequence[str]
) -> PassageAnswer:
    """Describe a passage, its places and its questions. Raises NotFound or BadRequest."""
    entry = find_passage_row(head, hexadecimal)
    assert head is not None
    id_, version = _split_id(head, entry), head.version.id
    passage, places = read_passage(connection, head, hexadecimal)
    questions = read_questions(connection, version, id_)
    return {
        "version": version,
        "degraded": list(degraded),
        "passage": format_placed(id_, passage, places),
        "questions": {
            "incoming": [text for direction, text in questions if direction is Direction.INCOMING],
            "outgoing": [text for direction, text in questions if direction is Direction.OUTGOING],
        },
    }


def answer_documents(
    connection: Connection,
    head: Snapshot | None,
    request: DocumentsRequest,
    degraded: Sequence[str],
) -> DocumentsAnswer:
    """Return a page of the list of documents. Its `next` is the `after` of the following page, or
    None on the last page."""
    documents = (
        list_documents_after(
            connection,
            head.version.id,
            _split_after(request.after),
            request.limit + 1,
            source=request.source,
            under=request.under.rstrip("/") if request.under else None,
            hidden=head.hidden,
        )
        if head
        else []
    )
    shown = documents[: request.limit]
    return {
        "version": head.version.id if head else 0,
        "degraded": list(degraded),
        "documents": [
            {
                "source": occurrence.source,
                "document": occurrence.path,
                "title": occurrence.title,
                "passages": occurrence.passages,
            }
            for occurrence in shown
        ],
        "next": f"{shown[-1].source}/{shown[-1].path}" if len(documents) > len(shown) else None,
    }


def _split_after(after: str | None) -> tuple[str, str]:
    """Split the parameter `after` into source and path. A source's name contains no slash. If
    `after` is None, the result sorts before all documents."""
    if after is None:
        return _FIRST
    source, _, path = after.partition("/")
    return source, path


def answer_document(
    connection: Connection, head: Snapshot | None, request: DocumentRequest, degraded: Sequence[str]
) -> DocumentAnswer:
    """Return the passages of a document, in reading order. Raises NotFound."""
    version = head.version.id if head else 0
    hidden = head is None or hides(head.hidden, request.source, request.document)
    stored = (
        None if hidden else read_document(connection, version, request.source, request.document)
    )
    if stored is None:
        raise NotFound(
            f"There is no document {request.document}",
            f"version {version} has no document with this path in the source {request.source!r}"
            if head
            else "nothing is indexed yet",
            "Copy source and path from a search result" + _suggest_similar_names(head, request),
        )
    _, occurrences = stored
    ids = {occurrence.passage for occurrence in occurrences}
    passages = read_passages(connection, ids)
    places = read_places(connection, version, ids, head.hidden if head else frozenset())
    return {
        "version": version,
        "degraded": list(degraded),
        "source": request.source,
        "document": request.document,
        "skipped": read_skipped_of_item(connection, request.source, request.document),
        "passages": [
            format_placed(
                occurrence.passage,
                passages[occurrence.passage],
                _put_first(
                    request.source,
                    request.document,
                    occurrence.first_line,
                    places[occurrence.passage],
                ),
            )
            for occurrence in occurrences
        ],
    }


def _suggest_similar_names(head: Snapshot | None, request: DocumentRequest) -> str:
    """Return the end of a message, which names documents of the source with similar names. Returns
    "" if there are none."""
    if head is None or request.source not in head.index.sources:
        return ""
    index, visible = head.index, head.statistics.visible.documents
    of_source = index.documents.source[: len(visible)] == index.sources.index(request.source)
    paths = [index.document_paths[row] for row in np.flatnonzero(visible & of_source).tolist()]
    similar_names = find_similar_names(request.document, paths)
    return (
        f"; similar: {', '.join(f'{request.source}: {path}' for path in similar_names)}"
        if similar_names
        else ""
    )


def _put_first(source: str, document: str, first_line: int, places: Sequence[Place]) -> list[Place]:
    """Reorder the places so that the given place is the first."""
    first_place = (source, document, first_line)
    return sorted(
        places, key=lambda place: (place.source, place.document, place.first_line) != first_place
    )


def answer_neighbours(
    connection: Connection,
    head: Snapshot | None,
    request: NeighboursRequest,
    degraded: Sequence[str],
) -> NeighboursAnswer:
    """Return the passages near a passage in the graph, nearest first. Raises NotFound."""
    start = find_passage_row(head, request.id)
    assert head is not None
    neighbours = find_surroundings(head, start, request.hops, request.limit)
    shown = _read_answer_to_show(connection, head, neighbours.distance, neighbours.joints)
    return {
        "version": head.version.id,
        "degraded": list(degraded),
        "passages": _format_passages(head, shown, neighbours),
        "edges": [
            _format_edge(head, shown, joint)
            for joint in neighbours.joints
            if _is_there(head, shown, joint)
        ],
    }


def answer_paths(
    connection: Connection, head: Snapshot | None, request: PathsRequest, degraded: Sequence[str]
) -> PathsAnswer:
    """Return the paths from one passage to another, shortest first. Raises NotFound."""
    ends = find_passage_row(head, request.start), find_passage_row(head, request.end)
    assert head is not None
    found_paths = find_paths(head, *ends, request.max_hops, request.limit)
    joints = [joint for path in found_paths for joint in path]
    path_rows = {end for joint in joints for end in (joint.start, joint.end)}
    shown = _read_answer_to_show(connection, head, path_rows, joints)
    return {
        "version": head.version.id,
        "degraded": list(degraded),
        "paths": [
            [_format_path_hop(head, shown, joint) for joint in path]
            for path in found_paths
            if all(_is_there(head, shown, joint) for joint in path)
        ],
    }


def _format_passages(
    head: Snapshot, shown: Answer, neighbourhood: Surroundings
) -> list[NearPassage]:
    found_near = list[NearPassage]()
    for position, distance in neighbourhood.distance.items():
        id_ = _split_id(head, position)
        if passage := shown.passages.get(id_):
            whole = format_placed(id_, passage, shown.places.get(id_, ()))
            near_passage: NearPassage = {
                "id": whole["id"],
                "heading": whole["heading"],
                "source": whole["source"],
                "document": whole["document"],
                "location": whole["location"],
                "start": start_of(passage.text),
                "distance": distance,
            }
            if name := format_mail_name(whole["origin"], whole["heading"]):
                near_passage["document_name"] = name
            found_near.append(near_passage)
    return found_near


def _is_there(head: Snapshot, shown: Answer, joint: Joint) -> bool:
    """Return whether the store still has the passage of a joint.

    A purge may have removed the passage before the index in memory is updated.
    """
    return {_split_id(head, joint.start), _split_id(head, joint.end)} <= shown.passages.keys()


def _format_edge(head: Snapshot, shown: Answer, joint: Joint) -> NearEdge:
    hop = _format_path_hop(head, shown, joint)
    hop_ends = _split_id(head, joint.end), _split_id(head, joint.start)
    edge: NearEdge = {
        "from": hop["from"]["id"],
        "to": hop["to"]["id"],
        "question": hop["question"],
        "asked_by": joint.asked_by,
        "similarity": hop["similarity"],
    }
    if joint.asked_by == "both" and joint.name is not None:
        edge["name"] = write_name(shown, hop_ends, joint.name)
    return edge


def _format_path_hop(head: Snapshot, shown: Answer, joint: Joint) -> PathHop:
    """Format a hop like a hop of a search result. The hop's share is 0, because paths are found
    without scores."""
    ends = _split_id(head, joint.start), _split_id(head, joint.end)
    similarity = None if joint.similarity is None else round(joint.similarity, 4)
    hop = Hop(*ends, joint.asked_by, joint.question, joint.name, 0.0)
    return {**format_hop(shown, hop), "similarity": similarity}


def _read_answer_to_show(
    connection: Connection, head: Snapshot, positions: Iterable[int], joints: Iterable[Joint]
) -> Answer:
    """Read texts and places, and return them as an Answer without a ranking."""
    ids = {_split_id(head, position) for position in positions}
    questions = [joint.question for joint in joints]
    return Answer(
        version=head.version.id,
        question="",
        search=Search("hop"),
        ranked=(),
        passages=read_passages(connection, ids),
        places=read_places(connection, head.version.id, ids, head.hidden),
        questions=read_question_texts(connection, questions, ids),
        snapshot=head,
    )


def _split_id(head: Snapshot, entry: int) -> PassageId:
    return PassageId(int(head.passage_ids[entry]))
