"""A real hopsyncd: its commands, and its daemon in a process of its own, under a short folder."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2

from hopsyncd.client import Client
from hopsyncd.errors import DaemonUnavailable
from tests.fakes.forked import ForkedProcess, run_forked

ROOT = Path(__file__).parents[2]
HOPSYNCD = ("hopsyncd", "serve")
SMALL = ("tests.fakes.small_daemon",)
START_S = 120.0
# In half a day: no gc comes by itself in a test, at whatever time of the day that runs.
GC_LATER = (
    f'[schedule]\ngc_at = "0 {(datetime.now(UTC).hour + 12) % 24} * * *"\ntime_zone = "UTC"\n'
)
DEADLINE_S = 60.0


# Tests fork processes, which is faster. Benchmarks start them as users do.
_IS_TEST = "PYTEST_VERSION" in os.environ

# As systemd passes a socket on: as descriptor 3, to the process whose number it says.
_PASS_ON = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Place:
    """A HOPSYNCD_HOME with a folder `notes` beside it, and what a user does there.

    At most one daemon runs here at a time, and only that one is ever signalled. `program` is the
    module that serves: hopsyncd itself, or the same daemon with small models.
    """

    def __init__(self, base: Path, program: Sequence[str] = HOPSYNCD) -> None:
        self.base = base
        self._program = program
        self.python = "" if _IS_TEST else sys.executable  # runs the daemon; "" forks it
        self.home = base / "home"
        self.notes = base / "notes"
        self.socket = self.home / "run/hopsyncd.sock"
        self.log = base / "log"
        self.notes.mkdir(exist_ok=True)
        self.variables: dict[str, str] = {}  # of the environment, besides
        self.process: ForkedProcess | subprocess.Popen[bytes] | None = None
        self._client = Client(self.socket)

    def configure(self, text: str) -> None:
        """Write the configuration by hand."""
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(text, encoding="utf-8")

    def write(self, path: str, text: str) -> Path:
        """Write a note, at one moment: none is read half written by a daemon that watches."""
        file, written = self.notes / path, self.base / f"written-{threading.get_ident()}"
        file.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(text, encoding="utf-8")
        written.replace(file)
        return file

    def run(self, *arguments: str, timeout_s: float = 180.0) -> subprocess.CompletedProcess[str]:
        """One `hopsyncd` command, to its end."""
        program, environment = ["hopsyncd", *arguments], self._environment()
        if _IS_TEST:
            return run_forked(program, environment, timeout_s)
        return subprocess.run(
            [sys.executable, "-m", *program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def printed(self, *arguments: str) -> dict[str, Any]:
        """The one object that a command prints with --json."""
        ran = self.run(*arguments, "--json")
        assert ran.returncode == 0, ran.stderr
        value = json.loads(ran.stdout)
        assert isinstance(value, dict)
        return value

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        self.launch()
        self.until(self._answers, START_S)

    def launch(self, listener: socket.socket | None = None) -> None:
        """Start the daemon and go on at once. A `listener` is passed in as systemd does it."""
        assert self.process is None
        environment = self._environment()
        if not (self.python or listener):
            self.process = ForkedProcess(self._program, ROOT, environment, self.log, self.log)
            return
        program: list[str] = [self.python or sys.executable, "-m", *self._program]
        fds: list[int] = []
        if listener:
            fds = [listener.fileno()]
            program = [sys.executable, "-c", _PASS_ON, str(fds[0]), *program]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                program, cwd=ROOT, env=environment, stdout=log, stderr=log, pass_fds=fds
            )

    def stop(self) -> tuple[int, float]:
        """SIGTERM; the exit status, and the seconds it took."""
        assert self.process is not None
        began_s = time.monotonic()
        self.process.terminate()
        return self._ended(), time.monotonic() - began_s

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self._ended()

    def get(self, path: str) -> dict[str, Any]:
        return self._client.get(path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._client.post(path, body)

    def close(self) -> None:
        """Kill the daemon if it runs."""
        self._client.close()
        if self.process is not None:
            self.kill()

    def request(self, method: str, path: str, body: bytes | None = None) -> httpx2.Response:
        """Any bytes, as a foreign client would send them."""
        transport = httpx2.HTTPTransport(uds=str(self.socket), verify=False)
        with httpx2.Client(transport=transport, timeout=DEADLINE_S) as http:
            return http.request(method, f"http://hopsyncd{path}", content=body)

    def query(self, question: str, **more: Any) -> list[dict[str, Any]]:
        """The passages that answer."""
        passages: list[dict[str, Any]] = self.post("/v1/query", {"question": question, **more})[
            "passages"
        ]
        return passages

    def documents(self, question: str, **more: Any) -> list[str]:
        """Where the passages stand that answer."""
        return [passage["document"] for passage in self.query(question, **more)]

    def sync(self, *sources: str) -> dict[str, Any]:
        return self.post("/v1/sync", {"sources": list(sources)})

    def status(self) -> dict[str, Any]:
        return self.get("/v1/status")

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The schedule, by job."""
        return {job["job"]: job for job in self.get("/v1/schedule")["jobs"]}

    def generated(self) -> int:
        """For how many passages questions were ever made."""
        return int(self.status()["counters"]["passages_generated"])

    def until(
        self, condition: Callable[[], bool], timeout_s: float = DEADLINE_S, poll_s: float = 0.02
    ) -> float:
        """Poll until the condition holds; the seconds it took.

        In tests, the pauses grow up to 0.1 s, because each request slows the daemon.
        """
        began_s = time.monotonic()
        while not condition():
            waited_s = time.monotonic() - began_s
            assert waited_s < timeout_s, f"waited {timeout_s} s in vain"
            time.sleep(max(poll_s, min(0.05 * waited_s, 0.1)) if _IS_TEST else poll_s)
        return time.monotonic() - began_s

    def files_bytes(self, pattern: str = "*") -> dict[Path, bytes]:
        """What each file of the place holds; without those that SQLite or a build removes
        meanwhile."""
        found = {}
        for file in self.base.rglob(pattern):
            with suppress(FileNotFoundError):
                if file.is_file():
                    found[file] = file.read_bytes()
        return found

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(
                f"the daemon ended: {self.log.read_text(errors='replace')[-4000:]}"
            )
        try:
            return bool(self.get("/v1/health")["status"] == "ok")
        except DaemonUnavailable:
            return False

    def _ended(self) -> int:
        assert self.process is not None
        status = self.process.wait(DEADLINE_S)
        self.process = None
        return status

    def _environment(self) -> dict[str, str]:
        own = {"HOPSYNCD_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **own, **self.variables}


@contextmanager
def new_place(program: Sequence[str] = HOPSYNCD) -> Iterator[Place]:
    """A place of its own; at the end its daemon is killed if it runs, and the files go.

    Not pytest's tmp_path: the path of a Unix socket has room for 107 bytes only.
    """
    with tempfile.TemporaryDirectory(prefix="hop-") as folder:
        place = Place(Path(folder), program)
        try:
            yield place
        finally:
            place.close()


@contextmanager
def serving(name: str, files: Mapping[str, str]) -> Iterator[Place]:
    """A small daemon that has indexed these files as a source of that name."""
    with new_place(SMALL) as place:
        for path, text in files.items():
            place.write(path, text)
        place.configure(source(name, place.notes))
        place.start()
        place.sync()
        yield place


def source(name: str, path: Path, more: str = "") -> str:
    """A [[source]] block."""
    return f'[[source]]\nname = "{name}"\npath = "{path}"\n{more}\n'
