"""A daemon whose encoder was changed answers and follows edits while it prepares the new one."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.daemon import GC_LATER, Place, new_place, source
from tests.fakes.switching_daemon import FAST, SLOW

NOTES = 60


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(("tests.fakes.switching_daemon",)) as made:
        for number in range(NOTES):
            made.write(f"{number}.md", f"# Note {number}\n\nPerson{number}x met Rome.\n")
        configure(made, FAST)
        made.start()
        made.sync()
        made.stop()
        yield made


def configure(place: Place, dimensions: int) -> None:
    place.configure(
        source("notes", place.notes) + f"\n[models]\nthreads = {dimensions}\n" + GC_LATER
    )


def switch_of(place: Place) -> dict[str, Any] | None:
    switch: dict[str, Any] | None = place.get("/v1/status")["models"]["switch"]
    return switch


def finds(place: Place, word: str) -> bool:
    found = place.post("/v1/query", {"question": f"What of {word}?"})["passages"]
    return any(word in passage["text"] for passage in found)


def test_a_switch_serves_follows_edits_survives_kills_and_is_one_version(place: Place) -> None:
    configure(place, SLOW)
    place.start()
    before = place.get("/v1/status")
    assert (before["documents"], before["passages"]) == (NOTES, NOTES)
    assert finds(place, "Person7x")
    place.until(lambda: (switch_of(place) or {}).get("passages_done", 0) > 0)
    place.write("new.md", "# New\n\nZanzibar met Rome.\n")
    place.until(lambda: finds(place, "Zanzibar"))
    (place.notes / "3.md").unlink()
    place.until(lambda: place.get("/v1/status")["documents"] == NOTES)
    switch = switch_of(place)
    assert switch is not None
    assert 0 < switch["passages_done"] < switch["passages_total"] == NOTES
    assert switch["left_s"] > 0
    place.kill()

    place.start()
    place.until(lambda: switch_of(place) is not None)
    assert finds(place, "Zanzibar") and not finds(place, "Person3x")
    generation = place.get("/v1/status")["models"]["generation"]
    number = place.get("/v1/status")["version"]
    place.until(lambda: switch_of(place) is None)
    after = place.get("/v1/status")
    assert after["models"]["generation"] != generation
    assert after["version"] == number + 1
    assert (after["documents"], after["passages"]) == (NOTES, NOTES)
    # Each passage was made once by each encoder; the kill cost at most one piece.
    assert 2 * NOTES <= after["counters"]["passages_generated"] <= 2 * NOTES + 1 + 32
    assert finds(place, "Zanzibar") and finds(place, "Person7x") and not finds(place, "Person3x")
    place.write("later.md", "# Later\n\nTimbuktu met Rome.\n")
    place.until(lambda: finds(place, "Timbuktu"))
    assert place.printed("check", "--deep")["findings"] == []


def test_an_abandoned_switch_leaves_the_graph_unchanged(place: Place) -> None:
    place.start()
    version = place.get("/v1/status")["version"]
    place.stop()
    configure(place, SLOW)
    place.start()
    place.until(lambda: (switch_of(place) or {}).get("passages_done", 0) > 0)
    place.stop()
    configure(place, FAST)
    place.start()
    assert switch_of(place) is None
    assert place.get("/v1/status")["version"] == version
    assert finds(place, "Person7x")


def test_a_reload_switches_without_a_restart_and_follows_edits(place: Place) -> None:
    place.start()
    pid = place.get("/v1/status")["pid"]
    configure(place, SLOW)
    done = place.post("/v1/reload", {})
    assert done["changed"] == ["models.threads"]
    assert done["restart_needed"] == []
    assert finds(place, "Person7x")
    place.until(lambda: (switch_of(place) or {}).get("passages_done", 0) > 0)
    place.write("new.md", "# New\n\nZanzibar met Rome.\n")
    place.until(lambda: finds(place, "Zanzibar"))
    assert switch_of(place) is not None
    generation = place.get("/v1/status")["models"]["generation"]
    place.until(lambda: switch_of(place) is None)
    after = place.get("/v1/status")
    assert after["models"]["generation"] != generation
    assert after["pid"] == pid
    assert (after["documents"], after["passages"]) == (NOTES + 1, NOTES + 1)
    assert finds(place, "Zanzibar") and finds(place, "Person7x")
    assert place.printed("check", "--deep")["findings"] == []


def test_a_reload_during_a_switch_can_cancel_it(place: Place) -> None:
    place.start()
    before = place.get("/v1/status")
    configure(place, SLOW)
    place.post("/v1/reload", {})
    place.until(lambda: (switch_of(place) or {}).get("passages_done", 0) > 0)
    configure(place, FAST)
    assert place.post("/v1/reload", {})["changed"] == ["models.threads"]
    assert switch_of(place) is None
    assert place.get("/v1/status")["models"]["generation"] == before["models"]["generation"]
    place.write("new.md", "# New\n\nZanzibar met Rome.\n")
    place.until(lambda: finds(place, "Zanzibar") and finds(place, "Person7x"))
    assert place.get("/v1/status")["version"] == before["version"] + 1
    # And once more, through to the end.
    configure(place, SLOW)
    place.post("/v1/reload", {})
    place.until(lambda: place.get("/v1/status")["version"] == before["version"] + 2)
    assert finds(place, "Zanzibar") and finds(place, "Person7x")
    place.stop()
    place.start()
    assert switch_of(place) is None and finds(place, "Person7x")
