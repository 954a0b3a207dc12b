"""Formats passages for an LLM: data in JSON, by document, with numbers to cite.

Each document has its title, path and date, and each passage its number and headings. All texts are
escaped as JSON, so a text cannot end its field or imitate another passage or speaker.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from hopsyncd.display import mail_name
from hopsyncd.index.live_index import NO_DATE
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.llm.tokens import count_tokens
from hopsyncd.retrieve.excerpts import Excerpt, choose_excerpts, document_of
from hopsyncd.retrieve.sentences import FoundTexts, Sentence
from store.reads import Place
from store.records import Passage, PassageId

_MAX_LABEL = 300  # characters of a title, path or heading path
_ANY_NUMBER = 10
_LEAST_SHARED = 0.6  # share of a quote's words that the matching sentence must have
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Material:
    """The excerpts to show an LLM, in order. The first excerpt has the number 1."""

    found: FoundTexts
    excerpts: tuple[Excerpt, ...]
    dates: Mapping[int, str]

    @cached_property
    def documents(self) -> list[dict[str, Any]]:
        """The documents with their passages, as JSON values."""
        documents: list[dict[str, Any]] = []
        last: object = None
        for number, excerpt in enumerate(self.excerpts, 1):
            document = document_of(self.found, excerpt.passage)
            if document != last or document == ("", ""):
                frame = _document_frame(self.found, excerpt.passage, self.dates)
                documents.append({**frame, "passages": {}})
                last = document
            label = _label(self.found, excerpt.passage, number, documents[-1].get("title", ""))
            documents[-1]["passages"][label] = excerpt.text
        return documents

    @property
    def numbers(self) -> dict[PassageId, int]:
        """The number of each passage, by its id."""
        return {excerpt.passage: number for number, excerpt in enumerate(self.excerpts, 1)}

    def passage(self, number: int) -> PassageId | None:
        """Return the passage with this number, or None if no passage has it."""
        return self.excerpts[number - 1].passage if 1 <= number <= len(self.excerpts) else None

    def describe_unsent(self, numbers: Iterable[int]) -> str:
        """Say that the citations of these numbers were removed, because no passage has these
        numbers.
        """
        known = [*numbers]
        cited = f"passage{'s' if len(known) > 1 else ''} {', '.join(map(str, known))}"
        missing = "these passages" if len(known) > 1 else "this passage"
        return f"citations of {cited} were removed, because the LLM was not sent {missing}"

    def sentence(self, number: int, quote: str) -> str | None:
        """Return the sentence of a passage that contains a quote, or None if no sentence is
        similar.
        """
        wanted = {*_words(quote)}
        shown = self.excerpts[number - 1].sentences
        shares = [
            len(wanted.intersection(_words(excerpt))) / max(len(wanted), 1) for excerpt in shown
        ]
        best = max(shares, default=0.0)
        return shown[shares.index(best)] if best >= _LEAST_SHARED else None


def make_material(
    found: FoundTexts,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    snapshot: Snapshot,
    budget_tokens: int,
    kept: Collection[PassageId] = (),
) -> Material:
    """Choose the best excerpts whose JSON has at most `budget_tokens` tokens.

    The passages in `kept` are always considered, however badly they fit.
    """
    dates = document_dates(snapshot, found)

    def frame_tokens(passage: PassageId, is_new_document: bool) -> int:
        if not is_new_document:
            return count_tokens(_json(_label(found, passage, _ANY_NUMBER)))
        frame = {**_document_frame(found, passage, dates), "passages": {}}
        label = _label(found, passage, _ANY_NUMBER, frame.get("title", ""))
        return count_tokens(_json(frame)) + count_tokens(_json(label))

    def text_tokens(text: str) -> int:
        return count_tokens(_json(text))

    chosen = choose_excerpts(
        found, sentences, weights, budget_tokens, frame_tokens, text_tokens, kept=kept
    )
    return Material(found, tuple(chosen), dates)


def document_dates(snapshot: Snapshot, found: FoundTexts) -> dict[int, str]:
    """Map documents to the day on which they were created or, if that is unknown, last changed.

    The keys are the rows of the documents in the database.
    """
    table = snapshot.index.documents
    wanted = [place.row for places in found.places.values() for place in places[:1]]
    dates: dict[int, str] = {}
    for row in np.flatnonzero(np.isin(table.id, np.array(wanted, dtype=np.int64))).tolist():
        given = (int(table.created_ms[row]), int(table.modified_ms[row]))
        days = (_day(moment) for moment in given if moment != NO_DATE)
        if day := next(filter(None, days), None):
            dates[int(table.id[row])] = day
    return dates


def title_of(passage: Passage, places: Sequence[Place]) -> str:
    """Return the title of a document.

    The title is a mail's subject and sender, or the first heading, or the path.
    """
    heading = list(passage.heading)
    if places and (name := mail_name(places[0].origin, heading)):
        return name
    return heading[0] if heading else places[0].document if places else ""


def _document_frame(found: FoundTexts, id_: PassageId, dates: Mapping[int, str]) -> dict[str, Any]:
    places = found.places.get(id_, ())
    title, path = title_of(found.passages[id_], places), document_of(found, id_)[1]
    date = dates.get(places[0].row) if places else None
    frame = {"title": title[:_MAX_LABEL], "path": path[:_MAX_LABEL], "date": date}
    if title == path:
        del frame["title"]
    return {name: value for name, value in frame.items() if value}


def _label(found: FoundTexts, id_: PassageId, number: int, title: str = "") -> str:
    """Return the passage's number and its headings, without a first heading equal to `title`."""
    headings = list(found.passages[id_].heading)
    if headings[:1] == [title]:
        del headings[0]
    return f"{number}. {' > '.join(headings)[:_MAX_LABEL]}" if headings else str(number)


def _day(ms: int) -> str | None:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
