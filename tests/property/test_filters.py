"""Filtered-out passages are not found, not counted and not walked through."""

from contextlib import closing
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.config.values import Search
from hopsyncd.index.comparison import MatchColumns
from hopsyncd.index.filters import Filter
from hopsyncd.index.statistics import Statistics
from hopsyncd.retrieve.query_parser import parse_question
from hopsyncd.retrieve.results import Answer
from store.reads import list_documents
from tests.fakes.histories import Step, grown, histories, states
from tests.fakes.indexed import snapshot_at
from tests.property.test_visibility import HIDDEN, SEARCHES, VISIBLE, Index

NOON = datetime(2026, 3, 14, 12).astimezone()

_sentence = st.sampled_from(
    [
        "In that year Ada Byron met Luigi Menabrea.",
        "In that year Luigi Menabrea left Rome for Turin.",
        "In that year Rome praised Ada Byron, see [London](a.md).",
        "In that year London met Turin.",
    ]
)
_head = st.sampled_from(
    [
        "",
        "---\ntags: [garden/herbs]\nmodified: 2026-03-01\n---\n",
        "---\ntags: [house]\nauthor: Ann Lee\ncreated: 2026-01-10\nmodified: 2026-02-01\n---\n",
        "---\nstatus: done\n---\n",
    ]
)
_text = st.tuples(_head, st.lists(_sentence, min_size=1, max_size=2).map("\n\n".join)).map("".join)
_path = st.sampled_from(["a.md", "x/b.md", "x/y/Rome.txt"])
_step = st.tuples(st.sampled_from([*VISIBLE, *HIDDEN]), _path, st.none() | _text)
_one = st.sampled_from(
    [
        *("source:open", "-source:public", "path:x/", "path:x/*", "path:**/*.md", "path:*.txt"),
        *("type:md", "type:text/plain", "tag:garden", "-tag:house", "author:lee"),
        *("property:status=done", "property:status", "since:2026-02-15", "before:2026-02-15"),
        *("created-since:2026", "created-before:2026"),
    ]
)
_filters = st.lists(_one, min_size=1, max_size=2)


def _holds(filters: list[str], source: str, path: str, said: set[tuple[str, str]]) -> bool:
    """The same by other means: whether a document passes."""
    dates = dict(said)
    tests = {
        "source:open": source == "open",
        "-source:public": source != "public",
        "path:x/": "x/" in path,
        "path:x/*": path == "x/b.md",
        "path:**/*.md": path.endswith(".md"),
        "path:*.txt": path.endswith(".txt"),
        "type:md": path.endswith(".md"),
        "type:text/plain": path.endswith(".txt"),
        "tag:garden": ("tag", "garden/herbs") in said,
        "-tag:house": ("tag", "house") not in said,
        "author:lee": ("author", "Ann Lee") in said,
        "property:status=done": ("status", "done") in said,
        "property:status": "status" in dates,
        "since:2026-02-15": dates.get("modified", "") >= "2026-02-15",
        "before:2026-02-15": "" < dates.get("modified", "") < "2026-02-15",
        "created-since:2026": dates.get("created", "") >= "2026",
        "created-before:2026": "" < dates.get("created", "") < "2026",
    }
    either = [
        [tests[filter_] for filter_ in filters if filter_.startswith(key)]
        for key in ("path", "type")
    ]
    both = [tests[filter_] for filter_ in filters if not filter_.startswith(("path", "type"))]
    return all(both) and all(any(alternatives) for alternatives in either if alternatives)


@settings(max_examples=settings().max_examples // 2)
@given(steps=st.lists(_step, min_size=2, max_size=8), filters=_filters, question=_sentence)
def test_filtered_out_passages_are_not_found_counted_or_walked_through(
    steps: list[tuple[str, str, str | None]], filters: list[str], question: str
) -> None:
    wanted = parse_question(question, filters, NOON).filter_
    with TemporaryDirectory() as folder:
        index = Index(Path(folder), (*VISIBLE, *HIDDEN))
        with closing(index.stack):
            versions = [index.change(*step) for step in steps]
            for at in dict.fromkeys(version for version in versions if version != "0"):
                for hidden in (frozenset(), HIDDEN):
                    _check(index, at, hidden, filters, wanted, question)


def _check(
    index: Index,
    at: str,
    hidden: frozenset[str],
    filters: list[str],
    wanted: Filter,
    question: str,
) -> None:
    left = {
        (source.name, document.path): {place.passage for place in document.occurrences}
        for source in index.sources
        if source.name not in hidden
        for document in list_documents(index.stack.connection, int(at), source.id)
        if _holds(filters, source.name, document.path, {*document.properties})
    }
    passages = {passage for held in left.values() for passage in held}
    for search in SEARCHES:
        answer = index.engine.query(question, 20, search, at, hidden=hidden, filter_=wanted)
        assert answer is not None
        snapshot = answer.snapshot
        assert snapshot.statistics.passages == len(passages)
        assert np.count_nonzero(snapshot.statistics.visible.documents) == len(left)
        assert _named_in(answer) <= passages, search
        places = {(one.source, one.document) for held in answer.places.values() for one in held}
        assert places <= left.keys()
        if search == Search("dense"):
            assert {hit.passage for hit in answer.ranked} == passages


def _named_in(answer: Answer) -> set[int]:
    """The passages that an answer speaks of."""
    hops = [hop for hit in answer.ranked for hop in hit.hops]
    return {hit.passage for hit in answer.ranked} | {
        end for hop in hops for end in (hop.source, hop.target)
    }


def edge_list(edges: MatchColumns) -> list[tuple[int, int, float]]:
    columns = edges.source_question, edges.target_question, edges.similarity
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(history=histories)
def test_counts_are_of_the_filtered_passages_and_edges_of_the_whole_graph(
    history: list[Step],
) -> None:
    found = states(history)
    both, alone = grown(found), grown([state.without("closed") for state in found])
    for version in range(1, len(found) + 1):
        whole = snapshot_at(both, version)
        among = both.documents.source != (
            both.sources.index("closed") if "closed" in both.sources else -1
        )
        left, expected = whole.filter_documents(among), Statistics.count(alone, version)
        counts = left.statistics
        assert (counts.passages, counts.words) == (expected.passages, expected.words)
        for name in ("in_questions", "as_document_name", "mention_counts", "joins_documents"):
            seen = dict(zip(both.name_texts, getattr(counts, name).tolist(), strict=True))
            other = dict(zip(alone.name_texts, getattr(expected, name).tolist(), strict=True))
            assert {key: one for key, one in seen.items() if one} == {
                key: one for key, one in other.items() if one
            }, name
        inside, edges = counts.visible.passages, whole.list_edges()
        kept = edges.take(
            inside[both.outgoing.passage_row[edges.source_question]]
            & inside[both.incoming.passage_row[edges.target_question]]
        )
        assert edge_list(kept) == edge_list(left.list_edges())


@pytest.mark.parametrize("pair", [("source:open", "path:x/"), ("tag:garden", "source:open")])
def test_the_flags_of_a_filter_are_reused_for_the_next_version(pair: tuple[str, str]) -> None:
    """A mask made for one version serves the next, and another filter has its own."""
    with TemporaryDirectory() as folder:
        index = Index(Path(folder), VISIBLE)
        with closing(index.stack):
            for number, path in enumerate(["a.md", "x/b.md", "x/c.md"]):
                at = index.change(
                    "open", path, f"---\ntags: [garden/herbs]\n---\nRome {number} fell."
                )
                for one in pair:
                    _check(
                        index,
                        at,
                        frozenset(),
                        [one],
                        parse_question("", [one], NOON).filter_,
                        "Rome",
                    )
