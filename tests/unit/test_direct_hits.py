"""Passages most like a question that names little keep places among the first five results."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopsyncd.config.values import Search
from hopsyncd.retrieve.dependencies import Query
from hopsyncd.retrieve.likeness import OF_LIKENESS
from hopsyncd.retrieve.query_context import QueryContext
from hopsyncd.retrieve.ranking import (
    FIRST_RESULTS,
    WHOLE_PASSAGE_WEIGHT,
    RankedPosition,
    find_direct_hits,
    promote_direct_hits,
    rank_by_importance,
)
from tests.unit.test_second_ask import FAR, Asking

QUESTION = "how does one clean the rusty gauge"
LONG = f"{QUESTION} when {' and '.join(f'valve{n} is closed' for n in range(20))}"
PAGES = {
    f"care{n}.md": f"# Care{n}\n\nClean the gauge{' with oil' * n}. Keep it dry.\n".encode()
    for n in range(6)
}


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path, PAGES | FAR)


def ranked(*values: float) -> list[RankedPosition]:
    return [RankedPosition(row, value, 0.5) for row, value in enumerate(values)]


def rows(found: list[RankedPosition]) -> list[int]:
    return [one.position for one in found]


def test_a_direct_hit_takes_the_last_place_of_another_and_values_stay_with_places() -> None:
    found = ranked(7, 6, 5, 4, 3, 2, 1)
    kept = promote_direct_hits(found, (0, 6, 4))
    assert rows(kept) == [0, 1, 2, 4, 6, 3, 5]
    assert [one.value for one in kept] == [7, 6, 5, 4, 3, 3, 2]
    assert promote_direct_hits(found, (4, 0)) == found
    assert promote_direct_hits(found, ()) == found


def test_direct_hits_that_were_not_ranked_come_too_and_few_results_lose_none() -> None:
    assert rows(promote_direct_hits(ranked(7, 6, 5, 4, 3), (8, 9))) == [0, 1, 2, 8, 9, 3, 4]
    assert rows(promote_direct_hits(ranked(7, 6), (1, 9))) == [0, 1, 9]


def plain_order(context: QueryContext) -> list[int]:
    near = context.near
    like = near.like + 9 * context.likeness.whole[near.passage_rows].astype(np.float64)
    ids = context.snapshot.passage_ids[near.passage_rows]
    found: list[int] = near.passage_rows[np.lexsort((ids, -like))].tolist()
    return found


def test_the_three_passages_most_like_a_question_keep_places(asking: Asking) -> None:
    for question in (QUESTION, LONG):
        context = asking.context(question)
        order = plain_order(context)
        direct = find_direct_hits(context)
        assert direct.rows == tuple(order[:3])
        assert direct.instead == (*order[:2], order[3])


def test_names_that_are_much_of_the_question_keep_no_places(asking: Asking) -> None:
    context = asking.context(QUESTION)
    assert len(find_direct_hits(replace(context, names={"gauge": 0.2})).rows) == 3
    assert find_direct_hits(replace(context, names={"gauge": 0.2, "oil": 0.1})).rows == ()


def test_all_direct_hits_are_among_the_first_five_and_fewer_results_begin_alike(
    asking: Asking,
) -> None:
    found = asking.engine.query(LONG, 10, Search())
    few = asking.engine.query(LONG, 2, Search())
    assert found and few
    ids = [hit.passage for hit in found.ranked]
    assert [hit.passage for hit in few.ranked] == ids[:2]
    context = asking.context(LONG)
    direct = context.snapshot.passage_ids[list(find_direct_hits(context).rows)].tolist()
    assert set(direct) <= set(ids[:FIRST_RESULTS])
    scores = [hit.score for hit in found.ranked]
    assert scores == sorted(scores, reverse=True)


def test_only_words_of_the_best_sentence_count_as_new(tmp_path: Path) -> None:
    """The first page has all words of the question, but not in one sentence."""
    spread_out = "Red paint is dear. A blue door is open. The gate of the mill is old."
    files = {
        "spread.md": f"# Spread\n\n{spread_out}\n".encode(),
        "joined.md": b"# Joined\n\nThe blue door of the mill has red paint.\n",
    }
    asking = Asking(tmp_path, files | FAR)
    context = asking.context("red paint on the blue door of the mill")
    snapshot = context.snapshot
    titles = asking.titles(context, snapshot.passage_rows.tolist())
    spread, joined = (int(snapshot.passage_rows[titles.index(one)]) for one in ("Spread", "Joined"))
    both = np.array([spread, joined])
    has = context.sentence_coverage.select(both).sum(axis=0)
    assert has[0] < has[1]
    assert context.coverage.select(both).all()
    alike = np.full(len(snapshot.passage_ids), -1.0)
    alike[both] = [1.0, 0.9]
    assert [row.position for row in rank_by_importance(context, alike, 2)] == [joined, spread]


def test_a_watched_question_is_asked_again_when_a_new_passage_would_be_a_direct_hit(
    asking: Asking,
) -> None:
    dependencies = asking.dependencies(QUESTION)
    question, *_ = dependencies.queries
    only_direct = replace(
        dependencies,
        queries=[replace(question, least=np.inf, least_titled=np.inf)],
        rows=np.empty(0, dtype=np.int64),
        heavy_rows=np.empty(0, dtype=np.int64),
        names=np.empty(0, dtype=np.int64),
    )
    asking.put("other.md", "# Other\n\nBread is baked at noon.\n")
    assert not asking.touches(only_direct)
    asking.put("close.md", f"# Close\n\n{QUESTION}.\n")
    assert asking.touches(only_direct)


def test_a_watched_question_compares_new_passages_as_the_search_does(asking: Asking) -> None:
    dependencies = asking.dependencies(QUESTION)
    question, *_ = dependencies.queries
    asking.put("close.md", f"# Close\n\n{QUESTION}. Keep bread dry.\n")
    context = asking.context(QUESTION)
    row = int(context.snapshot.passage_rows.max())
    passages = context.snapshot.index.passages
    vectors = np.arange(passages.vector_start[row], passages.vector_end[row])
    best = float(context.likeness.get_cosines(vectors).max())
    value = OF_LIKENESS * best + WHOLE_PASSAGE_WEIGHT * float(context.likeness.whole[row])
    for least, is_asked_again in ((value - 1e-6, True), (value + 1e-6, False)):
        only_direct = replace(
            dependencies,
            queries=[Query(question.vector, {}, np.inf, least_direct=least)],
            rows=np.empty(0, dtype=np.int64),
            heavy_rows=np.empty(0, dtype=np.int64),
            names=np.empty(0, dtype=np.int64),
        )
        assert asking.touches(only_direct) is is_asked_again


def test_a_watched_question_depends_on_its_direct_hits(asking: Asking) -> None:
    direct = find_direct_hits(asking.context(QUESTION))
    assert set(direct.rows) <= set(asking.dependencies(QUESTION).rows.tolist())
