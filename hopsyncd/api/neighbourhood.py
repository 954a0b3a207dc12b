"""The graph around passages as JSON objects: documented in docs/api.md."""

from collections.abc import Iterable, Sequence
from typing import Any

from hopsyncd.api.documents import position_of
from hopsyncd.api.requests import NeighboursRequest, PathsRequest
from hopsyncd.api.version_log import start_of
from hopsyncd.config.strategy import Search
from hopsyncd.retrieve.around import Around, Joint, around, paths
from hopsyncd.retrieve.engine import Answer
from hopsyncd.retrieve.ranking import Hop
from hopsyncd.retrieve.results import hop_json, placed_json
from hopsyncd.retrieve.snapshot import Snapshot
from store.records import PassageId, QuestionId
from store.sqlite.content import known_passages, question_texts
from store.sqlite.database import Connection
from store.sqlite.reads import places_at

_BRIEF = ("id", "heading", "source", "document", "location")


def neighbours_answer(
    connection: Connection,
    head: Snapshot | None,
    request: NeighboursRequest,
    degraded: Sequence[str],
) -> dict[str, Any]:
    """What lies around a passage, the nearest first. Raises NotFound."""
    start = position_of(head, request.id)
    assert head is not None
    found = around(head.view, start, request.hops, request.limit)
    shown = _shown(connection, head, found.distance, found.joints)
    return {
        "version": head.version.id,
        "degraded": list(degraded),
        "passages": _passages(head, shown, found),
        "edges": [_edge(head, shown, one) for one in found.joints if _is_there(head, shown, one)],
    }


def paths_answer(
    connection: Connection, head: Snapshot | None, request: PathsRequest, degraded: Sequence[str]
) -> dict[str, Any]:
    """The ways from one passage to another, the shortest first. Raises NotFound."""
    ends = position_of(head, request.from_), position_of(head, request.to)
    assert head is not None
    found = paths(head.view, *ends, request.max_hops, request.limit)
    joints = [joint for path in found for joint in path]
    passed = {end for joint in joints for end in (joint.start, joint.end)}
    shown = _shown(connection, head, passed, joints)
    return {
        "version": head.version.id,
        "degraded": list(degraded),
        "paths": [
            [_path_hop(head, shown, joint) for joint in path]
            for path in found
            if all(_is_there(head, shown, joint) for joint in path)
        ],
    }


def _passages(head: Snapshot, shown: Answer, found: Around) -> list[dict[str, Any]]:
    told = []
    for position, distance in found.distance.items():
        id_ = _id(head, position)
        if passage := shown.passages.get(id_):
            whole = placed_json(id_, passage, shown.places.get(id_, ()))
            brief = {key: whole[key] for key in _BRIEF}
            told.append({**brief, "start": start_of(passage.text), "distance": distance})
    return told


def _is_there(head: Snapshot, shown: Answer, joint: Joint) -> bool:
    """False while a purge has taken a passage that the served graph still has."""
    return {_id(head, joint.start), _id(head, joint.end)} <= shown.passages.keys()


def _edge(head: Snapshot, shown: Answer, joint: Joint) -> dict[str, Any]:
    hop = _path_hop(head, shown, joint)
    edge = {key: hop[key] for key in ("question", "asked_by", "similarity")}
    named = {"name": joint.name} if joint.asked_by == "both" else {}
    return {"from": hop["from"]["id"], "to": hop["to"]["id"], **edge, **named}


def _path_hop(head: Snapshot, shown: Answer, joint: Joint) -> dict[str, Any]:
    """A hop as in a query's answer, along which no mass flowed."""
    ends = _id(head, joint.start), _id(head, joint.end)
    question, similarity = None, None
    if joint.edge is not None:
        question = _question(head, joint.edge)
        similarity = round(float(head.view.similarity[joint.edge]), 4)
    hop = Hop(*ends, joint.asked_by, question, joint.name, 0.0)
    return {**hop_json(shown, hop), "similarity": similarity}


def _shown(
    connection: Connection, head: Snapshot, positions: Iterable[int], joints: Iterable[Joint]
) -> Answer:
    """What is needed to show them, as an answer that ranks nothing."""
    ids = {_id(head, position) for position in positions}
    questions = [_question(head, joint.edge) for joint in joints if joint.edge is not None]
    return Answer(
        version=head.version.id,
        search=Search("hop"),
        ranked=(),
        passages=known_passages(connection, ids),
        places=places_at(connection, head.version.id, ids, head.hidden),
        questions=question_texts(connection, questions),
        words=head.words,
    )


def _question(head: Snapshot, edge: int) -> QuestionId:
    return QuestionId(int(head.view.question[edge]))


def _id(head: Snapshot, position: int) -> PassageId:
    return PassageId(int(head.view.passage[position]))
