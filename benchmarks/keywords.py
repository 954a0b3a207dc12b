"""Keyword queries on real documents: literal hits first, and absent words named.

python benchmarks/keywords.py

The queries are drawn by keyword_queries.py. "Literal hit first" counts queries whose first passage
contains the query as typed. An absent word counts if the answer names it and every passage is weak.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from common import JSON, arguments, real_documents, table, write_result
from keyword_queries import KeywordQuery, contains, draw
from real import KEEP, serve_real_documents

from hopsyncd.config.values import Search, Strategy
from hopsyncd.evaluation.measures import Share
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import Understood
from hopsyncd.retrieve.results import format_answer
from store.content import build_full_text, read_passages
from store.open_database import open_reader
from store.records import PassageId
from store.transactions import snapshot

STRATEGIES: tuple[Strategy, ...] = ("hop", "hybrid", "bm25")
_K = 5
_Judge = Callable[[KeywordQuery], bool]


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--strategy", {"choices": STRATEGIES, "action": "append"}),
        ("--failures", {"action": "store_true", "help": "List the queries that fail."}),
    )
    folder = real_documents(given.data)
    index = serve_real_documents(folder, given.keep)
    texts = _texts(index.database, index.head)
    queries = [one for one in draw(folder) if one.is_absent or _is_there(one, texts)]
    rows: dict[str, list[object]] = defaultdict(list)
    strategies = given.strategy or STRATEGIES
    for strategy in strategies:
        good = [_judge(index.engine, strategy, texts)(query) for query in queries]
        if given.failures:
            failed = [one for one, is_good in zip(queries, good, strict=True) if not is_good]
            print(strategy, "failed:", *(f"{one.kind}: {one.query}" for one in failed), sep="\n  ")
        for label, share in _shares(queries, good).items():
            rows[label].append(share)
    columns = ["queries", *strategies]
    table(columns, [[label, *shares] for label, shares in rows.items()])
    if given.json:
        whole = [[label, *shares] for label, shares in rows.items() if not label.startswith("-")]
        write_result("keywords", columns, whole)


def _texts(database: Path, served: Snapshot) -> Mapping[str, str]:
    """The full text of each passage, by its id as answers show it."""
    ids = [PassageId(one) for one in served.passage_ids[served.passage_rows].tolist()]
    with closing(open_reader(database)) as connection, snapshot(connection):
        passages = read_passages(connection, ids)
    return {f"{id_:016x}": build_full_text(one) for id_, one in passages.items()}


def _is_there(query: KeywordQuery, texts: Mapping[str, str]) -> bool:
    return any(_has_all(text, query) for text in texts.values())


def _has_all(text: str, query: KeywordQuery) -> bool:
    if query.or_phrase and contains(text, query.or_phrase):
        return True
    return all(contains(text, literal) for literal in query.literals)


def _judge(engine: Engine, strategy: Strategy, texts: Mapping[str, str]) -> _Judge:
    search = Search(strategy)

    def judge(query: KeywordQuery) -> bool:
        found = engine.query(query.query, _K, search)
        answer = format_answer(found, search, Understood(query.query))
        passages = answer["passages"]
        if not query.is_absent:
            return bool(passages) and _has_all(texts[passages[0]["id"]], query)
        told = answer["understood"]["absent"] if answer["understood"] else ()
        return query.literals[0] in told and all(
            passage.get("strength") == "weak" for passage in passages
        )

    return judge


def _shares(queries: Sequence[KeywordQuery], good: Sequence[bool]) -> dict[str, Share]:
    """The percentage of good queries, for each kind and for all together."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for query, is_good in zip(queries, good, strict=True):
        groups["absent text named" if query.is_absent else "literal hit first"].append(is_good)
        groups[f"- {query.kind}"].append(is_good)
    return {
        f"{label} ({len(found)})": Share.from_values([float(one) for one in found])
        for label, found in groups.items()
    }


if __name__ == "__main__":
    main()
