"""Runs git on a repository, without prompts or hooks, and with limits on time and memory.

Only fetching a `Mirror` uses the network. A Mirror is a bare local copy of one branch of a remote
repository.
"""

import fcntl
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from connectors.protocol import SourceUnavailable
from connectors.regular_file import check_size

NO_PROTOCOL = "none"  # not the name of any transport, so git has no network access
LIMIT_S = 600.0
_PIECE_BYTES = 1 << 16
MAX_RECORDS = 2_000_000
"""The maximum number of paths in a tree. A tree of a few kilobytes can name more paths than fit
into memory."""
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
    """A local repository.

    `location` is its path or URL to show to users, without secrets. `protocols` are the protocols
    that git may use, separated by `:`. `variables` are added to git's environment. A command that
    takes longer than `limit_s` is killed. All methods raise SourceUnavailable if git cannot run or
    fails, or if `path` is not a repository.
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
        """Run a command and return its output, which must be short. Returns nothing for a status in
        `accept` other than 0.

        `look` is called every `look_every_s` seconds while the command runs. It may raise an error
        to end the command.
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
        """Run a command without output, and return whether it exits with status 0."""
        with self.process(*arguments, accept=range(256)) as process:
            process.communicate()
        return process.returncode == 0

    def read_records(self, *arguments: str) -> Iterator[bytes]:
        """Yield the NUL-terminated records that a command prints, while it runs.

        Raises SourceUnavailable after `MAX_RECORDS` records, and for a record of more than 8 KiB.
        """
        with self.process(*arguments) as process:
            assert process.stdout is not None
            rest = b""
            count = 0
            while piece := process.stdout.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
                *parts, rest = (rest + piece).split(b"\0")
                if len(rest) > _MAX_RECORD_BYTES:
                    raise self.unavailable_error(
                        "the repository contains a path of more than 8 KiB", "Shorten that path."
                    )
                count += len(parts)
                if count > MAX_RECORDS:
                    raise self.unavailable_error(
                        f"the repository has more than {MAX_RECORDS:,} paths",
                        "Use a smaller repository.",
                    )
                yield from parts

    @contextmanager
    def process(
        self, *arguments: str, stdin: int = subprocess.DEVNULL, accept: Sequence[int] = (0,)
    ) -> Iterator[Process]:
        """Run a command during the block. The command is killed if the block ends early or if the
        command takes longer than `limit_s`.

        Raises SourceUnavailable if the command is killed for its time, or exits with a status that
        is not in `accept`.
        """
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
                raise self.unavailable_error(
                    f"git took longer than {self.limit_s:.0f} s",
                    "Check the network and the repository's size. The next scan tries again.",
                )
            if status not in accept:
                errors.seek(0)
                raise self._failure_error(
                    errors.read(_MAX_MESSAGE_BYTES).decode("utf-8", "replace")
                )

    def unavailable_error(self, why: str, hint: str) -> SourceUnavailable:
        return SourceUnavailable(f"Cannot read the repository {self.location}", why, hint)

    def _start(self, arguments: Sequence[str], stdin: int, errors: IO[bytes]) -> Process:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        try:
            return subprocess.Popen(
                ["git", *settings, *arguments],
                cwd=self.path,
                env=self._build_environment(),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # so that a kill also reaches git's children
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            if self.path.is_dir():
                raise self.unavailable_error("git is not installed", "Install git.") from error
            raise self.unavailable_error(
                f"the folder {self.path} does not exist", _PLACE
            ) from error
        except OSError as error:
            raise self.unavailable_error((error.strerror or str(error)).lower(), _PLACE) from error

    def _build_environment(self) -> dict[str, str]:
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _INHERITED},
            "LC_ALL": "C",  # so that error messages are in English and can be compared
            "GIT_ALLOW_PROTOCOL": self.protocols,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            # ssh and credential helpers have no terminal, and must not open a window.
            "SSH_ASKPASS_REQUIRE": "never",
            "GCM_INTERACTIVE": "never",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            # The folder itself must be the repository, not a folder above it.
            "GIT_CEILING_DIRECTORIES": os.path.realpath(self.path.parent),
            **self.variables,
        }

    def _failure_error(self, message: str) -> SourceUnavailable:
        text = message.lower()
        for signs, why, hint in _FAILURES:
            if any(sign in text for sign in signs):
                return self.unavailable_error(why, hint)
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
        why = "".join(c for c in errors[-1] if c.isprintable())[:300] if errors else "git failed"
        return self.unavailable_error(why.rstrip("."), "The next scan tries again.")


def ask(process: Process, object_id: str) -> bytes:
    """Request an object from a `git cat-file` process. Returns the first line of the reply, or b""
    if git has exited."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(object_id.encode() + b"\n")
        process.stdin.flush()
    return process.stdout.readline()


class BlobReader:
    """Reads many blobs through one `git cat-file` process. An instance is not thread-safe."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._process: Process | None = None
        self._repository: Repository | None = None
        self._until_s = 0.0

    def read(self, repository: Repository, blob: str, max_bytes: int, id_: str) -> bytes | None:
        """Return the content of a blob, or None if the repository has no such blob.

        Raises ItemUnreadable, which names the item `id_`, if the blob has more than `max_bytes`.
        """
        try:
            return self._read(repository, blob, max_bytes, id_)
        except BaseException:
            self.close()  # the process may still send the rest of its answer
            raise

    def close(self) -> None:
        """End the git process."""
        self._process = None
        with suppress(SourceUnavailable):
            self._held.close()

    def _read(self, repository: Repository, blob: str, max_bytes: int, id_: str) -> bytes | None:
        process = self._open_process(repository)
        line = ask(process, blob)
        if not line:
            self._process = None
            self._held.close()  # raises SourceUnavailable with git's error
        facts = line.split()
        if len(facts) != 3 or facts[1] != b"blob":
            return None
        size = int(facts[2])
        check_size(id_, size, max_bytes)
        assert process.stdout is not None
        data = process.stdout.read(size)
        process.stdout.read(1)  # the newline after the content
        if len(data) != size:
            raise repository.unavailable_error(
                f"the object {blob} is truncated", "Run `git fsck` in the repository."
            )
        return data

    def _open_process(self, repository: Repository) -> Process:
        """Return the git process. A process that has used half of its time limit is replaced with a
        new process."""
        if self._process and self._repository == repository and time.monotonic() < self._until_s:
            return self._process
        self.close()
        process = self._held.enter_context(
            repository.process("cat-file", "--batch", stdin=subprocess.PIPE)
        )
        self._process, self._repository = process, repository
        self._until_s = time.monotonic() + repository.limit_s / 2
        return process


_PLACE = "Correct `path` or `url` of this source in config.toml. Indexed documents stay searchable."
_FAILURES = (
    (
        ("prompts disabled", "could not read username", "could not read password",
         "authentication failed", "permission denied (publickey", "returned error: 401",
         "returned error: 403", "permission denied, please try again"),
        "the server asks for credentials and accepted none",
        'Set `token = "${NAME}"` for this source, or configure a git credential helper. For ssh,'
        " use an agent or a key without a passphrase.",
    ),
    (
        ("host key verification failed",),
        "ssh does not know the key of the host",
        "Connect to the host once with ssh, as the daemon's user, and accept its key.",
    ),
    (
        ("couldn't find remote ref", "remote branch"),
        "the repository has no such branch, or no commit yet",
        "Correct `branch` of this source in config.toml. Indexed documents stay searchable.",
    ),
    (
        ("dubious ownership",),
        "the repository belongs to another user, whom git does not trust",
        "As the daemon's user, run `git config --global --add safe.directory PATH`.",
    ),
    (
        ("not a git repository", "does not appear to be a git repository", "repository not found",
         "does not exist"),
        "not a git repository, or not accessible",
        _PLACE,
    ),
)  # fmt: skip


def _kill(process: Process) -> None:
    """Kill the command and its children, unless the command has already been reaped."""
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


PROTOCOLS = ("https", "ssh", "git", "file")
TIP = "refs/hopsyncd/tip"
"""The ref in a mirror for the branch's newest commit, as last fetched."""

_SSH_SHORT = re.compile(r"(?:[\w.+][\w.+-]*@)?[\w.][\w.-]*:(?!:)\S+")
_HELPER = re.compile(r"[\w+.-]*::")
_BRANCH = re.compile(r"[\w@][\w@.+#,=/-]*")
_TOKEN = "HOPSYNCD_GIT_TOKEN"
_HELPER_SCRIPT = f'!f() {{ test "$1" = get && printf "username=%s\\npassword=%s\\n" \
"$HOPSYNCD_GIT_USER" "${_TOKEN}"; }}; f'


def parse_protocol(url: str) -> str:
    """Return the protocol that git would use for `url`. Raises ValueError if hopsyncd does not
    allow git to use it.

    >>> parse_protocol("https://example.org/a.git"), parse_protocol("git@example.org:a/b.git")
    ('https', 'ssh')
    """
    if not url.isprintable() or " " in url or url.startswith("-"):
        raise ValueError("not the address of a git repository")
    if _HELPER.match(url):
        raise ValueError(
            'the address begins with a git remote helper, such as "ext::", which could run any'
            " program; use an https or ssh address"
        )
    if "://" not in url:
        if _SSH_SHORT.fullmatch(url):
            return "ssh"
        raise ValueError("not the address of a git repository")
    parts = urlsplit(url)
    if parts.scheme not in PROTOCOLS:
        raise ValueError(
            f"{parts.scheme}:// is not supported. Supported are {', '.join(PROTOCOLS)}"
        )
    if parts.password is not None:
        raise ValueError("the address contains a password, which belongs in `token`")
    if parts.netloc.startswith("-") or (parts.hostname or "").startswith("-"):
        raise ValueError("not the address of a git repository")
    if (parts.scheme == "file") == bool(parts.netloc):
        raise ValueError("not the address of a git repository")
    return parts.scheme


def check_branch_name(branch: str) -> str:
    """Return the branch name unchanged if it is valid. Raises ValueError otherwise.

    An empty name is valid and stands for the repository's HEAD.
    """
    bad = (branch.endswith(("/", ".", ".lock")), ".." in branch, "//" in branch, "@{" in branch)
    if branch and (not _BRANCH.fullmatch(branch) or any(bad)):
        raise ValueError("not a valid branch name")
    return branch


@dataclass(frozen=True, slots=True)
class Mirror:
    """A remote repository, and the local folder into which one of its branches is fetched.

    The last `depth` commits are fetched; 0 means all commits. The folder may grow to `max_bytes`.
    Raises ValueError for a URL that git must not use.
    """

    url: str
    folder: Path
    token: str = field(default="", repr=False)
    username: str = ""
    depth: int = 200
    max_bytes: int = 2 << 30
    limit_s: float = LIMIT_S

    def __post_init__(self) -> None:
        if self.token and parse_protocol(self.url) != "https":
            raise ValueError("a token requires an https:// address")
        parse_protocol(self.url)

    @property
    def repository(self) -> Repository:
        """Return the local mirror, which needs no network access. It may not exist yet."""
        return Repository(self.folder, self.url, self.limit_s)

    def prepare_remote_access(self) -> Repository:
        """Return the local mirror, set up for commands that access the remote repository."""
        speaks = parse_protocol(self.url)
        return replace(
            self.repository, protocols=speaks, variables=self._build_credential_settings()
        )

    def refresh(self, branch: str) -> Repository:
        """Fetch the newest commits of a branch. An empty name means the remote's HEAD.

        Raises SourceUnavailable, or ValueError for an invalid branch name.
        """
        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock_mirror(self.folder):
            return self._fetch(branch)

    def _fetch(self, branch: str) -> Repository:
        local = self.repository
        local.run("init", "--quiet", "--bare", "--template=")
        for leftover in _find_leftovers(self.folder):
            leftover.unlink(missing_ok=True)
        depth = (f"--depth={self.depth}",) if self.depth else ()
        name = f"refs/heads/{check_branch_name(branch)}" if branch else "HEAD"
        try:
            self.prepare_remote_access().run(
                "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                *depth, "--", self.url, f"+{name}:{TIP}", look=self._check_size,
            )  # fmt: skip
            self._check_size()
        finally:
            for leftover in _find_leftovers(self.folder):
                leftover.unlink(missing_ok=True)
        return local

    def _check_size(self) -> None:
        size = sum(_measure_size(path) for path in self.folder.glob("objects/**/*"))
        if size > self.max_bytes:
            raise self.repository.unavailable_error(
                f"the repository's objects take more than {self.max_bytes:,} bytes",
                "Raise `max_repository_bytes` of this source in config.toml, or lower `depth`.",
            )

    def _build_credential_settings(self) -> dict[str, str]:
        """Return git settings with a credential helper that replies only to the remote's host.

        This keeps the token out of files and command lines.
        """
        if not self.token:
            return {}
        parts = urlsplit(self.url)
        key = f"credential.https://{parts.netloc.rpartition('@')[2]}.helper"
        return {
            "HOPSYNCD_GIT_USER": self.username or parts.username or "x-access-token",
            _TOKEN: self.token,
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": key,
            "GIT_CONFIG_VALUE_0": "",  # an empty value removes all other helpers
            "GIT_CONFIG_KEY_1": key,
            "GIT_CONFIG_VALUE_1": _HELPER_SCRIPT,
        }


@contextmanager
def _lock_mirror(folder: Path) -> Iterator[None]:
    """Lock the mirror during a fetch, because two sources, or a source and a dry run, may share a
    mirror."""
    with (folder / "hopsyncd-fetch").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield


def _find_leftovers(folder: Path) -> Iterator[Path]:
    """Yield the files that a killed git process left behind: locks that block the next run, and
    partial packs."""
    for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/tmp_*"):
        yield from folder.glob(pattern)


def _measure_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # git has renamed the file meanwhile
        return 0
