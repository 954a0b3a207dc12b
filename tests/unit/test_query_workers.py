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

from hopsyncd.api import query_workers
from hopsyncd.api.query_process import (
    AskMessage,
    QueryMessage,
    UpdateMessage,
    Wanted,
    WorkerSettings,
    _Copy,
)
from hopsyncd.api.query_workers import QueryWorkers, choose_worker_version
from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.ingest import saved_index
from hopsyncd.ingest.index_loading import follow
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.upkeep import purge_document
from hopsyncd.responses.results import AskAnswer, QueryAnswer
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import format_reply
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_parser import Understood
from hopsyncd.retrieve.results import format_answer
from hopsyncd.retrieve.visible_sources import Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.changes import stamp
from store.transactions import snapshot
from store.visibility import Mask
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

ROME = b"# Rome\n\nRome lies on the Tiber. Caesar ruled in Rome.\n"
PARIS = b"# Paris\n\nParis lies on the Seine. Caesar called it Lutetia.\n"
QUESTION = "What did Caesar call Paris?"
HOP = Search("hop")
NOBODY: frozenset[str] = frozenset()
HIDDEN = frozenset({"notes"})


class Desk:
    """A daemon's side: queries go to one worker where it can answer, else they are counted."""

    def __init__(self, folder: Path, idle_s: float = 600.0) -> None:
        self.files = MemoryConnector({"rome.md": ROME, "paris.md": PARIS})
        self.stack = Stack(folder / "s.db", self.files)
        self.engine = Engine(folder / "s.db", FakeEncoder(), WalkSettings())
        settings = WorkerSettings(folder / "s.db", folder / "index", 1.0)
        self.workers = QueryWorkers(settings, 1, 20.0, idle_s)
        self.here = 0
        self.question = QUESTION
        self.wanted: list[Wanted] = []  # by workers, of the models
        self.has_models = True
        self.sync()

    def sync(self) -> None:
        self.stack.sync()
        self.engine.publish(self.stack.writer.make_snapshot(self.stack.head))

    def alone(self, at: int = 0, search: Search = HOP, hidden: Mask | Acl = NOBODY) -> QueryAnswer:
        """What this process answers."""
        at = at or self.stack.head.id
        return format_answer(
            self.engine.query(self.question, 5, search, str(at), hidden=hidden),
            search,
            Understood(self.question),
        )

    def ask(
        self,
        at: int = 0,
        search: Search = HOP,
        hidden: Mask | Acl = NOBODY,
        before: Callable[[], object] = lambda: None,
    ) -> QueryAnswer:
        """What the workers answer, or this process in their place."""
        at = at or self.stack.head.id

        def here() -> QueryAnswer:
            self.here += 1
            return self.alone(at, search, hidden)

        before()
        return self.workers.answer(at, self.message(at, search, hidden), self.given, here)

    def reply_alone(self) -> AskAnswer:
        """The answer from what this process finds."""
        asker = Asker(self.engine, FakeEncoder(), FakeLanguage())
        found, reply = asker.ask(self.question, 5, HOP, str(self.stack.head.id))
        return format_reply(found, reply, [], Understood(self.question), True)

    def reply(self) -> AskAnswer:
        """That of the workers, or of this process in their place."""

        def here() -> AskAnswer:
            self.here += 1
            return self.reply_alone()

        at = self.stack.head.id
        message = AskMessage(self.message(at, HOP, NOBODY), with_passages=True)
        return self.workers.answer(at, message, self.given, here)

    def given(self, wanted: Wanted) -> list[object] | None:
        self.wanted.append(wanted)
        if not self.has_models:
            return None
        if wanted.kind == "entities":
            return [*FakeLanguage().find_entities(wanted.texts)]
        return [*FakeEncoder().encode(wanted.texts)]

    def until_handed_over(self, hidden: Mask | Acl = NOBODY) -> None:
        """Ask, two at a time, until the worker has the head and answers."""
        end_s = time.monotonic() + 60
        while time.monotonic() < end_s:
            before = self.here
            self.ask(hidden=hidden)
            if self.here == before:
                return
            self.meet(self.workers)
            time.sleep(0.02)
        raise AssertionError("no worker answers")

    def meet(self, workers: QueryWorkers) -> QueryAnswer:
        """Ask while another query is answered."""
        message = self.message(self.stack.head.id, HOP, NOBODY)
        return workers.answer(self.stack.head.id, message, self.given, self.ask)

    def message(self, at: int, search: Search, hidden: Mask | Acl) -> QueryMessage:
        encoded = self.engine.encode_texts(self.question, search)
        meant, settings = Understood(self.question), WalkSettings()
        name = FakeEncoder().name
        return QueryMessage(meant, 5, search, str(at), hidden, settings, name, encoded)


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


def test_a_worker_reads_an_index_that_was_saved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the rows that came since its start are not in its own memory."""
    monkeypatch.setattr(saved_index, "_FEW_ROWS", -1)
    desk, folder = Desk(tmp_path), tmp_path / "index"
    connection, generation = desk.stack.connection, desk.stack.maker.generation
    saved = SavedIndex(folder)
    index = saved.load(connection, generation, desk.stack.head.id)

    def save() -> None:
        with snapshot(connection):
            follow(connection, index, generation.encoder, index.version, desk.stack.head.id)
        saved.save(stamp(connection, index.version), index, generation.encoder)

    save()
    copy = _Copy(WorkerSettings(tmp_path / "s.db", folder, 1.0), desk.given)
    for number in range(2):
        desk.files.put(f"{number}.md", f"# Oslo {number}\n\nCaesar met Oslo.\n".encode())
        desk.sync()
        if number:
            save()
        before = copy._index
        copy.follow(desk.stack.head.id)
        assert (copy._index is not before) == bool(number)
        message = desk.message(desk.stack.head.id, HOP, NOBODY)
        assert copy.answer(message) == desk.alone()
        copy.release_memory()
        assert copy.answer(message) == desk.alone()
    desk.workers.close()
    desk.stack.close()


def save_newest(desk: Desk, saved: SavedIndex) -> None:
    """Save the index of the newest version."""
    connection, generation = desk.stack.connection, desk.stack.maker.generation
    newest = desk.stack.head.id
    index = saved.load(connection, generation, newest)
    saved.save(stamp(connection, newest), index, generation.encoder)


def test_workers_check_no_files_that_the_daemon_has_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_index, "_FEW_ROWS", -1)
    desk, folder = Desk(tmp_path), tmp_path / "index"
    saved = SavedIndex(folder)
    save_newest(desk, saved)
    checks, compute = list[str](), saved_index._compute_digests

    def count_check(parts: saved_index.Parts) -> dict[str, str]:
        checks.append(saved.checked)
        return compute(parts)

    settings = WorkerSettings(tmp_path / "s.db", folder, 1.0, saved.checked)
    with monkeypatch.context() as patch:
        patch.setattr(saved_index, "_compute_digests", count_check)
        copy = _Copy(settings, desk.given)
    for number, is_told in enumerate((True, False)):
        desk.files.put(f"{number}.md", f"# Oslo {number}\n\nCaesar met Oslo.\n".encode())
        desk.sync()
        save_newest(desk, saved)
        newest = desk.stack.head.id
        with monkeypatch.context() as patch:
            patch.setattr(saved_index, "_compute_digests", count_check)
            copy.follow(newest, saved.checked if is_told else "")
        assert bool(checks) != is_told
        assert copy.answer(desk.message(newest, HOP, NOBODY)) == desk.alone()
    desk.workers.close()
    desk.stack.close()


def test_the_daemon_tells_workers_which_files_it_has_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()

    def refuse(settings: WorkerSettings) -> None:
        told.append(settings.checked)
        raise OSError("no worker is needed")

    monkeypatch.setattr(query_workers, "_start_worker", refuse)
    checked = iter("abc")
    settings = WorkerSettings(tmp_path / "s.db", tmp_path / "index", 1.0)
    workers = QueryWorkers(settings, 1, 20.0, find_checked=lambda: next(checked))
    for _ in range(3):
        workers._start()
    assert told == [*"abc"]


def test_an_update_says_which_files_the_daemon_has_checked(tmp_path: Path) -> None:
    said, saved = list[str](), SavedIndex(tmp_path)
    saved._checked, saved._checked_s = "a", time.monotonic()

    class Behind:
        version, busy = 1, False

        def exchange(self, message: UpdateMessage, patience_s: float) -> int:
            said.append(message.checked)
            return message.version

    config = Config.model_validate(
        {"daemon": {"data_dir": str(tmp_path)}, "limits": {"workers": 1}}
    )
    workers = query_workers.make_query_workers(config, saved)
    workers._workers.append(Behind())  # type: ignore[arg-type]
    with workers._changed:
        workers._update_in_background(2)
        assert workers._changed.wait_for(lambda: workers._workers[0].version == 2, 20)
        workers._workers.clear()
    workers.close()
    assert said == ["a"]


def test_a_worker_behind_its_saved_index_applies_no_change_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query at an older version may let the worker read files of a newer one."""
    monkeypatch.setattr(saved_index, "_FEW_ROWS", -1)
    desk, folder = Desk(tmp_path), tmp_path / "index"
    connection, generation = desk.stack.connection, desk.stack.maker.generation
    saved = SavedIndex(folder)
    save_newest(desk, saved)
    copy = _Copy(WorkerSettings(tmp_path / "s.db", folder, 1.0), desk.given)
    desk.files.put("oslo.md", b"# Oslo\n\nCaesar met Oslo. Rome met Paris in Oslo.\n")
    desk.sync()
    copy.follow(desk.stack.head.id)
    for number in range(2):
        desk.files.put(f"{number}.md", f"# Bern {number}\n\nCaesar met Bern.\n".encode())
        desk.files.put("rome.md", f"# Rome\n\nCaesar ruled Rome. {number}\n".encode())
        desk.sync()
    newest = desk.stack.head.id
    index = saved.load(connection, generation, newest)
    saved.save(stamp(connection, newest), index, generation.encoder)
    for number in (newest - 1, newest):
        copy.follow(number)
        assert copy.version == number
        assert len(copy._index.matches) == len(index.matches)
        message = desk.message(number, HOP, NOBODY)
        assert copy.answer(message) == desk.alone(number)
    desk.workers.close()
    desk.stack.close()


def test_workers_get_only_searches_of_served_versions_without_other_models() -> None:
    assert choose_worker_version(HOP, "head", 9) == 9
    assert choose_worker_version(Search("dense"), "7", 9) == 7
    for search, at in (
        *((HOP, "a tag"), (HOP, "10"), (HOP, "999999999"), (HOP, "0")),
        *((Search("statement"), "head"), (Search("hop", reasoner="llm"), "head")),
    ):
        assert choose_worker_version(search, at, 9) is None
    assert choose_worker_version(HOP, "head", 0) is None
