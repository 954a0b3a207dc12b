"""Watched questions: a change is told when two versions differ, once; else they cost little."""

import json
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hopsyncd.api.watch_service import resolve_program
from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.retrieve.dependencies import is_touched
from tests.fakes.watching import OWNER, Watching, fact

FILES = {
    "door.md": b"# Bronze Door\n\nBronze Door is a film by Kaltenbrunn. It lasts four hours.\n",
    "mira.md": b"# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava. She paints in oil.\n",
    "bread.md": b"# Bread\n\nBread is baked from flour. Salt is added.\n",
}
QUESTION = "Where was Kaltenbrunn of Bronze Door born?"
MOVED = b"# Kaltenbrunn\n\nKaltenbrunn was born in Vasterholm. She paints in oil.\n"


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path, FILES)


def test_a_change_is_notified_with_before_after_and_reason(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, OWNER)
    watching.connector.put("mira.md", MOVED)
    watching.sync()
    watch, now, (change,) = watching.watched.read_details(number, 10, OWNER)
    assert (watch["changes"], watch["checked"], change["old"], change["new"]) == (1, 2, 1, 2)
    assert change["before"] and "Ostrava" in (change["before"]["answer"] or "")
    assert now and change["after"] == now and "Vasterholm" in (now["answer"] or "")
    assert any(one == "edited: Kaltenbrunn (mira.md)" for one in change["why"])
    assert "the answer changed" in change["why"]
    assert any(one.startswith("version 2: notes") for one in change["why"])


def test_a_watch_marked_as_compared_has_delivered_all_its_changes(
    watching: Watching,
) -> None:
    number = watching.watched.add(QUESTION, OWNER)
    watching.connector.put("mira.md", MOVED)
    watching.sync()

    def move_back() -> None:
        watching.meanwhile = lambda: None
        watching.connector.put("mira.md", FILES["mira.md"])
        watching.sync()

    watching.meanwhile = move_back
    for version in (2, 3):
        watch, _, changes = watching.watched.read_details(number, 10, OWNER)
        assert (watch["checked"], changes[0]["new"]) == (version, version)


def test_an_edit_that_does_not_change_the_answer_is_not_notified(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, OWNER)
    watching.connector.put("copy/mira.md", FILES["mira.md"])
    watching.sync()
    assert watching.stack.head.id == 2 and watching.told(number) == []


def test_a_restart_repeats_and_misses_no_notification(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, OWNER)
    watching.connector.put("mira.md", MOVED)
    watching.stack.sync()
    watching.publish()
    watching.restart()  # killed before it compared
    watching.compare()
    assert watching.told(number) == [(1, 2)]
    watching.restart()
    watching.compare()
    watching.connector.put("mira.md", FILES["mira.md"])
    watching.sync()
    assert watching.told(number) == [(1, 2), (2, 3)]


def _told_as_versions_differ(folder: Path, edits: int, files: int, seed: int) -> None:
    drawn = random.Random(seed)
    watching = Watching(folder, {f"{index}.md": fact(drawn) for index in range(files)})
    questions = ["Where does Adaberg live?", "Who repairs clocks in Bergen?", "Whom met Miraholm?"]
    questions.append("who repairs clocks and who lives there")  # direct hits keep places
    watched = {watching.watched.add(question, OWNER): question for question in questions}
    told: dict[int, list[int]] = {number: [] for number in watched}
    expected: dict[int, list[int]] = {number: [] for number in watched}
    before = watching.stack.head.id
    for index, _ in enumerate(watching.edits(edits, seed)):
        now = watching.stack.head.id
        for number, question in watched.items():
            if now > before and watching.differs(question, before, now):
                expected[number].append(now)
            told[number] += [new for _, new in watching.told(number) if new > before]
        before = now
        if index % 10 == 9:
            watching.restart()
    assert told == expected
    assert sum(map(len, told.values())) > 2 * edits / files


def test_over_random_edits_a_watch_notifies_exactly_when_answers_differ(tmp_path: Path) -> None:
    _told_as_versions_differ(tmp_path, edits=60, files=25, seed=3)


@pytest.mark.nightly
@pytest.mark.parametrize("files", [25, 300])
@pytest.mark.parametrize("seed", range(4))
def test_over_a_thousand_random_edits_a_watch_notifies_exactly_when_answers_differ(
    tmp_path: Path, seed: int, files: int
) -> None:
    _told_as_versions_differ(tmp_path, edits=1000, files=files, seed=seed)


def test_a_watched_typo_is_corrected_again_when_the_words_change(
    tmp_path: Path,
) -> None:
    far = {
        f"far/{n}.md": f"# Topic{n}\n\nTopic{n} has a valve{n}. It turns pump{n}.\n".encode()
        for n in range(300)
    }
    watching = Watching(tmp_path, {"sea.md": b"# Sea\n\nThe lighthouse burns oil.\n"} | far)
    typed = "Who keeps the lighthousse?"
    number = watching.watched.add(typed, OWNER)
    found = watching.engine.trace(typed, 5)
    assert found and found[0].spelling.applied == {"lighthousse": "lighthouse"}
    asked = watching.engine.query(typed, 5, Search("hop"))
    assert asked and found[0].ranked == asked.ranked
    # The word as it was typed comes to be: it is asked for from then on.
    watching.compare()
    (dependencies,) = watching.watched._dependencies.values()
    dependencies = replace(dependencies, lead=1.0)
    assert not watching.engine.may_differ(typed, dependencies)
    watching.connector.put("bar.md", b"# Bar\n\nJorun keeps the Lighthousse.\n")
    watching.sync()
    assert watching.engine.may_differ(typed, dependencies)
    now_id = watching.stack.head.id
    assert watching.told(number) == [(now_id - 1, now_id)]
    _, now, _ = watching.watched.read_details(number, 1, OWNER)
    assert now and "Jorun" in (now["answer"] or "")


def test_a_question_is_asked_again_when_an_abbreviation_is_defined(tmp_path: Path) -> None:
    far = {
        f"far/{n}.md": f"# Topic{n}\n\nTopic{n} has a valve{n}. It turns pump{n}.\n".encode()
        for n in range(300)
    }
    near = {
        "desk.md": b"# Desk\n\nQuarrels go to the Enterprise Support Team.\n",
        "pay.md": b"# Pay\n\nEST is paid in March.\n",
    }
    watching = Watching(tmp_path, near | far)
    question = "Which quarrels go to the EST?"
    watching.watched.add(question, OWNER)
    watching.compare()
    (dependencies,) = watching.watched._dependencies.values()
    dependencies = replace(dependencies, lead=1.0)
    watching.connector.put("far.md", b"# Far\n\nOrla likes pumps and valves.\n")
    watching.sync()
    assert not watching.engine.may_differ(question, dependencies)
    # The definition is in a document that the question itself does not find.
    watching.connector.put("words.md", b"# Words\n\nThe enterprise support team (EST) is here.\n")
    watching.sync()
    assert watching.engine.may_differ(question, dependencies)


def test_a_version_elsewhere_touches_nothing_and_a_near_one_does(tmp_path: Path) -> None:
    far = {
        f"far/{n}.md": f"# Topic{n}\n\nTopic{n} has a valve{n}. It turns pump{n}.\n".encode()
        for n in range(300)
    }
    watching = Watching(tmp_path, FILES | far)
    watching.watched.add(QUESTION, OWNER)
    watching.compare()
    (dependencies,) = watching.watched._dependencies.values()
    dependencies = replace(dependencies, lead=1.0)

    def touches(path: str, text: bytes) -> bool:
        watching.connector.put(path, text)
        watching.stack.sync()
        watching.publish()
        assert watching.engine.head
        return is_touched(dependencies, watching.engine.head)

    assert not touches("far/new.md", b"# Gasket\n\nThe gasket leaks water.\n")
    assert touches("near.md", b"# Ostrava\n\nKaltenbrunn left it early.\n")


def test_drift_is_noticed_at_one_in_a_hundred_passages_or_where_two_are_close(
    tmp_path: Path,
) -> None:
    far = {
        f"{index}.md": f"# Topic{index}\n\nTopic{index} has valve{index}.\n".encode()
        for index in range(250)
    }
    watching = Watching(tmp_path, FILES | far)
    watching.watched.add(QUESTION, OWNER)
    watching.compare()
    (dependencies,) = watching.watched._dependencies.values()
    close, clear = replace(dependencies, lead=0.001), replace(dependencies, lead=1.0)
    seen = []
    for index in range(4):
        watching.connector.put(f"new{index}.md", f"it leaks {index} drops\n".encode())
        watching.stack.sync()
        watching.publish()
        assert watching.engine.head
        seen.append([is_touched(one, watching.engine.head) for one in (close, clear)])
    assert seen == [[True, False], [True, False], [True, True], [True, True]]


def test_a_program_gets_each_change_once_and_no_keys(
    watching: Watching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    told = tmp_path / "told"
    script = (
        f"import os,sys; open({str(told)!r}, 'a').write(sys.stdin.read() + str(dict(os.environ)))"
    )
    number = watching.watched.add(QUESTION, OWNER, [sys.executable, "-c", script])
    watching.connector.put("mira.md", MOVED)
    watching.sync()
    watching.restart()
    watching.compare()
    text = told.read_text()
    report, end = json.JSONDecoder().raw_decode(text)
    assert (report["watch"], report["question"], report["id"]) == (number, QUESTION, 1)
    assert "Vasterholm" in report["after"]["answer"]
    assert text.count('"watch"') == 1 and "secret" not in text[end:]
    assert watching.watched.read_details(number, 1, OWNER)[2][0]["delivered"]


def test_a_program_that_fails_is_named(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, OWNER, [sys.executable, "-c", "raise SystemExit(3)"])
    watching.connector.put("mira.md", MOVED)
    watching.sync()
    (listed,) = watching.watched.list_all(OWNER)
    assert listed["id"] == number and "status 3" in (listed["error"] or "")
    with pytest.raises(BadRequest, match="no program"):
        resolve_program(["no-such-program"])


@pytest.fixture
def hook() -> Iterator[tuple[str, list[bytes]]]:
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            redirects = self.path == "/away"
            self.send_response(307 if redirects else 204)
            if redirects:
                self.send_header("Location", "http://192.0.2.1/")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


def test_a_webhook_gets_the_change_and_its_redirect_is_not_followed(
    watching: Watching, hook: tuple[str, list[bytes]]
) -> None:
    address, received = hook
    watching.watched.add(QUESTION, OWNER, webhook=f"{address}/here")
    watching.watched.add(QUESTION, OWNER, webhook=f"{address}/away")
    watching.connector.put("mira.md", MOVED)
    watching.sync()
    assert sorted(json.loads(one)["watch"] for one in received) == [1, 2]
    here, away = watching.watched.list_all(OWNER)
    assert here["error"] is None and "answered 307" in (away["error"] or "")


def test_the_number_of_watches_is_bounded(watching: Watching) -> None:
    for index in range(100):
        watching.watched.add(f"Question {index}?", OWNER)
    with pytest.raises(BadRequest, match="you already watch 100 questions"):
        watching.watched.add("One more?", OWNER)
    watching.watched.remove(7, OWNER)
    watching.watched.add("One more?", OWNER)
    with pytest.raises(NotFound):
        watching.watched.remove(7, OWNER)


def test_no_text_of_documents_is_stored_with_a_watch(watching: Watching) -> None:
    watching.watched.add(QUESTION, OWNER)
    watching.connector.put("mira.md", MOVED)
    watching.sync()
    rows = [
        *watching.stack.connection.execute("SELECT * FROM watch"),
        *watching.stack.connection.execute("SELECT * FROM telling"),
    ]
    assert len(rows) == 2 and "Vasterholm" not in str(rows) and "Ostrava" not in str(rows)
