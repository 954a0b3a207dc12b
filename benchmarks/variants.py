"""The searches that benchmarks/ablation.py compares: the default search with parts left out or
changed, the steps from the paper's profile to the default, and other forms of a question."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np

from hopsyncd.index import comparison
from hopsyncd.index.arrays import Floats, Integers, find_sorted
from hopsyncd.index.comparison import HALF_COSINE, MatchColumns, concatenate_matches
from hopsyncd.index.edge_selection import (
    find_best_matches,
    find_edge_threshold,
    list_incoming,
    list_outgoing,
    replace_matches,
)
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.index_loading import load_snapshot
from hopsyncd.retrieve import ranking
from hopsyncd.retrieve.clauses import read_clauses
from hopsyncd.retrieve.hop_variants import Offers, choose_first, traverse
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import (
    FIRST_RESULTS,
    FUSION_DEPTH,
    Ranked,
    compute_importance,
    compute_paper_helpfulness,
    find_direct_hits,
    fuse_reciprocal_ranks,
    mark_reached,
    promote_direct_hits,
    select_largest,
    select_most_helpful,
)
from hopsyncd.retrieve.second_ask import SecondAsk, ask_again
from hopsyncd.retrieve.sentences import list_function_terms
from hopsyncd.retrieve.strategies import hop as hop_strategy
from hopsyncd.retrieve.strategies.hop import find_start, run_hop_search, search_by_walk
from hopsyncd.retrieve.transitions import compute_pull
from hopsyncd.retrieve.walk import compute_seeds, walk
from hopsyncd.retrieve.walk_settings import WalkSettings
from hopsyncd.text.words import list_index_terms
from store.contract import Connection
from store.records import PassageId, Version
from store.transactions import snapshot
from tests.fakes.indexed import GivenLikeness

Rank = Callable[[QueryContext, int], Sequence[Ranked]]
FindMatches = Callable[[LiveIndex, Integers], MatchColumns]

TOP_K, N_HOP = 20, 4
_BLOCK = 256
DEFAULT = WalkSettings()
EDGES_ONLY = replace(DEFAULT, by_names=0.0, by_links=0.0)
WALKS = {
    "default": DEFAULT,
    "one hop": replace(DEFAULT, hops=1),
    "2 hops": replace(DEFAULT, hops=2),
    "no walk, seeds only": replace(DEFAULT, hops=0),
    "edges only": EDGES_ONLY,
    "names only": replace(DEFAULT, by_names=1.0, by_links=0.0),
    "no links": replace(DEFAULT, by_links=0.0),
    "names get half of the score, not four fifths": replace(DEFAULT, by_names=0.5),
    "edges followed in one direction": replace(DEFAULT, backwards=0.0),
    "no bonus for new words of the question": replace(DEFAULT, gain=0.0),
    "transitions ignore the question": replace(
        DEFAULT, sharpness=0.0, name_sharpness=0.0, link_sharpness=0.0, gain=0.0
    ),
}
_ALL = 10**9
LIMITS = {
    "default: 100 passages, 10 mentions, 3 per link, 0.1 %": DEFAULT,
    "30 passages per round": replace(DEFAULT, heaviest=30),
    "50 passages": replace(DEFAULT, heaviest=50),
    "300 passages": replace(DEFAULT, heaviest=300),
    "all passages": replace(DEFAULT, heaviest=_ALL),
    "3 mentions of a name": replace(DEFAULT, mentions=3),
    "30 mentions": replace(DEFAULT, mentions=30),
    "all mentions": replace(DEFAULT, mentions=_ALL),
    "1 passage of a linked document": replace(DEFAULT, linked=1),
    "10 passages": replace(DEFAULT, linked=10),
    "all passages of it": replace(DEFAULT, linked=_ALL),
    "no least share": replace(DEFAULT, least_share=0.0),
    "least share 0.03 %": replace(DEFAULT, least_share=3e-4),
    "least share 0.2 %": replace(DEFAULT, least_share=2e-3),
    "least share 0.3 %": replace(DEFAULT, least_share=3e-3),
    "no limit at all": replace(DEFAULT, heaviest=_ALL, mentions=_ALL, linked=_ALL, least_share=0.0),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A search that follows single edges by similarity; all False is the paper's profile."""

    seeds: bool = False
    ranking: bool = False
    both_ways: bool = False
    pull: bool = False

    def __call__(self, inquiry: QueryContext, k: int) -> list[Ranked]:
        graph = inquiry.snapshot
        if self.seeds:
            mass = compute_seeds(inquiry)
            best = select_largest(mass, graph.passage_ids[: len(mass)], TOP_K)
            begin = {at: float(mass[at]) for at in best.tolist()}
        else:
            edges = graph.list_edges()
            out, into = edges.source_question, edges.target_question
            best = select_largest(
                inquiry.rate_edges(out, into), graph.index.outgoing.id[out], TOP_K
            )
            targets = graph.index.incoming.passage_row[into[best]].tolist()
            begin = {at: float(targets.count(at)) for at in targets}

        def worth(out: Integers, into: Integers, similarity: Floats) -> Floats:
            if self.pull:
                return compute_pull(inquiry, out, similarity, DEFAULT.sharpness)
            return inquiry.rate_edges(out, into)

        offers = Offers(graph, worth, self.both_ways)
        weight = (lambda had: DEFAULT.damping * had) if self.seeds else (lambda _: 1.0)
        found = traverse(begin, offers.list_edges, offers.end, choose_first, N_HOP, weight)
        arrived = np.zeros(len(graph.statistics.visible.passages))
        arrived[list(found.visits)] = list(found.visits.values())
        if self.ranking:
            return by_ours(inquiry, arrived, k)
        return by_paper(inquiry, arrived, min(k, TOP_K))


STEPS: dict[str, Rank] = {
    "HopRAG as published, without an LLM": Step(),
    "+ our seeds": Step(seeds=True),
    "+ our final ranking": Step(seeds=True, ranking=True),
    "+ edges both ways": Step(seeds=True, ranking=True, both_ways=True),
    "+ edges chosen by the walk's weights": Step(True, True, True, True),
    "+ all edges at once": partial(search_by_walk, settings=EDGES_ONLY),
    "+ names and links (default)": partial(search_by_walk, settings=DEFAULT),
}


class Apart(Snapshot):
    """A snapshot in which each passage is a document of its own."""

    def homes(self, entries: Integers) -> Integers:
        return self.index.passages.passage_number[entries].astype(np.int64)


def within_documents(inquiry: QueryContext, k: int) -> list[Ranked]:
    """The walk as if each passage were a document of its own; the ranking uses the real
    documents."""
    graph, counts = inquiry.snapshot, inquiry.snapshot.statistics
    joins = (counts.mention_counts > 1) & (counts.in_questions > 0)
    apart = Apart(graph.index, graph.version, replace(counts, joins_documents=joins))
    walked = walk(replace(inquiry, snapshot=apart), find_start(inquiry), DEFAULT)
    return by_ours(inquiry, walked.scores, k)


Neighbours = Callable[[Snapshot], tuple[Integers, Integers]]
"""Pairs of passages: from the first of each a seed's mass may reach the second."""


def spreading(neighbours: Neighbours, part: float = 0.1) -> Rank:
    """The walk from seeds that pass a part of their score to passages near them."""

    def rank(inquiry: QueryContext, k: int) -> list[Ranked]:
        graph, mass = inquiry.snapshot, find_start(inquiry)
        start, end = neighbours(graph)
        each = np.bincount(start, minlength=len(mass))
        more = np.bincount(end, mass[start] / each[start], minlength=len(mass))
        walked = walk(inquiry, (mass + part * more) / (mass + part * more).sum(), DEFAULT)
        return by_ours(inquiry, walked.scores, k)

    return rank


def in_order(graph: Snapshot) -> tuple[Integers, Integers]:
    """All visible occurrences by document and place: the passage row and the document of each."""
    entry, document = graph.statistics.visible.passage_rows, graph.statistics.visible.documents
    occurrences = graph.index.occurrences
    number, at, ordinal = (
        occurrences.passage_number,
        occurrences.document_row,
        occurrences.ordinal,
    )
    rows = np.flatnonzero(document[at] & (entry[number] >= 0))
    rows = rows[np.lexsort((ordinal[rows], at[rows]))]
    return entry[number[rows]].astype(np.int64), at[rows].astype(np.int64)


def beside(graph: Snapshot) -> tuple[Integers, Integers]:
    """The passages before and after each passage."""
    entry, document = in_order(graph)
    near = np.flatnonzero(document[1:] == document[:-1])
    before, after = entry[near], entry[near + 1]
    return np.concatenate([before, after]), np.concatenate([after, before])


def above(graph: Snapshot) -> tuple[Integers, Integers]:
    """Pairs of a passage and the nearest earlier passage with fewer headings."""
    entry, document = in_order(graph)
    columns = graph.index.passages
    depth = columns.heading_end[entry] - columns.heading_start[entry]
    start, end, open_ = list[int](), list[int](), list[int]()
    for index in range(len(entry)):
        open_ = [
            candidate
            for candidate in open_
            if document[candidate] == document[index] and depth[candidate] < depth[index]
        ]
        if open_:
            start.append(int(entry[index]))
            end.append(int(entry[open_[-1]]))
        open_.append(index)
    return np.array(start, dtype=np.int64), np.array(end, dtype=np.int64)


def index_pages(graph: Snapshot) -> tuple[Integers, Integers]:
    """Pairs of a passage and the first passage of its folder's index page, in both directions."""
    entry, document = in_order(graph)
    first = {int(at): int(one) for one, at in zip(entry[::-1], document[::-1], strict=True)}
    paths = [Path(path) for path in graph.index.document_paths]
    of_folder = {
        paths[at].parent: one
        for at, one in first.items()
        if paths[at].stem.lower() in ("index", "readme", "contents")
    }
    pairs = [
        (int(one), of_folder[paths[at].parent])
        for one, at in zip(entry, document, strict=True)
        if of_folder.get(paths[at].parent, first[int(at)]) != first[int(at)]
    ]
    start, end = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([start, end]), np.concatenate([end, start])


def topics_like_other_names(inquiry: QueryContext, k: int) -> list[Ranked]:
    """The walk without the double weight of names in headings."""
    graph = inquiry.snapshot
    plain = replace(graph.statistics, is_topic=np.zeros_like(graph.statistics.is_topic))
    return search_by_walk(replace(inquiry, snapshot=replace(graph, statistics=plain)), k, DEFAULT)


def any_sentences(inquiry: QueryContext, k: int) -> list[Ranked]:
    """The ranking without comparing single sentences."""
    graph = inquiry.snapshot
    search = run_hop_search(inquiry, DEFAULT)
    found = select_most_helpful(
        mark_reached(inquiry, search.scores) if search else np.zeros(0),
        graph.passage_ids,
        inquiry.coverage,
        k,
    )
    return ranked(graph, [one[:2] for one in found])


def hop_with(place: ModuleType, name: str, found: object) -> Rank:
    """Our search, in which the function `name` of a module returns `found`."""

    def search(inquiry: QueryContext, k: int) -> list[Ranked]:
        with patch.object(place, name, return_value=found):
            return search_by_walk(inquiry, k, DEFAULT)

    return search


def usual_scores(inquiry: QueryContext) -> Floats:
    """The scores of our walk, before they are ranked."""
    return walk(inquiry, find_start(inquiry), DEFAULT).scores


def no_subjects(inquiry: QueryContext, k: int) -> list[Ranked]:
    """The walk from the usual seeds, even if the question has several subjects."""
    walked = walk(inquiry, compute_seeds(inquiry), DEFAULT)
    return by_ours(inquiry, walked.scores, k)


def fused_with_hybrid(inquiry: QueryContext, k: int) -> list[Ranked]:
    """The ranking, fused from the sixth place on with the plain searches at a third of the
    weight."""
    graph, found = inquiry.snapshot, search_by_walk(inquiry, FUSION_DEPTH, DEFAULT)
    like = np.where(graph.statistics.visible.passages, inquiry.likeness.whole, -np.inf)
    orders = [
        graph.passage_ids[
            select_largest(values, graph.passage_ids[: len(values)], FUSION_DEPTH)
        ].tolist()
        for values in (inquiry.by_words, like)
    ]
    plain = fuse_reciprocal_ranks(orders[0], orders[1])
    plain_order = sorted(plain, key=lambda passage: -plain[passage])
    ours = fuse_reciprocal_ranks([hit.passage for hit in found])
    theirs = fuse_reciprocal_ranks(plain_order)
    rest = sorted(found[5:], key=lambda one: -ours[one.passage] - theirs.get(one.passage, 0.0) / 3)
    return [*found[:5], *rest][:k]


def asked_as(change: Callable[[QueryContext], QueryContext]) -> Rank:
    """Our search, with the question compared with the graph in another way."""
    return lambda inquiry, k: search_by_walk(change(inquiry), k, DEFAULT)


def seeds_of_whole_passages(inquiry: QueryContext, k: int) -> list[Ranked]:
    """The walk from seeds for which each sentence counts like its whole passage."""
    columns = inquiry.snapshot.index.passages
    lengths = columns.vector_end - columns.vector_start
    whole = np.repeat(inquiry.likeness.every[columns.vector_start], lengths)
    alike = GivenLikeness(inquiry.snapshot, whole)
    walked = walk(inquiry, find_start(replace(inquiry, likeness=alike)), DEFAULT)
    return by_ours(inquiry, walked.scores, k)


def paper_ranking(inquiry: QueryContext, k: int) -> list[Ranked]:
    """Our walk with the paper's helpfulness."""
    return by_paper(inquiry, walk(inquiry, find_start(inquiry), DEFAULT).scores, k)


def by_ours(
    inquiry: QueryContext,
    arrived: Floats,
    k: int,
    *,
    new_anywhere: bool = False,
    has_direct_hits: bool = True,
) -> list[Ranked]:
    graph, second_ask = inquiry.snapshot, ask_again(inquiry, arrived)
    scores = mark_reached(inquiry, second_ask.add_scores(arrived))
    importance = compute_importance(inquiry, scores, second_ask.fits)
    coverage = inquiry.coverage if new_anywhere else inquiry.sentence_coverage
    clauses = read_clauses(inquiry)
    found = select_most_helpful(
        importance, graph.passage_ids, coverage, max(k, FIRST_RESULTS), clauses
    )
    direct = find_direct_hits(inquiry).rows if has_direct_hits else ()
    return ranked(graph, [place[:2] for place in promote_direct_hits(found, direct)[:k]])


def by_paper(inquiry: QueryContext, arrived: Floats, k: int) -> list[Ranked]:
    graph, visited = inquiry.snapshot, np.flatnonzero(arrived > 0)
    values = compute_paper_helpfulness(inquiry.rate_passages(visited), arrived[visited])
    best = select_largest(values, graph.passage_ids[visited], k).tolist()
    return ranked(graph, [(int(visited[at]), float(values[at])) for at in best])


def ranked(graph: Snapshot, found: Sequence[tuple[int, float]]) -> list[Ranked]:
    return [Ranked(PassageId(int(graph.passage_ids[at])), score) for at, score in found]


VARIANTS: dict[str, Rank] = {
    **{name: partial(search_by_walk, settings=settings) for name, settings in WALKS.items()},
    "the walk may stay in a document": within_documents,
    "seeds also reach neighbouring passages": spreading(beside),
    "seeds also reach the parent section": spreading(above),
    "seeds also reach the folder's index page": spreading(index_pages),
    "headings count like other names": topics_like_other_names,
    "no follow-up questions": hop_with(hop_strategy, "ask_again", SecondAsk()),
    "titles in the question do not choose the seeds": no_subjects,
    "clauses of the question are not compared": hop_with(ranking, "read_clauses", None),
    "no places kept for the most similar passages": lambda inquiry, k: by_ours(
        inquiry, usual_scores(inquiry), k, has_direct_hits=False
    ),
    "new words count anywhere in a passage": lambda inquiry, k: by_ours(
        inquiry, usual_scores(inquiry), k, new_anywhere=True
    ),
    "fused with `hybrid` from the sixth place on": fused_with_hybrid,
    "final ranking by whole passages": any_sentences,
    "seeds without BM25": asked_as(lambda one: replace(one, by_words=0 * one.by_words)),
    "seeds by whole passages": seeds_of_whole_passages,
    "seeds without names": asked_as(lambda one: replace(one, names={})),
    "names not weighted by rarity": asked_as(
        lambda one: replace(one, names=dict.fromkeys(one.names, 1.0))
    ),
    "the paper's final ranking": paper_ranking,
}


STORIES: dict[str, Callable[[str], str]] = {
    "after a story": (
        "I have been at this since the morning, and nobody I know could help me. My colleague"
        " thinks that it must be written down somewhere, so I thought I would simply ask. {}"
    ).format,
    "after another": (
        "Last week I was out with my sister and we talked about our plans for the summer. {}"
    ).format,
    "before thanks": (
        "{} Thanks a lot in advance, I really appreciate any hint you could give me!"
    ).format,
}


def key_words(question: str) -> str:
    """The words of a question that a user would type into a search box, without function words.

    >>> key_words("Which versions does it support?")
    'versions support'
    """
    words = re.findall(r"[\w+#./:-]*\w", question)
    return " ".join(
        word for word in words if not {*list_index_terms(word)} <= list_function_terms()
    )


FORMS: dict[str, Callable[[str], str]] = {
    "unchanged": str,
    "key words only": key_words,
    "lower case, no punctuation": lambda question: " ".join(
        re.findall(r"\w[\w.'-]*", question.lower())
    ),
    **STORIES,
    "as a command": lambda question: f"Please tell me: {question.rstrip('?')}.",
}


def match_again(connection: Connection, version: Version, find: FindMatches) -> Snapshot:
    """Return the version with the matches that `find` returns for its questions."""
    with snapshot(connection):
        served = load_snapshot(connection, version)
    index = served.index
    asked = list_outgoing(index, served.passage_rows)
    best = find(index, asked)
    replace_matches(index, asked, best)
    index.settle(version.id + 1)
    edge_threshold = find_edge_threshold(
        index.outgoing.id[best.source_question], best.similarity, version.edge_budget
    )
    return replace(
        served, version=replace(version, id=version.id + 1, edge_threshold=edge_threshold)
    )


def match_among(candidates: int) -> FindMatches:
    """Matching with another number of candidates of a keyword."""

    def find(index: LiveIndex, asked: Integers) -> MatchColumns:
        with patch.object(comparison, "MAX_CANDIDATES", candidates):
            return find_best_matches(index, asked, index.is_vertex)

    return find


def match_any_pair(index: LiveIndex, asked: Integers) -> MatchColumns:
    """Return the best match of each question, with or without a common keyword."""
    answers = list_incoming(index, np.flatnonzero(index.is_vertex))
    parts = [
        _match_block(index, asked[start : start + _BLOCK], answers)
        for start in range(0, len(asked), _BLOCK)
    ]
    return concatenate_matches(parts)


def _match_block(index: LiveIndex, asked: Integers, answers: Integers) -> MatchColumns:
    outgoing, incoming, vectors = index.outgoing, index.incoming, index.vectors
    rows = incoming.vector_row[answers]
    dots = vectors.take_floats(outgoing.vector_row[asked]) @ vectors.take_floats(rows).T
    scores = dots.astype(np.float64) * HALF_COSINE
    for line, question in zip(scores, asked.tolist(), strict=True):
        first, count = int(outgoing.keyword_start[question]), int(outgoing.keyword_count[question])
        names = index.question_keywords.name[first : first + count].astype(np.int64)
        having = index.postings.incoming_by_keyword.find_lowest(names).rows
        positions, is_there = find_sorted(answers, having)
        sharing, shared = np.unique(positions[is_there], return_counts=True)
        every = count + incoming.keyword_count[answers[sharing]] - shared
        line[sharing] += shared / every / 2
    scores[outgoing.passage_row[asked][:, None] == incoming.passage_row[answers][None]] = -np.inf
    order = np.argsort(incoming.id[answers])
    best = order[scores[:, order].argmax(1)]
    value = scores[np.arange(len(asked)), best]
    found = value > -np.inf
    return MatchColumns(asked[found], answers[best[found]], value[found])


MATCHES: dict[str, FindMatches] = {
    "questions without a common keyword are matched too": match_any_pair,
    "16 candidates of a keyword, not 128": match_among(16),
    "all candidates of a keyword": match_among(1 << 30),
}
