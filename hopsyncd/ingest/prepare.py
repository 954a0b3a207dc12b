"""Prepares a commit by generating the question sets of its passages. Edits can be synced meanwhile.

The question set of a passage is generated only once. Finished sets are stored in groups, every few
seconds.

If the configured LLM returns no questions, the built-in generator creates a provisional set. The
failure is recorded, and the LLM is asked again later.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from hopsyncd.errors import LlmError
from hopsyncd.ingest.plan import TooMuch
from hopsyncd.ingest.read import ReadDocument
from hopsyncd.ingest.source_thread import YieldToEdits
from hopsyncd.models.llm.budget import LlmContext, Usage
from hopsyncd.models.questions import MakeResult, QuestionMaker
from store.content import (
    find_best_sets,
    find_generation_row,
    find_stored_sets,
    put_content,
    read_passages,
    read_sets_by_id,
    register_generation,
)
from store.contract import Connection
from store.operational import Wait, put_waits, read_waits
from store.reads import read_places
from store.records import (
    Direction,
    Passage,
    PassageId,
    QuestionSet,
    SetId,
    Version,
    compute_question_id,
    compute_set_id,
)
from store.sources import read_source_names

OnProgress = Callable[[int, int], None]
BySource = Mapping[str, Sequence[Passage]]

_GROUP = 32  # provisional sets stored per transaction
_AGAIN_MS, _LONGEST_AGAIN_MS = 600_000, 86_400_000


def group_by_source(connection: Connection, read: Iterable[ReadDocument]) -> BySource:
    names = read_source_names(connection)
    passages: dict[str, list[Passage]] = {}
    for document in read:
        passages.setdefault(names.get(document.document.source, ""), []).extend(document.passages)
    return passages


@dataclass(slots=True)
class Cost:
    """The cost of making a version: LLM usage, generated passages and embedded texts. If `usage` is
    None, no LLM is asked.

    A whole sync may share one `usage`. Only LLM calls made after this object was created count for
    the version.
    """

    usage: Usage | None = None
    passages_generated: int = 0
    texts_embedded: int = 0
    _before: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._before = self._count_llm_usage()

    def _count_llm_usage(self) -> Counter[str]:
        if self.usage is None:
            return Counter()
        return Counter(llm_calls=self.usage.calls, llm_tokens=self.usage.tokens)

    def add(self, sets: Sequence[QuestionSet]) -> None:
        self.passages_generated += len(sets)
        self.texts_embedded += sum(len(question_set.vectors) for question_set in sets)

    def get_counters(self) -> dict[str, int]:
        """Return the counters by name. LLM counters are left out if no LLM is asked."""
        totals = {
            "passages_generated": self.passages_generated,
            "texts_embedded": self.texts_embedded,
        }
        return totals | (self._count_llm_usage() - self._before)


class Preparer:
    """Generates and stores the question sets that a commit needs."""

    def __init__(
        self,
        connection: Connection,
        maker: QuestionMaker,
        *,
        now_ms: Callable[[], int],
        patience_s: float,
    ) -> None:
        """`patience_s` limits the seconds for which one call of `prepare` or `ask_again` uses the
        LLM. Passages that the LLM has not answered by then get provisional sets."""
        self._connection = connection
        self._maker = maker
        self._now_ms = now_ms
        self._patience_s = patience_s
        self._unstored: list[tuple[Passage, QuestionSet]] = []
        self._stored_s = time.monotonic()
        self.generation = register_generation(connection, maker.generation)

    def prepare(
        self,
        wanted: BySource,
        cost: Cost,
        on_progress: OnProgress = lambda done, total: None,
        yield_to_edits: YieldToEdits = lambda: None,
        most: int | None = None,
    ) -> None:
        """Generate and store a question set for every passage in `wanted` that has none for the
        current settings. If the LLM returns no questions, the set is provisional.

        The work is added to `cost`. `on_progress` receives the number of finished passages and the
        total number. `yield_to_edits` may call prepare() again. No set is stored twice. Raises
        TooMuch if more than `most` passages lack a set.
        """
        self._store()
        missing = self._find_without_questions(wanted)
        total, done = sum(map(len, missing.values())), 0
        if most is not None and total > most:
            raise TooMuch
        on_progress(done, total)
        failed: list[tuple[Passage, LlmError]] = []
        lacking = {source: self._find_lacking(passages) for source, passages in missing.items()}
        for results in self._make_sets(lacking, cost, lambda: True, yield_to_edits):
            lost = [
                (passage, result) for passage, result in results if isinstance(result, LlmError)
            ]
            failed += lost
            done += len(results) - len(lost)
            on_progress(done, total)
            yield_to_edits()
        for start in range(0, len(failed), _GROUP):
            group = failed[start : start + _GROUP]
            self._serve_provisionally([passage for passage, _ in group], cost, yield_to_edits)
            self._schedule_retries(group)
            done += len(group)
            on_progress(done, total)

    def lacks_sets(self, passages: Sequence[Passage]) -> bool:
        """Store the finished sets, and return whether any of these passages still lacks a set."""
        self._store()
        ids = {passage.id for passage in passages}
        return len(find_best_sets(self._connection, self.generation, [*ids])) < len(ids)

    def _find_lacking(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages that have no question set. A passage is checked only when it is
        reached, because a nested prepare() may have stored its set by then."""
        for passage in passages:
            if not find_best_sets(self._connection, self.generation, [passage.id]):
                yield passage

    def _serve_provisionally(
        self, passages: Sequence[Passage], cost: Cost, yield_to_edits: YieldToEdits
    ) -> None:
        """Store a provisional question set for each of these passages: its built-in questions,
        which are copied if they exist, and generated otherwise."""
        plain = find_generation_row(self._connection, self._maker.provisional_generation.name)
        ids = [passage.id for passage in passages]
        set_ids = find_best_sets(self._connection, plain, ids) if plain is not None else {}
        name = self._maker.generation.name
        copies = {
            questions.passage: _copy_as(
                questions, compute_set_id(questions.passage, name, provisional=True)
            )
            for questions in read_sets_by_id(self._connection, set_ids.values())
        }
        put_content(
            self._connection,
            self.generation,
            [(passage, copies[passage.id]) for passage in passages if passage.id in copies],
            copied=True,
        )
        for passage in self._find_lacking(passages):
            questions = self._maker.make_provisional(passage)
            self._unstored.append((passage, questions))
            cost.add([questions])
            yield_to_edits()
        self._store()

    def ask_again(self, wanted: BySource, cost: Cost, go_on: Callable[[], bool]) -> None:
        """Ask the LLM for the questions of passages that have only a provisional set."""
        for results in self._make_sets(wanted, cost, go_on):
            self._schedule_retries(
                [(passage, result) for passage, result in results if isinstance(result, LlmError)]
            )

    def _find_without_questions(self, wanted: BySource) -> BySource:
        """Return the passages without a question set, each only once, by source."""
        ids = [passage.id for passages in wanted.values() for passage in passages]
        with_questions: set[PassageId] = set(find_best_sets(self._connection, self.generation, ids))
        missing: dict[str, list[Passage]] = {}
        for source, passages in wanted.items():
            for passage in passages:
                if passage.id not in with_questions:
                    with_questions.add(passage.id)
                    missing.setdefault(source, []).append(passage)
        return missing

    def _make_sets(
        self,
        wanted: Mapping[str, Iterable[Passage]],
        cost: Cost,
        go_on: Callable[[], bool],
        yield_to_edits: YieldToEdits = lambda: None,
    ) -> Iterator[Sequence[MakeResult]]:
        """Generate question sets source by source, and store them in groups. Yields the results."""
        end_s = time.monotonic() + self._patience_s
        for source, passages in wanted.items():
            context = None
            if cost.usage is not None:
                context = LlmContext(
                    source, cost.usage, lambda: go_on() and time.monotonic() < end_s, yield_to_edits
                )
            for results in self._maker.make_each(passages, context):
                sets = self._drop_stored(results)
                self._unstored += sets
                cost.add([questions for _, questions in sets])
                if self._is_store_due():
                    self._store()
                yield results
            self._store()

    def _drop_stored(self, results: Sequence[MakeResult]) -> list[tuple[Passage, QuestionSet]]:
        """Return the question sets among the results, except sets that a nested prepare() has
        already stored."""
        sets = [(passage, result) for passage, result in results if isinstance(result, QuestionSet)]
        stored_ids = find_stored_sets(self._connection, [result.id for _, result in sets])
        return [(passage, result) for passage, result in sets if result.id not in stored_ids]

    def _is_store_due(self) -> bool:
        unstored_s = time.monotonic() - self._stored_s
        return (
            len(self._unstored) >= self._maker.store_after or unstored_s > self._maker.store_every_s
        )

    def _store(self) -> None:
        """Store all finished sets. In a nested prepare(), this includes the sets of the outer
        prepare()."""
        unstored, self._unstored = self._unstored, []
        self._stored_s = time.monotonic()
        if unstored:
            put_content(self._connection, self.generation, unstored)

    def _schedule_retries(self, failed: Sequence[tuple[Passage, LlmError]]) -> None:
        """Record, for each passage, why it has only a provisional set, and when to ask the LLM
        again."""
        sets = find_best_sets(
            self._connection, self.generation, [passage.id for passage, _ in failed]
        )
        known = read_waits(self._connection, sets.values())
        waits = []
        for passage, error in failed:
            before = known.get(sets[passage.id])
            tries = (before.tries if before else 0) + (error.kind in ("refused", "nonsense"))
            waits.append(Wait(sets[passage.id], error.kind, tries, self._retry_ms(error, tries)))
        put_waits(self._connection, waits)

    def _retry_ms(self, error: LlmError, tries: int) -> int:
        """Return the time from which the LLM can be asked again (Unix ms), given the number of
        tries. Returns 0 (no wait) if the endpoint was unavailable or the passage was not sent."""
        if error.kind in ("unavailable", "queued"):
            return 0
        wait_ms = min(_AGAIN_MS * 2 ** min(tries, 10), _LONGEST_AGAIN_MS)
        return self._now_ms() + int(wait_ms)


def _copy_as(questions: QuestionSet, to: SetId) -> QuestionSet:
    """Copy the questions into a provisional set with the id `to`."""
    ordinals = {direction: count() for direction in Direction}
    renamed = tuple(
        replace(
            question,
            id=compute_question_id(to, question.direction, next(ordinals[question.direction])),
        )
        for question in questions.questions
    )
    return replace(questions, id=to, questions=renamed, provisional=True)


def list_placed(
    connection: Connection, version: Version, passages: Iterable[PassageId]
) -> BySource:
    """Return the passages that are in force at the version, by the first source that
    contains them."""
    places = read_places(connection, version.id, passages)
    placed: dict[str, list[Passage]] = {}
    for id_, passage in sorted(read_passages(connection, places).items()):
        placed.setdefault(places[id_][0].source, []).append(passage)
    return placed
