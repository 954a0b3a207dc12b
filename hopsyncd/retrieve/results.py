"""The answer to a search, with all data needed to display it, and its JSON form.

The socket and `--json` return the JSON form. docs/reference/http-api.md documents it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hopsyncd.config.values import Search
from hopsyncd.display import format_mail_name
from hopsyncd.formats.media_types import describe_location, find_unit, name_cell
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.questions import ask_about_name
from hopsyncd.responses.results import (
    FoundPassage,
    HopEnd,
    LogicGraph,
    PassagePlace,
    PlacedPassage,
    QueryAnswer,
    SimilarPassage,
    UnderstoodQuestion,
    UnderstoodWord,
    WalkedHop,
)
from hopsyncd.retrieve.asked_time import choose_date
from hopsyncd.retrieve.logic import Resolution
from hopsyncd.retrieve.material import find_title
from hopsyncd.retrieve.query_parser import Understood, suggest_filter
from hopsyncd.retrieve.ranking import Hop, Ranked
from hopsyncd.retrieve.searcher import SearchResult
from hopsyncd.retrieve.sentences import read_visible_places
from hopsyncd.retrieve.spelling import NOTHING_CORRECTED, Spelling
from hopsyncd.retrieve.strength import Strength
from store.content import read_passages, read_question_texts
from store.contract import Connection
from store.reads import Place
from store.records import Passage, PassageId, QuestionId

# Patterns that ignore case take these letters for i, s and k.
_ALIKE = re.compile("[\u0130\u0131\u017f\u212a]")


@dataclass(frozen=True, slots=True)
class LlmCost:
    """The LLM usage of one answer. Tokens count prompts and replies together."""

    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The ranked passages of a version, with all data needed to display them.

    question: the question with corrected spelling; `typed` is the original, and `spelling` has the
    corrections. absent: words and phrases that no visible passage has. strengths: the strength of
    each passage found. snapshot: the version that was searched. degraded: reasons why the answer is
    not as requested. llm: the LLM usage; None if the search does not use an LLM. resolution: the
    subproblems and answers of a search by logic.
    """

    version: int
    question: str
    search: Search
    ranked: tuple[Ranked, ...]
    passages: dict[PassageId, Passage]
    places: dict[PassageId, list[Place]]
    questions: dict[QuestionId, str]
    snapshot: Snapshot = field(compare=False)
    degraded: tuple[str, ...] = ()
    llm: LlmCost | None = None
    resolution: Resolution | None = None
    typed: str = ""
    spelling: Spelling = NOTHING_CORRECTED
    absent: tuple[str, ...] = ()
    strengths: Mapping[PassageId, Strength] = field(default_factory=dict)


def build_answer(
    connection: Connection, served: Snapshot, question: str, search: Search, result: SearchResult
) -> Answer:
    """Fetch the passages found, with all data needed to display them."""
    shown = {passage for hit in result.ranked for passage in _list_shown(hit)}
    passages = read_passages(connection, shown)
    # A purge may have removed some of these passages while the LLM answered.
    ranked = [
        hit if _list_shown(hit) <= passages.keys() else Ranked(hit.passage, hit.score)
        for hit in result.ranked
        if hit.passage in passages
    ]
    places = read_visible_places(connection, served, shown)
    return Answer(
        version=served.version.id,
        question=question,
        search=search,
        ranked=tuple(ranked),
        passages=passages,
        places=places,
        questions=read_question_texts(
            connection,
            [
                *(step.question for hit in ranked for step in hit.hops),
                *(statement.question for hit in ranked for statement in hit.statements),
            ],
            shown,
        ),
        snapshot=served,
        degraded=tuple(result.degraded),
        resolution=result.resolution,
    )


def _list_shown(ranked: Ranked) -> set[PassageId]:
    """Collect the passages shown with a result: the result's own passage, its path, and its
    near-duplicates."""
    ends = {end for step in ranked.hops for end in (step.source, step.target)}
    return {
        ranked.passage,
        *ends,
        *(statement.passage for statement in ranked.statements),
        *ranked.similar,
    }


def format_id(passage: PassageId) -> str:
    """Format a passage id as users see it: 16 hexadecimal digits."""
    return f"{passage:016x}"


def format_understood(
    answer: Answer | None, understood: Understood | None
) -> UnderstoodQuestion | None:
    """Explain how the question was interpreted. Returns None if the question was searched as
    typed."""
    spelling = answer.spelling if answer else NOTHING_CORRECTED
    if understood is None:
        return None
    absent = answer.absent if answer else ()
    if not (
        understood.filter_
        or spelling.applied
        or spelling.offered
        or absent
        or understood.asked_time
    ):
        return None
    documents = passages = 0
    hint, offered_filter = None, understood.asked_time
    if answer is not None:
        snapshot = answer.snapshot
        offered_filter = choose_date(offered_filter, understood.question, snapshot)
        visible = snapshot.statistics.visible
        documents = int(np.count_nonzero(visible.documents))
        passages = snapshot.statistics.passages
        if not documents and snapshot.unfiltered:
            whole = snapshot.unfiltered.statistics.visible.documents
            hint = suggest_filter(snapshot.index, understood.filter_, snapshot.version.id, whole)
    return {
        "question": answer.question if answer else understood.question,
        "words": _format_words(spelling.applied),
        "offered": _format_words(spelling.offered),
        "absent": list(dict.fromkeys((*spelling.applied, *absent))),
        "filter": understood.filter_text,
        "offered_filter": offered_filter,
        "documents": documents,
        "passages": passages,
        "hint": hint,
    }


def _format_words(corrections: Mapping[str, str]) -> list[UnderstoodWord]:
    return [{"typed": typed, "meant": word} for typed, word in corrections.items()]


def leave_out_filter_words(answer: Answer | None, understood: Understood | None) -> Answer | None:
    """Leave out what was found about the words of a question that has only filters.

    A filter is no question, so its words are not corrected, and the passages are not rated.
    """
    if answer is None or understood is None or not understood.is_only_filters:
        return answer
    return replace(answer, question="", spelling=NOTHING_CORRECTED, absent=(), strengths={})


def format_answer(
    answer: Answer | None, search: Search, understood: Understood | None = None
) -> QueryAnswer:
    """Format the answer: the version, the kind of search, problems, and the passages, best first.

    Version 0 is the empty graph before the first sync.
    """
    answer = leave_out_filter_words(answer, understood)
    hops = search.strategy == "hop"
    llm = answer.llm if answer else None
    return {
        "version": answer.version if answer else 0,
        "understood": format_understood(answer, understood),
        "strategy": search.strategy,
        "profile": search.profile if hops else None,
        "reasoner": search.chosen_reasoner if hops else None,
        "llm": {"calls": llm.calls, "tokens": llm.tokens} if llm else None,
        "degraded": [
            *(answer.degraded if answer else ()),
            *(understood.notes if understood else ()),
        ],
        "passages": format_passages(answer),
        "logic": format_logic(answer),
    }


def format_logic(answer: Answer | None) -> LogicGraph | None:
    """Format the graph of subproblems. Returns None unless the search was by logic."""
    if answer is None or answer.resolution is None:
        return None
    return {
        "subproblems": [
            {
                "id": subproblem.id,
                "question": subproblem.question,
                "after": list(subproblem.after),
                "rank": subproblem.rank,
                "query": subproblem.query,
                "answer": subproblem.answer or None,
                "citations": [
                    _end(answer, id_) for id_ in subproblem.citations if id_ in answer.passages
                ],
            }
            for subproblem in answer.resolution.subproblems
        ],
        "notes": answer.resolution.notes,
    }


def format_passages(answer: Answer | None) -> list[FoundPassage]:
    return [format_passage(answer, ranked) for ranked in answer.ranked] if answer else []


def format_passage(answer: Answer, ranked: Ranked) -> FoundPassage:
    return {
        **format_placed(
            ranked.passage,
            answer.passages[ranked.passage],
            answer.places.get(ranked.passage, ()),
        ),
        "score": ranked.score,
        "strength": answer.strengths.get(ranked.passage),
        "similar": [_format_similar(answer, id_) for id_ in ranked.similar],
        "hops": [format_hop(answer, step) for step in ranked.hops],
        "statements": [
            {
                "passage": format_id(statement.passage),
                "text": answer.questions.get(statement.question, ""),
                "name": statement.name and write_name(answer, [statement.passage], statement.name),
            }
            for statement in ranked.statements
        ],
    }


def find_document_title(answer: Answer, id_: PassageId) -> str:
    """Return the title of a passage's document."""
    return find_title(answer.passages[id_], answer.places.get(id_, ()))


def _format_similar(answer: Answer, id_: PassageId) -> SimilarPassage:
    passage, places = answer.passages[id_], answer.places.get(id_)
    return {
        "id": format_id(id_),
        "heading": list(passage.heading),
        **_place(places[0] if places else None, passage),
    }


def format_placed(id_: PassageId, passage: Passage, places: Sequence[Place]) -> PlacedPassage:
    """Format a passage and its places. The first place is the main place."""
    return {
        "id": format_id(id_),
        "text": passage.text,
        "heading": list(passage.heading),
        **_place(places[0] if places else None, passage),
        "also_in": [_place(place, passage) for place in places[1:]],
    }


def _place(place: Place | None, passage: Passage) -> PassagePlace:
    """Format a place of a passage. Only text documents have `lines`."""
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
    unit = find_unit(place.media_type)
    first, last = place.first_line, place.last_line
    return {
        "source": place.source,
        "document": place.document,
        "lines": [first, last] if unit == "line" else None,
        "unit": unit,
        "span": [name_cell(first), name_cell(last)] if unit == "range" else [first, last],
        "location": describe_location(unit, first, last, passage.heading),
        "origin": place.origin,
    }


def format_hop(answer: Answer, step: Hop) -> WalkedHop:
    return {
        "from": _end(answer, step.source),
        "to": _end(answer, step.target),
        "question": _find_question(answer, step),
        "asked_by": step.asked_by,
        "share": round(step.share, 4),
    }


def _find_question(answer: Answer, step: Hop) -> str:
    if step.asked_by in ("link", "backlink"):
        return f"See {step.name}."
    if step.asked_by == "follow_up":
        topics = ", ".join(_find_written_name(answer, step, topic) for topic in step.topics)
        return f"Then asked about {topics}" if topics else "Then asked the rest of the question"
    if step.question is None:
        return ask_about_name(_find_written_name(answer, step, step.name or ""))
    return answer.questions.get(step.question, "")


def _find_written_name(answer: Answer, step: Hop, name: str) -> str:
    """Return a name as the passages of a hop write it.

    The target is searched first. For a follow-up, the source is searched first, because the names
    come from the source.
    """
    ends = (step.target, step.source)
    return write_name(answer, ends[::-1] if step.asked_by == "follow_up" else ends, name)


def write_name(answer: Answer, passages: Sequence[PassageId], name: str) -> str:
    """Return a name as written in the first of these passages that has the name, because stored
    names are in lower case.

    If the name is a part of a passage's heading, and another passage has the whole heading in its
    text, the heading is returned: "Harvard Mark I" for "harvard mark". If no passage has the name,
    the name is returned unchanged.
    """
    found = [answer.passages[id_] for id_ in passages]
    for passage in found if name else ():
        text = " ".join((*passage.heading, passage.text))
        if written := find_whole_words(text, name) or _find_similar(text, name):
            return _find_shared_heading(found, written) or written
    return name


def _find_shared_heading(passages: Sequence[Passage], name: str) -> str | None:
    """Find a heading of one of these passages that contains the name and is in the text of another
    of these passages."""
    for passage in passages:
        for heading in passage.heading:
            if find_whole_words(heading, name):
                for other in passages:
                    if other is not passage and (shared := find_whole_words(other.text, heading)):
                        return shared
    return None


def _find_similar(text: str, name: str) -> str | None:
    """Find the name in the text, even with other characters between its words or with digits before
    it. Returns None if the name does not occur.

    >>> _find_similar("a hum of 50Hz", "hz"), _find_similar("Ann-Marie's house", "ann marie")
    ('Hz', 'Ann-Marie')
    """
    words = r"[\W_]{1,3}".join(map(re.escape, re.findall(r"\w+", name)))
    match = re.search(rf"(?<![^\W\d_]){words}(?![^\W\d_])", text, re.IGNORECASE) if words else None
    return match[0] if match else None


def find_whole_words(text: str, words: str) -> str | None:
    """Find `words` as whole words in the text, ignoring case. Returns the first match, or None.

    >>> find_whole_words("Europeans of EUROPE", "Europe")
    'EUROPE'
    """
    if not words.isascii() or _ALIKE.search(text):
        match = re.search(rf"\b{re.escape(words)}\b", text, re.IGNORECASE)
        return match[0] if match else None
    # Compiling a pattern for each name would take longer than the rest of this function.
    lower, words = text.lower(), words.lower()
    start = lower.find(words)
    while start >= 0:
        if _is_border(lower, start) and _is_border(lower, start + len(words)):
            return text[start : start + len(words)]
        start = lower.find(words, start + 1)
    return None


def _is_border(text: str, offset: int) -> bool:
    """Return whether the position `offset` of the text is at the beginning or the end of a word."""
    before, after = text[offset - 1 : offset], text[offset : offset + 1]
    return (before.isalnum() or before == "_") != (after.isalnum() or after == "_")


def _end(answer: Answer, passage: PassageId) -> HopEnd:
    places, heading = answer.places.get(passage, []), list(answer.passages[passage].heading)
    end: HopEnd = {
        "id": format_id(passage),
        "heading": heading,
        "document": places[0].document if places else None,
    }
    if places and (name := format_mail_name(places[0].origin, heading)):
        end["document_name"] = name
    return end
