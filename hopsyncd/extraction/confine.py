"""Shutting a process in: what a parser does not need, it cannot do. Best effort, in layers."""

import contextlib
import ctypes
import os
import resource
import sys

_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
_OPEN_FILES = 64
_REFUSED = (
    *("socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
    *("pty.spawn", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink"),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def confine(memory_bytes: int) -> None:
    """Take network, file writing, new processes and more memory than this from this process.

    Call it before there are threads. Where the system refuses a layer the others hold.
    """
    _leave_network()
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    sys.addaudithook(_refuse)


def _leave_network() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if libc.unshare(_CLONE_NEWNET):
            libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def _limit(what: int, value: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (value, value))


def _refuse(event: str, about: tuple[object, ...]) -> None:
    writes = event == "open" and isinstance(about[2], int) and about[2] & _WRITING
    if writes or event in _REFUSED:
        raise PermissionError(f"{event} is not for an extraction worker")
