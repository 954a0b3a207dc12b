"""Runs an evaluation: indexes the corpus in its own store, and asks every question."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

from hopsyncd.config.values import Method, Profile, Reasoner, Rerank, Search, Strategy
from hopsyncd.evaluation.corpus import GoldQuestion
from hopsyncd.evaluation.measures import (
    DEPTHS,
    AnswerScores,
    Gold,
    Missing,
    QuestionOutcome,
    Scores,
    compute_answer_scores,
    compute_scores,
    rank_of,
)
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.prepare import Cost
from hopsyncd.ingest.read import Batch, ReadDocument
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.loading import Models
from hopsyncd.models.questions import QuestionMaker
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import AskReply
from hopsyncd.retrieve.engine import MAX_LLM_CALLS, Engine
from hopsyncd.retrieve.results import Answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.open_database import Database, open_writer
from store.records import Document, Occurrence, Passage, hash_content
from store.sources import register_source
from store.versions import read_head

DATABASE_NAME = "evaluation.db"
ANSWER_DEPTH = 8  # passages to answer from without an LLM, as for `hopsyncd ask`

Answers = Literal["none", "extractive", "llm"]
ReplyTo = Callable[[Answer], AskReply]
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of a run, by the name of the search.

    unread: gold quotes that no passage contains. missing: by question, the gold passages that the
    default search did not find, with causes.
    """

    outcomes: Mapping[str, Sequence[QuestionOutcome]]
    index_s: float
    passages: int
    edges: int
    unread: tuple[str, ...] = ()
    missing: Mapping[str, Missing] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, Scores]:
        """The scores over the questions that have an answer."""
        return {
            name: compute_scores([outcome for outcome in outcomes if outcome.question.gold])
            for name, outcomes in self.outcomes.items()
        }

    @property
    def answers(self) -> dict[str, AnswerScores | None]:
        return {name: compute_answer_scores(outcomes) for name, outcomes in self.outcomes.items()}


@dataclass(frozen=True, slots=True)
class Experiment:
    """The searches to compare, by name, and their common settings.

    max_llm_calls: the limit per query; None means no limit. on_passages: a function called with
    (done, total) while the question sets are made. on_question: a function called after each
    question.
    """

    searches: Mapping[str, Search]
    models: Models
    budget_factor: float = 1.0
    walk: WalkSettings = field(default_factory=WalkSettings)
    max_llm_calls: int | None = MAX_LLM_CALLS
    answers: Answers = "none"
    on_passages: OnProgress = lambda done, total: None
    on_question: Callable[[], None] = lambda: None


def evaluate(
    folder: Path,
    corpus: Mapping[str, Passage],
    questions: Sequence[GoldQuestion],
    experiment: Experiment,
) -> Evaluation:
    """Ask the questions. If `folder` has no database of this corpus, it is built first.

    No file outside `folder` is written. Raises BadRequest for a search that this installation does
    not support.
    """
    began_s = time.perf_counter()
    maker = experiment.models.maker
    served = build(folder, corpus, maker, experiment.budget_factor, experiment.on_passages)
    index_s = time.perf_counter() - began_s
    answers = ask_all_ways(folder / DATABASE_NAME, served, map_gold(corpus), questions, experiment)
    return Evaluation(answers, index_s, served.version.passages, len(served.list_edges()))


def ask_all_ways(
    database: Database,
    served: Snapshot,
    gold: Gold,
    questions: Sequence[GoldQuestion],
    experiment: Experiment,
) -> dict[str, list[QuestionOutcome]]:
    """Ask all questions with each search, at one version of a database."""
    models, answers = experiment.models, experiment.answers
    engine = Engine(
        database,
        models.encoder,
        experiment.walk,
        models.llm,
        models.reranker,
        experiment.max_llm_calls,
    )
    engine.publish(served)
    asker = Asker(engine, models.encoder, models.language, models.llm)
    reply_to = _make_reply_function(asker, answers) if answers != "none" else None
    return {
        name: ask_all(engine, search, gold, questions, reply_to, experiment.on_question)
        for name, search in experiment.searches.items()
    }


def _make_reply_function(asker: Asker, answers: Answers) -> ReplyTo:
    """Create the function that answers the questions.

    As in `hopsyncd ask`, an LLM gets excerpts of up to 20 of the passages found. Without an LLM,
    answers come from the best `ANSWER_DEPTH` passages.
    """
    if answers == "llm":
        return partial(asker.reply, k=ANSWER_DEPTH, by_llm=True)
    return lambda found: asker.reply(replace(found, ranked=found.ranked[:ANSWER_DEPTH]))


def map_gold(corpus: Mapping[str, Passage]) -> Gold:
    """Map the id of each line to its passage."""
    return {line: frozenset({passage.id}) for line, passage in corpus.items()}


def choose_kept_folder(
    keep: Path, corpus: Mapping[str, Passage], maker: QuestionMaker, budget_factor: float
) -> Path:
    """Return the database's folder in `keep` for this corpus, generation settings and budget."""
    name = f"{compute_corpus_digest(corpus)} {maker.generation.name} {budget_factor}"
    return keep / hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def compute_corpus_digest(corpus: Mapping[str, Passage]) -> str:
    """Compute a digest of a corpus, which depends on the order of its lines."""
    lines = [[line, list(passage.heading), passage.text] for line, passage in corpus.items()]
    return hashlib.blake2b(json.dumps(lines).encode(), digest_size=8).hexdigest()


def build(
    folder: Path,
    corpus: Mapping[str, Passage],
    maker: QuestionMaker,
    budget_factor: float,
    on_progress: OnProgress = lambda done, total: None,
) -> Snapshot:
    """Open or create the database in `folder`, and return a snapshot of its head.

    If the head was made from another corpus or with other generation settings, the corpus is
    indexed first. Raises ValueError if the corpus is empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rules = f"corpus {compute_corpus_digest(corpus)}"
    connection = open_writer(folder / DATABASE_NAME)
    try:
        writer = VersionWriter(
            connection, maker, rules=rules, budget_factor=budget_factor, now_ms=lambda: 0
        )
        newest = read_head(connection)
        if newest is None or newest.rules != rules or not writer.serves(newest):
            source = register_source(connection, "corpus", "corpus", str(folder))
            batch, cost = _make_batch(source, corpus), Cost(Usage())
            writer.prepare(batch.read, cost, on_progress)
            newest, _ = writer.commit(batch, cost)
        if newest is None:
            raise ValueError("the corpus is empty")
        return writer.make_snapshot(writer.renew() or newest)
    finally:
        connection.close()


def _make_batch(source: int, corpus: Mapping[str, Passage]) -> Batch:
    readings = tuple(
        ReadDocument(
            Document(
                source,
                line,
                hash_content(passage.text.encode()),
                "text/plain",
                (Occurrence(passage.id, 1, 1),),
            ),
            (passage,),
        )
        for line, passage in corpus.items()
    )
    return Batch("evaluation", readings)


def ask_all(
    engine: Engine,
    search: Search,
    gold: Gold,
    questions: Sequence[GoldQuestion],
    reply_to: ReplyTo | None = None,
    on_question: Callable[[], None] = lambda: None,
) -> list[QuestionOutcome]:
    """Ask every question of an engine that serves the corpus. `gold` has the correct passages.

    If the search does not use an LLM, one warm-up question comes first.
    Times cover only the search. `reply_to` creates the answers; None means that only passages are
    searched.
    """
    if not search.wants_llm:
        engine.query(questions[0].question, max(DEPTHS), search)
    outcomes_so_far = []
    for question in questions:
        outcomes_so_far.append(_ask(engine, search, gold, question, reply_to))
        on_question()
    return outcomes_so_far


def _ask(
    engine: Engine,
    search: Search,
    gold: Gold,
    question: GoldQuestion,
    reply_to: ReplyTo | None,
) -> QuestionOutcome:
    began_s = time.perf_counter()
    answer = engine.query(question.question, max(DEPTHS), search)
    took_ms = (time.perf_counter() - began_s) * 1000
    assert answer is not None
    passages = tuple(ranked.passage for ranked in answer.ranked)
    measured = QuestionOutcome(
        question,
        passages,
        {name: rank_of(passages, gold[name]) for name in sorted(question.gold)},
        took_ms,
        answer.llm.calls if answer.llm else 0,
        answer.llm.tokens if answer.llm else 0,
    )
    if reply_to is None:
        return measured
    reply = reply_to(answer)
    return replace(
        measured,
        reply=reply,
        llm_calls=measured.llm_calls + reply.spent.calls,
        llm_tokens=measured.llm_tokens + reply.spent.tokens,
    )


_PLAIN = Search()


def list_searches(
    strategies: Sequence[Strategy],
    profiles: Sequence[Profile] = (),
    reasoners: Sequence[Reasoner] = (),
    top_ks: Sequence[int] = (),
    n_hops: Sequence[int] = (),
    beams: Sequence[int] = (),
    reranks: Sequence[Rerank] = (),
    methods: Sequence[Method] = (),
) -> dict[str, Search]:
    """List all combinations of the parameters, by name. An empty sequence means the default value.

    Values of parameters that a strategy or reasoner ignores do not give additional searches. The
    profile `paper` is not combined with the walk. The method logic is not combined with searches
    that call an LLM.

    >>> list(list_searches(["hop", "bm25"], reasoners=["similarity", "walk"], top_ks=[4, 8]))[:2]
    ['hop reasoner=similarity top_k=4', 'hop reasoner=similarity top_k=8']
    >>> list(list_searches(["hop", "bm25"], reasoners=["similarity", "walk"], top_ks=[4, 8]))[2:]
    ['hop reasoner=walk', 'bm25']
    """
    searches: dict[str, Search] = {}
    for strategy, profile, reasoner, top_k, n_hop, beam, rerank, method in product(
        strategies,
        profiles or (_PLAIN.profile,),
        reasoners or (_PLAIN.reasoner,),
        top_ks or (_PLAIN.top_k,),
        n_hops or (_PLAIN.n_hop,),
        beams or (_PLAIN.beam,),
        reranks or (_PLAIN.rerank,),
        methods or (_PLAIN.method,),
    ):
        heeded = _reset_ignored_parameters(
            Search(strategy, profile, reasoner, top_k, n_hop, beam, rerank)
        )
        if method == "logic" and heeded.wants_llm:
            continue
        search = replace(heeded, method=method)
        if search.profile == "paper" and search.reasoner == "walk":
            continue
        searches.setdefault(_name_search(search), search)
    return searches


def _reset_ignored_parameters(search: Search) -> Search:
    """Reset the parameters that the search ignores."""
    if search.strategy == "decompose":
        return Search("decompose", reasoner=search.reasoner if search.wants_llm else None)
    if search.strategy in ("statement", "topic"):
        return replace(search, profile="default", reasoner=None)
    if search.strategy != "hop":
        return Search(search.strategy)
    top_k = _PLAIN.top_k if search.chosen_reasoner == "walk" else search.top_k
    return Search("hop", search.profile, search.reasoner, top_k, search.n_hop)


def _name_search(search: Search) -> str:
    parts: list[str] = [search.strategy]
    for name in ("profile", "reasoner", "top_k", "n_hop", "beam", "rerank", "method"):
        value = getattr(search, name)
        if value != getattr(_PLAIN, name):
            parts.append(f"{name}={value}")
    return " ".join(parts)
