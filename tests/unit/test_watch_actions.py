"""Programs and webhooks of watches: this machine's, never the record's."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.api.requests import WatchRequest
from hopsyncd.api.watch_delivery import WatchAction, WatchActions, digest_of, parse_action
from hopsyncd.errors import BadRequest
from store.copying import copy_database
from store.engines.sqlite.database import open_writer
from store.exceptions import DiskFailure
from store.operational import list_watches
from tests.fakes.watching import OWNER, Watching

FILES = {
    "door.md": b"# Bronze Door\n\nBronze Door is a film by Kaltenbrunn. It lasts four hours.\n",
    "mira.md": b"# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava. She paints in oil.\n",
}
QUESTION = "Where was Kaltenbrunn of Bronze Door born?"
TOWNS = ("Vasterholm", "Cork", "Riga", "Graz")


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path, FILES)


def move_to(watching: Watching, town: str) -> None:
    text = f"# Kaltenbrunn\n\nKaltenbrunn was born in {town}. She paints in oil.\n"
    watching.connector.put("mira.md", text.encode())
    watching.sync()


def write_act(watching: Watching, number: int, act: object) -> None:
    """As somebody with access to the record could."""
    watching.stack.connection.execute(
        "UPDATE watch SET act = ? WHERE id = ?", [json.dumps(act), number]
    )


def acts(watching: Watching) -> list[str | None]:
    return [watch.act for watch in list_watches(watching.stack.connection)]


def test_a_program_in_a_record_is_taken_out_and_does_nothing_until_it_is_allowed(
    watching: Watching, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    program = ["/usr/bin/touch", str(made)]
    number = watching.watched.add(QUESTION, OWNER)
    write_act(watching, number, {"exec": program})
    watching.restart()
    move_to(watching, TOWNS[0])
    (listed,) = watching.watched.list_all(OWNER)
    assert (listed["action"], listed["disabled"], listed["changes"]) == (None, {"exec": program}, 1)
    assert acts(watching) == ['{"exec": true}'] and not made.exists()
    (problem,) = watching.watched.list_problems()
    assert "off for 1 watched question, because" in problem and "hopsyncd watches" in problem

    with pytest.raises(BadRequest, match="has changed since you saw it"):
        watching.watched.allow(number, {"exec": ["/usr/bin/touch", "elsewhere"]})
    watching.watched.allow(number, {"exec": program})
    watching.compare()
    assert not made.exists()  # for the change from before it was allowed
    assert watching.watched.list_problems() == []
    watching.restart()
    move_to(watching, TOWNS[1])
    assert made.exists()
    (listed,) = watching.watched.list_all(OWNER)
    assert (listed["action"], listed["disabled"]) == ({"exec": program}, None)


def test_a_webhook_in_a_record_is_off_too(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, OWNER)
    write_act(watching, number, {"webhook": "http://127.0.0.1:9/secret"})
    watching.compare()
    (listed,) = watching.watched.list_all(OWNER)
    assert (listed["action"], listed["disabled"]) == (
        None,
        {"webhook": "http://127.0.0.1:9/secret"},
    )
    assert acts(watching) == ['{"webhook": true}']


@pytest.mark.parametrize(
    "act",
    [
        *({"exec": []}, {"exec": "/bin/sh"}, {"exec": ["sh"]}, {"exec": ["/bin/sh", 1]}, [], 7, {}),
        *({"webhook": "http://example.org/"}, {"exec": ["/bin/a"], "webhook": "http://localhost"}),
        {"watch": 9, "exec": ["/bin/a"], "more": 1},
    ],
)
def test_unusable_actions_are_dropped(watching: Watching, act: object) -> None:
    number = watching.watched.add(QUESTION, OWNER)
    write_act(watching, number, act)
    watching.compare()
    (listed,) = watching.watched.list_all(OWNER)
    assert listed["action"] is None and listed["disabled"] in (
        None,
        {"exec": True},
        {"webhook": True},
    )
    assert not watching.actions_file.exists()


def test_nested_json_without_end_is_dropped(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, OWNER)
    watching.stack.connection.execute("UPDATE watch SET act = ?", ["[" * 100_000])
    watching.compare()
    assert acts(watching) == [None] and watching.watched.list_all(OWNER)[0]["id"] == number


def test_a_program_belongs_to_its_question_and_number(watching: Watching, tmp_path: Path) -> None:
    made = tmp_path / "made"
    number = watching.watched.add(QUESTION, OWNER, ["/usr/bin/touch", str(made)])
    other = watching.watched.add("Where was Kaltenbrunn born?", OWNER)
    watching.stack.connection.execute(
        "UPDATE watch SET question = 'Where was Kaltenbrunn from Bronze Door born?' WHERE id = ?",
        [number],
    )
    watching.stack.connection.execute(
        "UPDATE watch SET question = ?, act = '{\"exec\": true}' WHERE id = ?", [QUESTION, other]
    )
    watching.restart()
    move_to(watching, TOWNS[0])
    assert [watch["changes"] for watch in watching.watched.list_all(OWNER)] == [1, 1]
    assert [watch["action"] for watch in watching.watched.list_all(OWNER)] == [None, None]
    assert not made.exists()


def test_neither_the_record_nor_its_copy_has_the_program(
    watching: Watching, tmp_path: Path
) -> None:
    watching.watched.add(QUESTION, OWNER, ["/usr/bin/touch", str(tmp_path / "made")])
    watching.watched.add(QUESTION, OWNER, webhook="http://127.0.0.1:9/s3cr3t")
    watching.watched.add(QUESTION, OWNER, mcp=True)
    kinds: list[str | None] = ['{"exec": true}', '{"webhook": true}', '{"mcp": true}']
    assert acts(watching) == kinds
    write_act(watching, 1, {"exec": ["/usr/bin/touch", "elsewhere"]})
    with closing(open_writer(tmp_path / "copy.db")) as copy:
        copy_database(watching.stack.connection, copy)
        assert [watch.act for watch in list_watches(copy)] == kinds


def test_removing_a_watch_removes_its_program(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, OWNER, ["/usr/bin/true"])
    assert oct(watching.actions_file.stat().st_mode & 0o777) == "0o600"
    assert "/usr/bin/true" in watching.actions_file.read_text()
    watching.watched.remove(number, OWNER)
    assert "/usr/bin/true" not in watching.actions_file.read_text()


def _write(file: Path, mode: int = 0o600) -> None:
    action = {"watch": 1, "question": digest_of(QUESTION), "exec": ["/usr/bin/true"]}
    file.write_text(json.dumps({"actions": [action]}))
    file.chmod(mode)


def test_the_actions_file_is_used_only_if_nobody_else_can_write_it(tmp_path: Path) -> None:
    file = tmp_path / "actions.json"
    assert WatchActions(file).problem is None
    _write(file)
    assert WatchActions(file).find(1, QUESTION)
    for mode in (0o620, 0o602, 0o604):
        _write(file, mode)
        actions = WatchActions(file)
        assert actions.find(1, QUESTION) is None and "chmod 600" in (actions.problem or "")
    _write(file)
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert WatchActions(link).find(1, QUESTION) is None
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
        assert "another user" in (WatchActions(file).problem or "")


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "\udcff", '{"actions": [{"watch": 1}]}', '{"more": 1}']
)
def test_a_damaged_file_prevents_nothing_and_is_kept(tmp_path: Path, text: str) -> None:
    file = tmp_path / "watch_actions.json"
    file.write_text(text, errors="surrogateescape")
    file.chmod(0o600)
    watching = Watching(tmp_path, FILES)
    number = watching.watched.add(QUESTION, OWNER)
    move_to(watching, TOWNS[0])
    assert watching.told(number) == [(1, 2)]
    assert any(str(file) in problem for problem in watching.watched.list_problems())
    with pytest.raises(DiskFailure):
        watching.watched.add(QUESTION, OWNER, ["/usr/bin/true"])
    assert len(watching.watched.list_all(OWNER)) == 1
    assert file.read_text(errors="surrogateescape") == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not valid JSON (EOF while parsing an object at line 1 column 1)"),
        ("[" * 100_000, "is not valid JSON (recursion limit exceeded"),
        ('{"actions": [{"watch": 1}]}', "has a mistake at actions.0.question (field required)"),
        ('{"more": 1}', "has a mistake at more (extra inputs are not permitted)"),
    ],
)
def test_an_unusable_file_is_reported_with_the_mistake_and_the_remedy(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "watch_actions.json"
    file.write_text(text)
    file.chmod(0o600)
    problem = WatchActions(file).problem or ""
    assert problem.startswith(f"The programs and webhooks of all watches are off: {file} {why}")
    assert problem.endswith(
        "Correct the file or move it away, then restart the daemon. If you moved it, add programs"
        " and webhooks again after the restart."
    )


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_cannot_exist_is_refused(port: str) -> None:
    WatchRequest(question="Who?", webhook="http://127.0.0.1:65535/x")
    with pytest.raises(ValueError, match="the port must be a number from 1 to 65535"):
        WatchRequest(question="Who?", webhook=f"http://127.0.0.1:{port}/x")
    assert parse_action(1, "Who?", f'{{"webhook": "http://127.0.0.1:{port}/x"}}') is None


def test_a_file_that_cannot_be_written_refuses_the_watch(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hopsyncd.api.watch_delivery.replace_file", fail)
    with pytest.raises(DiskFailure, match="no space left"):
        watching.watched.add(QUESTION, OWNER, ["/usr/bin/true"])
    assert watching.watched.list_all(OWNER) == []


def test_an_action_is_a_program_or_a_webhook() -> None:
    assert parse_action(3, QUESTION, '{"exec": ["/bin/a", "b c"]}') == WatchAction(
        watch=3, question=digest_of(QUESTION), exec=("/bin/a", "b c")
    )
    assert parse_action(3, QUESTION, '{"watch": 4, "exec": ["/bin/a"]}') is None
