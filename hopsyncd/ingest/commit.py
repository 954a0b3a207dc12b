"""From documents that changed to one committed version.

The slow part, questions for passages that have none yet, is done and stored first; then passages,
matches and the cut go into one transaction. Until that commits the old version serves.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hopsyncd.index.edge_budget import edge_budget
from hopsyncd.index.matching import MatchDelta, MergeIndex
from hopsyncd.ingest.prepare import BySource, Cost, OnProgress, Prepared, Preparer
from hopsyncd.ingest.read import ReadDocument
from hopsyncd.ingest.source_thread import YieldToEdits
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.questions import QuestionMaker
from store.records import Change, Passage, PassageId, Pin, QuestionSet, Seen, Version, set_id
from store.sqlite.content import (
    best_sets,
    counters,
    known_passages,
    known_sets,
    recipe_dimensions,
    sets_at,
    sets_by_id,
)
from store.sqlite.database import Connection
from store.sqlite.operational import due_passages
from store.sqlite.reads import live_holders, live_passages, living, matches_at, places_at
from store.sqlite.sources import source_names
from store.sqlite.versions import commit, commit_rebuilt, head, put_seen


def rebuild(connection: Connection, budget_factor: float, now_ms: int) -> Version | None:
    """Commit the head, derived anew from its content, as the next version; None without a head.

    Full text, vectors, matches and the cut are computed from the stored passages and questions: no
    question is asked and nothing is embedded. Matches that turn out equal keep their rows.
    """
    newest = head(connection)
    if newest is None:
        return None
    sets = list(sets_at(connection, newest.id))
    index = MergeIndex(recipe_dimensions(connection, newest.recipe))
    best = {match.question: match for match in index.change((), sets).begun}
    stored = {match.question: match for match in matches_at(connection, newest.id).records()}
    budget = edge_budget(len(sets), budget_factor)
    change = Change(
        reason="rebuilt from the stored content",
        recipe=newest.recipe,
        rules=newest.rules,
        documents_gone=(),
        documents_new=(),
        passages_ended=(),
        passages_begun=(),
        matches_ended=[question for question in stored if stored[question] != best.get(question)],
        matches_begun=[match for match in best.values() if stored.get(match.question) != match],
        matches=len(best),
        edge_budget=budget,
        cut=index.ranking.cut(budget),
        seen=(),
        unseen=(),
        counters=dict.fromkeys(counters(connection), 0),
    )
    return commit_rebuilt(connection, change, now_ms)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one version takes in; `gone` and `unseen` name items as (source, path)."""

    reason: str
    read: tuple[ReadDocument, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()
    seen: tuple[Seen, ...] = ()
    unseen: tuple[tuple[int, str], ...] = ()
    pins: tuple[Pin, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """All that it says something of."""
        return frozenset(one.path for one in self.seen).union(path for _, path in self.unseen)


@dataclass(frozen=True, slots=True)
class PassageIntervals:
    """Which passages cease to be vertices, and which become one."""

    ended: tuple[PassageId, ...]
    begun: tuple[PassageId, ...]


class Writer:
    """The one writer: the store's connection, the question maker, and the head's merge index."""

    def __init__(
        self,
        connection: Connection,
        maker: QuestionMaker,
        *,
        rules: str,
        budget_factor: float,
        now_ms: Callable[[], int],
        patience_s: float = math.inf,
    ) -> None:
        """An LLM is asked for so many seconds at a time: the passages that are left wait."""
        self._connection = connection
        self._maker = maker
        self._rules = rules
        self._budget_factor = budget_factor
        self._now_ms = now_ms
        self._preparer = Preparer(connection, maker, now_ms=now_ms, patience_s=patience_s)
        self._recipe = self._preparer.recipe
        self._index: MergeIndex | None = None

    @property
    def rules(self) -> str:
        """How the documents that it is given became passages."""
        return self._rules

    @property
    def index(self) -> MergeIndex:
        """The triplets and matches of the head."""
        if self._index is None or self._index.worn:
            self._index = self._load()
        return self._index

    def _load(self) -> MergeIndex:
        index = MergeIndex(self._maker.recipe.dimensions)
        newest = head(self._connection)
        if newest and newest.recipe == self._recipe:
            matches = matches_at(self._connection, newest.id)
            index.load(
                sets_at(self._connection, newest.id),
                matches.question,
                matches.target,
                matches.similarity,
            )
        return index

    def serves(self, version: Version) -> bool:
        """Whether the present models can answer at that version."""
        return version.recipe == self._recipe

    def prepare(
        self,
        read: Sequence[ReadDocument],
        cost: Cost,
        on_progress: OnProgress = lambda done, total: None,
        yield_to_edits: YieldToEdits = lambda: None,
        most: int | None = None,
    ) -> Prepared:
        """Make and store the questions of the documents, the slow part of a version.

        Raises TooMuch where more than `most` passages have none.
        """
        return self._preparer.prepare(
            self._by_source(read), cost, on_progress, yield_to_edits, most
        )

    def apply(self, batch: Batch, cost: Cost | None = None) -> Version | None:
        """Prepare and commit the batch. Without a `cost` an LLM may cost what it will."""
        cost = cost or Cost(Usage())
        return self.commit(batch, cost, self.prepare(batch.read, cost))

    def commit(self, batch: Batch, cost: Cost, prepared: Prepared) -> Version | None:
        """Commit a batch whose passages all have questions, those just `prepared` or older ones.

        None when it changes no document.
        """
        if not batch.read and not batch.gone:
            put_seen(self._connection, batch.seen, batch.unseen)
            return None
        intervals = _intervals(self._connection, batch)
        return self._advance(batch, intervals, self._rules, cost, prepared)

    def upgrade(
        self, limit: int, usage: Usage, go_on: Callable[[], bool] = lambda: True
    ) -> Version | None:
        """Ask the LLM again for passages at the head that wait for its questions, at most so many.

        Those that have them then are a version; None when there are none. Once `go_on` says no,
        nothing more is asked.
        """
        newest = head(self._connection)
        if newest is None or not self.serves(newest):
            return None
        cost = Cost(usage)
        wait = due_passages(self._connection, newest.id, self._recipe, self._now_ms(), limit)
        lack = set(wait) - self._whole(wait)
        self._preparer.ask_again(_placed(self._connection, newest, lack), cost, go_on)
        done = tuple(sorted(self._whole(wait)))
        if not done:
            return None
        reason = Batch(f"{len(done)} passages got their LLM questions")
        return self._advance(reason, PassageIntervals(done, done), newest.rules, cost, {})

    def _whole(self, passages: Iterable[PassageId]) -> set[PassageId]:
        """Those of the passages that have a set which is not provisional."""
        name = self._maker.recipe.name
        ids = {set_id(passage, name): passage for passage in passages}
        return {ids[one] for one in known_sets(self._connection, ids)}

    def renew(self) -> Version | None:
        """Bring the head to the present recipe and budget, in one version, without any document.

        None when it is there already. Questions of the old recipe serve until the commit.
        """
        newest = head(self._connection)
        if newest is None:
            return None
        budget = edge_budget(newest.passages, self._budget_factor)
        if newest.recipe != self._recipe:
            return self._switch_recipe(newest)
        if newest.edge_budget != budget:
            reason, nothing = Batch("the edge budget changed"), MatchDelta((), ())
            return self._commit(self.index, reason, (), (), nothing, newest.rules, {})
        return None

    def rebuild(self) -> Version | None:
        """Commit the head again with all that is derived made anew; None without a head."""
        self._index = None
        return rebuild(self._connection, self._budget_factor, self._now_ms())

    def owed(self) -> list[Passage]:
        """The passages at the head that have no set of the present recipe."""
        newest = head(self._connection)
        if newest is None:
            return []
        passages = {questions.passage for questions in sets_at(self._connection, newest.id)}
        lacking = passages - best_sets(self._connection, self._recipe, passages).keys()
        return [*known_passages(self._connection, sorted(lacking)).values()]

    def prepare_ahead(self, passages: Sequence[Passage], yield_to_edits: YieldToEdits) -> None:
        """Make and store sets of the present recipe, for a later renew()."""
        self._preparer.prepare({"": passages}, Cost(), yield_to_edits=yield_to_edits)

    def made_in_s(self, passage: Passage) -> float:
        """How long the built-in questions of a passage take to make; nothing is stored."""
        began_s = time.perf_counter()
        self._maker.make_provisional(passage)
        return time.perf_counter() - began_s

    def _switch_recipe(self, newest: Version) -> Version:
        cost = Cost()
        old = [questions.passage for questions in sets_at(self._connection, newest.id)]
        # An LLM has other times for so many: until then the built-in questions are the new ones.
        passages = [*known_passages(self._connection, old).values()]
        prepared = self._preparer.prepare({"": passages}, cost)
        index = MergeIndex(self._maker.recipe.dimensions)
        begun = self._sets(old, prepared)
        delta = index.change((), begun)
        ended = tuple(matches_at(self._connection, newest.id).records())
        version = self._commit(
            index,
            Batch(f"the question generator is now {self._maker.recipe.name}"),
            old,
            begun,
            MatchDelta(ended, delta.begun),
            newest.rules,
            cost.counters(),
        )
        self._index = index
        return version

    def _advance(
        self,
        batch: Batch,
        intervals: PassageIntervals,
        rules: str,
        cost: Cost,
        prepared: Prepared,
    ) -> Version:
        begun = self._sets(intervals.begun, prepared)
        try:
            index = self.index
            delta = index.change(intervals.ended, begun)
            return self._commit(index, batch, intervals.ended, begun, delta, rules, cost.counters())
        except BaseException:
            # The index is ahead of the store now: the next use loads it anew.
            self._index = None
            raise

    def _by_source(self, read: Iterable[ReadDocument]) -> BySource:
        """The passages of the documents, by the name of their source."""
        names = source_names(self._connection)
        passages: dict[str, list[Passage]] = {}
        for one in read:
            passages.setdefault(names.get(one.document.source, ""), []).extend(one.passages)
        return passages

    def _sets(self, passages: Iterable[PassageId], prepared: Prepared) -> list[QuestionSet]:
        """The question sets of the passages, in the order of their ids."""
        wanted = set(passages)
        stored = best_sets(self._connection, self._recipe, wanted - prepared.keys())
        made = [prepared[passage] for passage in wanted & prepared.keys()]
        return sorted(
            [*made, *sets_by_id(self._connection, stored.values())], key=lambda one: one.id
        )

    def _commit(
        self,
        index: MergeIndex,
        batch: Batch,
        ended: Sequence[PassageId],
        begun: Sequence[QuestionSet],
        delta: MatchDelta,
        rules: str,
        counted: dict[str, int],
    ) -> Version:
        ranking = index.ranking
        budget = edge_budget(len(index.first_row), self._budget_factor)
        change = Change(
            reason=batch.reason,
            recipe=self._recipe,
            rules=rules,
            documents_gone=batch.gone,
            documents_new=[one.document for one in batch.read],
            passages_ended=ended,
            passages_begun=[(one.passage, one.id) for one in begun],
            matches_ended=[match.question for match in delta.ended],
            matches_begun=delta.begun,
            matches=len(ranking),
            edge_budget=budget,
            cut=ranking.cut(budget),
            seen=batch.seen,
            unseen=batch.unseen,
            pins=batch.pins,
            counters=counted,
        )
        return commit(self._connection, change, self._now_ms())


def _placed(
    connection: Connection, at: Version, passages: Iterable[PassageId]
) -> dict[str, list[Passage]]:
    """Passages in force at the version, by the name of the first source that has them."""
    places = places_at(connection, at.id, passages)
    placed: dict[str, list[Passage]] = {}
    for id_, passage in sorted(known_passages(connection, places).items()):
        placed.setdefault(places[id_][0].source, []).append(passage)
    return placed


def _intervals(connection: Connection, batch: Batch) -> PassageIntervals:
    """Which passages begin and end with the batch: one is in force while a document holds it."""
    touched = {*batch.gone, *((one.document.source, one.document.path) for one in batch.read)}
    held = {passage.id for one in batch.read for passage in one.passages}
    released = live_passages(connection, touched) - held
    holders = live_holders(connection, released)
    ended = [passage for passage in released if holders[passage] <= touched]
    begun = held - living(connection, held)
    return PassageIntervals(tuple(sorted(ended)), tuple(sorted(begun)))
