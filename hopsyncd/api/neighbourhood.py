"""Answers about the graph around passages: neighbours, and paths between two."""

from collections.abc import Iterable, Sequence

from hopsyncd.answers.found import NearEdge, NearPassage, NeighboursAnswer, PathHop, PathsAnswer
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


def neighbours_answer(
    connection: Connection,
    head: Snapshot | None,
    request: NeighboursRequest,
    degraded: Sequence[str],
) -> NeighboursAnswer:
    """The passages around one, the nearest first. Raises NotFound."""
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
) -> PathsAnswer:
    """The paths from one passage to another, the shortest first. Raises NotFound."""
    ends = position_of(head, request.start), position_of(head, request.end)
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


def _passages(head: Snapshot, shown: Answer, found: Around) -> list[NearPassage]:
    told = []
    for position, distance in found.distance.items():
        id_ = _id(head, position)
        if passage := shown.passages.get(id_):
            whole = placed_json(id_, passage, shown.places.get(id_, ()))
            told.append(
                NearPassage(
                    id=whole["id"],
                    heading=whole["heading"],
                    source=whole["source"],
                    document=whole["document"],
                    location=whole["location"],
                    start=start_of(passage.text),
                    distance=distance,
                )
            )
    return told


def _is_there(head: Snapshot, shown: Answer, joint: Joint) -> bool:
    """False if a purge has removed a passage that the graph in memory still has."""
    return {_id(head, joint.start), _id(head, joint.end)} <= shown.passages.keys()


def _edge(head: Snapshot, shown: Answer, joint: Joint) -> NearEdge:
    hop = _path_hop(head, shown, joint)
    edge: NearEdge = {
        "from": hop["from"]["id"],
        "to": hop["to"]["id"],
        "question": hop["question"],
        "asked_by": joint.asked_by,
        "similarity": hop["similarity"],
    }
    if joint.name is not None:
        edge["name"] = joint.name
    return edge


def _path_hop(head: Snapshot, shown: Answer, joint: Joint) -> PathHop:
    """A hop as in the answer to a query, with a share of 0: no mass flowed along it."""
    ends = _id(head, joint.start), _id(head, joint.end)
    question, similarity = None, None
    if joint.edge is not None:
        question = _question(head, joint.edge)
        similarity = round(float(head.view.similarity[joint.edge]), 4)
    hop = Hop(*ends, joint.asked_by, question, joint.name, 0.0)
    told = hop_json(shown, hop)
    return {
        "from": told["from"],
        "to": told["to"],
        "question": told["question"],
        "asked_by": told["asked_by"],
        "share": told["share"],
        "similarity": similarity,
    }


def _shown(
    connection: Connection, head: Snapshot, positions: Iterable[int], joints: Iterable[Joint]
) -> Answer:
    """The texts and places to show, in the form of an answer that ranks nothing."""
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
