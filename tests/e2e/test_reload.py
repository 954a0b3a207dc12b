"""A configuration that changes while the daemon serves: SIGHUP, `hopsyncd reload`, `add`."""

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hopsyncd.client import RequestFailed
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.endpoint import Endpoint, Response, error

FILES = 1500  # that an import takes some seconds for


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("a.md", "Ansgar Nyborg keeps the lighthouse.\n")
        (made.base / "more").mkdir()
        (made.base / "more/b.md").write_text("Tove Lindqvist repairs the clock.\n")
        made.configure(source("notes", made.notes))
        made.start()
        made.sync()
        yield made


def names(place: Place) -> dict[str, str]:
    return {one["name"]: one["state"] for one in place.status()["sources"]}


def hang_up(place: Place) -> None:
    assert place.process is not None
    place.process.send_signal(signal.SIGHUP)


def test_a_source_that_is_added_is_indexed_and_one_that_is_removed_is_left_alone(
    place: Place,
) -> None:
    generated = place.generated()
    place.configure(source("notes", place.notes) + source("more", place.base / "more"))
    hang_up(place)
    place.until(lambda: "more" in names(place))
    place.until(lambda: place.status()["documents"] == 2)
    assert place.generated() == generated + 1

    (place.base / "more/c.md").write_text("Mira Kaltenbrunn paints.\n")
    place.until(lambda: place.status()["documents"] == 3)  # it is watched

    place.configure(source("notes", place.notes))
    assert place.post("/v1/reload", {})["sources"] == {
        "added": [], "changed": [], "removed": ["more"],
    }  # fmt: skip
    assert names(place) == {"notes": "ok", "more": "unconfigured"}
    assert place.status()["documents"] == 3, "what is indexed of it stays"
    with pytest.raises(RequestFailed, match="no source named 'more'"):
        place.sync("more")
    place.write("a.md", "Ansgar Nyborg left the lighthouse.\n")
    (synced,) = place.sync()["sources"]
    assert (synced["name"], synced["problem"]) == ("notes", None)
    assert "left" in place.query("Ansgar Nyborg", strategy="bm25")[0]["text"]


def test_a_source_that_moves_is_watched_at_its_new_place(place: Place) -> None:
    place.configure(source("notes", place.base / "more"))
    assert place.post("/v1/reload", {})["sources"]["changed"] == ["notes"]
    place.until(lambda: place.documents("clock") == ["b.md"])
    (place.base / "more/c.md").write_text("Mira Kaltenbrunn paints.\n")
    place.until(lambda: place.status()["documents"] == 2)


def test_a_paused_source_that_leaves_the_configuration_is_no_longer_reported(place: Place) -> None:
    place.configure(source("notes", place.notes) + source("gone", place.base / "gone"))
    place.post("/v1/reload", {})
    paused = "source gone is paused: no such file or directory"
    place.until(lambda: paused in place.status()["degraded"])
    place.configure(source("notes", place.notes))
    place.post("/v1/reload", {})
    assert paused not in place.status()["degraded"]


def test_a_bad_configuration_is_refused_and_the_old_one_kept(place: Place) -> None:
    place.configure(source("notes", place.notes) + "[query]\nk = 0\n")
    hang_up(place)
    place.until(lambda: place.status()["configuration"]["refused"] is not None)
    assert "`k` in [query]" in place.status()["configuration"]["refused"]
    with pytest.raises(RequestFailed) as refused:
        place.post("/v1/reload", {})
    assert refused.value.status == 409
    place.until(lambda: "configuration refused" in place.log.read_text())

    place.write("d.md", "Vesper walks in Gent.\n")
    synced = place.run("sync", "--wait")
    assert synced.returncode == 0, "commands find the daemon whatever else the file says"
    assert "and `hopsyncd reload` would refuse it" in synced.stderr
    assert "`k` in [query]" in synced.stderr
    assert place.status()["documents"] == 2
    (place.home / "config.toml").unlink()
    with pytest.raises(RequestFailed, match="no such file"):
        place.post("/v1/reload", {})
    assert names(place) == {"notes": "ok"}

    place.configure(source("notes", place.notes) + "[query]\nk = 1\n")
    output = place.run("status").stdout
    assert "the new configuration has a mistake, so the old configuration is used: " in output
    assert "no such file" in output
    assert place.post("/v1/reload", {})["changed"] == ["query.k"]
    assert place.status()["configuration"] == {"refused": None, "restart_needed": []}
    assert len(place.query("lighthouse Gent")) == 1


def test_changes_that_need_a_restart_are_named_until_they_are_undone(place: Place) -> None:
    place.configure(
        source("notes", place.notes)
        + '[index]\npassage_tokens = 100\n[daemon]\nlog_level = "debug"\n[query]\nhops = 2\n'
    )
    done = place.post("/v1/reload", {})
    assert done["changed"] == ["daemon.log_level", "query.hops"]
    assert done["restart_needed"] == ["index.passage_tokens"]
    assert place.status()["configuration"]["restart_needed"] == ["index.passage_tokens"]
    assert "takes effect after a restart: index.passage_tokens" in place.run("status").stdout
    # Requests are logged from now on.
    place.until(lambda: '"level": "debug"' in place.log.read_text())

    place.configure(source("notes", place.notes))
    place.post("/v1/reload", {})
    assert place.status()["configuration"]["restart_needed"] == []


def test_add_and_remove_reload_the_daemon(place: Place) -> None:
    added = place.run("add", str(place.base / "more"))
    assert added.returncode == 0, added.stderr
    place.until(lambda: place.status()["documents"] == 2)
    assert "The daemon has applied the change" in added.stdout

    output = place.run("reload")
    assert (output.returncode, output.stdout) == (0, "Nothing has changed.\n"), output.stderr
    place.configure("[query]\nq = 1\n")
    refused = place.run("reload")
    assert refused.returncode == 1
    assert "unknown key" in refused.stderr


def test_a_reload_during_the_import_of_another_source_is_prompt(place: Place) -> None:
    place.stop()
    many = place.base / "many"
    many.mkdir()
    for number in range(FILES):
        (many / f"{number}.md").write_text(f"Mill {number} of Wick grinds grain {number}.\n")
    before = "[index]\nbatch_documents = 5\n" + source("many", many) + source("notes", place.notes)
    place.configure(before)
    place.start()
    place.until(lambda: place.status()["documents"] > 5)
    place.configure(before + source("more", place.base / "more"))
    done = place.post("/v1/reload", {})
    assert (done["sources"]["added"], done["pending"]) == (["more"], False)
    place.until(lambda: "b.md" in place.documents("Tove Lindqvist clock", strategy="bm25"))
    documents = place.status()["documents"]
    assert documents < FILES, "it came in between"
    place.until(lambda: place.status()["documents"] > documents)


def test_a_reload_that_a_long_sync_keeps_waiting_says_so_and_comes_after_it(place: Place) -> None:
    place.stop()
    told = threading.Event()

    def refuse_then(_: dict[str, Any]) -> Response:
        told.wait(120)
        return error(401)

    with Endpoint(refuse_then) as endpoint:
        llm = f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "m"\nquestions = "both"\n'
        place.configure(source("notes", place.notes) + llm)
        place.write("e.md", "Saltmarsh is a doctor in Riga.\n")
        place.start()
        place.until(lambda: bool(endpoint.requests))
        place.configure(source("notes", place.notes) + llm + "[query]\nk = 1\n")
        done = place.post("/v1/reload", {})
        assert (done["changed"], done["pending"]) == (["query.k"], True)
        told.set()
        place.until(lambda: place.status()["documents"] == 2)
        place.until(lambda: len(place.query("lighthouse Riga")) == 1)
        assert place.post("/v1/reload", {})["changed"] == []


def test_at_sighup_the_log_goes_on_in_a_new_file_even_if_the_configuration_is_bad(
    place: Place,
) -> None:
    log = place.base / "hop.log"
    place.stop()
    good = f'[daemon]\nlog_file = "{log}"\n' + source("notes", place.notes)
    place.configure(good)
    place.start()
    for number, text in enumerate((good, "[daemon", good)):
        moved = log.with_name(f"moved-{number}")
        log.rename(moved)  # as logrotate does
        place.configure(text)
        hang_up(place)
        place.until(log.exists)
        before = moved.read_text()
        place.write("a.md", f"Ansgar Nyborg keeps the lighthouse, since {number}.\n")
        place.sync()
        place.until(lambda: '"synced"' in log.read_text())
        assert moved.read_text() == before
