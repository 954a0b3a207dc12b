"""A snapshot: the live index at one version, as a query reads it, possibly without hidden sources.

In an ACL view, sources are hidden. A hidden passage is not a vertex, not an end of an edge, and not
counted. Questions are matched only with visible passages, and links are resolved among the visible
documents. So the graph is the same as if the hidden sources did not exist, and an answer reveals
nothing about hidden content.

Filtered-out passages are excluded from results, edges and counts too. But a filter does not
restrict access: matches and links are not recomputed, so a filtered search is as fast as any other
search. Only matches between two remaining passages stay (`Snapshot.filter_documents`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hopsyncd.index.arrays import (
    AnyIntegers,
    Flags,
    Floats,
    Integers,
    expand_ranges,
    find_sorted,
    mark_rows,
    sort_distinct,
    take_flags,
)
from hopsyncd.index.comparison import MatchColumns, concatenate_matches
from hopsyncd.index.live_index import LiveIndex, compute_name_key
from hopsyncd.index.postings import Postings
from hopsyncd.index.statistics import (
    MAX_NAMED_PASSAGES,
    Statistics,
    find_named_passages,
    has_topic,
)
from store.records import Version
from store.visibility import Mask

UNMATCHED = -1.0  # less than any similarity
NAME_WEIGHT = 6.0  # a document name counts like this number of sentences that mention a name
_FEW_LINKS = 16  # with fewer links per requested passage, scanning all links is faster


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """Mentions of names, as columns. `name_position` is the position of the name in the request.

    A passage as a whole mentions the names of its document. Such a mention has the passage's first
    vector and the weight NAME_WEIGHT. A mention by a sentence has weight 1.
    """

    passage_row: Integers
    vector_row: Integers
    weight: Floats
    name_position: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges in the direction of the walk: from passage row `start` to `end`.

    `source_question` and `target_question` are the outgoing and the incoming question of the edge.
    `similarity` is Eq. 1. If `is_backward` is true, the walk follows the edge from its target to
    its source.
    """

    start: Integers
    end: Integers
    source_question: Integers
    target_question: Integers
    similarity: Floats
    is_backward: Flags


@dataclass(frozen=True, slots=True, eq=False)
class LinkEdges:
    """Links in the direction of the walk: from passage row `start` to `end`.

    `link_row` is the row of each link in the table `links`. If `is_backward` is true, the walk
    follows the link from its target to its source.
    """

    start: Integers
    end: Integers
    link_row: Integers
    is_backward: Flags


@dataclass(frozen=True, slots=True, eq=False)
class RowsByEnd:
    """Rows with two ends, such as edges. Rows can be found by either end.

    The postings are built when rows are first looked up, because most ACL views are replaced before
    a query needs them.
    """

    start: Integers
    end: Integers
    _postings: dict[str, Postings] = field(default_factory=dict)

    def find_by_start(self, starts: AnyIntegers) -> Integers:
        """Return the rows with these starts, in the order of `starts`."""
        return self._find("start", self.start, starts)

    def find_by_end(self, ends: AnyIntegers) -> Integers:
        """Return the rows with these ends, in the order of `ends`."""
        return self._find("end", self.end, ends)

    def select_by_end(self, ends: Integers) -> Integers:
        """Return the rows with these ends, which must be distinct and ascending, in any order.

        Builds no postings.
        """
        return np.flatnonzero(find_sorted(ends, self.end)[1])

    def _find(self, name: str, keys: Integers, wanted: AnyIntegers) -> Integers:
        postings = self._postings.get(name)
        if postings is None:
            postings = Postings()
            postings.add(keys, np.arange(len(keys)))
            self._postings[name] = postings  # if two threads build the same postings, one wins
        return postings.find_all(wanted)[0]


@dataclass(frozen=True, slots=True, eq=False)
class AclOverlay:
    """The matches and links of an ACL view that differ from the whole index.

    `question_similarity` is the similarity of each outgoing question's match, or UNMATCHED.
    `is_rematched` has a flag for each outgoing question: whether it is visible and its match
    differs. `matches` are these matches by ascending question. `match_ends` has their passage rows.

    `relinked` are the ascending numbers of the passages whose links may have other targets. `links`
    are all links of these passages, between passage numbers. `link_rows` has the row of each link
    in `LiveIndex.links`.
    """

    question_similarity: Floats
    is_rematched: Flags
    matches: MatchColumns
    match_ends: RowsByEnd
    relinked: Integers
    links: RowsByEnd
    link_rows: Integers


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    """Reads the live index at `version`, without hidden sources. The counts and the edge threshold
    exclude hidden content.

    With a filter, `passes_filter` has a flag for each document row, the statistics count only
    documents that pass, and `unfiltered` is the same snapshot without the filter.
    """

    index: LiveIndex
    version: Version
    statistics: Statistics
    hidden: Mask = frozenset()
    overlay: AclOverlay | None = None
    passes_filter: Flags | None = None
    unfiltered: "Snapshot | None" = None

    def filter_documents(self, passes_filter: Flags) -> "Snapshot":
        """Return this snapshot, limited to the document rows whose flag is True."""
        counts = Statistics.count(
            self.index, self.version.id, self.hidden, passes_filter=passes_filter
        )
        return replace(self, statistics=counts, passes_filter=passes_filter, unfiltered=self)

    def select_visible_documents(self, ids: Sequence[int]) -> set[int]:
        """Return the ids of the visible documents among `ids` (row ids in the database)."""
        shown = self.index.documents.id[np.flatnonzero(self.statistics.visible.documents)]
        wanted = np.array(ids, dtype=np.int64)
        return {*wanted[np.isin(wanted, shown)].tolist()}

    @property
    def passage_rows(self) -> Integers:
        """Return all visible passage rows, ascending."""
        return np.flatnonzero(self.statistics.visible.passages)

    @property
    def passage_ids(self) -> Integers:
        """Return the passage id of each passage row, visible or not."""
        return self.index.passages.passage_id

    def get_document_keys(self, passage_rows: AnyIntegers) -> Integers:
        """Return the path key of each passage's document. The passages must be visible."""
        return self.statistics.visible.document_of_row[passage_rows]

    def find_passages(self, passage_ids: Integers) -> Integers:
        """Return the row of each passage, or -1 if the passage is not visible."""
        numbers = self.index.passage_numbers.find(passage_ids)
        row_of_number = self.statistics.visible.passage_rows
        is_known = (numbers >= 0) & (numbers < len(row_of_number))
        rows = np.full(len(numbers), -1)
        rows[is_known] = row_of_number[numbers[is_known]]
        return rows

    # Names

    def find_name(self, name: str) -> int:
        """Return the number of a name, or -1 if no visible passage mentions the name."""
        number = int(self.index.name_numbers.find(np.array([compute_name_key(name)]))[0])
        counts = self.statistics.mention_counts
        return number if 0 <= number < len(counts) and counts[number] else -1

    def select_mentioned_names(self, names: Sequence[str]) -> set[str]:
        """Return the names among `names` that a visible passage mentions."""
        keys = np.array([compute_name_key(name) for name in names], dtype=np.int64)
        numbers = self.index.name_numbers.find(keys)
        mentioned = (numbers >= 0) & take_flags(self.statistics.mention_counts > 0, numbers)
        return {names[row] for row in np.flatnonzero(mentioned).tolist()}

    def find_by_topic(self, name: int) -> Integers:
        """Return the ascending rows of the visible passages with this name as a topic or as their
        document's name. Names of documents with more than 32 passages in total do not count."""
        rows = self.index.postings.mentions_by_name.find(name)
        mentions = self.index.mentions
        passage_rows = mentions.passage_row[rows[mentions.is_topic[rows]]]
        shown = take_flags(self.statistics.visible.passages, passage_rows)
        return np.union1d(passage_rows[shown].astype(np.int64), self._find_by_document_name(name))

    def _find_by_document_name(self, name: int) -> Integers:
        visible = self.statistics.visible
        if not 0 < self.statistics.as_document_name[name] <= MAX_NAMED_PASSAGES:
            return np.empty(0, dtype=np.int64)
        rows = self.index.postings.document_names_by_name.find(name)
        document_names = self.index.document_names
        rows = rows[take_flags(visible.documents, document_names.document_row[rows])]
        passage_rows = visible.passage_rows[np.unique(document_names.passage_number[rows])]
        return passage_rows[passage_rows >= 0]

    def find_mentions(self, names: Integers) -> Mentions:
        rows, positions = self.index.postings.sentence_mentions_by_name.find_all(names)
        mentions = self.index.sentence_mentions
        passage_rows, vector_rows = mentions.passage_row[rows], mentions.vector_row[rows]
        shown = take_flags(self.statistics.visible.passages, passage_rows)
        named, named_positions = self.find_by_document_names(names)
        weights = np.ones(int(np.count_nonzero(shown))), np.full(len(named), NAME_WEIGHT)
        first_vectors = self.index.passages.vector_start[named]
        return Mentions(
            np.concatenate([passage_rows[shown].astype(np.int64), named]),
            np.concatenate([vector_rows[shown].astype(np.int64), first_vectors]),
            np.concatenate(weights),
            np.concatenate([positions[shown], named_positions]),
        )

    def find_sentence_mentions(self, vector_rows: Integers) -> tuple[Integers, Integers]:
        """Return the rows of `sentence_mentions` for these vector rows, visible or not, and each
        row's name."""
        ends = self.index.vector_mentions.sentence_mention_end
        starts = np.where(vector_rows, ends[vector_rows - 1], 0)
        rows, _ = expand_ranges(starts, ends[vector_rows])
        return rows, self.index.sentence_mentions.name[rows].astype(np.int64)

    def find_by_document_names(self, names: Integers) -> tuple[Integers, Integers]:
        """Return the passage rows of documents with one of these names, and each row's position in
        `names`. Passages that have the name as a topic are left out."""
        index, visible = self.index, self.statistics.visible
        rows, positions = index.postings.document_names_by_name.find_all(names)
        numbers, positions = find_named_passages(index, visible, rows, positions)
        passage_rows = visible.passage_rows[numbers]
        mentions_it = self._flag_document_names(passage_rows, names[positions])
        return passage_rows[mentions_it], positions[mentions_it]

    def list_names(self, passage_rows: Integers) -> tuple[Integers, Integers]:
        """Return the distinct pairs of a position in `passage_rows` and a name that this passage
        mentions, as two columns in ascending order."""
        index, statistics = self.index, self.statistics
        passages = index.passages
        rows, positions = expand_ranges(
            passages.sentence_mention_start[passage_rows],
            passages.sentence_mention_end[passage_rows],
        )
        names = index.sentence_mentions.name[rows].astype(np.int64)
        rows, named_positions = index.postings.document_names_by_passage.find_all(
            passages.passage_number[passage_rows]
        )
        document_names = index.document_names
        shown = take_flags(statistics.visible.documents, document_names.document_row[rows])
        rows, named_positions = rows[shown], named_positions[shown]
        more_names = document_names.name[rows].astype(np.int64)
        kept = self._flag_document_names(passage_rows[named_positions], more_names)
        count = len(statistics.mention_counts)
        more = named_positions[kept] * count + more_names[kept]
        keys = np.concatenate([positions * count + names, more])
        positions, names = np.divmod(sort_distinct(keys), max(count, 1))
        return positions, names

    def _flag_document_names(self, passage_rows: Integers, names: Integers) -> Flags:
        """Return a flag for each pair of a passage row and a document name of this passage: whether
        the document name counts as a mention.

        It counts if it is in the questions of some passages, if at most 32 passages have it as a
        document name, and if it is not a topic of this passage.
        """
        counts = self.statistics
        is_specific = counts.as_document_name[names] <= MAX_NAMED_PASSAGES
        mentions: Flags = is_specific & (counts.in_questions[names] > 0)
        return mentions & ~has_topic(self.index, passage_rows, names)

    # Edges

    def find_edges(self, passage_rows: AnyIntegers) -> Edges:
        """Return all edges of the passages: first the outgoing edges, then the incoming edges with
        `is_backward`. Each edge starts at one of the passages."""
        postings = self.index.postings
        outgoing, _ = postings.matches_by_source.find_all(passage_rows)
        incoming, _ = postings.matches_by_target.find_all(passage_rows)
        matches, positions = self._select_in_force(np.concatenate([outgoing, incoming]))
        is_backward = positions >= len(outgoing)
        if self.overlay is not None:
            ends = self.overlay.match_ends
            more_leaving = ends.find_by_start(passage_rows)
            more_arriving = ends.find_by_end(passage_rows)
            more_backward = np.repeat([False, True], [len(more_leaving), len(more_arriving)])
            more = self.overlay.matches.take(np.concatenate([more_leaving, more_arriving]))
            is_backward = np.concatenate([is_backward, more_backward])
            matches = concatenate_matches([matches, more])
        edge_positions = np.flatnonzero(self._is_edge(matches) & self._has_visible_ends(matches))
        if self.overlay is not None:
            edge_positions = edge_positions[np.argsort(is_backward[edge_positions], kind="stable")]
        matches, is_backward = matches.take(edge_positions), is_backward[edge_positions]
        sources = self.index.outgoing.passage_row[matches.source_question].astype(np.int64)
        targets = self.index.incoming.passage_row[matches.target_question].astype(np.int64)
        return Edges(
            np.where(is_backward, targets, sources),
            np.where(is_backward, sources, targets),
            matches.source_question,
            matches.target_question,
            matches.similarity,
            is_backward,
        )

    def _select_in_force(self, rows: Integers | None) -> tuple[MatchColumns, Integers]:
        """Return the matches in force among `rows` (None: all rows), and their positions in
        `rows`."""
        table, version = self.index.matches, self.version.id
        born, died = table.born, table.died
        if rows is not None:
            born, died = born.take(rows), died.take(rows)
        positions = np.flatnonzero((born <= version) & (version < died))
        selected = positions if rows is None else rows[positions]
        matches = MatchColumns.from_rows(table, selected)
        if self.overlay is None:
            return matches, positions
        is_unchanged = ~take_flags(self.overlay.is_rematched, matches.source_question)
        return matches.take(is_unchanged), positions[is_unchanged]

    def _has_visible_ends(self, matches: MatchColumns) -> Flags:
        if not self.hidden and self.passes_filter is None:
            return np.ones(len(matches), dtype=np.bool_)
        shown = self.statistics.visible.passages
        sources = self.index.outgoing.passage_row[matches.source_question]
        targets = self.index.incoming.passage_row[matches.target_question]
        return take_flags(shown, sources) & take_flags(shown, targets)

    def _is_edge(self, matches: MatchColumns) -> Flags:
        """Return a flag for each match: whether it is within the edge threshold and so an edge."""
        threshold = self.version.edge_threshold
        if threshold is None:
            return np.ones(len(matches), dtype=np.bool_)
        is_edge: Flags = matches.similarity >= threshold.similarity
        (level,) = (matches.similarity == threshold.similarity).nonzero()
        ids = self.index.outgoing.id[matches.source_question[level]]
        is_edge[level] = ids <= threshold.question
        return is_edge

    def list_matches(self) -> MatchColumns:
        """Return all matches with two visible ends, in any order."""
        matches, _ = self._select_in_force(None)
        if self.overlay is not None:
            matches = concatenate_matches([matches, self.overlay.matches])
        return matches.take(self._has_visible_ends(matches))

    def find_matches_of(self, questions: Integers) -> MatchColumns:
        """Return the matches of these outgoing questions that have two visible ends.

        `questions` must be ascending. Matches are ordered by question.
        """
        matches, _ = self._select_in_force(self.index.find_matches(questions, self.version.id))
        if self.overlay is not None:
            more = self.overlay.matches
            more = more.take(find_sorted(questions, more.source_question)[1])
            matches = concatenate_matches([matches, more])
        matches = matches.take(self._has_visible_ends(matches))
        return matches.take(np.argsort(matches.source_question, kind="stable"))

    def find_matches_to(self, passage_rows: Integers) -> MatchColumns:
        """Return the matches with two visible ends that lead to these passage rows, which must be
        distinct and ascending."""
        rows, _ = self.index.postings.matches_by_target.find_all(passage_rows)
        matches, _ = self._select_in_force(rows)
        if self.overlay is not None:
            more = self.overlay.match_ends.select_by_end(passage_rows)
            matches = concatenate_matches([matches, self.overlay.matches.take(more)])
        return matches.take(self._has_visible_ends(matches))

    def list_edges(self) -> MatchColumns:
        """Return all matches that are edges, ordered by the id of their source question."""
        matches = self.list_matches()
        edges = matches.take(self._is_edge(matches))
        return edges.take(np.argsort(self.index.outgoing.id[edges.source_question]))

    # Links

    @property
    def has_links(self) -> bool:
        """Whether any document, visible or not, has a link."""
        return len(self.index.links) > 0

    def find_links(self, passage_rows: AnyIntegers) -> LinkEdges:
        """Return all links of the passages: first the outgoing links, then the incoming links with
        `is_backward`. Each link starts at one of the passages."""
        outgoing, incoming = self.find_links_from(passage_rows), self.find_links_to(passage_rows)
        return LinkEdges(
            np.concatenate([outgoing.start, incoming.start]),
            np.concatenate([outgoing.end, incoming.end]),
            np.concatenate([outgoing.link_row, incoming.link_row]),
            np.concatenate([outgoing.is_backward, incoming.is_backward]),
        )

    def find_links_from(self, passage_rows: AnyIntegers) -> LinkEdges:
        return self._find_links(passage_rows, is_backward=False)

    def find_links_to(self, passage_rows: AnyIntegers) -> LinkEdges:
        """Return the links that lead to these passages, with `is_backward` and swapped ends."""
        return self._find_links(passage_rows, is_backward=True)

    def _find_links(self, passage_rows: AnyIntegers, *, is_backward: bool) -> LinkEdges:
        numbers = self.index.passages.passage_number[passage_rows]
        row_of_number, version = self.statistics.visible.passage_rows, self.version.id
        edges, postings = self.index.link_edges, self.index.postings
        if len(edges) < _FEW_LINKS * len(numbers):
            is_wanted = mark_rows(len(row_of_number), numbers)
            near_ends = edges.target_passage if is_backward else edges.source_passage
            rows = np.flatnonzero(take_flags(is_wanted, near_ends))
        elif is_backward:
            rows, _ = postings.link_edges_by_target.find_all(numbers)
        else:
            rows, _ = postings.link_edges_by_source.find_all(numbers)
        edges = self.index.link_edges
        in_force = (edges.born[rows] <= version) & (version < edges.died[rows])
        overlay = self.overlay
        if overlay is not None:
            in_force &= ~np.isin(edges.source_passage[rows], overlay.relinked)
        rows = rows[in_force]
        sources: AnyIntegers = edges.source_passage[rows]
        targets: AnyIntegers = edges.target_passage[rows]
        link_rows: AnyIntegers = edges.link_row[rows]
        if overlay is not None:
            links = overlay.links
            more = links.find_by_end(numbers) if is_backward else links.find_by_start(numbers)
            sources = np.concatenate([sources, overlay.links.start[more]])
            targets = np.concatenate([targets, overlay.links.end[more]])
            link_rows = np.concatenate([link_rows, overlay.link_rows[more]])
        starts, ends = (targets, sources) if is_backward else (sources, targets)
        start_rows, end_rows = row_of_number[starts], row_of_number[ends]
        shown = np.flatnonzero((start_rows >= 0) & (end_rows >= 0))
        return LinkEdges(
            start_rows[shown],
            end_rows[shown],
            link_rows[shown].astype(np.int64),
            np.full(len(shown), is_backward),
        )

    # Documents

    def find_document_passages(self, document_key: int) -> Integers:
        """Return the passage rows of the document with this path key, ascending."""
        visible = self.statistics.visible
        is_of_document = visible.document_of_row[: len(visible.passages)] == document_key
        return np.flatnonzero(visible.passages & is_of_document)

    def list_document_passages(self, document_numbers: Integers) -> tuple[Integers, Integers]:
        """Return the passage rows of documents (numbers as in `Visible.document_numbers`), and each
        row's position in `document_numbers`."""
        visible = self.statistics.visible
        starts = visible.document_starts
        positions, documents = expand_ranges(starts[document_numbers], starts[document_numbers + 1])
        return visible.rows_by_document[positions], documents
