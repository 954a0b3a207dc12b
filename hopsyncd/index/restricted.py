"""The graph without hidden sources, as if it had been built without them.

A visible question whose match is visible keeps it: the best of all is the best of some. Others are
matched anew among the visible, and links of passages are read again where a hidden document holds
the passage or could be meant.

What was found for an older version is carried on as a commit would: only questions are looked at
that began or ended since, whose match did, or whose match came into view or went out of it. Without
such a view, the matches that the index has as `stand_ins`, of whatever version and sources, spare
most of the comparing.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.columns import Floats, Integers, holds, marked, with_places
from hopsyncd.index.comparison import NO_MATCHES, MatchColumns
from hopsyncd.index.documents import touched_by, ways_of
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.matching import (
    cut_of,
    edge_budget,
    either,
    leading_to,
    match_rows,
    questions_of,
    renewed,
)
from hopsyncd.index.snapshot import UNMATCHED, Replaced, Rows, Snapshot
from hopsyncd.index.statistics import Statistics, Visible, differing
from store.records import Version


@dataclass(frozen=True, slots=True, eq=False)
class _Since:
    """What may differ from an older view of the index; all that is, where there is none.

    entries, documents: those that came into view or went out of it. questions: outgoing ones whose
    own match may be another, rising. held: matches among what was visible then, by rising question.
    ended: those of the whole that ended.
    """

    entries: Integers
    documents: Integers
    questions: Integers
    held: MatchColumns
    ended: MatchColumns


def restricted(
    index: LiveIndex,
    version: Version,
    hidden: frozenset[str],
    budget_factor: float,
    base: Statistics | None,
    before: Snapshot | None,
) -> Snapshot:
    """The version without what only the hidden sources hold.

    `base` are counts of the whole version or of another, `before` is the same of an older version.
    """
    statistics = Statistics.of(index, version.id, hidden, before.statistics if before else base)
    found = Snapshot(index, version, statistics, hidden)
    since = _since(found, before)
    was = before.replaced if before else None
    alone, matches, of_question = _matches(found, since, was)
    numbers, ways, link = _links(found, since, before)
    source = index["outgoing"]["entry"][matches.out].astype(np.int64)
    target = index["incoming"]["entry"][matches.into].astype(np.int64)
    replaced = Replaced(
        of_question,
        alone,
        matches.out,
        matches.into,
        matches.similarity,
        Rows.of(source, target),
        numbers,
        ways,
        link,
    )
    out = np.flatnonzero(of_question > UNMATCHED)
    budget = edge_budget(statistics.passages, budget_factor)
    seen = replace(
        version,
        documents=int(np.count_nonzero(statistics.visible.documents)),
        passages=statistics.passages,
        words=statistics.words,
        matches=len(out),
        edge_budget=budget,
        cut=cut_of(index["outgoing"]["id"][out], of_question[out], budget),
        counters={},
    )
    return replace(found, version=seen, replaced=replaced)


def _since(found: Snapshot, before: Snapshot | None) -> _Since:
    index, version, visible = found.index, found.version.id, found.statistics.visible
    was = before.replaced if before else None
    if before is None or was is None:
        entries, held = _stood_in(found)
        every = np.arange(len(index["outgoing"]))
        return _Since(entries, np.flatnonzero(visible.documents), every, held, NO_MATCHES)
    then, older = before.statistics.visible, before.version.id
    entries = np.flatnonzero(differing(visible.entries, then.entries, False))
    out, born, died = index["matches"].views("out", "born", "died")
    has_begun = (born > older) & (born <= version)
    has_ended = (died > older) & (died <= version)
    ended = np.flatnonzero(has_ended & ~has_begun)
    moved = index.postings["matches_to"].of_each(entries)[0]
    moved = np.concatenate([np.flatnonzero(has_begun), ended, moved[moved < len(out)]])
    asked = questions_of(index, "outgoing", entries)
    return _Since(
        entries,
        np.flatnonzero(differing(visible.documents, then.documents, False)),
        np.union1d(out[moved], asked).astype(np.int64),
        MatchColumns(was.out, was.into, was.similarity),
        match_rows(index, ended[np.argsort(out[ended])]),
    )


def _stood_in(found: Snapshot) -> tuple[Integers, MatchColumns]:
    """What stood in where the sources most like these were hidden, and the entries that were not
    visible there and are now, or the other way round."""
    index, visible = found.index, found.statistics.visible.entries
    known = index.stand_ins
    if not known:
        return np.flatnonzero(visible), NO_MATCHES
    nearest = min(known, key=lambda hidden: len(hidden ^ found.hidden))
    then = known[nearest]
    seen = Visible.of(index, then.version, nearest).entries
    entries = np.flatnonzero(differing(visible, seen, False))
    return entries, MatchColumns(then.out, then.into, then.similarity)


def _matches(
    found: Snapshot, since: _Since, was: Replaced | None
) -> tuple[Integers, MatchColumns, Floats]:
    """The visible questions whose own match is not visible, what they are matched with instead,
    and the similarity of the match of each question."""
    index, visible = found.index, found.statistics.visible.entries
    of_question = np.full(len(index["outgoing"]), UNMATCHED)
    alone = np.empty(0, dtype=np.int64)
    if was is not None:
        of_question[: len(was.of_question)] = was.of_question
        of_question[was.alone] = UNMATCHED
        alone = np.setdiff1d(was.alone, since.questions, assume_unique=True)
    own, similarity = _own(found, since.questions)
    of_question[since.questions] = UNMATCHED
    of_question[own] = similarity
    seen = since.questions[holds(visible, index["outgoing"]["entry"][since.questions])]
    alone = np.union1d(alone, seen[of_question[seen] == UNMATCHED])
    held = either(
        leading_to(index, since.held, alone, visible),
        leading_to(index, since.ended, alone, visible),
    )
    new = since.entries[holds(visible, since.entries)]
    begun = renewed(index, np.setdiff1d(alone, held.out, assume_unique=True), visible, held, new)
    matches = either(begun, held)
    of_question[matches.out] = matches.similarity
    return alone, matches, of_question


def _own(found: Snapshot, questions: Integers) -> tuple[Integers, Floats]:
    """Those of the questions whose own match has two visible ends, and its similarity."""
    index, visible = found.index, found.statistics.visible.entries
    asking = index["outgoing"]["entry"][questions]
    asking = asking[holds(visible, asking)]  # a writer may be adding others
    entries = np.flatnonzero(marked(len(visible), asking))  # sorting them takes longer
    rows, _ = index.postings["matches_from"].of_each(entries)
    out, _, similarity = found.shown_matches(rows)
    kept = with_places(questions, out)[1]
    return out[kept], similarity[kept]


def _links(
    found: Snapshot, since: _Since, before: Snapshot | None
) -> tuple[Integers, Rows, Integers]:
    """Passages whose links may lead elsewhere, their ways, and the link of each.

    Those of `before` are kept where no document that matters to them came or went.
    """
    index, shown = found.index, found.statistics.visible.documents
    born, died = index["documents"].views("born", "died")
    version = found.version.id
    hidden = (born <= version) & (version < died)
    hidden[: len(shown)] &= ~shown
    was = before.replaced if before else None
    if before and was:
        hidden &= born > before.version.id
    anew = touched_by(index, np.flatnonzero(hidden))

    def visible(documents: Integers) -> NDArray[np.bool_]:
        return holds(shown, documents)

    numbers, rows = anew, np.empty((0, 3), dtype=np.int64)
    if was is not None:
        touched = np.intersect1d(was.numbers, touched_by(index, since.documents))
        anew = np.union1d(anew, touched)
        if not len(anew):
            return was.numbers, was.ways, was.link
        numbers = np.union1d(was.numbers, anew)
        at, _ = was.ways.from_start.of_each(np.setdiff1d(was.numbers, anew))
        rows = np.stack([was.ways.start[at], was.ways.end[at], was.link[at]], axis=1)
    made = np.array(
        [
            (number, target, link)
            for number in anew.tolist()
            for target, link in ways_of(index, number, visible)
        ],
        dtype=np.int64,
    ).reshape(-1, 3)
    rows = np.concatenate([rows, made])
    return numbers, Rows.of(rows[:, 0], rows[:, 1]), rows[:, 2]
