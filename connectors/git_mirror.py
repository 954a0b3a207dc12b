"""A bare local mirror of a remote repository's branch: the only place where git connects."""

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from connectors.git_program import LIMIT_S, Repository

PROTOCOLS = ("https", "ssh", "git", "file")
TIP = "refs/hopsyncd/tip"
"""The ref in a mirror for the branch's newest commit, as last fetched."""

_SSH_SHORT = re.compile(r"(?:[\w.+][\w.+-]*@)?[\w.][\w.-]*:(?!:)\S+")
_HELPER = re.compile(r"[\w+.-]*::")
_BRANCH = re.compile(r"[\w@][\w@.+#,=/-]*")
_TOKEN = "HOPSYNCD_GIT_TOKEN"
_HELPER_SCRIPT = f'!f() {{ test "$1" = get && printf "username=%s\\npassword=%s\\n" \
"$HOPSYNCD_GIT_USER" "${_TOKEN}"; }}; f'


def protocol_of(url: str) -> str:
    """The protocol that git would use. Raises ValueError for an address that git must not get.

    >>> protocol_of("https://example.org/a.git"), protocol_of("git@example.org:a/b.git")
    ('https', 'ssh')
    """
    if not url.isprintable() or " " in url or url.startswith("-"):
        raise ValueError("it is not the address of a repository")
    if _HELPER.match(url):
        raise ValueError("it names a helper program (`::`), which could run anything")
    if "://" not in url:
        if _SSH_SHORT.fullmatch(url):
            return "ssh"
        raise ValueError("it is not the address of a repository")
    parts = urlsplit(url)
    if parts.scheme not in PROTOCOLS:
        raise ValueError(f"{parts.scheme}:// is not one of {', '.join(PROTOCOLS)}")
    if parts.password is not None:
        raise ValueError("it contains a password, which belongs in `token`")
    if parts.netloc.startswith("-") or (parts.hostname or "").startswith("-"):
        raise ValueError("it is not the address of a repository")
    if (parts.scheme == "file") == bool(parts.netloc):
        raise ValueError("it is not the address of a repository")
    return parts.scheme


def branch_name(branch: str) -> str:
    """The branch name unchanged; empty means the repository's HEAD. Raises ValueError."""
    bad = (branch.endswith(("/", ".", ".lock")), ".." in branch, "//" in branch, "@{" in branch)
    if branch and (not _BRANCH.fullmatch(branch) or any(bad)):
        raise ValueError("it is not the name of a branch")
    return branch


@dataclass(frozen=True, slots=True)
class Mirror:
    """A remote repository and the folder that one branch of it is fetched into.

    Fetches `depth` commits, 0 for all; the folder may grow to `max_bytes`. Raises ValueError for a
    url that git must not get.
    """

    url: str
    folder: Path
    token: str = field(default="", repr=False)
    username: str = ""
    depth: int = 200
    max_bytes: int = 2 << 30
    limit_s: float = LIMIT_S

    def __post_init__(self) -> None:
        if self.token and protocol_of(self.url) != "https":
            raise ValueError("a token is for an https:// address only")
        protocol_of(self.url)

    @property
    def repository(self) -> Repository:
        """The mirror, without network access; it may not exist yet."""
        return Repository(self.folder, self.url, self.limit_s)

    def remote_access(self) -> Repository:
        """The mirror, allowed to connect to the remote."""
        speaks = protocol_of(self.url)
        return replace(self.repository, protocols=speaks, variables=self._credentials())

    def refresh(self, branch: str) -> Repository:
        """Fetch the newest commits of a branch; an empty name means the remote's HEAD.

        Raises SourceUnavailable, or ValueError for an invalid branch name.
        """
        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock_mirror(self.folder):
            return self._fetch(branch)

    def _fetch(self, branch: str) -> Repository:
        local = self.repository
        local.run("init", "--quiet", "--bare", "--template=")
        for leftover in _leftovers(self.folder):
            leftover.unlink(missing_ok=True)
        depth = (f"--depth={self.depth}",) if self.depth else ()
        name = f"refs/heads/{branch_name(branch)}" if branch else "HEAD"
        try:
            self.remote_access().run(
                "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                *depth, "--", self.url, f"+{name}:{TIP}", look=self._check_size,
            )  # fmt: skip
            self._check_size()
        finally:
            for leftover in _leftovers(self.folder):
                leftover.unlink(missing_ok=True)
        return local

    def _check_size(self) -> None:
        size = sum(_size(path) for path in self.folder.glob("objects/**/*"))
        if size > self.max_bytes:
            raise self.repository.unavailable(
                f"its objects take more than {self.max_bytes:,} bytes",
                "Raise `max_repository_bytes` of this source in config.toml, or lower `depth`.",
            )

    def _credentials(self) -> dict[str, str]:
        """A credential helper for this host only; command lines and files never have the token."""
        if not self.token:
            return {}
        parts = urlsplit(self.url)
        key = f"credential.https://{parts.netloc.rpartition('@')[2]}.helper"
        return {
            "HOPSYNCD_GIT_USER": self.username or parts.username or "x-access-token",
            _TOKEN: self.token,
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": key,
            "GIT_CONFIG_VALUE_0": "",  # resets the list of helpers
            "GIT_CONFIG_KEY_1": key,
            "GIT_CONFIG_VALUE_1": _HELPER_SCRIPT,
        }


@contextmanager
def _lock_mirror(folder: Path) -> Iterator[None]:
    """Allow one fetch at a time: two sources, or a dry run, may share a mirror."""
    with (folder / "hopsyncd-fetch").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield


def _leftovers(folder: Path) -> Iterator[Path]:
    """The leftovers of a killed git: locks that block the next run, and partial packs."""
    for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/tmp_*"):
        yield from folder.glob(pattern)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # git has renamed it meanwhile
        return 0
