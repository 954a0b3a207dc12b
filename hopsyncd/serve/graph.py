"""The graph around passages as JSON objects: documented in docs/api.md."""

from collections.abc import Iterable, Sequence
from typing import Any

from hopsyncd.graph.around import Around, Link, around, paths
from hopsyncd.query.answer import hop_json, placed_json
from hopsyncd.query.engine import Answer
from hopsyncd.query.head import Head
from hopsyncd.query.ranked import Hop
from hopsyncd.serve.documents import position_of
from hopsyncd.serve.history import start_of
from hopsyncd.serve.parameters import NeighboursRequest, PathsRequest
from hopsyncd.strategy import Search
from store.content import known_passages, question_texts
from store.database import Connection
from store.reads import places_at
from store.records import PassageId, QuestionId

_BRIEF = ("id", "heading", "source", "document", "location")


def neighbours_answer(
    connection: Connection, head: Head | None, request: NeighboursRequest, degraded: Sequence[str]
) -> dict[str, Any]:
    """What lies around a passage, the nearest first. Raises NotFound."""
    start = position_of(head, request.id)
    assert head is not None
    found = around(head.view, start, request.hops, request.limit)
    shown = _shown(connection, head, found.distance, found.links)
    return {
        "version": head.version.id,
        "degraded": list(degraded),
        "passages": _passages(head, shown, found),
        "edges": [_edge(head, shown, link) for link in found.links if _is_there(head, shown, link)],
    }


def paths_answer(
    connection: Connection, head: Head | None, request: PathsRequest, degraded: Sequence[str]
) -> dict[str, Any]:
    """The ways from one passage to another, the shortest first. Raises NotFound."""
    ends = position_of(head, request.from_), position_of(head, request.to)
    assert head is not None
    found = paths(head.view, *ends, request.max_hops, request.limit)
    links = [link for path in found for link in path]
    shown = _shown(connection, head, {end for one in links for end in (one.start, one.end)}, links)
    return {
        "version": head.version.id,
        "degraded": list(degraded),
        "paths": [
            [_path_hop(head, shown, link) for link in path]
            for path in found
            if all(_is_there(head, shown, link) for link in path)
        ],
    }


def _passages(head: Head, shown: Answer, found: Around) -> list[dict[str, Any]]:
    told = []
    for position, distance in found.distance.items():
        id_ = _id(head, position)
        if passage := shown.passages.get(id_):
            whole = placed_json(id_, passage, shown.places.get(id_, ()))
            brief = {key: whole[key] for key in _BRIEF}
            told.append({**brief, "start": start_of(passage.text), "distance": distance})
    return told


def _is_there(head: Head, shown: Answer, link: Link) -> bool:
    """False while a purge has taken a passage that the served graph still has."""
    return {_id(head, link.start), _id(head, link.end)} <= shown.passages.keys()


def _edge(head: Head, shown: Answer, link: Link) -> dict[str, Any]:
    hop = _path_hop(head, shown, link)
    edge = {key: hop[key] for key in ("question", "asked_by", "similarity")}
    named = {"name": link.name} if link.name is not None else {}
    return {"from": hop["from"]["id"], "to": hop["to"]["id"], **edge, **named}


def _path_hop(head: Head, shown: Answer, link: Link) -> dict[str, Any]:
    """A hop as in a query's answer, along which no mass flowed."""
    view, edges = head.view, len(head.view.source)
    ends = _id(head, link.start), _id(head, link.end)
    if link.name is not None:
        return {**hop_json(shown, Hop(*ends, "both", None, link.name, 0.0)), "similarity": None}
    question = QuestionId(int(view.question[link.way % edges]))
    hop = Hop(*ends, "from" if link.way < edges else "to", question, None, 0.0)
    similarity = round(float(view.similarity[link.way % edges]), 4)
    return {**hop_json(shown, hop), "similarity": similarity}


def _shown(
    connection: Connection, head: Head, positions: Iterable[int], links: Iterable[Link]
) -> Answer:
    """What is needed to show them, as an answer that ranks nothing."""
    ids = {_id(head, position) for position in positions}
    edges = len(head.view.source)
    questions = [int(head.view.question[link.way % edges]) for link in links if link.way >= 0]
    return Answer(
        version=head.version.id,
        search=Search("hop"),
        ranked=(),
        passages=known_passages(connection, ids),
        places=places_at(connection, head.version.id, ids, head.hidden),
        questions=question_texts(connection, map(QuestionId, questions)),
        words=head.words,
    )


def _id(head: Head, position: int) -> PassageId:
    return PassageId(int(head.view.passage[position]))
