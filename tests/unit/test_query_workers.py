"""Queries answered by other processes: the same answers, at the version asked for, whoever dies."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from structlog.testing import capture_logs

from hopsyncd.api.query_process import Wanted, WorkerSettings
from hopsyncd.api.query_workers import QueryWorkers, choose_worker_version
from hopsyncd.config.values import Search
from hopsyncd.ingest.upkeep import purge_document
from hopsyncd.responses.results import QueryAnswer
from hopsyncd.retrieve.visible_sources import Acl
from tests.fakes.query_desk import HIDDEN, HOP, NOBODY, QUESTION, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.workers.close()
    made.stack.close()


def test_a_worker_hides_from_an_acl_what_the_acl_does_not_name(desk: Desk) -> None:
    nothing = Acl(frozenset({"a source that is not there"}))
    desk.until_handed_over(nothing)
    before = desk.here
    assert desk.ask(hidden=nothing) == desk.alone(hidden=HIDDEN)
    assert desk.ask(hidden=nothing)["passages"] == []
    assert desk.ask(hidden=Acl(HIDDEN)) == desk.alone()
    assert desk.here == before


def test_a_worker_gives_the_same_answers_at_every_version_and_behind_every_mask(desk: Desk) -> None:
    assert desk.workers.pids == []
    desk.until_handed_over()
    (pid,) = desk.workers.pids
    assert pid != os.getpid()
    before = desk.here
    assert desk.ask(hidden=HIDDEN) == desk.alone(hidden=HIDDEN)
    assert desk.here == before + 1  # the worker makes what is behind the mask without an asker
    desk.until_handed_over(HIDDEN)
    first, before = desk.stack.head.id, desk.here
    for strategy in ("hop", "bm25", "dense", "hybrid", "decompose"):
        search = Search(strategy)
        for hidden in (NOBODY, HIDDEN):
            assert desk.ask(first, search, hidden) == desk.alone(first, search, hidden)
    assert desk.ask(first, HOP, HIDDEN)["passages"] == []
    assert desk.here == before

    desk.question = "Where did ceasar rule?"  # what it is taken for comes with no vector
    for search in (Search("bm25"), HOP):
        assert desk.ask(first, search) == desk.alone(first, search)
        understood = desk.ask(first, search)["understood"]
        assert understood and understood["question"] == "Where did caesar rule?"
    assert (desk.here, {message.kind for message in desk.wanted}) == (before, {"questions"})
    desk.question, before = QUESTION, desk.here

    desk.files.put("oslo.md", b"# Oslo\n\nCaesar never called on Oslo.\n")
    desk.sync()
    assert desk.ask() == desk.alone()
    assert desk.here == before + 1  # the worker was behind
    desk.until_handed_over()
    before = desk.here
    for at in (first, desk.stack.head.id):
        assert desk.ask(at) == desk.alone(at)
    assert (desk.here, desk.workers.pids) == (before, [pid])


def test_a_worker_answers_questions_with_what_the_daemons_models_tell_it(desk: Desk) -> None:
    desk.until_handed_over()
    desk.files.put("dates.md", b"# Rome\n\nCaesar died in Rome on 15 March 44.\n")
    desk.sync()
    desk.until_handed_over()
    before = desk.here
    for question, found in (
        (QUESTION, True),
        ("When did Caesar die in Rome?", True),
        ("Why?", False),
    ):
        desk.question = question
        assert desk.reply() == desk.reply_alone()
        assert desk.reply()["found"] == found
    assert desk.here == before
    assert "entities" in {message.kind for message in desk.wanted}


def test_if_a_worker_has_no_models_this_process_answers_and_the_worker_stays(desk: Desk) -> None:
    desk.until_handed_over()
    before, pids = desk.here, desk.workers.pids
    desk.question, desk.has_models = "Where did ceasar rule?", False
    assert desk.ask() == desk.alone()
    assert desk.here == before + 1
    desk.question = QUESTION
    assert desk.ask() == desk.alone()
    assert (desk.here, desk.workers.pids) == (before + 1, pids)


def test_a_worker_whose_request_is_not_answered_is_replaced(desk: Desk) -> None:
    desk.until_handed_over()
    (pid,) = desk.workers.pids
    desk.question = "Where did ceasar rule?"

    def fail(_: Wanted) -> None:
        raise RuntimeError("the model has a mistake")

    message = desk.message(desk.stack.head.id, HOP, NOBODY)
    with pytest.raises(RuntimeError, match="a mistake"):
        desk.workers.answer(desk.stack.head.id, message, fail, desk.alone)
    desk.until_handed_over()
    assert desk.workers.pids != [pid]


def test_a_query_whose_worker_is_killed_is_answered_and_another_worker_comes(desk: Desk) -> None:
    desk.until_handed_over()
    (pid,) = desk.workers.pids
    before = desk.here
    kill = partial(os.kill, pid, signal.SIGKILL)
    assert desk.ask(before=kill) == desk.alone()
    assert desk.here == before + 1
    desk.until_handed_over()
    assert desk.workers.pids not in ([], [pid])


def test_an_idle_worker_ends_and_starts_again_when_queries_overlap(tmp_path: Path) -> None:
    desk = Desk(tmp_path, idle_s=0.5)
    try:
        for _ in range(2):
            desk.until_handed_over()
            (pid,) = desk.workers.pids
            assert until(lambda: not desk.workers.pids)
            assert until(partial(has_ended, pid))
            before = desk.here
            assert desk.ask() == desk.alone()
            assert desk.here == before + 1
            time.sleep(0.1)
            assert not desk.workers.pids  # one query alone needs no worker
    finally:
        desk.workers.close()
        desk.stack.close()


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def until(holds: Callable[[], bool], within_s: float = 20.0) -> bool:
    end_s = time.monotonic() + within_s
    while not holds() and time.monotonic() < end_s:
        time.sleep(0.02)
    return holds()


def test_a_request_does_not_wait_for_a_killed_worker(desk: Desk) -> None:
    desk.until_handed_over()
    expected, found = desk.alone(), list[QueryAnswer]()

    def ask_often() -> None:
        for _ in range(20):
            found.append(desk.ask())

    threads = [Thread(target=ask_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        for pid in desk.workers.pids:
            with suppress(ProcessLookupError):  # it has just been replaced
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert found == [expected] * 80


def test_a_query_whose_worker_is_closed_is_answered_here(desk: Desk) -> None:
    desk.until_handed_over()
    before = desk.here
    assert desk.ask(before=desk.workers.close) == desk.alone()
    assert (desk.here, desk.workers.pids) == (before + 1, [])
    assert desk.ask() == desk.alone()


def test_after_a_purge_no_worker_answers_from_the_old_index(desk: Desk) -> None:
    desk.until_handed_over()
    (pid,) = desk.workers.pids
    purge_document(desk.stack.path, "paris.md", "notes", 0)
    desk.stack.writer.forget_index()
    desk.engine.publish(desk.stack.writer.make_snapshot(desk.stack.head))
    assert desk.ask() == desk.alone()
    desk.until_handed_over()
    assert "Lutetia" not in str(desk.ask())
    assert desk.workers.pids != [pid]


def test_an_idle_worker_ends_after_a_purge(desk: Desk) -> None:
    desk.until_handed_over()
    (pid,) = desk.workers.pids
    purge_document(desk.stack.path, "paris.md", "notes", 0)
    desk.workers.require_update(desk.stack.head.id)
    end_s = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_if_no_worker_can_start_the_daemon_answers_alone(desk: Desk, tmp_path: Path) -> None:
    nowhere = WorkerSettings(tmp_path / "nowhere.db", tmp_path / "index", 1.0)
    desk.workers = QueryWorkers(nowhere, 2, 20.0)
    end_s = time.monotonic() + 60
    with capture_logs() as logged:
        while not any("only the daemon's process" in entry["event"] for entry in logged):
            assert desk.meet(desk.workers) == desk.alone()
            assert time.monotonic() < end_s
            time.sleep(0.05)
    assert desk.workers.pids == []


def test_workers_get_only_searches_of_served_versions_without_other_models() -> None:
    assert choose_worker_version(HOP, "head", 9) == 9
    assert choose_worker_version(Search("dense"), "7", 9) == 7
    for search, at in (
        *((HOP, "a tag"), (HOP, "10"), (HOP, "999999999"), (HOP, "0")),
        *((Search("statement"), "head"), (Search("hop", reasoner="llm"), "head")),
    ):
        assert choose_worker_version(search, at, 9) is None
    assert choose_worker_version(HOP, "head", 0) is None
