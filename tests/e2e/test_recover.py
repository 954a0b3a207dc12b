"""`hopsyncd recover`: where a log was lost, no daemon starts until a person accepts the loss."""

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source


@pytest.fixture
def place() -> Iterator[Place]:
    """Version 2 is in a backup; versions 3 and 4 were acknowledged after it."""
    with new_place(SMALL) as made:
        made.configure(GC_LATER + "[watch]\nenabled = false\n" + source("notes", made.notes))
        made.start()
        for version, colour in enumerate(("red", "blue", "white", "green"), 1):
            made.write("pier.md", f"# Pier\n\nThe lamp of the pier is {colour}.\n")
            assert made.sync()["version"] == version
            if version == 2:
                made.post("/v1/backup", {"file": str(made.base / "backup.db")})
        yield made


def lose_log(place: Place) -> None:
    for suffix in ("-wal", "-shm"):
        (place.home / f"data/hopsyncd.db{suffix}").unlink()


def restore_backup(place: Place) -> None:
    lose_log(place)
    shutil.copy(place.base / "backup.db", place.home / "data/hopsyncd.db")


@pytest.mark.parametrize("lose", [lose_log, restore_backup])
def test_a_loss_is_refused_at_the_start_and_accepted_by_hand(
    place: Place, lose: Callable[[Place], None]
) -> None:
    place.kill()
    lose(place)
    with pytest.raises(AssertionError, match=r"the daemon ended: (?s:.)*`hopsyncd recover`"):
        place.start()
    assert place.process and place.process.wait() != 0
    place.process = None
    doctor = place.run("doctor")
    assert doctor.returncode == 1 and "version 4 was acknowledged" in doctor.stdout
    asked = place.run("recover")
    assert asked.returncode == 1
    assert "version 4 was acknowledged" in asked.stdout and "--yes" in asked.stderr
    done = place.run("recover", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    again = place.run("recover", "--yes")
    assert (again.returncode, "Nothing was changed" in again.stdout) == (0, True)
    place.start()
    assert place.sync()["version"] == 5
    assert "green" in place.query("What colour is the lamp of the pier?")[0]["text"]


def test_a_running_daemon_has_nothing_taken_from_under_it(place: Place) -> None:
    ran = place.run("recover", "--yes")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert "another" in ran.stderr
