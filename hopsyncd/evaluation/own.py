"""Measuring a user's own index: questions from its own edges, asked of it as it stands."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.corpus import GoldQuestion
from hopsyncd.evaluation.own_questions import Pair, pairs, ruled, written
from hopsyncd.evaluation.run import Evaluation, Experiment, ask_all_ways, gold_of
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.follow import load_snapshot
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import Llm
from hopsyncd.models.loading import Models
from store.records import Passage
from store.sqlite.content import recipe_of
from store.sqlite.database import open_reader, snapshot
from store.sqlite.versions import head

_TRIES = 200  # pairs tried for each wanted question
_SPARE = 2  # pairs sent to an LLM for each wanted question

_CALLS = 6  # for each wanted question: two for each pair, and some repairs

Made = TypeVar("Made")


_BIAS = (
    "These questions are made from edges of the graph: they favour `hop`, which walks those edges."
    " Compare strategies on questions that people asked; compare your own index with itself here."
)
NOTES = {
    False: (
        "Questions by rule: each is a stand-in for one that a person would ask, and shares its"
        " words with the passages, which favours searches by words.",
        _BIAS,
    ),
    True: ("Questions written and criticised by the configured LLM.", _BIAS),
}


@dataclass(frozen=True, slots=True)
class Own:
    """A served index and its questions; `corpus` has their gold passages, by id."""

    served: Snapshot
    corpus: Mapping[str, Passage]
    questions: tuple[GoldQuestion, ...]


def measured_own(
    database: Path, wanted: int, seed: int, experiment: Experiment, *, by_llm: bool
) -> Evaluation:
    """Make questions and ask them; the calls that wrote them are not among those counted.

    Raises as `own_questions`.
    """
    models, usage = experiment.models, Usage(max_calls=_CALLS * wanted)
    own = own_questions(database, models, wanted, seed, models.llm if by_llm else None, usage)
    asked = ask_all_ways(database, own.served, gold_of(own.corpus), own.questions, experiment)
    return Evaluation(asked, 0.0, own.served.version.passages, len(own.served.edges()[0]))


def own_questions(
    database: Path, models: Models, wanted: int, seed: int, llm: Llm | None, usage: Usage
) -> Own:
    """At most `wanted` questions, made by rule or by `llm`; no two have a passage in common.

    Only reads; the daemon may be running. Raises BadRequest where there is nothing to ask about,
    and LlmError if the LLM gives nothing.
    """
    if not database.exists():
        raise _nothing(f"there is no database {database}")
    corpus: dict[str, Passage] = {}
    with closing(open_reader(database)) as connection, snapshot(connection):
        newest = head(connection)
        if newest is None:
            raise _nothing("nothing is indexed yet")
        if recipe_of(connection, newest.recipe).encoder != models.encoder.name:
            raise _nothing("it was indexed with another encoder than the one configured")
        served = load_snapshot(connection, newest)
        some = islice(pairs(connection, served, seed), _TRIES * wanted)
        if llm is None:
            made = _apart(some, corpus, lambda pair: ruled(pair, models.language))
            questions = list(islice(made, wanted))
        else:
            chosen = list(islice(_apart(some, corpus, lambda pair: pair), _SPARE * wanted))
    if llm is not None:
        questions = written(chosen, llm, usage)[:wanted] if chosen else []
    if not questions:
        raise _nothing("no two documents are joined in a way that a question can be made of")
    return Own(served, corpus, tuple(questions))


def _apart(
    some: Iterable[Pair], corpus: dict[str, Passage], make: Callable[[Pair], Made | None]
) -> Iterator[Made]:
    """What is made of the pairs, none of whose passages is in `corpus` yet; it grows by them."""
    for pair in some:
        if not corpus.keys().isdisjoint(pair.ids):
            continue
        made = make(pair)
        if made is not None:
            corpus |= zip(pair.ids, (pair.source, pair.target), strict=True)
            yield made


def _nothing(why: str) -> BadRequest:
    return BadRequest(
        "Cannot make questions from your own index",
        why,
        "Index documents that mention one another, or give --corpus and --questions",
    )
