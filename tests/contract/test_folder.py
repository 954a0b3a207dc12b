"""What every connector promises. A new one joins with its counterpart in COUNTERPARTS."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from connectors.folder import FolderConnector
from connectors.protocol import Connector, Item, ItemVanished, Problem, SourceUnavailable
from connectors.settings import FileSettings
from tests.fakes.listing import named


class Counterpart(Protocol):
    """The real thing that a connector reads, changed from outside."""

    def connector(self) -> Connector: ...
    def put(self, id_: str, data: bytes) -> None: ...
    def remove(self, id_: str) -> None: ...
    def make_unreadable(self, id_: str) -> None: ...
    def take_away(self) -> None:
        """Make the whole source unavailable."""
        ...


class FolderCounterpart:
    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.root.mkdir()

    def connector(self) -> FolderConnector:
        return FolderConnector(self.root, FileSettings(max_bytes=100_000))

    def put(self, id_: str, data: bytes) -> None:
        path = self.root / id_
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def remove(self, id_: str) -> None:
        (self.root / id_).unlink()

    def make_unreadable(self, id_: str) -> None:
        # Root reads files of mode 000; a file over the cap is refused to everyone.
        with (self.root / id_).open("r+b") as file:
            file.truncate(100_001)

    def take_away(self) -> None:
        self.root.rename(self.root.with_name("elsewhere"))


COUNTERPARTS: list[Callable[[Path], Counterpart]] = [FolderCounterpart]


@pytest.fixture(params=COUNTERPARTS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Counterpart:
    made: Counterpart = request.param(tmp_path)
    return made


def items(source: Counterpart, under: list[str] | None = None) -> dict[str, Item]:
    return {
        found.id: found
        for found in source.connector().discover(None, under)
        if isinstance(found, Item)
    }


def test_all_files_are_listed_and_fetched(source: Counterpart) -> None:
    texts = {"a.md": b"# A", "b/c.txt": b"see", "b/d/e.rst": b"E\n=", "empty.md": b""}
    for id_, data in texts.items():
        source.put(id_, data)
    listed = items(source)
    assert listed.keys() == texts.keys()
    fetched = {id_: source.connector().fetch(item) for id_, item in listed.items()}
    assert {id_: content.data for id_, content in fetched.items()} == texts
    assert all(fetched[id_].revision == item.revision for id_, item in listed.items())
    assert fetched["a.md"].media_type == "text/markdown"


def test_an_unchanged_item_keeps_its_revision(source: Counterpart) -> None:
    source.put("a.md", b"one")
    before = items(source)
    source.put("b.md", b"another")
    after = items(source)
    assert after["a.md"] == before["a.md"]


@pytest.mark.parametrize("new", [b"two", b"longer than before", b""])
def test_a_changed_item_gets_another_revision(source: Counterpart, new: bytes) -> None:
    source.put("a.md", b"one")
    before = items(source)["a.md"]
    source.connector().fetch(before)
    source.put("a.md", new)
    after = items(source)["a.md"]
    assert after.revision != before.revision
    assert source.connector().fetch(before).revision == after.revision


def test_an_edit_right_after_a_fetch_gets_another_revision(source: Counterpart) -> None:
    """Same size, same tick of the file system's clock: the fetch waits that tick out."""
    for round_ in range(20):
        source.put("a.md", b"%03d" % round_)
        fetched = source.connector().fetch(items(source)["a.md"])
        source.put("a.md", b"%03d" % (round_ + 500))
        assert items(source)["a.md"].revision != fetched.revision


def test_an_item_that_vanishes_between_listing_and_fetch(source: Counterpart) -> None:
    source.put("a/b.md", b"one")
    item = items(source)["a/b.md"]
    source.remove("a/b.md")
    with pytest.raises(ItemVanished):
        source.connector().fetch(item)
    assert items(source) == {}


def test_an_unreadable_item_is_a_problem_and_the_rest_goes_on(source: Counterpart) -> None:
    for id_ in ("a.md", "b.md", "c.md"):
        source.put(id_, b"text")
    source.make_unreadable("b.md")
    found = {entry.id: entry for entry in named(source.connector().discover(None))}
    assert [type(found[id_]) for id_ in ("a.md", "b.md", "c.md")] == [Item, Problem, Item]
    problem = found["b.md"]
    assert isinstance(problem, Problem)
    assert problem.why and problem.hint


def test_an_unavailable_source_is_not_treated_as_empty(source: Counterpart) -> None:
    source.put("a.md", b"one")
    source.take_away()
    with pytest.raises(SourceUnavailable):
        list(source.connector().discover(None))
    with pytest.raises(SourceUnavailable):
        list(source.connector().discover(None, ["a.md"]))


def test_a_listing_yields_items_while_it_runs(source: Counterpart) -> None:
    for id_ in ("a/1.md", "b/2.md", "c/3.md"):
        source.put(id_, b"text")
    listing = source.connector().discover(None)
    next(listing)
    source.put("c/4.md", b"text")
    assert "c/4.md" in {found.id for found in named(listing)}


NAMES = st.sampled_from(["a", "b.md", "c.txt", ".gitignore", "build", ".env", "e\nf.md", "ü.md"])
IDS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PATTERNS = st.sampled_from([b"a", b"*.md", b"!b.md", b"/a/a", b"a/", b"*\n!*/", b"!build/", b"c*"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(tree={"a/.gitignore": b"*.md", "a/a/b.md": b""}, under=["a/a/b.md"])
@example(tree={"a": b"", "b.md": b""}, under=["b.md/x", "b.md"])
@given(
    tree=st.dictionaries(IDS, PATTERNS, max_size=12),
    under=st.lists(IDS, max_size=3),
)
def test_a_listing_under_ids_is_that_part_of_the_whole(
    tree: dict[str, bytes], under: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for make in COUNTERPARTS:
        source = make(tmp_path_factory.mktemp("source"))
        for id_, data in tree.items():
            _put_where_possible(source, id_, data)
        whole = list(named(source.connector().discover(None)))
        part = [found for found in whole if _is_under(found.id, under)]
        assert list(source.connector().discover(None, under)) == part


def _put_where_possible(source: Counterpart, id_: str, data: bytes) -> None:
    # The generated tree may have a file where this one needs a folder.
    with contextlib.suppress(OSError):
        source.put(id_, data)


def _is_under(id_: str, under: list[str]) -> bool:
    return any(id_ == wanted or id_.startswith(wanted + "/") for wanted in under)
