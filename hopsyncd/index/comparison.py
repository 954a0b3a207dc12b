"""Compares outgoing with incoming questions under Eq. 1, and finds the exact best match of each.

Pairs that share a keyword are compared first, name by name. There are few of them, and the best
ones set a floor. The other pairs have only their vectors to reach it
(`hopsyncd.index.vector_pairs`). Each distinct vector is multiplied once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
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
    mark_rows,
    select_first_of_groups,
    take_flags,
)
from hopsyncd.index.code_bounds import FAR, CodeBounds, bound_errors, to_code_products
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.postings import Postings
from hopsyncd.index.tables import MatchTable, QuestionTable
from hopsyncd.index.throttle import throttle
from hopsyncd.index.vector_pairs import (
    BLOCK,
    PAIRS_AT_ONCE,
    ROUNDING,
    TILE,
    UNLIKE,
    Pairs,
    VectorPairs,
    batch_pairs,
    concatenate_pairs,
    find_equal,
    map_shared,
)
from hopsyncd.index.vectors import split_slices
from store.records import GRID

# A dot product of two grid vectors, times this, is half their cosine.
HALF_COSINE = 0.5 / (GRID * GRID)

_QUESTIONS_AT_ONCE = 1 << 16
_BULK = 1 << 9  # questions, more than an edit has: comparing them yields to queries
_MAX_PARTS = 64  # found parts, until the best matches are taken from them

_FEW_PAIRS = 256  # of a name: comparing them one by one is faster than as a product
_PAIRS = TILE * BLOCK  # in one product of few questions with many: the size of a tile
_ROWS = 1 << 14  # questions of a tile, after which the work may pause
_EQUAL = np.float32(GRID * GRID)  # what a Jaccard of 1 adds to a product
_MAX_PRODUCT = 1.02 * GRID * GRID  # more than any product of two vectors


@dataclass(frozen=True, slots=True, eq=False)
class MatchColumns:
    """m matches: outgoing question, its incoming one, and Eq. 1 of the two."""

    source_question: Integers
    target_question: Integers
    similarity: Floats

    def __len__(self) -> int:
        return len(self.source_question)

    @classmethod
    def of_rows(cls, matches: MatchTable, rows: AnyIntegers) -> Self:
        """These rows of the table of matches."""
        return cls(
            matches.source_question[rows].astype(np.int64),
            matches.target_question[rows].astype(np.int64),
            matches.similarity[rows],
        )

    def take(self, selection: Integers | Flags) -> Self:
        """The matches at these positions, or with these flags."""
        return type(self)(
            self.source_question[selection],
            self.target_question[selection],
            self.similarity[selection],
        )


NO_MATCHES = MatchColumns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def concatenate_matches(parts: Sequence[MatchColumns]) -> MatchColumns:
    """All matches of several parts, of which there is at least one."""
    return MatchColumns(
        np.concatenate([part.source_question for part in parts]),
        np.concatenate([part.target_question for part in parts]),
        np.concatenate([part.similarity for part in parts]),
    )


def _compute_similarity(index: LiveIndex, sources: Integers, targets: Integers) -> MatchColumns:
    """Exact Eq. 1 of pairs of questions, without pairs of one passage row."""
    outgoing, incoming = index.outgoing, index.incoming
    is_other = outgoing.passage_row[sources] != incoming.passage_row[targets]
    sources, targets = sources[is_other], targets[is_other]
    products = index.vectors.multiply(outgoing.vector_row[sources], incoming.vector_row[targets])
    similarity = products.astype(np.float64) * HALF_COSINE
    similarity += _compute_half_jaccard(index, sources, targets)
    return MatchColumns(sources, targets, similarity)


def _compute_half_jaccard(index: LiveIndex, sources: Integers, targets: Integers) -> Floats:
    source_names, source_pairs = _list_keywords(index, index.outgoing, sources)
    target_names, target_pairs = _list_keywords(index, index.incoming, targets)
    name_count = len(index.name_numbers)
    source_keys = np.sort(source_pairs * name_count + source_names)
    is_shared = find_sorted(source_keys, target_pairs * name_count + target_names)[1]
    shared = np.bincount(target_pairs[is_shared], minlength=len(sources))
    source_counts = index.outgoing.keyword_count[sources]
    union = source_counts + index.incoming.keyword_count[targets] - shared
    half: Floats = shared / np.maximum(union, 1) / 2
    return half


def _list_keywords(
    index: LiveIndex, table: QuestionTable, questions: Integers
) -> tuple[Integers, Integers]:
    """The names of the questions' keywords, and the position of the question that has each."""
    starts = table.keyword_start[questions].astype(np.int64)
    rows, positions = expand_ranges(starts, starts + table.keyword_count[questions])
    return index.question_keywords.name[rows].astype(np.int64), positions


@dataclass(frozen=True, slots=True, eq=False)
class _QuestionsByVector:
    """Questions of one direction by the rows of their vectors, `vector_rows`, which rise."""

    questions: Integers
    vector_rows: Integers

    @classmethod
    def build(cls, table: QuestionTable, questions: Integers) -> Self:
        """Sort the questions by vector row."""
        vector_rows = table.vector_row[questions].astype(np.int64)
        order = np.argsort(vector_rows, kind="stable")
        return cls(questions[order], vector_rows[order])

    def find(self, vector_rows: Integers) -> tuple[Integers, Integers]:
        """The questions that have these vectors, and the position of the vector of each."""
        starts = np.searchsorted(self.vector_rows, vector_rows)
        ends = np.searchsorted(self.vector_rows, vector_rows, "right")
        positions, vector_positions = expand_ranges(starts, ends)
        return self.questions[positions], vector_positions


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """Pairs of questions that have one name: all of `sources`, which rise, with all of `targets`.

    Most targets with as many keywords stand together. floor: (m,) no more than a pair of each
    source has to reach. It rises, for all tiles with these sources.
    """

    sources: Integers
    targets: Integers
    floor: NDArray[np.float32]


class Comparison:
    """Outgoing questions compared with incoming ones, for the best match of each.

    `unmatched` outgoing questions are compared with all `targets`. The outgoing questions of `held`
    matches are compared only with `new_targets`, which must be at least as similar as the held
    match. A vector that belongs to an outgoing and an incoming question is multiplied once.
    """

    def __init__(
        self,
        index: LiveIndex,
        unmatched: Integers,
        targets: Integers,
        held: MatchColumns,
        new_targets: Integers,
    ) -> None:
        self._index = index
        self._unmatched, self._targets = unmatched, targets
        self._held, self._new_targets = held.source_question, new_targets
        # For each outgoing question: the product, with its Jaccard added, that a pair must reach.
        # It rises with each better match.
        self._floor = np.full(len(index.outgoing), np.inf)
        self._floor[unmatched] = -np.inf
        self._floor[held.source_question] = held.similarity / HALF_COSINE
        vector_rows = np.concatenate(
            [index.outgoing.vector_row[unmatched], index.incoming.vector_row[new_targets]]
        )
        self._bounds = CodeBounds.compute(index.vectors, vector_rows)
        self._found = [NO_MATCHES]

    def find_best(self) -> MatchColumns:
        """The best match that reached the floor of its outgoing question."""
        for part in split_slices(len(self._unmatched), _QUESTIONS_AT_ONCE):
            self._compare_sharing_keywords(self._unmatched[part], self._targets, is_outgoing=True)
        for part in split_slices(len(self._new_targets), _QUESTIONS_AT_ONCE):
            self._compare_sharing_keywords(self._new_targets[part], self._held, is_outgoing=False)
        self._compare_vectors()
        return self._select_best()

    def _select_best(self) -> MatchColumns:
        """Select the best match of each question; ties go to the lowest incoming id."""
        found = concatenate_matches(self._found)
        target_ids = self._index.incoming.id[found.target_question]
        best = found.take(
            select_first_of_groups(found.source_question, -found.similarity, target_ids)
        )
        self._found = [best]
        return best

    def _add(self, sources: Integers, targets: Integers) -> None:
        """Compute the similarity of these pairs, and raise the floor."""
        if not len(sources):
            return
        found = _compute_similarity(self._index, sources, targets)
        np.maximum.at(self._floor, found.source_question, found.similarity / HALF_COSINE)
        self._found.append(found)
        if len(self._found) > _MAX_PARTS:
            self._select_best()

    def _compare_sharing_keywords(
        self, questions: Integers, others: Integers, *, is_outgoing: bool
    ) -> None:
        """Compare `questions`, which are outgoing or incoming, with the `others` of the opposite
        direction that share a keyword, name by name."""
        index = self._index
        table: QuestionTable = index.outgoing if is_outgoing else index.incoming
        other_table: QuestionTable = index.incoming if is_outgoing else index.outgoing
        postings: Postings = (
            index.postings.incoming_by_keyword
            if is_outgoing
            else index.postings.outgoing_by_keyword
        )
        names, positions = _list_keywords(index, table, questions)
        order = np.argsort(names, kind="stable")
        by_name, names = questions[positions[order]], names[order]
        starts = np.flatnonzero(np.diff(names, prepend=-1))
        ends = np.append(starts[1:], len(names))
        found, groups = postings.find_all(names[starts])
        kept = take_flags(mark_rows(len(other_table), others), found)
        found, groups = found[kept], groups[kept]
        counts = np.bincount(groups, minlength=len(starts))
        found_ends = np.cumsum(counts)
        are_few = counts * (ends - starts) <= _FEW_PAIRS
        few = np.flatnonzero(are_few[groups])
        positions, few_positions = expand_ranges(starts[groups[few]], ends[groups[few]])

        def make_tiles() -> Iterator[_Tile]:
            for group in np.flatnonzero(~are_few & (counts > 0)).tolist():
                with_name = by_name[starts[group] : ends[group]]
                others_with_name = found[found_ends[group] - counts[group] : found_ends[group]]
                pair = (with_name, others_with_name)
                yield from self._make_tiles(*(pair if is_outgoing else pair[::-1]))

        one_by_one = (
            (by_name[positions[part]], found[few[few_positions[part]]])
            for part in split_slices(len(positions), PAIRS_AT_ONCE)
        )
        if len(questions) > _BULK:
            reaching = map_shared(throttle(self._find_reaching), make_tiles())
        else:
            reaching = map(self._find_reaching, make_tiles())
        few_pairs = (pairs if is_outgoing else pairs[::-1] for pairs in one_by_one)
        # Few pairs first, because they raise the floors.
        for sources, targets in chain(batch_pairs(few_pairs), batch_pairs(reaching)):
            self._add(sources, targets)

    def _make_tiles(self, sources: Integers, targets: Integers) -> Iterator[_Tile]:
        """All pairs of questions that have one name."""
        incoming = self._index.incoming
        errors = self._bounds.errors[incoming.vector_row[targets]]
        is_unlike = errors > UNLIKE * errors.mean()
        sources = np.sort(sources)
        targets = targets[np.lexsort((incoming.keyword_count[targets], is_unlike))]
        size = min(max(TILE, _PAIRS // len(targets)), _ROWS)
        for source_part in split_slices(len(sources), size):
            floor = self._floor[sources[source_part]].astype(np.float32)
            for target_part in split_slices(len(targets), _ROWS):
                yield _Tile(sources[source_part], targets[target_part], floor)

    def _find_reaching(self, tile: _Tile) -> Pairs:
        """Find the tile's pairs that may reach the floor, and raise the floor to their products."""
        outgoing, incoming = self._index.outgoing, self._index.incoming
        columns, passage_rows = (
            outgoing.vector_row[tile.sources],
            outgoing.passage_row[tile.sources],
        )
        counts = outgoing.keyword_count[tile.sources].astype(np.float32)
        errors, unit = self._bounds.errors, self._index.vectors.unit
        multiply = self._bounds.multiply_with(columns)
        found: list[Pairs] = []
        for part in split_slices(len(tile.targets), max(BLOCK, _PAIRS // len(columns))):
            targets = tile.targets[part]
            rows, other_counts = incoming.vector_row[targets], incoming.keyword_count[targets]
            products = multiply(rows)
            own = find_equal(passage_rows, incoming.passage_row[targets])
            products[own[::-1]] = -FAR
            # Targets with as many keywords make one block: the Jaccard is bounded for all of it.
            ends = np.flatnonzero(np.diff(other_counts, append=-1)) + 1
            for start, end in pairwise([0, *ends.tolist()]):
                block, count = products[start:end], np.float32(other_counts[start])
                error = bound_errors(errors[rows[start:end]].max(), errors[columns])
                least = block.max(0) * unit - error + _EQUAL / (count + counts - 1)
                floor = np.maximum(tile.floor, least - ROUNDING, out=tile.floor)
                most = np.minimum(count, counts) / np.maximum(count, counts) * _EQUAL + error
                reaching = np.flatnonzero(block >= to_code_products(floor - ROUNDING - most, unit))
                in_block, in_tile = np.divmod(reaching, len(columns))
                found.append((tile.sources[in_tile], targets[start + in_block]))
        return concatenate_pairs(found)

    def _compare_vectors(self) -> None:
        """Compare all pairs by their vectors alone: a Jaccard only adds to a product.

        It uses only the vectors that existed when the comparison began: a writer may add others.
        """
        index = self._index
        outgoing, incoming = index.outgoing, index.incoming
        pairs = VectorPairs(
            index.vectors,
            index.passages.vector_end,
            self._least_products(self._unmatched),
            self._least_products(self._held),
            self._mark_vectors(self._targets),
            self._mark_vectors(self._new_targets),
            self._bounds,
        )
        unmatched = _QuestionsByVector.build(outgoing, self._unmatched)
        held = _QuestionsByVector.build(outgoing, self._held)
        targets = _QuestionsByVector.build(incoming, self._targets)
        new_targets = _QuestionsByVector.build(incoming, self._new_targets)
        for columns, rows in pairs.find_reaching():
            for sources, answers, source_vectors, target_vectors in (
                (unmatched, targets, columns, rows),
                (held, new_targets, rows, columns),
            ):
                source_questions, in_pairs = sources.find(source_vectors)
                target_questions, positions = answers.find(target_vectors[in_pairs])
                self._add(source_questions[positions], target_questions)

    def _least_products(self, questions: Integers) -> NDArray[np.float32]:
        """(r,) for each vector the least product with which one of the outgoing questions could
        reach its floor; infinite where none can."""
        least = np.full(len(self._bounds.errors), np.inf)
        vector_rows = self._index.outgoing.vector_row[questions]
        np.minimum.at(least, vector_rows, self._floor[questions])
        least[least > _MAX_PRODUCT] = np.inf
        return (least - ROUNDING).astype(np.float32)

    def _mark_vectors(self, questions: Integers) -> Flags:
        """(r,) whether one of the incoming questions has the vector."""
        vector_rows: Int32s = self._index.incoming.vector_row[questions]
        return mark_rows(len(self._bounds.errors), vector_rows)
