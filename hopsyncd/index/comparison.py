"""Compares outgoing questions with incoming questions that share a keyword, by Eq. 1 of the HopRAG
paper.

The candidates depend only on the content: for each keyword, the MAX_CANDIDATES incoming questions
with the lowest ranks. The rank of a question is the first 32 bits of its id. Ids are hashes, so the
candidates are a random sample. The work for a question is limited even if the collection is large.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import (
    AnyIntegers,
    Flags,
    Floats,
    Int32s,
    Integers,
    expand_ranges,
    find_sorted,
    select_first_of_groups,
    sort_distinct,
    take_flags,
)
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.postings import rank_keys
from hopsyncd.index.tables import MatchTable, QuestionTable
from hopsyncd.index.throttle import throttle
from hopsyncd.index.vectors import split_slices
from store.records import GRID

# A dot product of two grid vectors, times this, is half their cosine.
HALF_COSINE = 0.5 / (GRID * GRID)

MAX_CANDIDATES = 128  # incoming questions compared for one keyword.

_SPARE = 1.5  # candidates to select, as a multiple of MAX_CANDIDATES.
_FEW_PAIRS = 512  # up to this many, single comparisons are faster than a matrix product.
_SOURCES_AT_ONCE = 1 << 11  # rows of one matrix product, so that it fits into a cache.
_PAIRS_AT_ONCE = 1 << 15  # pairs compared in one step.
_ROUNDING = 1e-6  # bound of the rounding errors of sums of 32-bit floats.
_LAST_BITS = 1e-12  # bound of the rounding error of a sum of 64-bit floats.
_MAX_PARTS = 64  # parts collected before the best matches are selected.

Pairs = tuple[Integers, Integers]
"""The position of the outgoing question and of the incoming question of each pair, among the
compared questions."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchColumns:
    """Matches as columns of equal length. Questions are rows of the index's tables. `similarity` is
    Eq. 1 of the HopRAG paper."""

    source_question: Integers
    target_question: Integers
    similarity: Floats

    def __len__(self) -> int:
        return len(self.source_question)

    @classmethod
    def from_rows(cls, matches: MatchTable, rows: AnyIntegers) -> Self:
        return cls(
            matches.source_question[rows].astype(np.int64),
            matches.target_question[rows].astype(np.int64),
            matches.similarity[rows],
        )

    def take(self, selection: Integers | Flags) -> Self:
        """Select matches by position or by flag."""
        return type(self)(
            self.source_question[selection],
            self.target_question[selection],
            self.similarity[selection],
        )


NO_MATCHES = MatchColumns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def concatenate_matches(parts: Sequence[MatchColumns]) -> MatchColumns:
    return MatchColumns(
        np.concatenate([part.source_question for part in parts]),
        np.concatenate([part.target_question for part in parts]),
        np.concatenate([part.similarity for part in parts]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class QuestionsByKeyword:
    """Pairs of a keyword and a question, sorted by keyword. All questions are outgoing, or all are
    incoming.

    `questions` contains the row of each pair's question. `groups` contains the position of each
    pair's keyword in a list of keywords that the caller keeps. A question occurs once for each of
    its keywords in this list.
    """

    questions: Integers
    groups: Integers

    def take(self, selection: Integers | Flags) -> Self:
        """Select pairs by position or by flag."""
        return type(self)(self.questions[selection], self.groups[selection])

    def subtract(self, others: Self) -> Self:
        """Return the pairs that `others` does not contain. Both objects must use the same list of
        keywords."""
        width = 1 + max(self.questions.max(initial=0), others.questions.max(initial=0))
        pairs = np.setdiff1d(
            self.groups * width + self.questions,
            others.groups * width + others.questions,
            assume_unique=True,
        )
        groups, questions = np.divmod(pairs, width)
        return type(self)(questions, groups)


def list_keywords(
    index: LiveIndex, table: QuestionTable, questions: Integers
) -> tuple[Integers, Integers]:
    """Return the pairs of a question and one of its keywords, as two columns: the number of the
    keyword's name, and the position of the question in `questions`."""
    starts = table.keyword_start[questions].astype(np.int64)
    rows, positions = expand_ranges(starts, starts + table.keyword_count[questions])
    return index.question_keywords.name[rows].astype(np.int64), positions


def group_by_keyword(
    index: LiveIndex, table: QuestionTable, questions: Integers
) -> tuple[Integers, QuestionsByKeyword]:
    """Return the distinct keywords of the questions, as name numbers in ascending order, and the
    questions grouped by these keywords."""
    names, positions = list_keywords(index, table, questions)
    order = np.argsort(names, kind="stable")
    names = names[order]
    is_first = np.append(True, names[1:] != names[:-1])[: len(names)]
    groups = np.cumsum(is_first) - 1
    return names[is_first], QuestionsByKeyword(questions[positions[order]], groups)


def find_candidates(
    index: LiveIndex, names: Integers, graphs: Sequence[Flags]
) -> list[QuestionsByKeyword]:
    """Return the candidate incoming questions of each keyword, separately for each graph.

    `names` are the keywords, as ascending name numbers. A graph is an array of flags, one for each
    passage row.
    """
    found, are_lowest = _find_lowest(index, names, graphs)
    return [found.take(is_lowest) for is_lowest in are_lowest]


def find_candidate_changes(
    index: LiveIndex, names: Integers, before: Flags, after: Flags
) -> tuple[QuestionsByKeyword, QuestionsByKeyword]:
    """Return the candidates of each keyword that are in only one of two graphs.

    The first result contains the candidates that are only in `before`, and the second the
    candidates that are only in `after`. `names` are the keywords, as ascending name numbers.
    `before` and `after` have a flag for each passage row.
    """
    found, (was_lowest, is_lowest) = _find_lowest(index, names, (before, after))
    return found.take(was_lowest & ~is_lowest), found.take(is_lowest & ~was_lowest)


def select_affected(
    index: LiveIndex, names: Integers, changed: QuestionsByKeyword, stay: Flags
) -> Integers:
    """Return the keywords among `names` whose candidates may change when the incoming questions
    `changed` enter or leave a graph.

    Each keyword must occur in `changed`. `stay` has a flag for each passage row: whether the
    passage stays in the graph. A keyword is not affected if MAX_CANDIDATES of its questions that
    stay have lower ranks than the changed questions. This condition is quick to check, and holds
    for nearly all common keywords.
    """
    ranks = rank_keys(names[changed.groups], index.incoming.id[changed.questions])
    lowest = np.minimum.reduceat(ranks, np.flatnonzero(np.diff(changed.groups, prepend=-1)))
    postings, most = index.postings.incoming_by_keyword, int(_SPARE * MAX_CANDIDATES)
    rows, positions = postings.find_below(names, lowest, MAX_CANDIDATES, most)
    staying = take_flags(stay, index.incoming.passage_row[rows])
    counts = np.bincount(positions[staying], minlength=len(names))
    return names[counts < MAX_CANDIDATES]


def _find_lowest(
    index: LiveIndex, names: Integers, graphs: Sequence[Flags]
) -> tuple[QuestionsByKeyword, list[Flags]]:
    """Find the incoming questions of each keyword with the lowest ranks, by ascending rank.

    Also returns, for each graph, a flag for each of these questions: whether it is a candidate.
    Candidates have the MAX_CANDIDATES lowest ranks of their keyword, or the same rank as the last
    candidate.
    """
    postings, most = index.postings.incoming_by_keyword, MAX_CANDIDATES
    found = postings.find_lowest(names, int(_SPARE * most))
    passage_rows = index.incoming.passage_row[found.rows]
    are_in = [take_flags(passages, passage_rows) for passages in graphs]
    lack = np.zeros(len(names), dtype=np.bool_)
    for is_in in are_in if found.is_cut.any() else []:
        lack |= found.is_cut & (np.bincount(found.positions[is_in], minlength=len(names)) < most)
    if lack.any():
        lacking = np.flatnonzero(lack)
        more = postings.find_lowest(names[lacking])
        found = found.take(~lack[found.positions]).join(more, lacking[more.positions])
        passage_rows = index.incoming.passage_row[found.rows]
        are_in = [take_flags(passages, passage_rows) for passages in graphs]
    order = np.argsort(found.ranks, kind="stable")  # fast, because they rise in a few long runs
    ranks, groups = found.ranks[order], found.positions[order]
    are_lowest = [_select_lowest(ranks, groups, is_in[order]) for is_in in are_in]
    return QuestionsByKeyword(found.rows[order], groups), are_lowest


def _select_lowest(ranks: Integers, groups: Integers, flags: Flags) -> Flags:
    """Return a flag for each question: whether it is flagged in `flags` and has one of the
    MAX_CANDIDATES lowest ranks of the flagged questions of its keyword.

    `groups` has the position of each question's keyword. Questions must be sorted by group, then by
    rank. Questions with the same rank as the last selected question are selected too.
    """
    (positions,) = flags.nonzero()
    kept_ranks, counts = ranks[positions], np.bincount(groups[positions])
    counts = counts[counts > 0]
    last = counts.cumsum() - counts + np.minimum(counts, MAX_CANDIDATES) - 1
    is_lowest = flags.copy()
    is_lowest[positions] = kept_ranks <= kept_ranks[last].repeat(counts)
    return is_lowest


def list_asking_questions(index: LiveIndex, names: Integers, passages: Flags) -> QuestionsByKeyword:
    """Return the outgoing questions of the flagged passages that have one of the keywords
    `names`."""
    rows, groups = index.postings.outgoing_by_keyword.find_all(names)
    in_graph = take_flags(passages, index.outgoing.passage_row[rows])
    return QuestionsByKeyword(rows[in_graph], groups[in_graph])


def choose_best(
    index: LiveIndex,
    sources: QuestionsByKeyword,
    targets: QuestionsByKeyword,
    held: MatchColumns = NO_MATCHES,
) -> MatchColumns:
    """Return the best match of each outgoing question in `sources` among the `targets` with the
    same keyword.

    The result is ordered by outgoing question. If several targets are equally similar, the target
    with the lowest id is the match. A question is left out unless its match is better than its
    match in `held`, which is ordered by outgoing question.
    """
    questions = sort_distinct(sources.questions)
    floor = np.full(len(questions), -np.inf)
    positions, is_held = find_sorted(held.source_question, questions)
    floor[is_held] = held.similarity[positions[is_held]]
    parts = [NO_MATCHES]
    comparison = _Comparison.begin(index, questions, targets.questions, floor)
    for part in _compare(comparison, sources, targets):
        parts.append(part)
        if len(parts) > _MAX_PARTS:
            parts = [_select_best(index, parts)]
    return select_better(index, _select_best(index, parts), held)


def select_better(index: LiveIndex, matches: MatchColumns, held: MatchColumns) -> MatchColumns:
    """Return the matches that are better than the match of the same question in `held`.

    Both parameters must be ordered by outgoing question.
    """
    positions, is_held = find_sorted(held.source_question, matches.source_question)
    is_better = ~is_held
    old, new = held.take(positions[is_held]), matches.take(is_held)
    ids = index.incoming.id
    is_better[is_held] = (new.similarity > old.similarity) | (
        (new.similarity == old.similarity) & (ids[new.target_question] < ids[old.target_question])
    )
    return matches.take(is_better)


def _select_best(index: LiveIndex, parts: Sequence[MatchColumns]) -> MatchColumns:
    matches = concatenate_matches(parts)
    ascending = sort_distinct(matches.source_question)
    positions, best = (
        np.searchsorted(ascending, matches.source_question),
        np.full(len(ascending), -np.inf),
    )
    np.maximum.at(best, positions, matches.similarity)
    matches = matches.take(matches.similarity == best[positions])
    ids = index.incoming.id[matches.target_question]
    return matches.take(select_first_of_groups(matches.source_question, ids))


def _compare(
    comparison: "_Comparison", sources: QuestionsByKeyword, targets: QuestionsByKeyword
) -> Iterator[MatchColumns]:
    """Yield, in parts, the pairs of questions with a common keyword that may be best matches."""
    compare_pairs = throttle(comparison.compare_pairs)
    likely: list[Pairs] = []
    count = 0
    for pairs in _find_likely_pairs(comparison, sources, targets):
        likely.append(pairs)
        count += len(pairs[0])
        if count > _PAIRS_AT_ONCE:
            yield compare_pairs(_concatenate_pairs(likely))
            likely, count = [], 0
    if likely:
        yield compare_pairs(_concatenate_pairs(likely))


def _find_likely_pairs(
    comparison: "_Comparison", sources: QuestionsByKeyword, targets: QuestionsByKeyword
) -> Iterator[Pairs]:
    groups = np.intersect1d(sources.groups, targets.groups)
    source_starts, source_ends = _find_ranges(sources.groups, groups)
    target_starts, target_ends = _find_ranges(targets.groups, groups)
    source_counts, target_counts = source_ends - source_starts, target_ends - target_starts
    positions, _ = find_sorted(comparison.outgoing.questions, sources.questions)
    are_few = source_counts * target_counts <= _FEW_PAIRS
    few = np.flatnonzero(are_few)
    rows, of_few = expand_ranges(source_starts[few], source_ends[few])
    filter_pairs = throttle(comparison.filter_pairs)
    for part in _split_by_pairs(target_counts[few][of_few]):
        of_part = few[of_few[part]]
        target_positions, of_rows = expand_ranges(target_starts[of_part], target_ends[of_part])
        yield filter_pairs((positions[rows[part][of_rows]], target_positions))
    find_likely = throttle(comparison.find_likely)
    for group in np.flatnonzero(~are_few).tolist():
        group_targets = slice(target_starts[group], target_ends[group])
        group_positions = positions[source_starts[group] : source_ends[group]]
        for part in split_slices(len(group_positions), _SOURCES_AT_ONCE):
            yield find_likely((group_positions[part], group_targets))


def _concatenate_pairs(parts: Sequence[Pairs]) -> Pairs:
    positions, targets = zip(*parts, strict=True)
    return np.concatenate(positions), np.concatenate(targets)


def _find_ranges(values: Integers, wanted: Integers) -> tuple[Integers, Integers]:
    """Return, for each wanted value, the start and end of its positions in the ascending
    `values`."""
    return np.searchsorted(values, wanted), np.searchsorted(values, wanted, "right")


def _split_by_pairs(counts: Integers) -> Iterator[slice]:
    """Yield slices of rows that have about _PAIRS_AT_ONCE pairs each."""
    numbers = counts.cumsum() // _PAIRS_AT_ONCE
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1))
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield slice(start, end)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Columns of the outgoing or of the incoming questions that are compared.

    `error` is a bound of the difference between each vector and its code.
    """

    questions: Integers
    vector_row: Int32s
    passage_row: Int32s
    keyword_count: NDArray[np.float32]
    error: NDArray[np.float32]

    @classmethod
    def read(cls, index: LiveIndex, table: QuestionTable, questions: Integers) -> Self:
        rows = table.vector_row[questions]
        return cls(
            questions,
            rows,
            table.passage_row[questions],
            table.keyword_count[questions].astype(np.float32),
            index.vectors.take_errors(rows),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Comparison:
    """Finds, among pairs of questions that share a keyword, the pairs that may be best matches.

    The outgoing questions are in ascending order. `floor` is the similarity that a match of each of
    them must reach. The floor rises with each comparison.

    The cosine of a pair is first computed from the codes of the vectors, which gives it within a
    known bound. The number of shared keywords is at least one, and at most the smaller number of
    keywords of the two questions. So Eq. 1 is computed exactly only for pairs that can still reach
    the floor.

    The bound is the sum of `slack` of the outgoing question and `incoming_slack` of the incoming
    question. If a = c + e and b = d + f, then |ab - cd| <= |a||f| + |e||b| + |e||f|.
    """

    index: LiveIndex
    outgoing: _Side
    incoming: _Side
    slack: NDArray[np.float32]
    incoming_slack: NDArray[np.float32]
    floor: Floats

    @classmethod
    def begin(cls, index: LiveIndex, outgoing: Integers, incoming: Integers, floor: Floats) -> Self:
        sources = _Side.read(index, index.outgoing, outgoing)
        targets = _Side.read(index, index.incoming, incoming)
        longest, half = np.float32(index.vectors.max_length), np.float32(HALF_COSINE)
        slack = longest * half * sources.error + np.float32(_ROUNDING)
        incoming_slack = (longest + sources.error.max(initial=0)) * half * targets.error
        return cls(index, sources, targets, slack, incoming_slack, floor)

    @property
    def _half_cosine(self) -> np.float32:
        """The factor that converts a dot product of codes to half a cosine."""
        return np.float32(self.index.vectors.step**2 * HALF_COSINE)

    def compare_pairs(self, pairs: Pairs) -> MatchColumns:
        """Return the pairs that may be best matches, with their exact similarity. Pairs of two
        questions of the same passage row are left out."""
        (positions, target_positions), vectors = pairs, self.index.vectors
        outgoing, incoming = self.outgoing, self.incoming
        rows, target_rows = outgoing.vector_row[positions], incoming.vector_row[target_positions]
        half_cosines = vectors.multiply(rows, target_rows).astype(np.float64) * HALF_COSINE
        half_cosines[
            outgoing.passage_row[positions] == incoming.passage_row[target_positions]
        ] = -np.inf
        source_counts = outgoing.keyword_count[positions].astype(np.float64)
        target_counts = incoming.keyword_count[target_positions].astype(np.float64)
        least = half_cosines + 0.5 / (source_counts + target_counts - 1)
        np.maximum.at(self.floor, positions, least - _LAST_BITS)
        fewer = np.minimum(source_counts, target_counts)
        most = half_cosines + 0.5 * fewer / np.maximum(source_counts, target_counts)
        is_likely = (most >= self.floor[positions] - _LAST_BITS) & (half_cosines > -np.inf)
        likely = np.flatnonzero(is_likely)
        sources = outgoing.questions[positions[likely]]
        targets = incoming.questions[target_positions[likely]]
        similarity = half_cosines[likely] + compute_half_jaccard(self.index, sources, targets)
        return MatchColumns(sources, targets, similarity)

    def filter_pairs(self, pairs: Pairs) -> Pairs:
        """Return the pairs that may be best matches."""
        (positions, target_positions), outgoing, incoming = pairs, self.outgoing, self.incoming
        dots = self.index.vectors.multiply_codes(
            outgoing.vector_row[positions], incoming.vector_row[target_positions]
        )
        half_cosines = dots.astype(np.float32) * self._half_cosine
        half_cosines[
            outgoing.passage_row[positions] == incoming.passage_row[target_positions]
        ] = -np.inf
        slack = self.slack[positions] + self.incoming_slack[target_positions]
        source_counts = outgoing.keyword_count[positions]
        target_counts = incoming.keyword_count[target_positions]
        least = half_cosines - slack + np.float32(0.5) / (source_counts + target_counts - 1)
        np.maximum.at(self.floor, positions, least)
        fewer = np.minimum(source_counts, target_counts)
        half_jaccard = np.float32(0.5) * fewer / np.maximum(source_counts, target_counts)
        most = half_cosines + slack + half_jaccard
        is_likely = (most >= self.floor[positions]) & (half_cosines > -np.inf)
        return positions[is_likely], target_positions[is_likely]

    def find_likely(self, group: tuple[Integers, slice]) -> Pairs:
        """Compare each outgoing question with each incoming question of the group, and return the
        pairs that may be best matches."""
        (positions, targets), outgoing, incoming = group, self.outgoing, self.incoming
        most = self.index.vectors.multiply_all_codes(
            outgoing.vector_row[positions], incoming.vector_row[targets]
        )
        most *= self._half_cosine
        most[outgoing.passage_row[positions][:, None] == incoming.passage_row[targets]] = -np.inf
        slack, target_slack = self.slack[positions], self.incoming_slack[targets]
        source_counts = outgoing.keyword_count[positions]
        if (source_counts == source_counts[0]).all():
            source_counts = source_counts[:1]  # one row of sums is enough
        source_counts, target_counts = source_counts[:, None], incoming.keyword_count[targets]
        least = (most + (np.float32(0.5) / (source_counts + target_counts - 1) - target_slack)).max(
            axis=1
        )
        self.floor[positions] = floor = np.maximum(self.floor[positions], least - slack)
        fewer = np.minimum(source_counts, target_counts)
        half_jaccard = np.float32(0.5) * fewer / np.maximum(source_counts, target_counts)
        most += half_jaccard + target_slack
        of_source, of_target = np.nonzero(most >= (floor - slack).astype(np.float32)[:, None])
        return positions[of_source], targets.start + of_target


def compute_half_jaccard(index: LiveIndex, sources: Integers, targets: Integers) -> Floats:
    """Compute half the Jaccard similarity of the keywords of each pair of questions."""
    source_names, source_pairs = list_keywords(index, index.outgoing, sources)
    target_names, target_pairs = list_keywords(index, index.incoming, targets)
    name_count = len(index.name_numbers)
    source_keys = np.sort(source_pairs * name_count + source_names)
    is_shared = find_sorted(source_keys, target_pairs * name_count + target_names)[1]
    shared = np.bincount(target_pairs[is_shared], minlength=len(sources))
    source_counts = index.outgoing.keyword_count[sources]
    union = source_counts + index.incoming.keyword_count[targets] - shared
    half: Floats = shared / np.maximum(union, 1) / 2
    return half
