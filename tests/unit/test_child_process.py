"""Children of the daemon: their ends, and what happens when they cannot be started."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hopsyncd.child_process import (
    ChildProcess,
    Process,
    Restarts,
    StartRefused,
    end_child,
    start_child,
)

_WITH_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def start(script: str) -> Process:
    return start_child([sys.executable, "-c", script], {}, stdin=subprocess.DEVNULL)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_the_end_of_a_child_is_the_end_of_its_children() -> None:
    process = start(_WITH_A_CHILD)
    assert process.stdout
    grandchild = int(process.stdout.readline())
    assert is_alive(grandchild)
    end_child(process)
    assert process.returncode == -9
    end_s = time.monotonic() + 10
    while is_alive(grandchild):
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_child_has_no_environment_but_the_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    process = start("import os; print(os.getcwd(), 'OPENAI_API_KEY' in os.environ)")
    assert process.communicate()[0].split() == [b"/", b"False"]
    assert "OPENAI_API_KEY" in os.environ


def test_a_child_is_started_once_and_again_after_its_end() -> None:
    child = ChildProcess(lambda: start("import time; time.sleep(600)"))
    assert not child.is_running
    first = child.get()
    assert child.get() is first
    child.end()
    assert first.returncode == -9
    second = child.get()
    assert second is not first
    child.end()


def test_a_child_that_does_not_become_ready_is_killed() -> None:
    started: list[Process] = []

    def refuse(process: Process) -> None:
        started.append(process)
        raise ValueError("it said nothing")

    child = ChildProcess(lambda: start("import time; time.sleep(600)"), refuse)
    with pytest.raises(ValueError, match="nothing"):
        child.get()
    assert not child.is_running
    assert started[0].returncode == -9


def test_after_some_failures_in_a_row_no_start_is_tried_for_a_while() -> None:
    restarts = Restarts(2, (OSError,), 20.0, 0.2)

    def fail() -> None:
        with restarts.attempt():
            time.sleep(0.02)
            raise OSError("no memory")

    for _ in range(2):
        with pytest.raises(OSError, match="no memory"):
            fail()
    with pytest.raises(StartRefused) as refused:
        fail()
    assert refused.value.why == "no memory"
    assert not restarts.are_given_up
    time.sleep(0.25)
    with restarts.attempt():
        pass
    with pytest.raises(OSError, match="no memory"):
        fail()  # it counts from the start again
    with pytest.raises(OSError, match="no memory"):
        fail()


def test_without_a_pause_between_failures_no_more_starts_are_tried() -> None:
    restarts = Restarts(1, (OSError,))
    with pytest.raises(OSError, match="gone"), restarts.attempt():
        raise OSError("gone")
    assert restarts.are_given_up
    with pytest.raises(StartRefused, match="gone"), restarts.attempt():
        pass
