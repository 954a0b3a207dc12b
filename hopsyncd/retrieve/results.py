"""An answer as the JSON object that the socket and `--json` give: documented in docs/api.md."""

import re
from collections.abc import Sequence

import numpy as np

from hopsyncd.answers.found import (
    FoundPassage,
    HopEnd,
    LogicGraph,
    PassagePlace,
    PlacedPassage,
    QueryAnswer,
    UnderstoodQuestion,
    WalkedHop,
)
from hopsyncd.config.values import Search
from hopsyncd.formats.units import cell_name, location_text, unit_of
from hopsyncd.index.statistics import Visible
from hopsyncd.retrieve.engine import Answer
from hopsyncd.retrieve.ranking import Hop, Ranked
from hopsyncd.retrieve.understood import Understood, nearest
from store.records import Passage, PassageId
from store.sqlite.reads import Place


def id_text(passage: PassageId) -> str:
    """A passage id as users see it: 16 hexadecimal digits."""
    return f"{passage:016x}"


def understood_json(answer: Answer | None, meant: Understood | None) -> UnderstoodQuestion | None:
    """What was looked for; None if that is the question as it was typed."""
    if meant is None or not meant.wanted:
        return None
    documents = passages = 0
    hint = None
    if answer is not None:
        snapshot = answer.snapshot
        visible = snapshot.statistics.visible
        documents = int(np.count_nonzero(visible.documents))
        passages = snapshot.statistics.passages
        if not documents:
            version = snapshot.version.id
            whole = Visible.of(snapshot.index, version, snapshot.hidden).documents
            hint = nearest(snapshot.index, meant.wanted, version, whole)
    return {
        "question": meant.question,
        "filter": meant.filter_text,
        "documents": documents,
        "passages": passages,
        "hint": hint,
    }


def answer_json(
    answer: Answer | None,
    search: Search,
    degraded: Sequence[str],
    meant: Understood | None = None,
) -> QueryAnswer:
    """Version, how it was searched, reasons to doubt, and the passages, best first.

    Version 0 is the empty graph, before anything was indexed.
    """
    hops = search.strategy == "hop"
    llm = answer.llm if answer else None
    return {
        "version": answer.version if answer else 0,
        "understood": understood_json(answer, meant),
        "strategy": search.strategy,
        "profile": search.profile if hops else None,
        "reasoner": search.chosen_reasoner if hops else None,
        "llm": {"calls": llm.calls, "tokens": llm.tokens} if llm else None,
        "degraded": [*degraded, *(answer.degraded if answer else ())],
        "passages": [passage_json(answer, ranked) for ranked in answer.ranked] if answer else [],
        "logic": logic_json(answer),
    }


def logic_json(answer: Answer | None) -> LogicGraph | None:
    """The question's graph; None unless it was searched for by logic."""
    if answer is None or answer.resolution is None:
        return None
    return {
        "subproblems": [
            {
                "id": one.id,
                "question": one.question,
                "after": list(one.after),
                "rank": one.rank,
                "query": one.query,
                "answer": one.answer or None,
                "citations": [_end(answer, id_) for id_ in one.citations if id_ in answer.passages],
            }
            for one in answer.resolution.subproblems
        ],
        "notes": answer.resolution.notes,
    }


def passage_json(answer: Answer, ranked: Ranked) -> FoundPassage:
    """One passage, with its places and hops."""
    return {
        **placed_json(
            ranked.passage,
            answer.passages[ranked.passage],
            answer.places.get(ranked.passage, ()),
        ),
        "score": ranked.score,
        "hops": [hop_json(answer, step) for step in ranked.hops],
        "statements": [
            {
                "passage": id_text(one.passage),
                "text": answer.questions.get(one.question, ""),
                "name": one.name,
            }
            for one in ranked.statements
        ],
    }


def placed_json(id_: PassageId, passage: Passage, places: Sequence[Place]) -> PlacedPassage:
    """A passage and where it stands, the first of its places foremost."""
    return {
        "id": id_text(id_),
        "text": passage.text,
        "heading": list(passage.heading),
        **_place(places[0] if places else None, passage),
        "also_in": [_place(place, passage) for place in places[1:]],
    }


def _place(place: Place | None, passage: Passage) -> PassagePlace:
    """Where a passage stands; `lines` is of text alone, the rest of every kind of document."""
    if place is None:
        return {
            "source": None,
            "document": None,
            "lines": None,
            "unit": None,
            "span": None,
            "location": None,
            "origin": None,
        }
    unit = unit_of(place.media_type)
    first, last = place.first_line, place.last_line
    return {
        "source": place.source,
        "document": place.document,
        "lines": [first, last] if unit == "line" else None,
        "unit": unit,
        "span": [cell_name(first), cell_name(last)] if unit == "range" else [first, last],
        "location": location_text(unit, first, last, passage.heading),
        "origin": place.origin,
    }


def hop_json(answer: Answer, step: Hop) -> WalkedHop:
    """One hop; both its ends are among the answer's passages."""
    return {
        "from": _end(answer, step.source),
        "to": _end(answer, step.target),
        "question": _question(answer, step),
        "asked_by": step.asked_by,
        "share": round(step.share, 4),
    }


def _question(answer: Answer, step: Hop) -> str:
    if step.asked_by in ("link", "backlink"):
        return f"See {step.name}."
    if step.question is None:
        return f"What is said of {_as_written(answer, step)}?"
    return answer.questions.get(step.question, "")


def _as_written(answer: Answer, step: Hop) -> str | None:
    """The name that both ends speak of, as one of them writes it: names are compared without case.

    It stays as it is where neither has it whole.
    """
    for end in (step.target, step.source):
        passage = answer.passages[end]
        text = " ".join((*passage.heading, passage.text))
        if step.name and (found := re.search(rf"\b{re.escape(step.name)}\b", text, re.IGNORECASE)):
            return found[0]
    return step.name


def _end(answer: Answer, passage: PassageId) -> HopEnd:
    places = answer.places.get(passage, [])
    return {
        "id": id_text(passage),
        "heading": list(answer.passages[passage].heading),
        "document": places[0].document if places else None,
    }
