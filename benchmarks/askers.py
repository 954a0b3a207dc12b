"""The clients that ask the daemon while benchmarks/scale.py measures it: readers, and a member of
its group."""

import grp
import itertools
import json
import os
import pwd
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hopsyncd.client import Client
from tests.e2e.daemon import Place

GROUP = grp.getgrgid(1)
"""The group of the daemon's members."""

_READERS, _READER_PAUSE_S = 2, 0.05

# The milliseconds of each query that it is given as a line of JSON. Each has its own connection:
# one that waits for the next version may be closed meanwhile.
_MEMBER = """
import http.client, socket, sys, time
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(sys.argv[1])
member = Unix("hopsyncd")
for line in sys.stdin:
    member.close()
    began_s = time.perf_counter()
    member.request("POST", "/v1/query", line, {"Content-Type": "application/json"})
    reply = member.getresponse()
    text = reply.read()
    assert reply.status == 200, text
    print((time.perf_counter() - began_s) * 1000, flush=True)
"""


@contextmanager
def readers(place: Place, questions: Sequence[str]) -> Iterator[None]:
    """Ask with _READERS clients at a time, each with short pauses, within the block."""
    ended = threading.Event()

    def ask(asked: Sequence[str]) -> None:
        client = Client(place.socket)
        for question in itertools.cycle(asked):
            if ended.wait(_READER_PAUSE_S):
                break
            client.post("/v1/query", {"question": question})
        client.close()

    threads = [
        threading.Thread(target=ask, args=(questions[number::_READERS],))
        for number in range(_READERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@contextmanager
def member(place: Place) -> Iterator[Callable[[str], float] | None]:
    """Yield a function that asks as a member and returns the milliseconds. Yields None unless root
    runs the benchmark."""
    if os.geteuid() != 0:
        yield None
        return
    asking = subprocess.Popen(
        ["/usr/bin/env", "python3", "-c", _MEMBER, str(place.socket)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=pwd.getpwnam("nobody").pw_uid,
        group=GROUP.gr_gid,
        extra_groups=[GROUP.gr_gid],
    )
    assert asking.stdin and asking.stdout
    told, heard = asking.stdin, asking.stdout

    def ask(question: str) -> float:
        told.write(json.dumps({"question": question}) + "\n")
        told.flush()
        return float(heard.readline())

    with asking:
        yield ask
        told.close()
