"""A flood of connections on a daemon that may open 1,024 files."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.port import free_port

FLOOD = """
import resource, socket, sys, time
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
open_now, ends_s = [], time.monotonic() + float(sys.argv[2])
while time.monotonic() < ends_s:
    try:
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", int(sys.argv[1])))
        open_now.append(client)
        if len(open_now) > 3000:
            open_now.pop(0).close()
    except OSError:
        time.sleep(0.005)
"""
MOST_LOG_BYTES = 200_000


def limited_python(place: Place) -> str:
    """A Python whose processes may open 1,024 files at most."""
    wrapper = place.base / "python"
    wrapper.write_text(f'#!/bin/sh\nulimit -n 1024\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    return str(wrapper)


def test_an_edit_is_indexed_and_the_log_stays_short_in_a_flood_of_connections() -> None:
    port = free_port()
    with new_place(SMALL) as place:
        place.configure(f'[web]\nlisten = "127.0.0.1:{port}"\n' + source("notes", place.notes))
        place.write("a.md", "Ada wrote the first program.\n")
        place.python = limited_python(place)
        place.start()
        place.sync()
        before = place.log.stat().st_size
        flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(port), "8"])
        time.sleep(3)
        place.write("b.md", "Babbage designed the engine.\n")
        most = 0
        while flood.poll() is None:
            assert place.process
            most = max(most, len(os.listdir(f"/proc/{place.process.pid}/fd")))  # noqa: PTH208
            time.sleep(0.05)
        place.until(lambda: place.documents("Who designed the engine?")[:1] == ["b.md"], 10.0)
        assert place.get("/v1/health")["status"] == "ok"
        assert place.status()["error"] is None
        assert most < 800
        assert place.log.stat().st_size - before < MOST_LOG_BYTES


def test_the_daemon_raises_its_limit_of_open_files() -> None:
    with new_place(SMALL) as place:
        wrapper = Path(limited_python(place))
        wrapper.write_text(wrapper.read_text().replace("ulimit -n", "ulimit -S -n"))
        place.configure(source("notes", place.notes))
        place.python = str(wrapper)
        place.start()
        assert place.process
        limits = Path(f"/proc/{place.process.pid}/limits").read_text()
        [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
        soft, hard = line.split()[3:5]
        assert int(soft) == min(int(hard), 65_536)
