"""The passages that have a term: found in the postings, or cached for the next question."""

from hopsyncd.retrieve.term_matches import look_up_terms
from tests.fakes.indexed import indexed, passage
from tests.fakes.triplets import triplets

TERMS = [f"word{number}" for number in range(100)]


def test_terms_that_were_looked_up_before_have_the_same_passages() -> None:
    texts = [" ".join(TERMS[start::3]) for start in range(3)]
    snapshot = indexed(
        [passage(triplets(index, [("rome", (1, 0))], []), text) for index, text in enumerate(texts)]
    )
    looked_up = [TERMS[:70], TERMS[30:], TERMS, [*TERMS[:2], *TERMS[:2], "missing"]]
    for terms in looked_up:  # more than are cached
        for term, found in zip(terms, look_up_terms(snapshot, terms), strict=True):
            expected = [] if term == "missing" else [int(term[4:]) % 3]
            assert (found.df, found.passage_rows.tolist()) == (len(expected), expected)
            assert len(found.counts) == found.df
    assert 0 < len(snapshot.statistics.term_rows) <= 64
