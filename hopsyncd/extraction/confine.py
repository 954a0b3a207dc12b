"""Shutting a process in: what a parser does not need, it cannot do. In layers, each best effort.

The kernel's layers bind native code too; the audit hook binds only what goes through Python, and
is there for systems without the others. docs/ARCHITECTURE.md says what is bound where.
"""

import contextlib
import ctypes
import mimetypes
import os
import resource
import sys
from collections.abc import Iterator

_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
_OPEN_FILES = 64
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_NEEDED = (*_LIBRARIES, "/usr/share/zoneinfo", "/dev/null", "/dev/urandom")
_REFUSED = (
    *("socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
    *("pty.spawn", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink"),
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def confine(memory_bytes: int) -> None:
    """Take network, files, new processes and more memory than this from this process.

    What is left to read is where Python and its libraries lie. Call it before there are threads.
    Where the system refuses a layer the others hold.
    """
    _be_the_first_to_go()
    _leave_network()
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if sys.platform == "linux":
        from hopsyncd.extraction import kernel

        kernel.gain_no_privileges()
        kernel.read_only_below(_code_places())
        kernel.refuse_system_calls()
    sys.addaudithook(_refuse)


def _be_the_first_to_go() -> None:
    """When the machine runs out of memory, a reader is to end, and not the daemon."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")


def _code_places() -> Iterator[str]:
    """Where code is loaded from, and the few files that libraries look into."""
    yield from _NEEDED
    yield from (str(place) for place in mimetypes.knownfiles)
    yield from filter(None, sys.path)
    yield os.path.join(sys.base_prefix, "lib")  # noqa: PTH118 - as in sys.path


def _leave_network() -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if libc.unshare(_CLONE_NEWNET):
            libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def _limit(what: int, value: int) -> None:
    """Lower a limit: one that is lower already stays."""
    inherited = resource.getrlimit(what)[1]
    if inherited != resource.RLIM_INFINITY:
        value = min(value, inherited)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (value, value))


def _refuse(event: str, about: tuple[object, ...]) -> None:
    writes = event == "open" and isinstance(about[2], int) and about[2] & _WRITING
    if writes or event in _REFUSED:
        raise PermissionError(f"{event} is not for an extraction worker")
