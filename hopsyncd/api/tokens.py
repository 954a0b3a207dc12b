"""The roles with their rights, and the tokens that give a role to a request over TCP.

An endpoint declares the right that it needs (api/endpoints.py), and a caller has one role. Each
role's token is in a file that only its owner can read.
"""

import errno
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import structlog

from hopsyncd.config.configuration import Config
from hopsyncd.errors import SocketRefused

Right = Literal["health", "metrics", "read", "admin", "owner"]
Role = Literal["owner", "admin", "read", "metrics"]

RIGHTS: Mapping[Role, frozenset[Right]] = {
    "owner": frozenset({"health", "metrics", "read", "admin", "owner"}),
    "admin": frozenset({"health", "metrics", "read", "admin"}),
    "read": frozenset({"health", "read"}),
    "metrics": frozenset({"health", "metrics"}),
}


log = structlog.get_logger(__name__)

_TOKEN_NAME = "token"  # in the data_dir; `admin`, as of the time when there was only this one
_TOKEN_BYTES = 32
_MIN_TOKEN_CHARACTERS = 32


def token_file(config: Config, role: Role) -> Path:
    """The file of a role's token."""
    if role == "admin":
        return config.access.token_file or config.daemon.data_dir / _TOKEN_NAME
    return config.daemon.data_dir / f"{_TOKEN_NAME}-{role}"


class Tokens:
    """The tokens in the files of some roles. A file counts from when it is made until it is gone.

    A file that others could read counts as none. Roles go from the least rights to the most.
    """

    def __init__(self, files: Mapping[Role, Path]) -> None:
        self._files = files
        self._known: dict[Path, tuple[object, str | None]] = {}

    @classmethod
    def of(cls, config: Config) -> "Tokens":
        """The tokens of all roles."""
        roles: tuple[Role, ...] = ("metrics", "read", "admin", "owner")
        return cls({role: token_file(config, role) for role in roles})

    def role_of(self, sent: bytes) -> Role | None:
        """The role whose token was sent; None for any other text."""
        found: Role | None = None
        for role, file in self._files.items():
            token = self._token(file)
            if token and hmac.compare_digest(sent, token.encode()):
                found = found or role
        return found

    def _token(self, file: Path) -> str | None:
        """The token in a file, read again when the file changes."""
        try:
            now = file.stat()
        except OSError:
            self._known.pop(file, None)
            return None
        state = (now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_mode, now.st_uid)
        known = self._known.get(file)
        if known is None or known[0] != state:
            try:
                token: str | None = read_token(file)
            except SocketRefused as error:
                log.warning("a token does not count", file=str(file), why=error.why)
                token = None
            known = self._known[file] = (state, token)
        return known[1]


def token_in(file: Path, *, renew: bool = False) -> str:
    """The token in our file, which is made if it does not exist, or is to be renewed.

    Raises SocketRefused for a token that others could know.
    """
    try:
        if renew:
            file.unlink(missing_ok=True)
        _make_token(file)
    except OSError as error:
        raise _refusal(file, error) from error
    return read_token(file)


def revoke_token(file: Path) -> None:
    """Delete a token. Raises SocketRefused if it may still count."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise _refusal(file, error) from error


def read_token(file: Path) -> str:
    """The token in a file. Raises SocketRefused for a token that others could know."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would block
        with open(handle, encoding="ascii") as opened:  # noqa: PTH123 - a descriptor
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            token = opened.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(file, error) from error
    what = f"Cannot use the token in {file}"
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise SocketRefused(what, "others may read it", f"Run `chmod 600 {file}`, as its owner")
    if len(token) < _MIN_TOKEN_CHARACTERS:
        raise SocketRefused(
            what,
            f"it has fewer than {_MIN_TOKEN_CHARACTERS} characters",
            "Remove the file; the next start makes a new one",
        )
    return token


def _refusal(file: Path, error: OSError | UnicodeDecodeError) -> SocketRefused:
    why = getattr(error, "strerror", None) or "it is not text"
    return SocketRefused(
        f"Cannot use the token in {file}", why.lower(), f"Make {file} a file of yours, or remove it"
    )


def _make_token(file: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(file, flags, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w", encoding="ascii") as made:
        made.write(secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
