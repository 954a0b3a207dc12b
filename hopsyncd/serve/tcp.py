"""The address of this machine that is answered on beside the socket, and the token for it."""

import os
import secrets
import socket
import stat
from pathlib import Path

from hopsyncd.config_access import host_and_port
from hopsyncd.errors import SocketRefused

TOKEN_NAME = "token"  # in the data_dir
_TOKEN_BYTES = 32
_MIN_CHARACTERS = 32


def bound_address(address: str) -> socket.socket:
    """A listening socket at a loopback address, not yet listening. Raises SocketRefused."""
    host, port = host_and_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SocketRefused(
            f"Cannot listen on {address}",
            str(error.strerror).lower(),
            "Set access.tcp to another port, or to nothing",
        ) from error
    return listener


def token_in(file: Path) -> str:
    """The token that a file of ours holds; made with the file where there is none.

    Raises SocketRefused for one that others could know.
    """
    what = f"Cannot use the token in {file}"
    try:
        _make(file)
        with file.open(encoding="ascii") as opened:
            found = os.fstat(opened.fileno())
            token = opened.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise SocketRefused(
            what, why.lower(), "Set access.token_file to a file of yours"
        ) from error
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise SocketRefused(what, "others may read it", f"Run `chmod 600 {file}`, as its owner")
    if len(token) < _MIN_CHARACTERS:
        raise SocketRefused(
            what,
            f"it has less than {_MIN_CHARACTERS} characters",
            "Remove the file, and the next start makes one",
        )
    return token


def _make(file: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(file, flags, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w", encoding="ascii") as made:
        made.write(secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
