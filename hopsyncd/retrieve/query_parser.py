"""Splits a question, as typed, into its words and its filters.

`source:vault path:Plugins before:2026-03 how do hotkeys work` asks how hotkeys work, in the
documents that match three filters. A word that only looks like a filter stays text: `std::vector`,
`note: call Ann`, `before:lunch`. If such a word was probably meant as a filter, a note says so:
`typ:md`, `before:2026-13`.

An introductory sentence of a long question is dropped if no document has anything similar.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config.schedule import parse_date_ms
from hopsyncd.errors import BadRequest
from hopsyncd.formats.units import split_into_sentences
from hopsyncd.index.arrays import expand_ranges
from hopsyncd.index.filters import DATE_KEYS, KEYS, Condition, Filter, apply_filter
from hopsyncd.index.live_index import NO_DATE, LiveIndex
from hopsyncd.retrieve.asked_time import find_asked_time
from hopsyncd.text.dates import DAY_IN_NAME

_ALIASES = {
    **dict.fromkeys(("file", "folder"), "path"),
    **dict.fromkeys(("ext", "extension"), "type"),
    "from": "author",
    "after": "since",
    "created-after": "created-since",
}
_WRITTEN = re.compile(
    rf"(?<!\S)(-?)({'|'.join((*KEYS, *_ALIASES))}):(\"[^\"]+\"|[^\s\"]+)(?!\S)"
    r"|(?<!\S)(-?)\[([\w -]+)[:=]([^\]\[]+)\](?!\S)"  # Obsidian's [status:done]
)
_LIKE_FILTER = re.compile(r"(?<!\S)-?([a-z][a-z-]{2,20}):(\"[^\"]+\"|[^\s\":/][^\s\"]*)(?!\S)")
_SHORT_KEY = 3  # a mistyped shorter key must begin with the key
_END = "?!.,;"
_ASKS = ("?", "\uff1f", "\u061f")
_FITS = 0.8  # least fit of a statement, as a share of the best question's fit
_LISTED = 20
_ALIKE = 70  # least similarity of a suggested name, of 100


@dataclass(frozen=True, slots=True)
class Understood:
    """A question without its filters.

    filter_: the filters from the question and from the request. asked_time: a date filter that the
    words of the question suggest; it is not applied. notes: for each word that was probably meant
    as a filter, why it is not used as a filter. is_only_filters: the question has no other words.
    """

    question: str
    filter_: Filter = ()
    asked_time: str = ""
    notes: tuple[str, ...] = ()
    is_only_filters: bool = False

    @property
    def filter_text(self) -> str:
        """The filters as a user can type them."""
        return " ".join(map(str, self.filter_))


def parse_question(question: str, given: Iterable[str], now: datetime | None = None) -> Understood:
    """Parse a question, and the filters that the request has as `key:value`.

    If a question has only filters, their values become the words to search for. The default of
    `now` is the local time without an offset, because a day has the offset of its own season.
    Raises BadRequest if an item of `given` is not a filter.

    >>> noon = datetime(2026, 3, 14, 12)
    >>> found = parse_question("hotkeys source:vault in std::vector before:lunch", (), noon)
    >>> found.question, found.filter_text
    ('hotkeys in std::vector before:lunch', 'source:vault')
    >>> parse_question("hotkeys typ:md", (), noon).notes
    ('typ:md was searched for as words, because there is no filter "typ". Did you mean type:md?',)
    """
    now = now or datetime.now()
    filters = [_parse_filter(text, now) for text in given]
    remaining: list[str] = []
    end = 0
    for match in _WRITTEN.finditer(question):
        condition = _parse_match(match, now, is_last=not question[match.end() :].strip())
        if condition is None:
            continue
        remaining.append(question[end : match.start()])
        end = match.end()
        filters.append(condition)
    text = " ".join("".join([*remaining, question[end:]]).split()) if end else question
    is_only_filters = bool(filters) and not re.search(r"\w", text)
    if not re.search(r"\w", text):
        text = " ".join(condition.value for condition in filters) or question
    has_dates = any(condition.key in DATE_KEYS for condition in filters)
    asked_time = "" if has_dates else find_asked_time(text, now)
    notes = tuple(_note_unused_filters(text, now)) if not is_only_filters else ()
    return Understood(text, tuple(dict.fromkeys(filters)), asked_time, notes, is_only_filters)


def _note_unused_filters(text: str, now: datetime) -> Iterator[str]:
    """Explain why words that were probably meant as filters are searched for as words."""
    for match in _LIKE_FILTER.finditer(text):
        written, key, value = match[0].rstrip(_END), match[1], match[2].rstrip(_END)
        known_key = _ALIASES.get(key, key)
        start = f"{written} was searched for as words, because"
        if known_key in DATE_KEYS and any(map(str.isdigit, value)):
            try:
                _make_condition(known_key, value, now)
            except ValueError as error:
                yield f"{start} {error}"
        elif known_key not in KEYS and (near := _find_near_key(key)):
            yield f'{start} there is no filter "{key}". Did you mean {near}:{value}?'


def _find_near_key(key: str) -> str | None:
    """Return the filter key that `key` is probably a typo of, or None.

    >>> _find_near_key("typ"), _find_near_key("sorce"), _find_near_key("tags")
    ('type', 'source', 'tag')
    >>> _find_near_key("note"), _find_near_key("time"), _find_near_key("tab")
    (None, None, None)
    """
    from rapidfuzz.distance import OSA  # a slow import, needed only for typos

    for known_key in KEYS:
        is_near = key[0] == known_key[0] and OSA.distance(key, known_key) == 1
        if is_near and (len(known_key) > _SHORT_KEY or key.startswith(known_key)):
            return known_key
    return None


def split_mixed_question(question: str) -> list[str]:
    """Split a question into sentences if some of them ask and some do not. Otherwise returns []."""
    parts = [sentence.strip() for sentence in split_into_sentences(question)]
    asking = sum(part.endswith(_ASKS) for part in parts)
    return parts if 0 < asking < len(parts) else []


def drop_unrelated_sentences(
    question: str, fit: Callable[[str], float], share: float = _FITS
) -> str:
    """Drop sentences that do not ask anything and do not fit the documents.

    `fit` returns how well a sentence fits the documents. A sentence that does not ask is dropped if
    its fit is below `share` times the best fit of a sentence that asks.

    >>> fits = {"I am new here.": 0.2, "My index broke.": 0.7, "What now?": 0.5}
    >>> drop_unrelated_sentences("I am new here. My index broke. What now?", fits.__getitem__)
    'My index broke. What now?'
    """
    parts = split_mixed_question(question)
    if not parts:
        return question
    fits = [fit(part) for part in parts]
    asking = [part.endswith(_ASKS) for part in parts]
    least = share * max(score for score, asks in zip(fits, asking, strict=True) if asks)
    related = [
        part
        for part, score, asks in zip(parts, fits, asking, strict=True)
        if asks or score >= least
    ]
    return " ".join(related) if len(related) < len(parts) else question


def _parse_match(match: re.Match[str], now: datetime, *, is_last: bool) -> Condition | None:
    excludes, key, value, excludes_property, name, bracketed = match.groups()
    if name:
        value = f"{name.strip()}={bracketed.strip()}"
        return _make_condition("property", value, now, is_excluded=bool(excludes_property))
    value = value.strip('"') if value[0] == '"' else value.rstrip(_END if is_last else ",;")
    try:
        key = _ALIASES.get(key, key)
        return _make_condition(key, value, now, is_excluded=bool(excludes)) if value else None
    except ValueError:
        return None


def _parse_filter(text: str, now: datetime) -> Condition:
    key, colon, value = text.removeprefix("-").partition(":")
    key, value = _ALIASES.get(key, key), value.strip().strip('"')
    try:
        if not colon or key not in KEYS or not value:
            raise ValueError(
                f"a filter has the form key:value, where the key is one of {', '.join(KEYS)}"
            )
        return _make_condition(key, value, now, is_excluded=text.startswith("-"))
    except ValueError as error:
        raise BadRequest(
            f"The filter {text!r} was refused",
            str(error),
            "Write a filter like source:notes, path:Projects/**, tag:garden or since:2026-01",
        ) from error


def _make_condition(key: str, value: str, now: datetime, *, is_excluded: bool = False) -> Condition:
    """Make a condition. Dates are in the time zone of `now`, or in local time if it has none.
    Raises ValueError if a date is invalid."""
    at_ms = parse_date_ms(value, now) if key in DATE_KEYS else 0
    if at_ms is None:
        raise ValueError(f"{value!r} is not a date: write 2026-03-14, 2026-03, 30d or yesterday")
    return Condition(key, value, is_excluded, at_ms)


# Suggestions for a filter that matches no document


def suggest_filter(
    index: LiveIndex, wanted: Filter, version: int, visible: NDArray[np.bool_]
) -> str:
    """Explain why no document matches the filters, and suggest a filter that matches.

    `visible` flags the documents among which the filters should have matched.
    """

    def count_matching(filter_: Filter) -> int:
        flags = apply_filter(index, filter_, version, np.empty(0, dtype=np.bool_))
        return int(np.count_nonzero(flags & visible[: len(flags)]))

    for condition in wanted:
        if not condition.is_excluded and not count_matching((condition,)):
            return f"no document matches {condition}{_suggest_value(index, condition, visible)}"
    best, left = None, 0
    for position, condition in enumerate(wanted):
        count = count_matching((*wanted[:position], *wanted[position + 1 :]))
        if count > left:
            best, left = condition, count
    if best is None:
        return "no document matches all filters. Remove a filter"
    documents = "1 document is" if left == 1 else f"{left} documents are"
    return f"no document matches all filters; without {best}, {documents} left"


def _suggest_value(index: LiveIndex, condition: Condition, visible: NDArray[np.bool_]) -> str:
    if condition.key in DATE_KEYS:
        name = "created" if condition.key.startswith("created") else "modified"
        documents = index.documents
        column = documents.created_ms if name == "created" else documents.modified_ms
        dates = column[: len(visible)][visible]
        dates = dates[dates != NO_DATE]
        if not len(dates):
            kind = "creation" if name == "created" else "modification"
            return f": no document has a known {kind} date"
        is_since = condition.key.endswith("since")
        ends = dates.max() if is_since else dates.min()
        day = datetime.fromtimestamp(int(ends) / 1000).astimezone().date()
        return f": the {'newest' if is_since else 'oldest'} is from {day}"
    values = sorted(_collect_values(index, condition, np.flatnonzero(visible)))
    name, _, property_value = condition.value.partition("=")
    value = (property_value or name) if condition.key == "property" else condition.value
    near = find_similar_names(value, values)
    if near:
        conditions = (_replace_value(condition, name) for name in near)
        return f". Did you mean {' or '.join(map(str, conditions))}?"
    if condition.key != "path" and values:
        more = ", ..." if len(values) > _LISTED else ""
        return f". Known: {', '.join(values[:_LISTED])}{more}"
    return ""


def _replace_value(condition: Condition, value: str) -> Condition:
    name, equals, _ = condition.value.partition("=")
    return Condition(
        condition.key, f"{name}={value}" if condition.key == "property" and equals else value
    )


def _collect_values(
    index: LiveIndex, condition: Condition, documents: NDArray[np.int64]
) -> set[str]:
    """Collect the values that these documents have for the condition's key."""
    if condition.key == "source":
        return {index.sources[number] for number in np.unique(index.documents.source[documents])}
    if condition.key == "path":
        paths = [index.document_paths[number] for number in documents.tolist()]
        above = {path.rpartition("/")[0] for path in paths}
        return {*(name for name in above if name), *paths}
    first = np.searchsorted(index.document_properties.document_row, documents)
    rows, _ = expand_ranges(
        first, np.searchsorted(index.document_properties.document_row, documents, "right")
    )
    pairs = {
        index.properties[number] for number in np.unique(index.document_properties.property[rows])
    }
    name = condition.key
    if name == "type":
        return {text.split()[0] for key, text in pairs if key == "type"}
    if name == "property":
        name, equals, _ = condition.value.casefold().partition("=")
        if not equals:
            return {key for key, _ in pairs if key not in ("type", DAY_IN_NAME)}
    return {text for key, text in pairs if key == name}


def find_similar_names(mistyped: str, names: Iterable[str]) -> Sequence[str]:
    """Return the known names most similar to a mistyped name, best first.

    >>> find_similar_names("Plugns", ["Plugins", "Themes"])
    ['Plugins']
    """
    from rapidfuzz import fuzz, process  # a slow import, needed only for typos

    similar = process.extract(
        mistyped,
        [*names],
        scorer=fuzz.WRatio,
        processor=str.casefold,
        limit=3,
        score_cutoff=_ALIKE,
    )
    return [name for name, *_ in similar]
