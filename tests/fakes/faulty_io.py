"""A disk that refuses the n-th call of a kind: a C shim before the C library. Linux only.

`build` compiles it; a process that was started with it in LD_PRELOAD arms it through FaultyIo.
"""

import ctypes
import errno
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = ("write", "sync", "truncate", "read")


def build(folder: Path) -> Path | None:
    """The compiled shim; None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    shim = folder / "faulty_io.so"
    source = Path(__file__).with_name("faulty_io.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    return shim


class FaultyIo:
    """The shim of this process, at work on the files whose path begins with `prefix`."""

    def __init__(self, shim: Path, prefix: Path) -> None:
        self._shim = ctypes.CDLL(str(shim))
        self._prefix = str(prefix).encode()

    @contextmanager
    def refusing(self, kind: str, nth: int, *, full: bool) -> Iterator[None]:
        """Refuse the n-th call of the kind, from 1: with `full` and all after it, for want of
        room; else that one alone, as a disk that stumbles."""
        error = errno.ENOSPC if full else errno.EIO
        self._shim.faulty_arm(self._prefix, KINDS.index(kind), ctypes.c_long(nth), error, int(full))
        try:
            yield
        finally:
            self._shim.faulty_disarm()

    def calls(self, kind: str) -> int:
        """How many calls of the kind the last `refusing` saw."""
        return int(self._shim.faulty_calls(KINDS.index(kind)))

    @property
    def refusals(self) -> int:
        """How many calls the last `refusing` refused."""
        return int(self._shim.faulty_refusals())
