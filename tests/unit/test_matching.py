"""Edge merging by worked examples."""

from hopsyncd.index.matching import MergeIndex
from store.records import Match, PassageId, QuestionSet
from tests.fakes.triplets import answers, asks, triplets

NORTH, EAST, NORTHEAST = (1, 0), (0, 1), (1, 1)


def index_of(*sets: QuestionSet) -> MergeIndex:
    index = MergeIndex(2)
    index.change((), sets)
    return index


def matched(index: MergeIndex) -> dict[int, int]:
    columns = index.matches()
    alive = index.outgoing.alive & (columns.target != -1)
    return dict(zip(columns.question[alive].tolist(), columns.target[alive].tolist(), strict=True))


def test_a_question_is_matched_with_the_most_similar_answer() -> None:
    asker = triplets(1, outgoing=[("rome", NORTH)])
    good = triplets(2, incoming=[("rome", EAST), ("rome", NORTH)])
    other = triplets(3, incoming=[("gaul", NORTH)])
    assert matched(index_of(asker, good, other)) == {asks(asker): answers(good, 1)}


def test_keywords_count_as_much_as_meaning() -> None:
    asker = triplets(1, outgoing=[("rome", NORTH)])
    by_name = triplets(2, incoming=[("rome", EAST)])
    by_meaning = triplets(3, incoming=[("gaul", NORTHEAST)])
    assert matched(index_of(asker, by_name, by_meaning)) == {asks(asker): answers(by_name)}


def test_a_passage_never_answers_itself() -> None:
    alone = triplets(1, incoming=[("rome", NORTH)], outgoing=[("rome", NORTH)])
    assert matched(index_of(alone)) == {}
    far = triplets(2, incoming=[("gaul", (-1, 0))])
    assert matched(index_of(alone, far)) == {asks(alone): answers(far)}


def test_ties_go_to_the_lowest_id_whoever_came_first() -> None:
    asker = triplets(1, outgoing=[("rome", NORTH)])
    twins = [triplets(p, incoming=[("rome", NORTH)]) for p in (2, 3, 4)]
    lowest = min(answers(twin) for twin in twins)
    for order in (twins, twins[::-1], [*twins[1:], twins[0]]):
        index = index_of(asker)
        for twin in order:
            index.change((), [twin])
        assert matched(index) == {asks(asker): lowest}


def test_triplets_without_keywords_are_matched_by_meaning() -> None:
    asker = triplets(1, outgoing=[("", NORTH)])
    near, far = triplets(2, incoming=[("", NORTH)]), triplets(3, incoming=[("", EAST)])
    assert matched(index_of(asker, far, near)) == {asks(asker): answers(near)}


def test_passages_without_questions_do_no_harm() -> None:
    index = index_of(triplets(1), triplets(2))
    assert matched(index) == {}
    assert index.change([PassageId(1), PassageId(2)], []).ended == ()
    assert index.first_row == {}


def test_the_example_of_the_module() -> None:
    """A asks, B answers; C answers better, and leaves again."""
    a = triplets(1, outgoing=[("rome", NORTH)])
    b = triplets(2, incoming=[("rome", NORTHEAST)])
    c = triplets(3, incoming=[("rome", NORTH)])
    index = index_of(a, b)
    arrived = index.change((), [c])
    assert [(m.question, m.target) for m in arrived.ended] == [(asks(a), answers(b))]
    assert arrived.begun == (Match(asks(a), answers(c), 1.0),)
    left = index.change([c.passage], ())
    assert left.ended == arrived.begun
    assert left.begun == arrived.ended


def test_a_worse_answer_changes_nothing() -> None:
    a, b = triplets(1, outgoing=[("rome", NORTH)]), triplets(2, incoming=[("rome", NORTH)])
    delta = index_of(a, b).change((), [triplets(3, incoming=[("gaul", EAST)])])
    assert (delta.ended, delta.begun) == ((), ())


def test_a_passage_that_leaves_and_comes_back_is_as_before() -> None:
    a = triplets(1, [("gaul", EAST)], [("rome", NORTH)])
    b = triplets(2, [("rome", NORTH)], [("gaul", EAST)])
    index = index_of(a, b)
    before = matched(index)
    for _ in range(3):
        assert len(index.change([a.passage], ()).ended) == 2
        assert matched(index) == {}
        index.change((), [a])
        assert matched(index) == before
    assert len(index.ranking) == 2


def test_a_loaded_index_goes_on_like_the_one_that_was_stored() -> None:
    a = triplets(1, [("gaul", EAST)], [("rome", NORTH)])
    b = triplets(2, [("rome", NORTH)], [("gaul", EAST)])
    c = triplets(3, [("rome", NORTH), ("gaul", EAST)], [("rome", EAST)])
    first = index_of(a, b)
    columns = first.matches()
    second = MergeIndex(2)
    second.load([b, a], columns.question, columns.target, columns.similarity)
    assert set(second.change((), [c]).begun) == set(first.change((), [c]).begun)
    assert second.ranking.question.tolist() == first.ranking.question.tolist()


def test_the_rarest_keyword_of_each_question_is_counted() -> None:
    asker = triplets(1, outgoing=[("rome italy", NORTH), ("", EAST), ("gaul", NORTH)])
    counts = {"rome": 7, "italy": 3, "gaul": 5}
    assert index_of(asker).outgoing.rarest(counts, 9).tolist() == [3, 9, 5]
