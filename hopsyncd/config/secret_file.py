"""Reads and writes files with secrets, such as tokens, that only their owner can read."""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopsyncd.errors import ConfigError, SocketRefused
from store.files import replace_file

SECRET_BYTES = 32
_MIN_CHARACTERS = 32


def make_secret(file: Path) -> str:
    """Read the secret in the file. If the file does not exist, create it with a random secret.
    Raises SocketRefused if other users can read the file."""
    try:
        write_secret(file, secrets.token_urlsafe(SECRET_BYTES))
    except FileExistsError:
        pass
    except OSError as error:
        raise _refusal_error(file, error) from error
    return read_secret(file)


def write_secret(file: Path, secret: str) -> None:
    """Create the file, readable only by its owner. Raises OSError, also if the file exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(file, flags, 0o600), "w", encoding="ascii") as stream:
        stream.write(secret + "\n")


def read_secret(file: Path, kind: str = "token", min_characters: int = _MIN_CHARACTERS) -> str:
    """Read the secret in a file. Raises SocketRefused if other users can read it.

    `kind` is the kind of secret, for messages.
    """
    try:
        # O_NONBLOCK, because opening a pipe would block.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, encoding="ascii") as stream:  # noqa: PTH123 - a descriptor
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "the path does not lead to a regular file")
            secret = stream.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal_error(file, error, kind) from error
    failed = f"Cannot use the {kind} in {file}"
    if status.st_uid != os.geteuid():
        raise SocketRefused(
            failed,
            f"another user owns the {kind} file",
            f"As root, run `chown {os.geteuid()} {file}`",
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise SocketRefused(
            failed, f"other users can read the {kind} file", f"Run `chmod 600 {file}`"
        )
    if len(secret) < min_characters:
        raise SocketRefused(
            failed,
            f"the {kind} has fewer than {min_characters} characters",
            f"Copy the complete {kind} into the file",
        )
    return secret


def replace_private(file: Path, text: str) -> None:
    """Replace a file atomically. Only its owner can read it. Raises OSError."""
    replace_file(file, text.encode(), is_durable=False)


@contextmanager
def hold_lock_of(file: Path, what: str) -> Iterator[None]:
    """Hold a lock in the block, so that other processes wait before they change the file.

    Raises ConfigError, with `what` in the message, if the lock or the file cannot be written.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        lock = os.open(file.with_name(f"{file.name}.lock"), flags, 0o600)
        with os.fdopen(lock, "r+b"):
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        hint = (
            "Run the command as the user who runs the daemon"
            if isinstance(error, PermissionError)
            else f"Check the folder {file.parent} and its disk"
        )
        raise ConfigError(f"Cannot write {what}", str(error.strerror).lower(), hint) from error


def _refusal_error(
    file: Path, error: OSError | UnicodeDecodeError, kind: str = "token"
) -> SocketRefused:
    why = getattr(error, "strerror", None) or f"the {kind} file is not text"
    return SocketRefused(
        f"Cannot use the {kind} in {file}",
        why.lower(),
        f"Check the path, and that {file} is a text file that you own",
    )
