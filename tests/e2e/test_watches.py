"""`hopsyncd watch`, `watches` and `unwatch`, with a real daemon."""

from collections.abc import Iterator

import pytest

from tests.e2e.daemon import Place, serving

QUESTION = "Where does Kaltenbrunn live?"


@pytest.fixture
def place() -> Iterator[Place]:
    with serving("notes", {"mira.md": "# Kaltenbrunn\n\nKaltenbrunn lives in Bergen.\n"}) as made:
        yield made


def test_the_commands_watch_show_and_end(place: Place) -> None:
    added = place.run("watch", QUESTION)
    assert added.returncode == 0 and "Bergen" in added.stdout, added.stderr
    place.write("mira.md", "# Kaltenbrunn\n\nKaltenbrunn lives in Cork.\n")
    version = place.sync()["version"]
    place.until(lambda: place.get("/v1/watches")["watches"][0]["checked"] == version)
    shown = place.run("watches", "1").stdout
    assert shown.index("Bergen") < shown.rindex("Cork") and "the answer is another" in shown
    assert place.printed("watches")["watches"][0]["changes"] == 1
    assert place.run("unwatch", "1").returncode == 0
    assert "No question is watched" in place.run("watches").stdout
    assert "There is no watched question 1" in place.run("unwatch", "1").stderr


def test_what_could_tell_another_machine_is_refused(place: Place) -> None:
    for address in ("http://example.org/", "http://127.0.0.1@example.org/", "file:///etc/passwd"):
        refused = place.run("watch", QUESTION, "--webhook", address)
        assert refused.returncode == 1 and "webhook" in refused.stderr
    assert "no program" in place.run("watch", QUESTION, "--exec", "no-such-program").stderr
