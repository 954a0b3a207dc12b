"""Answers without an LLM: EM and F1 on the HotpotQA and MuSiQue samples, how long an ask takes, and
how often each of the two errors about "not found" is made.

python benchmarks/answers.py --keep /tmp/hopsyncd-indexes

Questions that a corpus cannot answer are of two sorts. Those of the other data set are foreign to
it. Those whose gold passages were taken out of it are near misses: the corpus has much that is
like them, and without a reader nothing tells that the answer itself is gone.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from common import arguments, dataset, p50, p95, table

from hopsyncd.answering.asker import Asker
from hopsyncd.answering.reply import Reply
from hopsyncd.config import Config
from hopsyncd.evaluation.data import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import answer_f1, exact_match, interval
from hopsyncd.evaluation.run import ANSWER_DEPTH, DATABASE_NAME, build, kept_folder
from hopsyncd.graph.walk import WalkSettings
from hopsyncd.models import Models, load_models
from hopsyncd.query.engine import Engine
from hopsyncd.query.head import Head, head_of
from hopsyncd.strategy import Search
from hopsyncd.sync.apply import Batch, Writer
from store.database import open_writer
from store.records import Passage
from store.versions import head

NAMES = ("hotpotqa", "musique")


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
    answered, refused = [], []
    for name, other in zip(NAMES, reversed(NAMES), strict=True):
        with TemporaryDirectory() as temporary:
            keep = given.keep or Path(temporary)
            folder = kept_folder(keep, corpora[name], models.maker, 1.0)
            served = build(folder, corpora[name], models.maker, 1.0)
            database = folder / DATABASE_NAME
            own, took_ms = _replies(database, served, models, questions[name])
            foreign, _ = _replies(database, served, models, questions[other])
            missed = _near_misses(database, corpora[name], models, questions[name])
        answered.append([name, *_scores(questions[name], own), p50(took_ms), p95(took_ms)])
        refused.append([name, *map(_not_found, (own, foreign, missed))])
    table(["corpus", "EM", "F1", "F1 interval", "short answers", "ms p50", "ms p95"], answered)
    table(
        ["not found, percent", "answerable", "of the other data set", "gold passages removed"],
        refused,
    )


def _replies(
    database: Path, served: Head, models: Models, questions: Sequence[GoldQuestion]
) -> tuple[list[Reply], list[float]]:
    """The reply to each question, and its milliseconds."""
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
) -> list[Reply]:
    """The replies to every second question, in a copy without the gold passages of these."""
    half = questions[::2]
    gone = {line for question in half for line in question.gold}
    with TemporaryDirectory() as folder:
        copy = Path(folder) / database.name
        shutil.copy(database, copy)
        with closing(open_writer(copy)) as connection:
            newest = head(connection)
            assert newest is not None
            writer = Writer(
                connection, models.maker, rules=newest.rules, budget_factor=1.0, now_ms=lambda: 0
            )
            source = connection.execute("SELECT id FROM source").fetchone()[0]
            version = writer.apply(Batch("gold removed", gone=tuple((source, one) for one in gone)))
            assert version is not None and version.passages == len(corpus) - len(gone)
            served = head_of(connection, version, writer.index)
        return _replies(copy, served, models, half)[0]


def _scores(questions: Sequence[GoldQuestion], replies: Sequence[Reply]) -> list[object]:
    pairs = list(zip(questions, replies, strict=True))
    f1 = [answer_f1(reply.brief, question.answers) for question, reply in pairs]
    em = [exact_match(reply.brief, question.answers) for question, reply in pairs]
    low, high = interval(f1)
    short = sum(reply.short is not None for reply in replies)
    return [
        100 * sum(em) / len(em),
        100 * sum(f1) / len(f1),
        f"{100 * low:.1f} - {100 * high:.1f}",
        f"{short} of {len(replies)}",
    ]


def _not_found(replies: Sequence[Reply]) -> float:
    return 100 * sum(not reply.found for reply in replies) / len(replies)


if __name__ == "__main__":
    main()
