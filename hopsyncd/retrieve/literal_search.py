"""Finds and ranks the passages that contain the words of a query as typed.

The text index finds the passages that have all terms of a phrase, code or word. Then these passages
are read to see whether they contain the phrase, code or word as typed. So the index needs no extra
data for this check, and only passages that are visible in the version, filter or ACL view count.

- A keyword query is ranked by its words. Passages with the whole query as one phrase come first,
  then passages with every part of the query as typed, then passages with most of the query's idf.
  Within these tiers the ranks of BM25 and of the strategy are fused, and BM25 counts twice.
- For a question, the best passage that has its phrases and codes comes first. The other passages
stay where the strategy ranked them.

Among passages with the same codes as typed, passages that define a code come first. In such a
passage, a heading, a row or a definition begins with the code.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import mul

import numpy as np

from hopsyncd.index.arrays import Flags, Floats, Integers
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import is_usual
from hopsyncd.retrieve.date_search import find_dated_rows
from hopsyncd.retrieve.other_forms import NO_FORMS, FormMatches, match_other_forms
from hopsyncd.retrieve.query_context import look_up_words
from hopsyncd.retrieve.query_words import (
    QueryPart,
    QueryWords,
    contains_as_part,
    contains_joined,
    contains_literal,
    defines,
    split_humps,
)
from hopsyncd.retrieve.ranking import FUSION_DEPTH, Ranked, select_largest
from hopsyncd.retrieve.term_matches import Read, look_up_terms
from hopsyncd.text.dates import find_asked_day
from hopsyncd.text.words import list_index_terms
from store.content import build_full_text
from store.records import Passage, PassageId

_BATCH = 128  # passages read in one query of the database.
_MOST_READ = 2048  # the most passages whose texts are read.
_MOST_PARTS = 32  # the most parts of a query that are looked for.
_ENOUGH = 20  # reading stops after 20 passages with every part as typed.
_MOST_READ_FOR_CODES = 256  # more passages are read until one of them defines a code.
_OF_SAME = 0.97  # the worth of a day in another spelling, or of a name in another form.
_OF_VARIANTS = 0.9  # the worth of no-cache for the query noCache.
_OF_FORMS = 0.8  # the worth of a word in another form.
_OF_APART = 0.4  # the worth of a phrase or code whose terms stand apart.
_NEARLY_ALL, _HALF = 0.95, 0.5  # the tiers' bounds, as shares of the weight of all parts.
_LEAST_NAME = 4  # shorter words are not searched inside camelCase names.
_POSSESSIVE = re.compile("['\u2019]s\\Z", re.IGNORECASE)
# A part that begins with a digit is an amount. Numbers of five or more digits may be identifiers.
_AMOUNT = re.compile(r"\d(?!\d{4,}\Z)")
_LEAST_UNUSUAL = 3  # shorter words of a question are not reported as absent.
_MOST_ABSENT = 5  # with more absent words, a question is taken for another language.
_FUSION_K = 60
_NO_ROWS = np.empty(0, dtype=np.int64)
_OF_DEFINING = 0.5  # added to the tier of a passage that defines a code
_WHOLE_TIER, _COMPLETE_TIER, _NEARLY_ALL_TIER, _HALF_TIER = 4, 3, 2, 1


@dataclass(frozen=True, slots=True)
class _FoundPart:
    """A part of a query, and where it was found in a version.

    rows: the rows of passages with all terms of the part, ascending. names: words of the documents
    that may be camelCase names with this part. joined: runs of words of the query, including this
    part, that may be one name. dated: for a date, the rows that mention that day in any spelling,
    or whose file name contains it. other_forms: the rows with another form, such as the long form
    of an abbreviation.
    """

    part: QueryPart
    rows: Integers
    weight: float
    names: tuple[str, ...] = ()
    joined: tuple[tuple[str, ...], ...] = ()
    dated: frozenset[int] = frozenset()
    other_forms: frozenset[int] = frozenset()

    def rate_text(self, row: int, text: str) -> float:
        """Return from 0 to 1 how well the passage in this row, with this text, has the part.

        The value is 1 for the part as typed, and for a word that is joined with its neighbours.
        """
        if contains_literal(text, self.part.text):
            return 1.0
        if row in self.dated or row in self.other_forms:
            return _OF_SAME
        if any(contains_joined(text, words) for words in self.joined):
            return 1.0 if self.part.kind == "word" else _OF_VARIANTS
        if self.part.kind == "word":
            is_part = self.names and contains_as_part(text, self.part.text)
            return 1.0 if is_part else 0.0 if self.names else _OF_FORMS
        return _OF_APART


@dataclass(frozen=True, slots=True)
class LiteralMatches:
    """The passages of a version that contain parts of a query.

    scores: (n,) BM25 by passage row; empty if no passage has a part. worth: for each row that was
    read, the share of the query's weight that the passage has. literal: the same share, where a
    part counts only as typed, and dates and names count in any form. complete, whole, defining: of
    the rows that were read, those that have every part as typed, those that have the query as one
    phrase, and those that define a code of the query. absent: the parts that no visible passage
    has. forms: other forms of the query's words.
    """

    query: QueryWords
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    worth: dict[int, float] = field(default_factory=dict)
    literal: dict[int, float] = field(default_factory=dict)
    complete: frozenset[int] = frozenset()
    defining: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()
    absent: tuple[str, ...] = ()
    forms: FormMatches = NO_FORMS


def find_literals(
    snapshot: Snapshot, query: QueryWords, read: Read, *, is_exact: bool = False
) -> LiteralMatches:
    """Look up the parts of a query in the visible passages.

    For a question, only phrases and codes are looked up, unless the search `is_exact`. Only the
    first 32 parts are used.
    """
    parts_to_find = query.parts if query.is_keywords or is_exact else query.literals
    forms = NO_FORMS if is_exact else match_other_forms(snapshot, query.text, read)
    parts = [
        _add_forms(_find_part(snapshot, part, query), forms.rows_by_term)
        for part in parts_to_find[:_MOST_PARTS]
    ]
    texts = _Texts(snapshot, read)
    absent = _find_absent(snapshot, query, parts, texts)
    whole_rows = _find_rows(snapshot, list_index_terms(query.whole)) if query.whole else _NO_ROWS
    if not len(whole_rows) and not any(len(part.rows) for part in parts):
        return LiteralMatches(query, absent=absent, forms=forms)
    scores = look_up_words(snapshot, query.text, forms.rows_by_term).scores
    whole = _find_whole(snapshot, query, whole_rows, scores, texts)
    matches = _weigh_rows(snapshot, query, parts, scores, texts)
    return replace(matches, whole=whole, absent=absent, forms=forms)


def _weigh_rows(
    snapshot: Snapshot,
    query: QueryWords,
    parts: Sequence[_FoundPart],
    scores: Floats,
    texts: "_Texts",
) -> LiteralMatches:
    """Read the passages with the most weight, to see which parts they contain as typed and which
    codes they define.

    At most 2,048 passages are read. After `_ENOUGH` passages with every part, only a passage that
    defines a code of the query is still searched for.
    """
    total = sum(part.weight for part in parts) or 1.0
    weights = [part.weight / total for part in parts]
    row_weights = np.zeros(len(scores))
    for part, weight in zip(parts, weights, strict=True):
        row_weights[part.rows] += weight
    members = [frozenset(part.rows.tolist()) for part in parts]
    codes = [found_part.part.text for found_part in parts if found_part.part.kind == "code"]
    worth: dict[int, float] = {}
    literal: dict[int, float] = {}
    complete: set[int] = set()
    defining: set[int] = set()
    for count, (row, text) in enumerate(texts.read_rows(_order(snapshot, row_weights, scores)), 1):
        is_defining = any(texts.defines(row, code) for code in codes)
        if len(complete) >= _ENOUGH:
            if not codes or defining or count > _MOST_READ_FOR_CODES:
                break
            if not is_defining:
                continue
        shares = [
            part.rate_text(row, text) if row in rows else 0.0
            for part, rows in zip(parts, members, strict=True)
        ]
        worth[row] = sum(map(mul, weights, shares))
        literal[row] = sum(
            weight * share
            for weight, share in zip(weights, shares, strict=True)
            if share >= _OF_SAME
        )
        if all(share == 1.0 for share in shares):
            complete.add(row)
        if is_defining:
            defining.add(row)
    return LiteralMatches(
        query,
        scores,
        worth,
        literal,
        complete=frozenset(complete),
        defining=frozenset(defining),
    )


def rank_literals(
    snapshot: Snapshot, matches: LiteralMatches, ranked: Sequence[Ranked], k: int
) -> list[Ranked]:
    """Move the passages with the query's words as typed to the front of the strategy's results.

    For a question, only the best of these passages moves to the front. Returns the k best passages.
    """
    if matches.query.is_keywords:
        return _rank_keywords(snapshot, matches, ranked, k)
    best = max(matches.literal.values(), default=0.0)
    holders = matches.whole or {row for row, share in matches.literal.items() if share == best}
    if not best and not matches.whole:
        return list(ranked)
    holders = holders & matches.defining or holders
    ids = snapshot.passage_ids
    by_id = {PassageId(int(ids[row])): row for row in holders}
    first = next((hit for hit in ranked if hit.passage in by_id), None)
    if first is None:
        rows = np.array(sorted(holders), dtype=np.int64)
        row = int(rows[select_largest(matches.scores[rows], ids[rows], 1)[0]])
        first = Ranked(PassageId(int(ids[row])), 0.0)
    others = [hit for hit in ranked if hit.passage != first.passage]
    most = max((hit.score for hit in ranked), default=first.score)
    return [
        replace(first, score=max(most, first.score)),
        *others,
    ][:k]


def _rank_keywords(
    snapshot: Snapshot, matches: LiteralMatches, ranked: Sequence[Ranked], k: int
) -> list[Ranked]:
    """Rank by tier, and within a tier by the fused ranks in BM25 and in the strategy's ranking."""
    if not len(matches.scores):
        return list(ranked)
    ids, scores = snapshot.passage_ids, matches.scores
    hits = {hit.passage: hit for hit in ranked}
    by_words = np.flatnonzero(scores > 0)
    by_words = by_words[select_largest(scores[by_words], ids[by_words], FUSION_DEPTH)]
    fused: dict[PassageId, float] = {}
    tiers: dict[PassageId, float] = {}
    for rank, row in enumerate(by_words.tolist(), 1):
        fused[PassageId(int(ids[row]))] = 2 / (_FUSION_K + rank)
    for row in sorted(matches.worth.keys() | matches.whole):
        id_ = PassageId(int(ids[row]))
        fused.setdefault(id_, 0.0)
        tiers[id_] = _find_tier(matches, row) + _OF_DEFINING * (row in matches.defining)
    for rank, hit in enumerate(ranked, 1):
        fused[hit.passage] = fused.get(hit.passage, 0.0) + 1 / (_FUSION_K + rank)
    order = sorted(fused, key=lambda id_: (-tiers.get(id_, 0), -fused[id_], id_))[:k]
    return [
        replace(hits.get(id_, Ranked(id_, 0.0)), score=tiers.get(id_, 0) + fused[id_])
        for id_ in order
    ]


def _find_tier(matches: LiteralMatches, row: int) -> int:
    if row in matches.whole:
        return _WHOLE_TIER
    if row in matches.complete:
        return _COMPLETE_TIER
    share = matches.worth.get(row, 0.0)
    return _NEARLY_ALL_TIER if share >= _NEARLY_ALL else _HALF_TIER if share >= _HALF else 0


def rank_exact(snapshot: Snapshot, matches: LiteralMatches, k: int) -> list[Ranked]:
    """Return the passages that have every part of the query as typed: the best `k` by BM25.

    `matches` has about `_ENOUGH` of these passages at most, so a larger `k` gives no more.
    """
    if not matches.complete:
        return []
    rows = np.array(sorted(matches.complete), dtype=np.int64)
    ids, scores = snapshot.passage_ids, matches.scores
    best = rows[select_largest(scores[rows], ids[rows], k)]
    return [Ranked(PassageId(int(ids[row])), float(scores[row])) for row in best.tolist()]


def may_differ_by_words(query: QueryWords, before: Snapshot, now: Snapshot) -> bool:
    """Return whether the literal matches of a later version may differ.

    For a keyword query, and for a query with phrases, codes or a numbered item, any added or
    removed passage may change the matches. For other questions, the matches differ only if other
    words are now in no passage.
    """
    if not (query.is_keywords or query.literals or query.whole or query.item):
        return _find_unknown(before, query) != _find_unknown(now, query)
    old, new = before.statistics.visible, now.statistics.visible
    if _differ(old.passages, new.passages):
        return True
    # Changed file names and dates elsewhere in a document can affect which passages have a date.
    has_date = any(find_asked_day(part.text, query.text) for part in query.literals)
    return has_date and _differ(old.documents, new.documents)


def _differ(before: Flags, now: Flags) -> bool:
    count = min(len(before), len(now))
    return bool((before[:count] != now[:count]).any() or now[count:].any() or before[count:].any())


class _Texts:
    """Reads the texts of passages, each at most once."""

    def __init__(self, snapshot: Snapshot, read: Read) -> None:
        self._ids = snapshot.passage_ids
        self._read = read
        self._known: dict[int, Passage | None] = {}  # by passage row; None: a purge removed it

    def read_rows(self, rows: Integers) -> Iterator[tuple[int, str]]:
        """Yield each passage row with its text, for at most 2,048 rows. Skips purged passages."""
        for start in range(0, min(len(rows), _MOST_READ), _BATCH):
            batch = rows[start : min(start + _BATCH, _MOST_READ)].tolist()
            self._read_missing([row for row in batch if row not in self._known])
            for row in batch:
                if passage := self._known[row]:
                    yield row, build_full_text(passage)

    def defines(self, row: int, code: str) -> bool:
        """Return whether a passage that was read defines a code."""
        passage = self._known[row]
        return passage is not None and defines(passage.heading, passage.text, code)

    def _read_missing(self, rows: Sequence[int]) -> None:
        ids = {row: PassageId(int(self._ids[row])) for row in rows}
        passages = self._read(ids.values()) if ids else {}
        for row, id_ in ids.items():
            self._known[row] = passages.get(id_)


def _order(snapshot: Snapshot, row_weights: Floats, scores: Floats) -> Integers:
    """List the rows that have terms of the query, ordered by the terms' weight and then by BM25."""
    rows = np.flatnonzero(row_weights > 0)
    ids = snapshot.passage_ids[rows]
    return rows[np.lexsort((ids, -scores[rows], -np.round(row_weights[rows], 9)))]


def _find_rows(snapshot: Snapshot, terms: Sequence[str]) -> Integers:
    """Find the visible passages that have all the terms. Returns their rows, ascending."""
    if not terms:
        return _NO_ROWS
    term_matches = sorted(look_up_terms(snapshot, terms), key=lambda term_rows: term_rows.df)
    if not term_matches[0].df:
        return _NO_ROWS
    rows: Integers = reduce(
        np.intersect1d,
        (term_rows.passage_rows for term_rows in term_matches),
    )
    return np.unique(rows)


def _find_part(snapshot: Snapshot, part: QueryPart, query: QueryWords) -> _FoundPart:
    terms = list_index_terms(part.text)
    rows = _find_rows(snapshot, terms)
    weight = sum(_compute_idf(snapshot, term) for term in terms)
    if part.kind == "word":
        joined = _list_compounds(part.text, query.words[:_MOST_PARTS])
        for words in joined:
            rows = np.union1d(rows, _find_rows(snapshot, list_index_terms("".join(words))))
        names: tuple[str, ...] = ()
        if not len(rows) and len(part.text) >= _LEAST_NAME:
            names = _list_words_with(snapshot, part.text)
            for name in names:
                rows = np.union1d(rows, _find_rows(snapshot, list_index_terms(name)))
        return _FoundPart(part, rows, weight, names, joined)
    humps = tuple(split_humps(part.text))
    if part.kind == "code" and len(humps) > 1 and part.text.replace("_", "").isalnum():
        rows = np.union1d(rows, _find_rows(snapshot, list_index_terms(" ".join(humps))))
        rows = np.union1d(rows, _find_rows(snapshot, list_index_terms("".join(humps))))
        return _FoundPart(part, rows, weight, (), (humps,))
    if part.kind == "code" and (day := find_asked_day(part.text, query.text)):
        dated = find_dated_rows(snapshot, day)
        rows = np.union1d(rows, dated)
        return _FoundPart(part, rows, weight, dated=frozenset(dated.tolist()))
    return _FoundPart(part, rows, weight)


def _add_forms(found_part: _FoundPart, others: Mapping[str, Integers]) -> _FoundPart:
    """Add the rows of passages with another form of a word or code. Phrases have no other forms."""
    rows = [others[term] for term in list_index_terms(found_part.part.text) if term in others]
    if not rows or found_part.part.kind == "phrase":
        return found_part
    every = reduce(np.union1d, rows)
    both = np.union1d(found_part.rows, every)
    return replace(found_part, rows=both, other_forms=frozenset(every.tolist()))


def _list_compounds(word: str, words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """List the runs of two or three words of the query that include `word` and may be one name."""
    runs = [
        tuple(words[start : start + length])
        for length in (2, 3)
        for start in range(len(words) - length + 1)
    ]
    return tuple(run for run in runs if word in run)


def _compute_idf(snapshot: Snapshot, term: str) -> float:
    df, count = look_up_terms(snapshot, [term])[0].df, snapshot.statistics.passages
    return float(np.log1p((count - df + 0.5) / (df + 0.5)))


def _list_words_with(snapshot: Snapshot, word: str) -> tuple[str, ...]:
    """List the words of the vocabulary that contain this word: `readfile` contains `File`."""
    lower = word.lower()
    return tuple(sorted(name for name in snapshot.index.vocabulary if lower in name))


def _find_whole(
    snapshot: Snapshot, query: QueryWords, rows: Integers, scores: Floats, texts: _Texts
) -> frozenset[int]:
    """Find the rows of passages that contain the whole query as one phrase, best by BM25 first.

    Only the passages in `rows` are read, and the search stops when it has found enough of them.
    """
    if query.whole is None:
        return frozenset()
    order = rows[select_largest(scores[rows], snapshot.passage_ids[rows], _MOST_READ)]
    whole: set[int] = set()
    for row, text in texts.read_rows(order):
        if contains_literal(text, query.whole):
            whole.add(row)
            if len(whole) >= _ENOUGH:
                break
    return frozenset(whole)


def _find_absent(
    snapshot: Snapshot, query: QueryWords, parts: Sequence[_FoundPart], texts: _Texts
) -> tuple[str, ...]:
    """List the parts that no visible passage has.

    A part with terms in more than `_MOST_READ` passages is not listed. For a question, only
    phrases, codes and up to `_MOST_ABSENT` unusual words count, because passages may express usual
    words differently. If more unusual words are absent, none of them is listed.
    """
    absent = []
    for found_part in parts:
        if found_part.part.kind == "word" and not found_part.names and len(found_part.rows):
            continue
        rows = found_part.rows
        if len(rows) > _MOST_READ:  # too many to read; the part counts as present
            continue
        if not any(
            found_part.rate_text(row, text) >= _OF_VARIANTS for row, text in texts.read_rows(rows)
        ):
            absent.append(found_part.part.text)
    if query.is_keywords:
        return tuple(absent)
    unknown = _find_unknown(snapshot, query)
    return (*absent, *(unknown if len(unknown) <= _MOST_ABSENT else ()))


def _find_unknown(snapshot: Snapshot, query: QueryWords) -> tuple[str, ...]:
    """List the unusual words of a question that no visible passage has.

    Years and quantities do not count, because passages can write them differently.
    """
    words = (_POSSESSIVE.sub("", word) for word in query.words if not _AMOUNT.match(word))
    unusual = [word for word in words if len(word) >= _LEAST_UNUSUAL and not is_usual(word.lower())]
    return tuple(word for word in unusual if not _occurs(snapshot, list_index_terms(word)))


def _occurs(snapshot: Snapshot, terms: Sequence[str]) -> bool:
    """Return whether a visible passage has all the terms."""
    if len(terms) == 1:
        return look_up_terms(snapshot, terms)[0].df > 0
    return bool(len(_find_rows(snapshot, terms)))
