"""Answers without an LLM: EM and F1 on the HotpotQA and MuSiQue samples, the time of an ask, and
how often "not found" is wrong, or is missing.

python benchmarks/answers.py --keep /tmp/hopsyncd-indexes

A corpus cannot answer two kinds of questions. Questions from the other data set are foreign to it.
Questions whose gold passages were removed are near misses: the corpus has much similar text, so it
is hard to see that the answer itself is missing. Small collections are parts of a corpus: the gold
passages of ten questions and random other passages, drawn five times.
"""

import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from common import arguments, dataset, p50, p95, table

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import Share, compute_answer_f1, compute_exact_match
from hopsyncd.evaluation.run import ANSWER_DEPTH, DATABASE_NAME, build, choose_kept_folder
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.read import Batch
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.loading import Models, load_models
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import AskReply
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.open_database import open_writer
from store.records import Passage
from store.versions import read_head

NAMES = ("hotpotqa", "musique")
OTHERS = (0, 30, 250)  # passages of a cut beside the gold ones
_CUTS = 5
_CUT_QUESTIONS = 10


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "help": "Keep the indexes in this folder, and use those there."}),
    )
    models = load_models(Config())
    corpora, questions = {}, {}
    for name in NAMES:
        folder = dataset(given.data, name)
        corpora[name] = read_corpus(folder / "corpus.jsonl")
        questions[name] = read_questions(folder / "questions.jsonl", corpora[name])
    answered, refused, small = [], [], []
    for name, other in zip(NAMES, reversed(NAMES), strict=True):
        with TemporaryDirectory() as temporary:
            keep = given.keep or Path(temporary)
            folder = choose_kept_folder(keep, corpora[name], models.maker, 1.0)
            served = build(folder, corpora[name], models.maker, 1.0)
            database = folder / DATABASE_NAME
            own, took_ms = _replies(database, served, models, questions[name])
            foreign, _ = _replies(database, served, models, questions[other])
            missed = _near_misses(database, corpora[name], models, questions[name])
            for others in OTHERS:
                cut = database, corpora[name], models, questions[name], questions[other]
                both = map(_not_found, _in_cuts(others, *cut))
                small.append([f"{name}, gold and {others} others", *both])
        answered.append([name, *_scores(questions[name], own), p50(took_ms), p95(took_ms)])
        refused.append([name, *map(_not_found, (own, foreign, missed))])
    table(["corpus", "EM", "F1", "short answers", "ms p50", "ms p95"], answered)
    table(
        ["not found, percent", "answerable", "of the other data set", "gold passages removed"],
        refused,
    )
    table(["not found, percent, in cuts", "answerable", "of the other data set"], small)


def _replies(
    database: Path, served: Snapshot, models: Models, questions: Sequence[GoldQuestion]
) -> tuple[list[AskReply], list[float]]:
    """Return the reply to each question, and the time of each reply in milliseconds."""
    engine = Engine(database, models.encoder, WalkSettings())
    engine.publish(served)
    replies, took_ms = [], []
    asker = Asker(engine, models.encoder, models.language)
    asker.ask(questions[0].question, ANSWER_DEPTH, Search())
    for question in questions:
        began_s = time.perf_counter()
        replies.append(asker.ask(question.question, ANSWER_DEPTH, Search())[1])
        took_ms.append((time.perf_counter() - began_s) * 1000)
    return replies, took_ms


def _near_misses(
    database: Path,
    corpus: Mapping[str, Passage],
    models: Models,
    questions: Sequence[GoldQuestion],
) -> list[AskReply]:
    """Ask every second question in a copy of the database without the gold passages of these
    questions, and return the replies."""
    half = questions[::2]
    gone = {line for question in half for line in question.gold}
    with _without(gone, database, corpus, models) as (copy, served):
        return _replies(copy, served, models, half)[0]


def _in_cuts(
    others: int,
    database: Path,
    corpus: Mapping[str, Passage],
    models: Models,
    questions: Sequence[GoldQuestion],
    foreign: Sequence[GoldQuestion],
) -> tuple[list[AskReply], list[AskReply]]:
    """Ask small parts of the corpus: the questions whose gold passages are in the part, and as many
    foreign questions. Returns the replies to both."""
    own, strange = list[AskReply](), list[AskReply]()
    for number in range(_CUTS):
        random = Random(number)
        asked = random.sample(questions, _CUT_QUESTIONS)
        kept = {line for question in asked for line in question.gold}
        kept.update(random.sample(sorted(corpus), others))
        with _without(corpus.keys() - kept, database, corpus, models) as (copy, served):
            own += _replies(copy, served, models, asked)[0]
            others_asked = random.sample(foreign, _CUT_QUESTIONS)
            strange += _replies(copy, served, models, others_asked)[0]
    return own, strange


@contextmanager
def _without(
    gone: Collection[str], database: Path, corpus: Mapping[str, Passage], models: Models
) -> Iterator[tuple[Path, Snapshot]]:
    """Yield a copy of the database without these lines of the corpus."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / database.name
        shutil.copy(database, copy)
        with closing(open_writer(copy)) as connection:
            newest = read_head(connection)
            assert newest is not None
            writer = VersionWriter(
                connection, models.maker, rules=newest.rules, budget_factor=1.0, now_ms=lambda: 0
            )
            source = connection.execute("SELECT id FROM source").fetchone()[0]
            version = writer.apply(Batch("deleted", gone=tuple((source, one) for one in gone)))
            assert version is not None and version.passages == len(corpus) - len(gone)
            served = writer.make_snapshot(version)
        yield copy, served


def _scores(questions: Sequence[GoldQuestion], replies: Sequence[AskReply]) -> list[object]:
    pairs = list(zip(questions, replies, strict=True))
    f1 = [compute_answer_f1(reply.brief, question.answers) for question, reply in pairs]
    em = [compute_exact_match(reply.brief, question.answers) for question, reply in pairs]
    short = sum(reply.short is not None for reply in replies)
    return [Share.from_values(em), Share.from_values(f1), f"{short} of {len(replies)}"]


def _not_found(replies: Sequence[AskReply]) -> Share:
    return Share.from_values([float(not reply.found) for reply in replies])


if __name__ == "__main__":
    main()
