"""Turns changed documents into one committed version.

First, question sets are generated for the passages that have none. This work is slow and is stored
immediately. Then the passages are added to the live index and matched, part by part. These pending
rows belong to no version yet, so a large version can end after any part if a caller waits. Finally,
one transaction commits everything. Until then, queries read the old version.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from hopsyncd.index.arrays import NO_ROWS, Integers
from hopsyncd.index.edge_selection import (
    compute_edge_budget,
    find_best_matches,
    find_head_threshold,
    has_matches_without_keyword,
    list_outgoing,
    list_pending_matches,
    make_match_records,
    match_part,
    replace_matches,
    update_matches,
)
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.passage_content import add_passages
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.index.tables import to_int64
from hopsyncd.ingest.index_loading import follow_documents, load_index, make_new_passages
from hopsyncd.ingest.prepare import Cost, OnProgress, Preparer, group_by_source, list_placed
from hopsyncd.ingest.read import (
    Batch,
    PartSize,
    PassageIntervals,
    ReadDocument,
    Reading,
    find_intervals,
)
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.source_thread import YieldToEdits
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.questions import QuestionMaker
from store.changes import stamp
from store.commit import commit_rebuilt_version, commit_version, put_seen
from store.content import (
    find_best_sets,
    find_stored_sets,
    get_generation,
    read_counters,
    read_passages,
    read_sets_at,
    read_sets_by_id,
)
from store.contract import Connection
from store.operational import list_due_passages
from store.reads import find_in_force, list_passages, read_matches_at
from store.records import (
    Change,
    Passage,
    PassageId,
    QuestionId,
    SetId,
    Version,
    compute_set_id,
)
from store.space import release_memory
from store.transactions import snapshot
from store.versions import read_head

_AT_ONCE = 500  # passages added to the index at once. More would need more memory.

BegunSets = Sequence[tuple[PassageId, SetId]]
"""The passages that become vertices, with their question sets, ordered by the sets' ids."""


class VersionWriter:
    """Generates the questions of new passages, commits versions, and updates the live index."""

    def __init__(
        self,
        connection: Connection,
        maker: QuestionMaker,
        *,
        rules: str,
        budget_factor: float,
        now_ms: Callable[[], int],
        patience_s: float = math.inf,
        saved: SavedIndex | None = None,
        part: int = _AT_ONCE,
    ) -> None:
        """`rules` names the rules for splitting documents into passages. `budget_factor` scales the
        edge budget (`index.edge_budget_factor`). `patience_s` is how long one version may wait for
        an LLM; the remaining passages get provisional questions. If `saved` is None, the index is
        only in memory. The first part of a commit has `part` passages; later parts adapt to the
        measured speed."""
        self._connection = connection
        self._maker = maker
        self.rules = rules
        self._budget_factor = budget_factor
        self._now_ms = now_ms
        self._preparer = Preparer(connection, maker, now_ms=now_ms, patience_s=patience_s)
        self._generation = self._preparer.generation
        self._saved = saved
        self._index: LiveIndex | None = None
        self._statistics: Statistics | None = None
        self._part_size = PartSize(part)

    @property
    def index(self) -> LiveIndex:
        """The live index at the head, with vectors of the current encoder."""
        if self._index is None:
            newest, generation = read_head(self._connection), self._maker.generation
            until = newest.id if newest else 0
            with snapshot(self._connection):
                load = self._saved.load if self._saved else load_index
                self._index = load(self._connection, generation, until)
        return self._index

    def make_snapshot(self, version: Version) -> Snapshot:
        """Return a snapshot of this version for readers. The version must be the head."""
        self._statistics = Statistics.count(self.index, version.id, base=self._statistics)
        return Snapshot(self.index, version, self._statistics)

    def adopt_index(self, index: LiveIndex | None, statistics: Statistics | None) -> None:
        """Use this index, which must be at the head, and its statistics."""
        self._index, self._statistics = index, statistics

    def keep_index_if_due(self) -> None:
        """Start a thread that saves the index if the index has grown enough."""
        if self._saved is None or self._index is None or self._saved.is_saving:
            return
        self._saved.finish_saving()
        if self._saved.is_due(self._index):
            self._start_saving(self._saved, self._index)

    def _start_saving(self, saved: SavedIndex, index: LiveIndex) -> None:
        index_stamp = stamp(self._connection, index.version)
        saved.start_saving(index_stamp, index, self._maker.generation.encoder)

    @property
    def is_saving_index(self) -> bool:
        """Whether a save of the index is running, or `release_memory` must complete it."""
        return self._saved is not None and self._saved.is_unfinished

    def keep_index(self) -> None:
        """Save the index for the next start, unless the saved index is nearly up to date."""
        if self._saved and self._index is not None and self._index.version:
            self._saved.finish_saving()
            if not self._saved.is_close(self._index):
                index_stamp = stamp(self._connection, self._index.version)
                self._saved.save(index_stamp, self._index, self._maker.generation.encoder)

    def release_memory(self) -> None:
        """Release memory that only changes need. After many changes, also start a thread that saves
        the index. The next call then maps the saved files."""
        saved, index = self._saved, self._index
        if saved and not saved.is_saving:
            saved.finish_saving()
            if index is not None and index.version and saved.is_due_at_rest(index):
                self._start_saving(saved, index)
        release_memory(self._connection)

    def forget_index(self) -> None:
        """Delete the index in memory and on disk. The next use rebuilds it from the database."""
        self._index = self._statistics = None
        if self._saved:
            self._saved.forget()

    def serves(self, version: Version) -> bool:
        """Whether the version has the current generation settings, so that it can be queried."""
        return version.generation == self._generation

    def prepare(
        self,
        read: Sequence[ReadDocument],
        cost: Cost,
        on_progress: OnProgress = lambda done, total: None,
        yield_to_edits: YieldToEdits = lambda: None,
        most: int | None = None,
    ) -> None:
        """Generate and store the questions of these documents, which is the slow part of a version.

        Raises TooMuch if more than `most` passages have no questions.
        """
        passages = group_by_source(self._connection, read)
        self._preparer.prepare(passages, cost, on_progress, yield_to_edits, most)

    def select_unprepared(self, readings: Mapping[str, Reading]) -> set[str]:
        """Return the paths of the documents in which a passage has no question set."""
        return {
            path
            for path, reading in readings.items()
            if reading.read and self._preparer.lacks_sets(reading.read.passages)
        }

    def apply(self, batch: Batch, yield_to_edits: YieldToEdits = lambda: None) -> Version | None:
        """Generate the batch's questions, without a limit on LLM usage, and commit the batch."""
        cost = Cost(Usage())
        self.prepare(batch.read, cost, yield_to_edits=yield_to_edits)
        return self.commit(batch, cost)[0]

    def commit(
        self, batch: Batch, cost: Cost, is_awaited: Callable[[], bool] = lambda: False
    ) -> tuple[Version | None, Batch]:
        """Commit a batch whose passages all have questions.

        If `is_awaited` returns True, the version contains only the documents matched so far.
        Returns the version (None if no document changes) and the committed part of the batch.
        """
        if not batch.read and not batch.gone:
            put_seen(self._connection, batch.seen, batch.unseen)
            return None, batch
        with self._advancing() as index:
            batch, deferred = self._match_all_but_last_part(index, batch, is_awaited)
            changed = find_intervals(self._connection, batch)
            return self._commit(batch, changed, self.rules, cost, deferred=deferred), batch

    def _match_all_but_last_part(
        self, index: LiveIndex, batch: Batch, is_awaited: Callable[[], bool]
    ) -> tuple[Batch, Integers]:
        """Insert and match all but the last part of the batch, which `_commit` matches. If
        `is_awaited` returns True, stop and return a batch with only the documents matched so far.
        Also returns the rows that `match_part` deferred, for `_commit`."""
        done, deferred = 0, NO_ROWS
        while (end := batch.end_of_part(done, self._part_size.most)) < len(batch.read):
            began_s = time.perf_counter()
            passages = {
                passage.id for document in batch.read[done:end] for passage in document.passages
            }
            begun = self._find_sets(passages - find_in_force(self._connection, passages))
            deferred = match_part(index, self._begin_in_index(index, begun), deferred)
            self._part_size.adjust(time.perf_counter() - began_s)
            done = end
            if is_awaited():
                return batch.take_first(done), deferred
        return batch, deferred

    def upgrade(
        self, limit: int, usage: Usage, go_on: Callable[[], bool] = lambda: True
    ) -> Version | None:
        """Ask the LLM again for the questions of up to `limit` passages at the head that have only
        provisional questions.

        Commits and returns a version with the new questions, or returns None if there are no new
        questions. Stops asking once `go_on` returns False. `usage` counts and limits the LLM calls.
        """
        newest = read_head(self._connection)
        if newest is None or not self.serves(newest):
            return None
        cost = Cost(usage)
        now_ms = self._now_ms()
        wait = list_due_passages(self._connection, newest.id, self._generation, now_ms, limit)
        lack = set(wait) - self._select_with_final_sets(wait)
        self._preparer.ask_again(list_placed(self._connection, newest, lack), cost, go_on)
        if not (done := tuple(sorted(self._select_with_final_sets(wait)))):
            return None
        reason = Batch(f"{len(done)} passages got their LLM questions")
        return self._commit(reason, PassageIntervals(done, done), newest.rules, cost)

    def _select_with_final_sets(self, passages: Iterable[PassageId]) -> set[PassageId]:
        """Return the passages that have a question set other than a provisional one."""
        name = self._maker.generation.name
        ids = {compute_set_id(passage, name): passage for passage in passages}
        return {ids[set_id] for set_id in find_stored_sets(self._connection, ids)}

    def renew(self) -> Version | None:
        """If the head has other generation settings, another edge budget, or matches without a
        common keyword, as in older databases, commit a version with the current values.

        No document is reloaded. Returns None if the head needs no change. Until the commit, queries
        use the questions of the old settings.
        """
        newest = read_head(self._connection)
        if newest is None:
            return None
        budget = compute_edge_budget(newest.passages, self._budget_factor)
        if newest.generation != self._generation:
            return self._switch_generation(newest)
        if has_matches_without_keyword(self.index):
            return self.rebuild()
        if newest.edge_budget != budget:
            reason = Batch("the edge budget changed")
            return self._commit(reason, PassageIntervals((), ()), newest.rules, Cost())
        return None

    def rebuild(self) -> Version | None:
        """Recompute the head from its stored content, and commit the result as a new version.
        Returns None if there is no head.

        Word counts, vectors, matches and the edge threshold are computed from the stored content.
        No question is generated and no text is embedded. Unchanged matches keep their rows.
        """
        newest = read_head(self._connection)
        if newest is None:
            return None
        self.forget_index()
        with self._advancing() as index:
            alive = index.is_vertex
            questions = list_outgoing(index, np.flatnonzero(alive))
            every = np.arange(len(index.outgoing))
            replace_matches(index, every, find_best_matches(index, questions, alive))
            reason = Batch("rebuilt from the stored content")
            change = self._change(index, reason, (), (), newest.rules, {})
            change = replace(
                change,
                matches_ended=[*change.matches_ended, *self._list_matched_outside(newest)],
                counters=dict.fromkeys(read_counters(self._connection), 0),
            )
            version = commit_rebuilt_version(self._connection, change, self._now_ms())
            index.settle(version.id)
            return version

    def list_passages_without_sets(self) -> list[Passage]:
        """Return the passages at the head that have no question set of the current settings."""
        newest = read_head(self._connection)
        if newest is None:
            return []
        passages = {questions.passage for questions in read_sets_at(self._connection, newest.id)}
        lacking = passages - find_best_sets(self._connection, self._generation, passages).keys()
        return [*read_passages(self._connection, sorted(lacking)).values()]

    def prepare_ahead(self, passages: Sequence[Passage], yield_to_edits: YieldToEdits) -> None:
        """Generate and store question sets of the current settings, for a later call of renew()."""
        self._preparer.prepare({"": passages}, Cost(), yield_to_edits=yield_to_edits)

    def measure_question_time_s(self, passage: Passage) -> float:
        """Measure how long it takes to generate a passage's built-in questions. Stores nothing."""
        began_s = time.perf_counter()
        self._maker.make_provisional(passage)
        return time.perf_counter() - began_s

    @property
    def has_index(self) -> bool:
        """Whether the index is in memory. A failed change drops it from memory."""
        return self._index is not None

    def begin_separate_index(self) -> None:
        """Replace the index with an empty index, to be filled with the head's passages and the
        current settings."""
        self._statistics = None
        if self._saved:
            self._saved.forget()
            self._index = self._saved.load(self._connection, self._maker.generation, 0)
        else:
            self._index = LiveIndex(self._maker.generation.dimensions)

    def find_unbuilt(self, newest: Version) -> tuple[list[PassageId], set[PassageId]]:
        """Return the passages of version `newest` to add to the separate index, and the passages
        among them without a question set.

        Both may contain indexed passages whose question sets were garbage-collected.
        """
        passages = list_passages(self._connection, newest.id)
        best_sets = find_best_sets(self._connection, self._generation, passages)
        lacking = set(passages) - best_sets.keys()
        absent = np.flatnonzero(self.index.find_vertices(to_int64(passages)) < 0)
        unbuilt = lacking.union(passages[position] for position in absent.tolist())
        return [passage for passage in passages if passage in unbuilt], lacking

    def build_separate_index(
        self, passages: Sequence[PassageId], yield_to_edits: YieldToEdits
    ) -> None:
        """Generate and store these passages' question sets, and match them in the separate index.

        Passages may disappear if another writer commits an edit during `yield_to_edits`.
        """
        texts = read_passages(self._connection, passages)
        self._preparer.prepare({"": [*texts.values()]}, Cost(), yield_to_edits=yield_to_edits)
        with self._advancing() as index:
            begun = self._find_sets(texts)
            update_matches(index, NO_ROWS, self._begin_in_index(index, begun))

    def commit_separate_index(self, newest: Version) -> Version:
        """Commit the separate index, with the passages of `newest`, as a version, and drop it."""
        with self._advancing() as index:
            passages = tuple(list_passages(self._connection, newest.id))
            rows = np.flatnonzero(index.is_vertex)
            is_left = np.isin(index.passages.passage_id[rows], to_int64(passages))
            index.end_passages(gone := rows[~is_left])
            begun = self._find_sets(passages)
            update_matches(index, gone, self._begin_in_index(index, begun))
            reason = Batch(f"the models are now {self._maker.generation.name}")
            change = self._change(index, reason, passages, begun, newest.rules, {})
            ended = read_matches_at(self._connection, newest.id).question.tolist()
            change = replace(change, matches_ended=[QuestionId(question) for question in ended])
            version = commit_version(self._connection, change, self._now_ms())
        self.forget_index()  # The separate index has no documents and no older versions.
        return version

    def _switch_generation(self, newest: Version) -> Version:
        cost = Cost()
        old = tuple(questions.passage for questions in read_sets_at(self._connection, newest.id))
        # An LLM would take too long for all passages. Use built-in questions until it has answered.
        passages = [*read_passages(self._connection, old).values()]
        self._preparer.prepare({"": passages}, cost)
        reason = Batch(f"the question generator is now {self._maker.generation.name}")
        changed, foreign = PassageIntervals(old, old), self._list_matched_outside(newest)
        version = self._commit(reason, changed, newest.rules, cost, foreign)
        replaced = get_generation(self._connection, newest.generation)
        if replaced.encoder != self._maker.generation.encoder:
            self.forget_index()  # The index's links were resolved before it had passages.
        return version

    def _list_matched_outside(self, newest: Version) -> list[QuestionId]:
        """Return the questions that have a match at version `newest` but are not in the index,
        because of another encoder or an error."""
        outgoing_rows = self.index.postings.outgoing_by_id
        questions = read_matches_at(self._connection, newest.id).question
        _, positions = outgoing_rows.find_all(questions)
        return [QuestionId(question) for question in np.delete(questions, positions).tolist()]

    @contextmanager
    def _advancing(self) -> Iterator[LiveIndex]:
        """Give the block the index to change. After a failure, the next use reloads the index."""
        try:
            yield self.index
        except BaseException:
            self._index = self._statistics = None
            raise

    def _find_sets(self, passages: Iterable[PassageId]) -> BegunSets:
        sets_by_passage = find_best_sets(self._connection, self._generation, passages)
        return sorted(sets_by_passage.items(), key=lambda pair: pair[1])

    def _begin_in_index(self, index: LiveIndex, begun: BegunSets) -> Integers:
        """Add and begin the passages that are not vertices of the index. Returns their rows."""
        absent = np.flatnonzero(index.find_vertices(to_int64([key for key, _ in begun])) < 0)
        sets = [begun[position][1] for position in absent.tolist()]
        added = [NO_ROWS]
        for start in range(0, len(sets), _AT_ONCE):
            part = [*read_sets_by_id(self._connection, sets[start : start + _AT_ONCE])]
            added.append(add_passages(index, make_new_passages(self._connection, part)))
        index.begin_passages(new := np.concatenate(added))
        return new

    def _commit(
        self,
        batch: Batch,
        changed: PassageIntervals,
        rules: str,
        cost: Cost,
        foreign: Sequence[QuestionId] = (),
        deferred: Integers = NO_ROWS,
    ) -> Version:
        """Commit the batch as a version. Also ends the matches of the questions in `foreign`, which
        are not in the index. `deferred` are rows as in `update_matches`."""
        with self._advancing() as index:
            before, begun = read_head(self._connection), self._find_sets(changed.begun)
            rows = index.find_vertices(to_int64(changed.ended))
            index.end_passages(gone := rows[rows >= 0])
            update_matches(index, gone, self._begin_in_index(index, begun), deferred)
            change = self._change(index, batch, changed.ended, begun, rules, cost.get_counters())
            if foreign:
                change = replace(change, matches_ended=[*change.matches_ended, *foreign])
            version = commit_version(self._connection, change, self._now_ms())
            with snapshot(self._connection):
                after = before.id if before else 0
                follow_documents(self._connection, index, after, version.id)
            return version

    def _change(
        self,
        index: LiveIndex,
        batch: Batch,
        ended: Sequence[PassageId],
        begun: BegunSets,
        rules: str,
        counted: dict[str, int],
    ) -> Change:
        delta = list_pending_matches(index)
        question_ids = index.outgoing.id
        budget = compute_edge_budget(index.vertex_count, self._budget_factor)
        newest = read_head(self._connection)
        match_count, edge_threshold = find_head_threshold(
            index, budget, newest.edge_threshold if newest else None
        )
        return Change(
            reason=batch.description,
            generation=self._generation,
            rules=rules,
            documents_gone=batch.gone,
            documents_new=[document.document for document in batch.read],
            passages_ended=ended,
            passages_begun=begun,
            matches_ended=[QuestionId(question) for question in question_ids[delta.ended].tolist()],
            matches_begun=make_match_records(index, delta.begun),
            matches=match_count,
            edge_budget=budget,
            edge_threshold=edge_threshold,
            seen=batch.seen,
            unseen=batch.unseen,
            pins=batch.pins,
            counters=counted,
        )
