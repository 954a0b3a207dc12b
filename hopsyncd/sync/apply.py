"""Applying: from documents that changed to one committed version.

The slow part, questions for passages that have none yet, is done and stored before the version's
transaction begins.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hopsyncd.graph.budget import edge_budget
from hopsyncd.graph.merge import MatchDelta, MergeIndex
from hopsyncd.sync.read import ReadDocument
from hopsyncd.sync.rebuild import rebuild
from store.content import (
    counters,
    known_passages,
    known_sets,
    put_content,
    register_recipe,
    sets_at,
    sets_by_id,
)
from store.database import Connection
from store.reads import live_holders, live_passages, living, matches_at
from store.records import (
    Change,
    Passage,
    PassageId,
    Pin,
    QuestionSet,
    Recipe,
    Seen,
    Version,
    set_id,
)
from store.versions import commit, head, put_seen

OnProgress = Callable[[int, int], None]

_GROUP = 32  # passages whose questions are stored together: what a kill can cost


class QuestionMaker(Protocol):
    """What turns a passage into its question set."""

    @property
    def recipe(self) -> Recipe:
        """Names how its results come about: it changes whenever they would."""
        ...

    def make(self, passage: Passage) -> QuestionSet:
        """Questions, keywords and vectors of one passage, a function of its content alone."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """What one version takes in; `gone` and `unseen` name items as (source, path)."""

    reason: str
    read: tuple[ReadDocument, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()
    seen: tuple[Seen, ...] = ()
    unseen: tuple[tuple[int, str], ...] = ()
    pins: tuple[Pin, ...] = ()


@dataclass(frozen=True, slots=True)
class Lives:
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
    ) -> None:
        self._connection = connection
        self._maker = maker
        self._rules = rules
        self._budget_factor = budget_factor
        self._now_ms = now_ms
        self._recipe = register_recipe(connection, maker.recipe)
        self._index: MergeIndex | None = None

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
        self, passages: Iterable[Passage], on_progress: OnProgress = lambda done, total: None
    ) -> None:
        """Make and store the questions of the passages that have none under the present recipe.

        `on_progress` is told after each passage how many are done, and of how many.
        """
        name = self._maker.recipe.name
        wanted = {set_id(passage.id, name): passage for passage in passages}
        known = known_sets(self._connection, wanted)
        missing = [passage for id_, passage in wanted.items() if id_ not in known]
        on_progress(0, len(missing))
        made: list[tuple[Passage, QuestionSet]] = []
        for done, passage in enumerate(missing, 1):
            made.append((passage, self._maker.make(passage)))
            if len(made) == _GROUP or done == len(missing):
                put_content(self._connection, self._recipe, made)
                made = []
            on_progress(done, len(missing))

    def apply(
        self, batch: Batch, on_progress: OnProgress = lambda done, total: None
    ) -> Version | None:
        """Commit the batch as the next version; None when it changes no document."""
        if not batch.read and not batch.gone:
            put_seen(self._connection, batch.seen, batch.unseen)
            return None
        before = counters(self._connection)
        self.prepare((passage for one in batch.read for passage in one.passages), on_progress)
        lives = _lives(self._connection, batch)
        begun = self._sets(lives.begun)
        try:
            index = self.index
            delta = index.change(lives.ended, begun)
            return self._commit(index, batch, lives, delta, before, self._rules)
        except BaseException:
            # The index is ahead of the store now: the next use loads it anew.
            self._index = None
            raise

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
            nothing = Lives((), ()), MatchDelta((), ())
            reason = Batch("the edge budget changed")
            return self._commit(self.index, reason, *nothing, {}, newest.rules)
        return None

    def rebuild(self) -> Version | None:
        """Commit the head again with all that is derived made anew; None without a head."""
        self._index = None
        return rebuild(self._connection, self._budget_factor, self._now_ms())

    def _switch_recipe(self, newest: Version) -> Version:
        before = counters(self._connection)
        old = [questions.passage for questions in sets_at(self._connection, newest.id)]
        self.prepare(known_passages(self._connection, old).values())
        index = MergeIndex(self._maker.recipe.dimensions)
        begun = index.change((), self._sets(old))
        ended = tuple(matches_at(self._connection, newest.id).records())
        version = self._commit(
            index,
            Batch(f"the question generator is now {self._maker.recipe.name}"),
            Lives(tuple(old), tuple(old)),
            MatchDelta(ended, begun.begun),
            before,
            newest.rules,
        )
        self._index = index
        return version

    def _sets(self, passages: Sequence[PassageId]) -> list[QuestionSet]:
        name = self._maker.recipe.name
        return list(sets_by_id(self._connection, [set_id(id_, name) for id_ in passages]))

    def _commit(
        self,
        index: MergeIndex,
        batch: Batch,
        lives: Lives,
        delta: MatchDelta,
        before: dict[str, int],
        rules: str,
    ) -> Version:
        ranking = index.ranking
        budget = edge_budget(len(index.first_row), self._budget_factor)
        now = counters(self._connection)
        name = self._maker.recipe.name
        change = Change(
            reason=batch.reason,
            recipe=self._recipe,
            rules=rules,
            documents_gone=batch.gone,
            documents_new=[one.document for one in batch.read],
            lives_ended=lives.ended,
            lives_begun=[(passage, set_id(passage, name)) for passage in lives.begun],
            matches_ended=[match.question for match in delta.ended],
            matches_begun=delta.begun,
            matches=len(ranking),
            edge_budget=budget,
            cut=ranking.cut(budget),
            seen=batch.seen,
            unseen=batch.unseen,
            pins=batch.pins,
            counters={key: now[key] - before.get(key, now[key]) for key in now},
        )
        return commit(self._connection, change, self._now_ms())


def _lives(connection: Connection, batch: Batch) -> Lives:
    """A passage lives while a document holds it: what that means for a batch of documents."""
    touched = {*batch.gone, *((one.document.source, one.document.path) for one in batch.read)}
    held = {passage.id for one in batch.read for passage in one.passages}
    released = live_passages(connection, touched) - held
    holders = live_holders(connection, released)
    ended = [passage for passage in released if holders[passage] <= touched]
    begun = held - living(connection, held)
    return Lives(tuple(sorted(ended)), tuple(sorted(begun)))
