"""A caller without access to a source gets the answers of an index that never had it."""

import json
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopsyncd.api.passages import answer_neighbours, answer_paths
from hopsyncd.api.requests import NeighboursRequest, PathsRequest
from hopsyncd.api.version_log import (
    count_visible,
    diff_answer,
    format_logged_version,
    restrict_diff,
)
from hopsyncd.config.values import Search
from hopsyncd.index.edge_selection import compute_edge_budget
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.responses.changes import LoggedVersion
from hopsyncd.responses.results import NeighboursAnswer, PathsAnswer
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import format_answer, format_id
from hopsyncd.retrieve.visible_sources import Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.history import VisibleCounts, diff, read_log, resolve, restrict_entry
from store.records import PassageId
from store.sources import read_source_names, register_source
from store.visibility import Mask
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

VISIBLE = ("open", "public")
HIDDEN = frozenset({"closed"})
CANARY = "zyxwort"
SEARCHES = (
    Search("hop"),
    Search("hop", reasoner="similarity"),
    Search("hop", "paper", "similarity"),
    Search("bm25"),
    Search("dense"),
    Search("hybrid"),
    Search("decompose"),
    Search("statement", beam=2, unit="statement"),
    Search("topic", rerank="cosine"),
)
BUDGET = partial(compute_edge_budget, factor=1.0)

# Few, so that the same passage often stands in several sources, with different links.
_sentence = st.sampled_from(
    [
        "In that year Ada Byron met Luigi Menabrea.",
        "In that year Luigi Menabrea left Rome for Turin.",
        "In that year Rome praised Ada Byron.",
        "In that year London met Turin.",
        "In that year Ada Byron left London.",
        "In that year [London](a.md) met Turin.",
        "In that year [London](b.md) met Turin.",
        "In that year the [[Countess]] left Rome.",
    ]
)
SHARED = "In that year London met Turin."
_LINKING = "In that year the [[Countess]] left Rome."
_NAMED = "---\naliases: [Countess]\n---\n"
questions = st.lists(_sentence, min_size=1, max_size=2).map("\n\n".join)
texts = st.tuples(st.sampled_from(["", _NAMED]), questions).map("".join)
_path = st.sampled_from(["a.md", "b.md", "Rome.md"])


def steps_in(sources: Sequence[str]) -> st.SearchStrategy[tuple[str, str, str | None]]:
    """A document of a source that comes, changes or goes."""
    return st.tuples(st.sampled_from(sources), _path, st.none() | texts)


_steps = st.lists(steps_in((*VISIBLE, *HIDDEN)), min_size=2, max_size=10)


class Index:
    """Sources in memory under one index, and an engine over it."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        database = folder / f"{'-'.join(names)}.db"
        self.stack = Stack(database, MemoryConnector())
        self.connectors = {name: MemoryConnector() for name in names}
        self.sources = [
            Source(register_source(self.stack.connection, name, "memory", ""), name, connector)
            for name, connector in self.connectors.items()
        ]
        self.engine = Engine(database, FakeEncoder(), WalkSettings())
        self.away: frozenset[str] = frozenset()  # the sources that are not configured now

    def change(self, source: str, path: str, text: str | None) -> str:
        """Take the step where the source is known; the version afterwards."""
        connector = self.connectors.get(source)
        if connector and text is not None:
            connector.put(path, text.encode())
        elif connector and path in connector.files:
            connector.remove(path)
        for one in self.sources:
            if one.name not in self.away:
                self.stack.path.sync(one, Scope(None, accept_empty=True))
        return self.publish()

    def publish(self) -> str:
        """Serve the newest version; its number."""
        newest = self.stack.versions[-1] if self.stack.versions else None
        if newest:
            self.engine.publish(self.stack.writer.make_snapshot(newest))
        return str(newest.id) if newest else "0"


def told(engine: Engine, search: Search, question: str, at: str, hidden: Mask | Acl) -> Any:
    answer = engine.query(question, 5, search, at, hidden=hidden)
    return _rounded({**format_answer(answer, search), "version": None})


def graph_around(engine: Engine, at: str, hidden: Mask) -> list[Any]:
    """What lies around each passage, and the ways from it to the next."""
    found: list[NeighboursAnswer | PathsAnswer] = []
    with engine.reading(at, hidden) as (connection, head):
        ids = (
            [
                format_id(PassageId(one))
                for one in sorted(head.passage_ids[head.passage_rows].tolist())
            ]
            if head
            else []
        )
        for one, other in zip(ids, [*ids[1:], *ids[:1]], strict=True):
            near = NeighboursRequest(id=one, hops=2)
            found.append(answer_neighbours(connection, head, near, ()))
            ways = PathsRequest.model_validate({"from": one, "to": other})
            found.append(answer_paths(connection, head, ways, ()))
    return [_rounded({**answer, "version": None}) for answer in found]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    if isinstance(value, dict):
        return {key: _rounded(below) for key, below in value.items()}
    return [_rounded(below) for below in value] if isinstance(value, list) else value


@settings(max_examples=settings().max_examples // 2)
@given(steps=_steps, question=questions)
@example(  # the link means a hidden document
    steps=[("open", "a.md", _LINKING), ("closed", "b.md", _NAMED + SHARED)], question=SHARED
)
@example(  # it is ambiguous only because of a hidden one
    steps=[
        ("public", "a.md", _LINKING),
        ("open", "b.md", _NAMED + SHARED),
        ("closed", "c.md", _NAMED + "In that year Ada Byron left London."),
    ],
    question=SHARED,
)
@example(  # a passage has a name only in its hidden place
    steps=[
        ("open", "a.md", "In that year Rome praised Ada Byron."),
        ("public", "b.md", SHARED),
        ("closed", "Rome.md", SHARED),
    ],
    question="In that year Rome praised Ada Byron.",
)
@example(  # it stands only in the hidden place of a passage
    steps=[
        ("open", "a.md", "In that year Rome praised Ada Byron."),
        ("open", "b.md", SHARED),
        ("closed", "a.md", _NAMED + "In that year Rome praised Ada Byron."),
        ("closed", "b.md", "In that year [London](a.md) met Turin."),
    ],
    question=SHARED,
)
@example(steps=[("open", "b.md", SHARED), ("closed", "a.md", SHARED)], question=SHARED)
def test_every_read_at_every_version_answers_as_without_the_hidden_sources(
    steps: list[tuple[str, str, str | None]], question: str
) -> None:
    with TemporaryDirectory() as folder:
        both, alone = (Index(Path(folder), names) for names in ((*VISIBLE, *HIDDEN), VISIBLE))
        with closing(both.stack), closing(alone.stack):
            versions = [("0", "0")]
            for source, path, text in steps:
                # Every other text is the same in both: then only its places are hidden.
                secret = text and source == "closed" and len(text) % 2
                marked = f"{text} {CANARY}" if secret else text
                versions.append(
                    (both.change(source, path, marked), alone.change(source, path, text))
                )
            for mixed, pure in {pair for pair in versions if "0" not in pair}:
                for search in SEARCHES:
                    expected = told(alone.engine, search, question, pure, frozenset())
                    assert told(both.engine, search, question, mixed, HIDDEN) == expected
                expected = graph_around(alone.engine, pure, frozenset())
                assert graph_around(both.engine, mixed, HIDDEN) == expected
            check_history(both, alone, [pair for pair in versions if "0" not in pair], HIDDEN)


def check_history(
    both: Index, alone: Index, versions: list[tuple[str, str]], hidden: Mask | Acl
) -> None:
    """Differences, counts and the log are those of the index that never had the source."""
    if isinstance(hidden, Acl):
        mask = hidden.select_hidden(read_source_names(both.stack.connection).values())
    else:
        mask = hidden
    for (old, old_alone), (new, new_alone) in pairwise(versions):
        mixed, pure = both.stack.connection, alone.stack.connection
        ends = resolve(mixed, old), resolve(mixed, new)
        with both.engine.reading(old, hidden) as (_, before):
            pass
        with both.engine.reading(new, hidden) as (_, after):
            pass
        assert before and after
        found = diff_answer(
            mixed, *ends, restrict_diff(diff(mixed, *ends, mask), before, after), None
        )
        ends_alone = resolve(pure, old_alone), resolve(pure, new_alone)
        expected = diff_answer(pure, *ends_alone, diff(pure, *ends_alone), None)
        assert {**found, "from": 0, "to": 0} == {**expected, "from": 0, "to": 0}
        counts = alone.stack.versions[int(new_alone) - 1]
        for name in ("documents", "passages", "words", "matches", "edge_budget", "edge_threshold"):
            assert getattr(after.version, name) == getattr(counts, name), name

    def count(version: int) -> VisibleCounts:
        return count_visible(both.stack.writer.index, version, mask)

    logs = [
        [format_logged_version(restrict_entry(both.stack.connection, entry, mask, BUDGET, count))
         for entry in read_log(both.stack.connection, 100)],
        [format_logged_version(entry) for entry in read_log(alone.stack.connection, 100)],
    ]  # fmt: skip
    mine, theirs = ([_changes(entry) for entry in reversed(entries)] for entries in logs)
    assert [one for one in mine if any(one[1])] == [one for one in theirs if any(one[1])]
    assert CANARY not in json.dumps(logs) and "closed" not in json.dumps(logs[0])


def _changes(entry: LoggedVersion) -> tuple[list[Any], list[int]]:
    """What a version is, and what it changed."""
    kinds = ("documents_added", "documents_changed", "documents_removed", "passages_added",
             "passages_removed")  # fmt: skip
    return [entry[key] for key in ("documents", "passages", "edges", "reason")], [
        entry[kind] for kind in kinds
    ]
