"""The walk: HopRAG's traversal (Algorithm 1) with a deterministic reasoner in place of the LLM.

The paper asks an LLM at each visit which single edge to follow, and counts arrivals. Here the score
of a passage flows along all its transitions at once, as in personalized PageRank. A transition gets
more score if it answers the query better. The total score that arrives at a passage is the expected
value of the paper's visit counter for a reasoner that picks transitions with these odds.

There are three kinds of transitions. All lead from one document to another, because score that
flows within a document only repeats the seeds.

- Edges, walked both ways. An edge is weighted by its pull, similarity * rarity * exp(sharpness *
  cos(query, context of the question)), times exp(gain * new). `new` is the idf-weighted share of
  the query's words that the far passage has and the near passage lacks.
- Names that at least two documents mention. Score leaves a passage by the rarity of its names, and
  arrives at the passages that mention the name by exp(name_sharpness * cos(query, sentence)) *
  exp(gain * new). Score that would return to its own document is lost.
- Links, walked both ways, where a passage has any: to the passages of the linked document that
  answer the query best, by exp(link_sharpness * cos(query, far passage)) * exp(gain * new). A link
  names a document, and the query decides which part of it is relevant.

The walk is local, so the cost of a query does not depend on the size of the collection. In each
round only the `heaviest` passages send score. A name leads only to the `mentions` most like the
query, and a link only to the `linked` best passages of its document. A passage does not send less
than `least_share` of the total sent in the first round, and mentions of a name are not looked up
for less score. docs/how-it-works.md explains the walk, and docs/benchmarks.md measures each part.

The subjects of a question are documents whose titles occur in it. "Which film came out first, Aas
Ka Panchhi or Phoolwari?" has two subjects, and a softmax over similar passages often starts at only
one. If there are at least two subjects, the walk starts mostly at these documents, with an equal
part at each.

Every round damps the score. Worked example without names: score 1 at A, edges A-B (weight 3) and
A-C (weight 1), damping 0.5: after one hop B has 0.375 and C 0.125; after two, a quarter of A's
score has come back.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hopsyncd.index.arrays import Floats, Integers, expand_ranges, sum_exactly
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import select_largest
from hopsyncd.retrieve.term_matches import WORD
from hopsyncd.retrieve.transitions import (
    NO_NAMES,
    NO_TRANSITIONS,
    SCORE_UNIT,
    NameTransitions,
    Transitions,
    concatenate_transitions,
    find_edge_transitions,
    find_incoming_mentions,
    find_link_transitions,
    find_mentions,
    find_outgoing_names,
)
from hopsyncd.retrieve.walk_settings import WalkSettings
from hopsyncd.text.words import list_index_terms
from store.records import PassageId

_OF_TOPIC = 2.0
_MENTION_SHARPNESS = 4.0
_SEEDS = 2.0**-32  # sums of the seeds' scores are exact in this unit

# Titles of documents that the question names.
CANDIDATES = 50  # passages most like the question, whose titles are compared
LEAST_TITLE_SHARE = 0.1  # least share of the question's idf in a title
_TITLES_KEPT = 1 << 11  # titles whose words are cached
_MOST_CHARACTERS = 500  # the part of a title that is compared, in characters
_SUBJECT_SHARE = 0.9  # the subjects' share of the seeds' scores
_PARENTHESIS = re.compile(r"\s*\([^)]*\)\s*$")


@dataclass(frozen=True, slots=True, eq=False)
class WalkResult:
    """The scores of the walk, and the transitions along which they flowed.

    scores: (n,) by passage row, seeds included. edges, links: the transitions out of the passages
    that sent score. edge_flow, link_flow: the score that flowed along each of these transitions.
    outgoing_names: the names of the passages that sent score. outgoing_flow: the score that each
    passage sent to each of its names. incoming_mentions: the mentions to which the names lead.
    incoming_flow: the score that each mention got.
    """

    scores: Floats
    edges: Transitions
    edge_flow: Floats
    links: Transitions
    link_flow: Floats
    outgoing_names: NameTransitions
    outgoing_flow: Floats
    incoming_mentions: NameTransitions
    incoming_flow: Floats


def compute_seeds(context: QueryContext) -> Floats:
    """Return the (n,) scores with which the walk starts, by passage row. The scores sum to 1.

    The scores are a softmax over the passages most like the query (`context.near`), compared by
    words and by the most similar vector of each passage. In addition, each name of the query brings
    score to the passages that have the name as a topic, by the square of the name's share of the
    query. Half as much goes to the passages that mention the name, most of it to the mentions most
    like the query.
    """
    snapshot, near = context.snapshot, context.near
    scores = np.zeros(len(context.by_words))
    scores[near.passage_rows] = _normalise(np.exp(near.like - near.like.max()))
    for name, weight in context.names.items():
        number = snapshot.find_name(name)
        for passage_rows, part in (_seed_topics(snapshot, number), _seed_mentions(context, number)):
            scores[passage_rows] += weight**2 * part
    return _normalise(scores)


def _normalise(scores: Floats) -> Floats:
    """Divide the scores by their sum. The result does not depend on the order of the scores."""
    rounded = np.rint(scores / _SEEDS)
    shares: Floats = rounded / max(rounded.sum(), 1.0)
    return shares


def _seed_topics(snapshot: Snapshot, name: int) -> tuple[Integers, Floats]:
    """Return the passages that have the name as a topic, and the score that the name brings to each
    passage."""
    passage_rows = snapshot.find_by_topic(name)
    return passage_rows, np.full(len(passage_rows), _OF_TOPIC / max(len(passage_rows), 1))


def _seed_mentions(context: QueryContext, name: int) -> tuple[Integers, Floats]:
    """Return the passages that mention the name, and the score that the name brings to each
    passage."""
    mentions = find_mentions(context, name)
    cosines = context.likeness.get_cosines(mentions.vector_row).astype(np.float64)
    weights = mentions.weight * np.exp(_MENTION_SHARPNESS * cosines)
    passage_rows, positions = np.unique(mentions.passage_row, return_inverse=True)
    return passage_rows, _normalise(sum_exactly(weights, positions, len(passage_rows), _SEEDS))


@dataclass(frozen=True, slots=True)
class _Title:
    """A title found at words[start:end] of the question, and the passage with this title.

    likeness: the likeness of the passage to the question.
    """

    start: int
    end: int
    likeness: float
    passage_row: int


def find_subjects(context: QueryContext) -> list[int]:
    """Find the passage rows whose title is in the question as a name: all its words in order, and
    at least one of them not in lower case.

    Only the `CANDIDATES` passages most like the question are considered. Titles with a small share
    of the question's idf are ignored. If titles overlap, the longest wins. If several passages have
    the same title, the passage most like the question wins.
    """
    near, ids = context.near, context.snapshot.passage_ids
    order = select_largest(near.like, ids[near.passage_rows], CANDIDATES)
    rows = near.passage_rows[order]
    passages = context.read([PassageId(id_) for id_ in ids[rows].tolist()])
    words = WORD.findall(context.question.replace("\u2019", "'"))
    lower = [word.lower() for word in words]
    titles: list[_Title] = []
    for row, likeness in zip(rows.tolist(), near.like[order].tolist(), strict=True):
        passage = passages.get(PassageId(int(ids[row])))
        if passage is None or not passage.heading:
            continue
        for title, title_words in _list_titles(passage.heading[0]):
            start, end = _find_words(lower, title_words)
            if all(map(str.islower, words[start:end])):  # missing, or not written as a name
                continue
            if _weigh_title(context, title) >= LEAST_TITLE_SHARE:
                titles.append(_Title(start, end, likeness, row))
    return [title.passage_row for title in _drop_overlapping(titles)]


@lru_cache(_TITLES_KEPT)
def _list_titles(heading: str) -> tuple[tuple[str, list[str]], ...]:
    """List the title in a heading and, if the title ends with a parenthesis, the title without the
    parenthesis. Each title comes with its words in lower case."""
    whole = heading[:_MOST_CHARACTERS]
    return tuple(
        (title, [word.lower() for word in WORD.findall(title)])
        for title in dict.fromkeys((whole, _PARENTHESIS.sub("", whole)))
    )


def _find_words(words: Sequence[str], title: Sequence[str]) -> tuple[int, int]:
    """Find the title's words in the question's `words`. Returns their (start, end), or (0, 0) if
    the title does not occur.
    """
    length = len(title)
    for start in range(len(words) - length + 1 if length else 0):
        if words[start] == title[0] and words[start : start + length] == title:
            return start, start + length
    return 0, 0


def _weigh_title(context: QueryContext, title: str) -> float:
    return sum(context.terms.get(term, 0.0) for term in list_index_terms(title))


def _drop_overlapping(titles: Sequence[_Title]) -> Iterator[_Title]:
    chosen: list[_Title] = []
    for title in sorted(titles, key=lambda title: (title.start - title.end, -title.likeness)):
        if all(title.end <= other.start or other.end <= title.start for other in chosen):
            chosen.append(title)
            yield title


def share_among_subjects(seeds: Floats, subjects: Sequence[int]) -> Floats:
    """If there are at least two subjects (passage rows), move most of the (n,) seed scores to the
    subjects, in equal parts."""
    if len(subjects) < 2:
        return seeds
    scores = (1 - _SUBJECT_SHARE) * seeds
    np.add.at(scores, list(subjects), _SUBJECT_SHARE / len(subjects))
    return scores


def walk(context: QueryContext, seeds: Floats, settings: WalkSettings) -> WalkResult:
    """Let the (n,) seed scores flow through the graph."""
    walk = _Walk(context, seeds, settings)
    ids = context.snapshot.passage_ids[: len(seeds)]
    totals, scores, least = seeds.copy(), seeds, None
    for _ in range(settings.hops):
        reached = np.flatnonzero(scores > 0)
        active = reached[select_largest(scores[reached], ids[reached], settings.heaviest)]
        sent = settings.damping * scores[active]
        if least is None:
            least = settings.least_share * float(sent.sum())
        sends = sent > least
        if not sends.any():
            break
        scores = walk.send(active[sends], sent[sends], least)
        totals += scores
    return walk.collect(totals)


class _Walk:
    """Sends score round by round, and remembers the transitions and the score along them.

    `_sent` (n,) is the total score that each passage has sent. Names are numbered in the order in
    which score reached them; `_starts` and `_ends` are the rows of `_mentions` to which each leads.
    A passage sends no score to its own document through a name, so `_own_names` and `_own_mentions`
    pair the rows of `_names` with the mentions of the name in the same document. `_unpaired` has
    the rows of `_names` whose names have received no score yet.
    """

    def __init__(self, context: QueryContext, seeds: Floats, settings: WalkSettings) -> None:
        no_rows = np.empty(0, dtype=np.int64)
        self._context = context
        self._seeds = seeds
        self._settings = settings
        self._sent = np.zeros(len(seeds))
        self._is_open = np.zeros(len(seeds), dtype=np.bool_)
        self._positions = np.empty(len(seeds), dtype=np.int64)
        self._edges = self._links = NO_TRANSITIONS
        self._names = self._mentions = self._seed_names = NO_NAMES
        self._incoming = np.empty(0)
        joins = context.snapshot.statistics.joins_documents
        self._by_names = settings.by_names if joins.any() else 0.0
        self._numbers = np.full(len(joins), -1, dtype=np.int64)
        self._starts = self._ends = no_rows
        self._unpaired = self._own_names = self._own_mentions = no_rows

    def send(self, active: Integers, sent: Floats, least: float) -> Floats:
        """Send score from the passage rows `active`. Returns the (n,) scores that arrive.

        `sent` is the score that each active passage sends. Mentions of a name are not looked up if
        the name receives `least` or less.
        """
        self._open(active)
        sending = np.zeros(len(self._sent))
        sending[active] = sent
        self._sent += sending
        along_edges = sending[self._edges.start] * self._edges.share
        along_links = sending[self._links.start] * self._links.share
        through_names = self._send_through_names(sending, least)
        return sum_exactly(
            np.concatenate([along_edges, along_links, through_names]),
            np.concatenate([self._edges.end, self._links.end, self._mentions.passage_row]),
            len(sending),
            SCORE_UNIT,
        )

    def collect(self, scores: Floats) -> WalkResult:
        """Return the scores, the transitions and the score that flowed along each transition."""
        edges, links, names = self._edges, self._links, self._names
        return WalkResult(
            scores,
            edges,
            self._sent[edges.start] * edges.share,
            links,
            self._sent[links.start] * links.share,
            names,
            self._sent[names.passage_row] * names.share,
            self._mentions,
            self._incoming,
        )

    def _open(self, passage_rows: Integers) -> None:
        """Find the transitions out of the given passages that send score for the first time."""
        new = np.sort(passage_rows[~self._is_open[passage_rows]])
        if not len(new):
            return
        self._is_open[new] = True
        positions = self._positions
        positions[new] = np.arange(len(new))
        links = find_link_transitions(self._context, new, positions, self._settings)
        beside_links = np.ones(len(new))
        beside_links[positions[links.start]] = 1 - self._settings.by_links
        self._links = concatenate_transitions(self._links, links, self._settings.by_links)
        edges = find_edge_transitions(self._context, new, positions, self._settings)
        part = (1 - self._by_names) * beside_links[positions[edges.start]]
        self._edges = concatenate_transitions(self._edges, edges, part)
        if self._by_names:
            names = find_outgoing_names(self._context, new)
            part = self._by_names * beside_links[positions[names.passage_row]]
            before = len(self._names.name)
            self._names = concatenate_transitions(self._names, names, part)
            rows = np.arange(before, len(self._names.name))
            self._unpaired = np.concatenate([self._unpaired, rows])
            if not before:
                from_seeds = self._seeds[names.passage_row]
                self._seed_names = concatenate_transitions(NO_NAMES, names, from_seeds)

    def _send_through_names(self, sending: Floats, least: float) -> Floats:
        """Send score through names. Returns the score that each mention gets from other documents.

        `sending` has the (n,) scores that the passages send. `least` is explained in `send`.
        """
        sent = sending[self._names.passage_row] * self._names.share
        by_name = sum_exactly(sent, self._names.name, len(self._numbers), SCORE_UNIT)
        new = np.flatnonzero((by_name > least) & (self._numbers < 0))
        if len(new):
            self._reach(new)
        self._pair()
        count = len(self._mentions.name)
        returned = sum_exactly(sent[self._own_names], self._own_mentions, count, SCORE_UNIT)
        others = np.maximum(by_name[self._mentions.name] - returned, 0)
        incoming: Floats = others * self._mentions.share
        self._incoming += incoming
        return incoming

    def _reach(self, names: Integers) -> None:
        """Add the mentions of these names, which receive score for the first time."""
        count, before = len(self._starts), len(self._mentions.name)
        self._numbers[names] = count + np.arange(len(names))
        mentions, positions = find_incoming_mentions(
            self._context, names, self._seed_names, self._settings
        )
        self._mentions = concatenate_transitions(self._mentions, mentions, 1.0)
        self._incoming = np.concatenate([self._incoming, np.zeros(len(positions))])
        ends = before + np.cumsum(np.bincount(positions, minlength=len(names)))
        self._starts = np.concatenate([self._starts, [before], ends[:-1]])
        self._ends = np.concatenate([self._ends, ends])

    def _pair(self) -> None:
        """Pair the passages' names with the mentions of the same names in the same documents."""
        numbers = self._numbers[self._names.name[self._unpaired]]
        is_reached = numbers >= 0
        if not is_reached.any():
            return
        senders, numbers = self._unpaired[is_reached], numbers[is_reached]
        self._unpaired = self._unpaired[~is_reached]
        rows, positions = expand_ranges(self._starts[numbers], self._ends[numbers])
        sender_documents = self._names.document_key[senders[positions]]
        same_document = np.flatnonzero(self._mentions.document_key[rows] == sender_documents)
        self._own_names = np.concatenate([self._own_names, senders[positions[same_document]]])
        self._own_mentions = np.concatenate([self._own_mentions, rows[same_document]])
