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

from hopsyncd.display import format_mail_name
from hopsyncd.index.live_index import NO_DATE
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.llm.tokens import count_tokens
from hopsyncd.retrieve.excerpts import Excerpt, choose_excerpts, find_document
from hopsyncd.retrieve.sentences import PassageTexts, Sentence
from store.reads import Place
from store.records import Passage, PassageId

_MAX_LABEL = 300  # characters of a title, path or heading path
_ANY_NUMBER = 10
_LEAST_SHARED = 0.6  # share of a quote's words that the matching sentence must have
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Material:
    """The excerpts to show an LLM, in order. The first excerpt has the number 1."""

    texts: PassageTexts
    excerpts: tuple[Excerpt, ...]
    dates: Mapping[int, str]

    @cached_property
    def documents(self) -> list[dict[str, Any]]:
        documents: list[dict[str, Any]] = []
        last: object = None
        for number, excerpt in enumerate(self.excerpts, 1):
            document = find_document(self.texts, excerpt.passage)
            if document != last or document == ("", ""):
                frame = _make_document_frame(self.texts, excerpt.passage, self.dates)
                documents.append({**frame, "passages": {}})
                last = document
            label = _format_label(
                self.texts, excerpt.passage, number, documents[-1].get("title", "")
            )
            documents[-1]["passages"][label] = excerpt.text
        return documents

    @property
    def numbers(self) -> dict[PassageId, int]:
        """The number of each passage's excerpt, counted from 1, by passage id."""
        return {excerpt.passage: number for number, excerpt in enumerate(self.excerpts, 1)}

    def get_passage(self, number: int) -> PassageId | None:
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

    def find_sentence(self, number: int, quote: str) -> str | None:
        """Return the sentence of a passage that contains a quote, or None if no sentence is
        similar.
        """
        quoted_words = {*_split_into_words(quote)}
        shown = self.excerpts[number - 1].sentences
        shares = [
            len(quoted_words.intersection(_split_into_words(excerpt))) / max(len(quoted_words), 1)
            for excerpt in shown
        ]
        best = max(shares, default=0.0)
        return shown[shares.index(best)] if best >= _LEAST_SHARED else None


def make_material(
    texts: PassageTexts,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    snapshot: Snapshot,
    budget_tokens: int,
    required: Collection[PassageId] = (),
) -> Material:
    """Choose the best excerpts whose JSON has at most `budget_tokens` tokens.

    `sentences` are the rated sentences of the passages in `texts`, and `weights` the idf of the
    question's terms, as from `Asker.rate_sentences`. The passages in `required` are
    always considered, however badly they fit.
    """
    dates = read_document_dates(snapshot, texts)

    def frame_tokens(passage: PassageId, is_new_document: bool) -> int:
        if not is_new_document:
            return count_tokens(_dump_json(_format_label(texts, passage, _ANY_NUMBER)))
        frame = {**_make_document_frame(texts, passage, dates), "passages": {}}
        label = _format_label(texts, passage, _ANY_NUMBER, frame.get("title", ""))
        return count_tokens(_dump_json(frame)) + count_tokens(_dump_json(label))

    def text_tokens(text: str) -> int:
        return count_tokens(_dump_json(text))

    chosen = choose_excerpts(
        texts,
        sentences,
        weights,
        budget_tokens,
        frame_tokens,
        text_tokens,
        required=required,
    )
    return Material(texts, tuple(chosen), dates)


def read_document_dates(snapshot: Snapshot, texts: PassageTexts) -> dict[int, str]:
    """Map documents to the day on which they were created or, if that is unknown, last changed.

    The keys are the rows of the documents in the database.
    """
    table = snapshot.index.documents
    document_rows = [place.row for places in texts.places.values() for place in places[:1]]
    dates: dict[int, str] = {}
    for row in np.flatnonzero(np.isin(table.id, np.array(document_rows, dtype=np.int64))).tolist():
        given = (int(table.created_ms[row]), int(table.modified_ms[row]))
        days = (_format_day(moment) for moment in given if moment != NO_DATE)
        if day := next(filter(None, days), None):
            dates[int(table.id[row])] = day
    return dates


def find_title(passage: Passage, places: Sequence[Place]) -> str:
    """Return the title of a document.

    The title is a mail's subject and sender, or the first heading, or the path.
    """
    heading = list(passage.heading)
    if places and (name := format_mail_name(places[0].origin, heading)):
        return name
    return heading[0] if heading else places[0].document if places else ""


def _make_document_frame(
    texts: PassageTexts, id_: PassageId, dates: Mapping[int, str]
) -> dict[str, Any]:
    places = texts.places.get(id_, ())
    title, path = find_title(texts.passages[id_], places), find_document(texts, id_)[1]
    date = dates.get(places[0].row) if places else None
    frame = {"title": title[:_MAX_LABEL], "path": path[:_MAX_LABEL], "date": date}
    if title == path:
        del frame["title"]
    return {name: value for name, value in frame.items() if value}


def _format_label(texts: PassageTexts, id_: PassageId, number: int, title: str = "") -> str:
    """Return the passage's number and its headings, without a first heading equal to `title`."""
    headings = list(texts.passages[id_].heading)
    if headings[:1] == [title]:
        del headings[0]
    return f"{number}. {' > '.join(headings)[:_MAX_LABEL]}" if headings else str(number)


def _format_day(ms: int) -> str | None:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _split_into_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _dump_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
