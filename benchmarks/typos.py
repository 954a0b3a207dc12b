"""Questions with typos on real documents, compared with the same questions without typos.

python benchmarks/typos.py

Every third question that has an answer (20 questions) is asked with one and with two mistyped
words. A letter, never the first, is swapped with the next letter, left out, doubled or replaced, at
a place drawn with a seed. Indexes are kept as for benchmarks/real.py. "as typed" searches without
corrections. The number of corrected words in the questions without typos is printed too.
"""

import random
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from common import arguments, p50, real_documents, table
from real import KEEP, serve_real_documents

from hopsyncd.config.values import Search, Strategy
from hopsyncd.evaluation.measures import rank_of
from hopsyncd.evaluation.real_folder import (
    QuotedQuestion,
    find_gold_passages,
    read_quoted,
)
from hopsyncd.models.encoder import Encoder
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import Answer, build_answer
from hopsyncd.retrieve.searcher import Searcher, SearchResult
from store.open_database import open_reader
from store.records import PassageId
from store.transactions import snapshot

_COUNT, _EACH = 20, 3
_DEPTHS = (5, 10, 20)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORD = re.compile(r"[A-Za-z]{5,}")

Ask = Callable[[str], Answer]


@dataclass(frozen=True)
class Asked:
    question: QuotedQuestion
    gold: Sequence[frozenset[PassageId]]


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--seed", {"type": int, "default": 1}),
    )
    folder = real_documents(given.data)
    index = serve_real_documents(folder, given.keep)
    questions = read_quoted(folder / "questions.jsonl")
    with closing(open_reader(index.database)) as connection, snapshot(connection):
        gold = find_gold_passages(connection, index.head.version.id, questions)
    asked = [
        Asked(one, [gold[quotes[0].name] for quotes in one.evidence])
        for one in [question for question in questions if question.evidence][::_EACH][:_COUNT]
    ]
    _false_alarms(index.engine, questions)
    _compare(index.engine, index.models.encoder, asked, random.Random(given.seed))


def _false_alarms(engine: Engine, questions: Sequence[QuotedQuestion]) -> None:
    taken: dict[str, str] = {}
    for question in questions:
        taken |= _ask(engine, "bm25")(question.question).spelling.applied
    words = ", ".join(f"{typed} as {meant}" for typed, meant in taken.items())
    print(f"{len(questions)} right questions: {len(taken)} words taken for others: {words}\n")


def _compare(engine: Engine, encoder: Encoder, asked: Sequence[Asked], draw: random.Random) -> None:
    texts = {
        typos: [mistyped(case.question.question, typos, draw) for case in asked]
        for typos in (0, 1, 2)
    }
    rows = []
    strategies: tuple[Strategy, ...] = ("hop", "bm25", "dense", "hybrid")
    for strategy in strategies:
        for typos, questions in texts.items():
            rows.append(
                _row(f"{strategy}, {typos} typos", asked, questions, _ask(engine, strategy))
            )
        if strategy == "hop":
            rows += [
                _row(
                    f"hop, {typos} typos, as typed", asked, texts[typos], _as_typed(engine, encoder)
                )
                for typos in (1, 2)
            ]
    table(["strategy", *(f"all @{depth}" for depth in _DEPTHS), "words set right", "ms p50"], rows)


def _row(name: str, asked: Sequence[Asked], questions: Sequence[str], ask: Ask) -> list[object]:
    found, took_ms = [], []
    for question in questions:
        began_s = time.thread_time()
        found.append(ask(question))
        took_ms.append((time.thread_time() - began_s) * 1000)
    ranks = [
        [rank_of([ranked.passage for ranked in answer.ranked], each) for each in one.gold]
        for one, answer in zip(asked, found, strict=True)
    ]
    whole = [
        sum(all(rank is not None and rank <= depth for rank in one) for one in ranks)
        for depth in _DEPTHS
    ]
    right = sum(
        meant in one.question.question.lower()
        for one, answer in zip(asked, found, strict=True)
        for meant in answer.spelling.applied.values()
    )
    return [name, *whole, right, p50(took_ms)]


def _ask(engine: Engine, strategy: Strategy) -> Ask:
    def ask(question: str) -> Answer:
        answer = engine.query(question, max(_DEPTHS), Search(strategy))
        assert answer is not None
        return answer

    return ask


def _as_typed(engine: Engine, encoder: Encoder) -> Ask:
    searcher = Searcher(encoder, engine.settings, None, None)

    def ask(question: str) -> Answer:
        with engine.reading() as (connection, served):
            assert served is not None
            search = Search("hop")
            found = searcher.search(connection, served, question, max(_DEPTHS), search)
            return build_answer(connection, served, question, search, SearchResult(found))

    return ask


def mistyped(question: str, typos: int, draw: random.Random) -> str:
    """The question with `typos` of its longer words mistyped."""
    words = list(_WORD.finditer(question))
    for word in sorted(draw.sample(words, min(typos, len(words))), key=lambda one: -one.start()):
        question = question[: word.start()] + _typo(word[0], draw) + question[word.end() :]
    return question


def _typo(word: str, draw: random.Random) -> str:
    at = draw.randrange(1, len(word) - 1)
    return draw.choice(
        [
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + draw.choice(_LETTERS) + word[at + 1 :],
        ]
    )


if __name__ == "__main__":
    main()
