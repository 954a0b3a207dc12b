"""Stopped or killed in the middle of a long first index: nothing is lost, little is done again."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hopsyncd.client import RequestFailed
from tests.e2e.daemon import Place, source

pytestmark = pytest.mark.models

FILES = 250
SOON_S = 30.0
GROUP = 64  # passages whose questions are stored together


def write_many(place: Place) -> None:
    """Files of one passage each."""
    for number in range(FILES):
        sentences = [
            f"Warehouse {number} stores {number + 7} crates for Captain Holt{number}.",
            f"Its door faces Pier {number}, where the barge Merle{number} unloads on Mondays.",
            f"The clerk Abel{number} counts the crates and sends the list to Port Royal.",
        ]
        place.write(f"many/{number}.md", f"# Warehouse {number}\n\n{' '.join(sentences)}\n")


def begin(place: Place) -> None:
    """A daemon with one file that a sync acknowledged, in the middle of a long batch."""
    place.configure("[watch]\ndebounce_ms = 50\n" + source("notes", place.notes))
    place.write("first.md", "The first ledger was opened by Quentin Marsh.\n")
    place.start()
    place.sync()
    write_many(place)
    place.until(lambda: 1 + GROUP <= place.generated() < FILES)


def restart(place: Place) -> None:
    """Start again; what was acknowledged is served from the first answer on."""
    place.start()
    place.until(lambda: place.get("/v1/health")["version"] >= 1)
    assert place.documents("first ledger Quentin Marsh", strategy="bm25", k=1) == ["first.md"]


def test_sigterm_in_a_long_index_ends_soon_and_the_work_goes_on_later(place: Place) -> None:
    begin(place)
    status, took_s = place.stop()
    assert status == 0
    assert took_s < SOON_S
    assert not place.socket.exists()
    restart(place)
    assert place.generated() >= 1 + GROUP
    place.sync()
    now = place.status()
    assert now["passages"] == now["documents"] == now["counters"]["passages_generated"] == FILES + 1
    assert place.documents("Who counts the crates of Warehouse 149?", k=1) == ["many/149.md"]


def test_a_waiting_sync_gets_an_error_when_the_daemon_stops(place: Place) -> None:
    begin(place)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(place.sync)
        place.until(lambda: place.get("/v1/stats")["connections"] > 1)
        place.get("/v1/stats")  # what the other had sent was read before this
        assert place.stop()[0] == 0
        with pytest.raises(RequestFailed, match="the daemon is stopping"):
            waiting.result()
    assert "Traceback" not in place.log.read_text()


def test_sigterm_while_the_models_load_leaves_no_socket(place: Place) -> None:
    place.launch()
    place.until(place.socket.exists)
    status, took_s = place.stop()
    assert status == 0
    assert took_s < SOON_S
    assert not place.socket.exists()
    assert "Traceback" not in place.log.read_text()


def test_kill_9_in_a_long_index_loses_nothing_acknowledged(place: Place) -> None:
    begin(place)
    place.kill()
    assert place.socket.exists()
    restart(place)
    assert place.generated() >= 1 + GROUP
    place.sync()
    now = place.status()
    assert now["passages"] == now["documents"] == FILES + 1
    assert now["counters"]["passages_generated"] == FILES + 1
    assert now["error"] is None
