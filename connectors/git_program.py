"""The git program on one repository: no question to a terminal, no hook, bounded time and memory.

It connects nowhere unless told to: `git_mirror` has the one command that connects.
"""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from connectors.protocol import SourceUnavailable

NO_PROTOCOL = "none"  # a name that no transport has: git then connects nowhere
LIMIT_S = 600.0
_PIECE_BYTES = 1 << 16
MAX_RECORDS = 2_000_000
"""A tree of a few kilobytes can name more paths than any memory holds."""
_MAX_RECORD_BYTES = 1 << 13
_MAX_MESSAGE_BYTES = 4096

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
    "log.showRoot=true",
    "safe.bareRepository=all",
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=60",
)

_INHERITED = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_EXEC_PATH")

Process = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on this disk; `location` is what people call it, without secrets.

    `protocols` are those that git may speak, separated by `:`; `variables` are added to its
    environment. A command that takes longer than `limit_s` is killed. Everything raises
    SourceUnavailable where git cannot be run, or fails, or the repository is none.
    """

    path: Path
    location: str
    limit_s: float = LIMIT_S
    protocols: str = NO_PROTOCOL
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def run(
        self,
        *arguments: str,
        accept: Sequence[int] = (0,),
        look: Callable[[], None] = lambda: None,
        look_every_s: float = 0.2,
    ) -> bytes:
        """What a command prints, which must be little; empty where its status is not 0.

        While it runs, `look` is called now and then, and may raise to end it.
        """
        with self.process(*arguments, accept=accept) as process:
            while True:
                try:
                    output, _ = process.communicate(timeout=look_every_s)
                    break
                except subprocess.TimeoutExpired:
                    look()
        return output if process.returncode == 0 else b""

    def succeeds(self, *arguments: str) -> bool:
        """Whether a command that prints nothing ends with status 0."""
        with self.process(*arguments, accept=range(256)) as process:
            process.communicate()
        return process.returncode == 0

    def records(self, *arguments: str) -> Iterator[bytes]:
        """The NUL-terminated records that a command prints, as they come."""
        with self.process(*arguments) as process:
            assert process.stdout is not None
            rest = b""
            count = 0
            while piece := process.stdout.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
                *whole, rest = (rest + piece).split(b"\0")
                if len(rest) > _MAX_RECORD_BYTES:
                    raise self.unavailable(
                        "it holds a path of more than 8 KiB", "Look at who made it."
                    )
                count += len(whole)
                if count > MAX_RECORDS:
                    raise self.unavailable(
                        f"it has more than {MAX_RECORDS:,} paths", "Look at who made it."
                    )
                yield from whole

    @contextmanager
    def process(
        self, *arguments: str, stdin: int = subprocess.DEVNULL, accept: Sequence[int] = (0,)
    ) -> Iterator[Process]:
        """A running command, killed when the block is left early or takes too long."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            _kill(process)

        with tempfile.TemporaryFile() as errors:
            process = self._start(arguments, stdin, errors)
            timer = threading.Timer(self.limit_s, expire)
            timer.daemon = True
            timer.start()
            try:
                yield process
                if process.stdin is not None:
                    _close(process.stdin)
                status = process.wait()
            finally:
                timer.cancel()
                _kill(process)
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        _close(stream)
                process.wait()
            if expired.is_set():
                raise self.unavailable(
                    f"git took longer than {self.limit_s:.0f} s",
                    "The next scan tries again; look at the network, and at how big it is.",
                )
            if status not in accept:
                errors.seek(0)
                raise self._failed(errors.read(_MAX_MESSAGE_BYTES).decode("utf-8", "replace"))

    def unavailable(self, why: str, hint: str) -> SourceUnavailable:
        return SourceUnavailable(f"Cannot read the repository {self.location}", why, hint)

    def _start(self, arguments: Sequence[str], stdin: int, errors: IO[bytes]) -> Process:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        try:
            return subprocess.Popen(
                ["git", *settings, *arguments],
                cwd=self.path,
                env=self._environment(),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a kill must reach what git starts in its turn
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            if self.path.is_dir():
                raise self.unavailable("there is no git program", "Install git.") from error
            raise self.unavailable(f"there is no folder {self.path}", _PLACE) from error
        except OSError as error:
            raise self.unavailable((error.strerror or str(error)).lower(), _PLACE) from error

    def _environment(self) -> dict[str, str]:
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _INHERITED},
            "LC_ALL": "C",  # the messages are compared
            "GIT_ALLOW_PROTOCOL": self.protocols,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            # ssh and credential helpers have no terminal to ask at, and are to open no window.
            "SSH_ASKPASS_REQUIRE": "never",
            "GCM_INTERACTIVE": "never",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            # The folder itself must be the repository: one above it is not what was configured.
            "GIT_CEILING_DIRECTORIES": os.path.realpath(self.path.parent),
            **self.variables,
        }

    def _failed(self, message: str) -> SourceUnavailable:
        known = message.lower()
        for signs, why, hint in _FAILURES:
            if any(sign in known for sign in signs):
                return self.unavailable(why, hint)
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
        why = "".join(c for c in told[-1] if c.isprintable())[:300] if told else "git failed"
        return self.unavailable(why.rstrip("."), "The next scan tries again.")


_PLACE = "Correct `path` or `url` of this source in config.toml. What is indexed of it is kept."
_FAILURES = (
    (
        ("prompts disabled", "could not read username", "could not read password",
         "authentication failed", "permission denied (publickey", "returned error: 401",
         "returned error: 403", "permission denied, please try again"),
        "it asks for credentials, and none that it accepts are there",
        'Write token = "${NAME}" for this source, or give git a credential helper; for ssh, a key'
        " without a passphrase or an agent.",
    ),
    (
        ("host key verification failed",),
        "ssh does not know the key of its host",
        "Connect to the host once with ssh, as the daemon's user, and accept its key.",
    ),
    (
        ("couldn't find remote ref", "remote branch"),
        "it has no such branch, or no commit yet",
        "Correct `branch` of this source in config.toml. What is indexed of it is kept.",
    ),
    (
        ("dubious ownership",),
        "it belongs to another user, whom git does not trust",
        "As the daemon's user, run `git config --global --add safe.directory PATH`.",
    ),
    (
        ("not a git repository", "does not appear to be a git repository", "repository not found",
         "does not exist"),
        "there is no git repository",
        _PLACE,
    ),
)  # fmt: skip


def _kill(process: Process) -> None:
    """The command and all that it started; nothing where it ended and was waited for."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return
