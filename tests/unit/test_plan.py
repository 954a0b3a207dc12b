"""The plan: what to do about each item, and why."""

import time

import pytest

from connectors.protocol import Item, Problem, SourceUnavailable
from hopsyncd.ingest.plan import Action, Listing, Step, decide, scan
from hopsyncd.ingest.source_thread import run_to_end
from store.records import Seen
from store.visibility import HiddenFolders, hides
from tests.fakes.memory import MemoryConnector

LIVE = {"a.md": b"1", "b.md": b"2"}
SEEN = {path: Seen(1, path, "r1", content) for path, content in LIVE.items()}


def listing(
    *paths: str, revision: str = "r1", problems: tuple[Problem, ...] = (), under: str | None = None
) -> Listing:
    items = {path: Item(path, revision) for path in paths}
    return Listing(items, problems, None if under is None else (under,))


def done(steps: tuple[Step, ...]) -> list[tuple[str, str, str]]:
    return [(str(step.action), step.path, step.reason) for step in steps]


def test_an_unchanged_item_needs_no_step() -> None:
    assert decide(listing("a.md", "b.md"), SEEN, LIVE) == ()


def test_a_new_item_is_fetched() -> None:
    assert done(decide(listing("a.md", "b.md", "c.md"), SEEN, LIVE)) == [("fetch", "c.md", "new")]


def test_an_item_of_another_revision_is_fetched() -> None:
    steps = decide(listing("a.md", "b.md", revision="r0"), SEEN, LIVE)
    assert done(steps) == [("fetch", "a.md", "changed"), ("fetch", "b.md", "changed")]


def test_a_missing_document_is_removed() -> None:
    assert done(decide(listing("a.md"), SEEN, LIVE)) == [("remove", "b.md", "no longer there")]


def test_a_missing_item_that_never_was_a_document_is_forgotten() -> None:
    seen = SEEN | {"c.bin": Seen(1, "c.bin", "r1", b"3", why="it is binary")}
    steps = decide(listing("a.md", "b.md"), seen, LIVE)
    assert done(steps) == [("forget", "c.bin", "no longer there")]


def test_a_renamed_document_is_fetched_before_it_is_removed() -> None:
    assert [step.action for step in decide(listing("a.md", "c.md"), SEEN, LIVE)] == [
        Action.FETCH,
        Action.REMOVE,
    ]


def test_a_problem_is_reported_and_its_document_kept() -> None:
    locked = Problem("b.md", "permission denied", "Allow it")
    steps = decide(listing("a.md", problems=(locked,)), SEEN, LIVE)
    assert done(steps) == [("report", "b.md", "permission denied")]
    assert steps[0].problem == locked


@pytest.mark.parametrize("folder", ["x", ""])
def test_what_is_below_an_unlisted_folder_is_kept(folder: str) -> None:
    live = {"x/a.md": b"1", "x/y/b.md": b"2"}
    locked = Problem(folder, "permission denied", "Allow it", subtree=True)
    steps = decide(listing(problems=(locked,)), {}, live)
    assert [step.action for step in steps] == [Action.REPORT]


def test_a_folder_s_problem_says_nothing_of_a_like_named_one() -> None:
    locked = Problem("x", "permission denied", "Allow it", subtree=True)
    steps = decide(listing("z.md", problems=(locked,)), {}, {"xy/a.md": b"1", "z.md": b"2"})
    assert ("remove", "xy/a.md", "no longer there") in done(steps)


def test_a_problem_of_one_item_says_nothing_of_those_below() -> None:
    pipe = Problem("x", "it is a pipe", "Move it")
    steps = decide(listing("z.md", problems=(pipe,)), {}, {"x/a.md": b"1", "z.md": b"2"})
    assert ("remove", "x/a.md", "no longer there") in done(steps)


def test_a_partial_listing_says_nothing_of_the_rest() -> None:
    live = {"x/a.md": b"1", "x/b.md": b"2", "y.md": b"3"}
    steps = decide(listing("x/a.md", under="x"), {}, live)
    assert done(steps) == [("fetch", "x/a.md", "new"), ("remove", "x/b.md", "no longer there")]


@pytest.mark.parametrize("under", [None, ""])
def test_a_source_that_lost_everything_is_paused(under: str | None) -> None:
    with pytest.raises(SourceUnavailable, match="accept-empty"):
        decide(listing(under=under), SEEN, LIVE)


def test_the_user_may_say_that_an_empty_source_is_meant() -> None:
    steps = decide(listing(), SEEN, LIVE, accept_empty=True)
    assert [step.action for step in steps] == [Action.REMOVE, Action.REMOVE]


def test_an_empty_source_that_never_had_a_document_is_healthy() -> None:
    assert decide(listing(), {}, {}) == ()


def test_all_documents_may_be_renamed_at_once() -> None:
    assert len(decide(listing("x/a.md", "x/b.md"), SEEN, LIVE)) == 4


def test_a_scan_separates_items_and_problems() -> None:
    files = MemoryConnector({"a.md": b"", "x/b.md": b"", "x/c.md": b""})
    files.problems["x/b.md"] = Problem("x/b.md", "too large", "Ignore it")
    found = run_to_end(scan(files, ["x"]))
    assert found.items.keys() == {"x/c.md"}
    assert [problem.id for problem in found.problems] == ["x/b.md"]
    assert found.covers("x/d.md")
    assert not found.covers("xy.md")


def test_a_name_with_nul_which_a_server_cannot_store_is_a_problem() -> None:
    listing = run_to_end(scan(MemoryConnector({"a.md": b"", "b\0.md": b""}), None))
    assert [*listing.items] == ["a.md"]
    (problem,) = listing.problems
    assert (problem.id, problem.why) == ("b\\x00.md", "the name contains a NUL character")


def test_the_problem_of_a_long_path_is_hidden_like_the_path() -> None:
    hidden = f"{'a/' * 60}closed/{'b/' * 60}c.md"
    files = {"a.md": b"", hidden: b"", f"{'x' * 300}.md": b""}
    listing = run_to_end(scan(MemoryConnector(files), None, max_path_bytes=200))
    assert [*listing.items] == ["a.md"]
    folder, name = sorted(problem.id for problem in listing.problems)
    assert len(folder.encode()) <= 200 and len(name.encode()) <= 200
    mask = frozenset({HiddenFolders("notes", ("closed/",), (True, False))})
    assert hides(mask, "notes", folder) and not hides(mask, "notes", name)


def test_a_long_path_that_cannot_be_listed_lets_files_beside_it_be_removed() -> None:
    path = f"x/{'y' * 300}/z"
    files = MemoryConnector({"a.md": b""})
    files.problems[path] = Problem(path, "permission denied", "Allow it", subtree=True)
    found = run_to_end(scan(files, None, max_path_bytes=200))
    seen = {"x/b.md": Seen(1, "x/b.md", "r1", b"")}
    steps = decide(found, seen, {"x/b.md": b""})
    assert [step.action for step in steps if step.path == "x/b.md"] == [Action.REMOVE]


def test_a_long_path_that_is_gone_is_no_problem() -> None:
    files = MemoryConnector({"a.md": b"", f"{'x' * 300}.md": b""}, cursors=True)
    files.remove(f"{'x' * 300}.md")
    found = run_to_end(scan(files, None, since="1", max_path_bytes=200))
    assert not found.problems and found.gone == {f"{'x' * 300}.md"}


def test_a_purged_item_is_passed_over() -> None:
    problem = Problem("d.md", "permission denied", "Allow it")
    found = listing("a.md", "b.md", "c.md", problems=(problem,))
    assert decide(found, SEEN, LIVE, excluded={"c.md", "d.md"}) == ()


def test_a_purged_name_says_nothing_of_the_folder_of_that_name() -> None:
    problem = Problem("x", "permission denied", "Allow it", subtree=True)
    steps = decide(listing("a.md", "b.md", problems=(problem,)), SEEN, LIVE, excluded={"x"})
    assert [step.action for step in steps] == [Action.REPORT]


def test_many_removals_beside_many_problems_are_decided_at_once() -> None:
    seen = {f"old/{n}.md": Seen(1, f"old/{n}.md", "r1", b"") for n in range(20_000)}
    problems = tuple(Problem(f"new/{n}.md", "it is too large", "Split it") for n in range(5_000))
    began_s = time.process_time()
    steps = decide(listing("a.md", problems=problems), seen, {**LIVE, **dict.fromkeys(seen, b"")})
    assert len(steps) == 1 + 5_000 + 20_000 + 1
    assert time.process_time() - began_s < 3
