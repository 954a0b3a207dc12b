"""A caller without access to a folder gets the answers of an index that never had its files."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopsyncd.api.passages import answer_documents
from hopsyncd.api.requests import DocumentsRequest
from hopsyncd.ingest.plan import Scope
from store.visibility import HiddenFolders, Mask
from tests.property.test_visibility import (
    CANARY,
    SEARCHES,
    SHARED,
    Index,
    check_history,
    graph_around,
    questions,
    texts,
    told,
)

SOURCES = ("open", "public")
CLOSED_FOLDER = ("", "hr/", ("hr/**",), (True, False))
OPEN_FOLDER = ("shown/", "", ("shown/**",), (False, True))
EXCEPTION = ("hr/shown/", "hr/", ("hr/**", "hr/shown/"), (True, False, False))
LAYOUTS = (CLOSED_FOLDER, OPEN_FOLDER, EXCEPTION)


class Step(NamedTuple):
    """A file that comes, changes or goes (no text), or moves between the two folders."""

    source: str
    is_hidden: bool
    path: str
    text: str | None
    moves: bool = False


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(SOURCES),
        st.booleans(),
        st.sampled_from(["a.md", "b.md", "Rome.md"]),
        st.none() | texts,
        st.booleans(),
    ),
    min_size=2,
    max_size=10,
)


class Files:
    """The files of both folders. `index` gets those that it should know."""

    def __init__(self, index: Index, seen: str, hidden: str, knows_hidden: bool) -> None:
        self.index = index
        self._folders = {False: seen, True: hidden}
        self._knows_hidden = knows_hidden
        self._texts: dict[tuple[str, bool, str], str] = {}

    def take(self, step: Step) -> str:
        """Take a step in one scan of the sources; the version afterwards."""
        here = (step.source, step.is_hidden, step.path)
        there = (step.source, not step.is_hidden, step.path)
        if step.moves:
            self._put(there, self._texts.pop(here, None))
            self._put(here, None)
        else:
            secret = step.is_hidden and step.text and len(step.text) % 2
            self._put(here, f"{step.text} {CANARY}" if secret else step.text)
        for source in self.index.sources:
            self.index.stack.path.sync(source, Scope(None, accept_empty=True))
        return self.index.publish()

    def _put(self, key: tuple[str, bool, str], text: str | None) -> None:
        source, is_hidden, path = key
        if text is None:
            self._texts.pop(key, None)
        else:
            self._texts[key] = text
        if is_hidden and not self._knows_hidden:
            return
        connector, full = self.index.connectors[source], self._folders[is_hidden] + path
        if text is not None:
            connector.put(full, text.encode())
        elif full in connector.files:
            connector.remove(full)


@pytest.mark.parametrize("layout", LAYOUTS, ids=["closed folder", "open folder", "exception"])
@settings(max_examples=settings().max_examples // 3)
@given(steps=steps, question=questions)
@example(  # moves out of the hidden folder, and back
    steps=[
        Step("open", False, "b.md", SHARED),
        Step("open", True, "a.md", "In that year Rome praised Ada Byron."),
        Step("open", True, "a.md", None, moves=True),
        Step("open", False, "a.md", None, moves=True),
    ],
    question=SHARED,
)
@example(  # the same passage in both folders; then only the hidden place is left
    steps=[
        Step("open", False, "a.md", SHARED),
        Step("open", True, "b.md", SHARED),
        Step("public", False, "b.md", "In that year Ada Byron left London."),
        Step("open", False, "a.md", None),
    ],
    question=SHARED,
)
@example(  # a visible file moves while a hidden file with its content goes
    steps=[
        Step("open", False, "b.md", SHARED),
        Step("open", True, "a.md", SHARED),
        Step("open", True, "a.md", None, moves=True),
    ],
    question=SHARED,
)
def test_every_read_at_every_version_answers_as_without_the_hidden_files(
    layout: tuple[str, str, tuple[str, ...], tuple[bool, ...]], steps: Sequence[Step], question: str
) -> None:
    seen, closed, patterns, decisions = layout
    hidden: Mask = frozenset(HiddenFolders(name, patterns, decisions) for name in SOURCES)
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        both, alone = (Index(Path(folder), SOURCES) for folder in (first, second))
        with closing(both.stack), closing(alone.stack):
            mixed_files = Files(both, seen, closed, knows_hidden=True)
            pure_files = Files(alone, seen, closed, knows_hidden=False)
            taken = [(mixed_files.take(step), pure_files.take(step)) for step in steps]
            versions = [pair for pair in taken if "0" not in pair]
            for mixed, pure in {*versions}:
                for search in SEARCHES:
                    expected = told(alone.engine, search, question, pure, frozenset())
                    assert told(both.engine, search, question, mixed, hidden) == expected
                expected = graph_around(alone.engine, pure, frozenset())
                found = graph_around(both.engine, mixed, hidden)
                assert found == expected
            check_history(both, alone, versions, hidden)
            for mixed, pure in {*versions}:
                assert list_pages(both, mixed, hidden) == list_pages(alone, pure, frozenset())


def list_pages(index: Index, at: str, hidden: Mask) -> list[Any]:
    """All documents at a version, in pages of one."""
    found, after = list[Any](), None
    while True:
        with index.engine.reading(at, hidden) as (connection, head):
            request = DocumentsRequest(limit=1, after=after)
            page = answer_documents(connection, head, request, ())
        found += page["documents"]
        after = page["next"]
        if after is None:
            return found
