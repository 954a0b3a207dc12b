"""`python -m MODULE`, by a fork of a process that has imported hopsyncd already.

The environment is the one given, but what Python reads from it at its start has no effect.
"""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from runpy import run_module
from tempfile import TemporaryDirectory

# One for all forks of the tests: a process has one fork server, and the last preload counts.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.fakes.preloaded"])
_SET_BY_IMPORTS = ("OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY")


class ForkedProcess:
    """The part of subprocess.Popen that tests use. What it prints is appended to files, which may
    be a terminal."""

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        stdin: Path = Path(os.devnull),
    ) -> None:
        self._process = FORKS.Process(
            target=_run, args=(arguments, cwd, {**environment}, stdin, stdout, stderr)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, when the process has ended. Raises TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_forked(
    arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """As subprocess.run with what is printed captured."""
    with TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        process = ForkedProcess(arguments, Path.cwd(), environment, stdout, stderr)
        try:
            status = process.wait(timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(
            arguments, status, stdout.read_text("utf-8"), stderr.read_text("utf-8")
        )


def _run(
    arguments: Sequence[str],
    cwd: Path,
    environment: dict[str, str],
    stdin: Path,
    stdout: Path,
    stderr: Path,
) -> None:
    sys.stdin.close()
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    for number, path in ((1, stdout), (2, stderr)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", errors, write_through=True)
        for number, errors in ((1, "strict"), (2, "backslashreplace"))
    )
    os.chdir(cwd)
    kept = {name: os.environ[name] for name in _SET_BY_IMPORTS if name in os.environ}
    os.environ.clear()
    os.environ.update(kept | environment)
    time.tzset()
    module, *sys.argv[1:] = arguments
    run_module(module, run_name="__main__", alter_sys=True)
