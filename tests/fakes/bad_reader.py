"""A worker whose reader does what the document says: run as a program."""

import ctypes
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract
from hopsyncd.formats.sandbox.reader_worker import main

Blocks = tuple[Block, ...]


def read(data: bytes, media_type: str) -> Blocks:
    """Do what the first word says, if it says anything."""
    first, *rest = data.decode("utf-8", "replace").split()
    does = _DOES.get(first)
    blocks = does(*rest) if does else None
    _read.append(first)
    return extract(data, media_type) if blocks is None else blocks


def _crash_if_worn(word: str) -> Blocks:
    """Die of what came before: never as the first document of a worker."""
    if _read:
        os.abort()
    return _said(word)


def _spin() -> None:
    while True:
        pass


def _hoard() -> None:
    hoard = [bytearray(1 << 24)]
    while hoard:
        hoard.append(bytearray(1 << 24))


def _endless() -> Blocks:
    return tuple(Block("paragraph", "word " * 200_000, 1, 1) for _ in range(80))


def _nonsense() -> Any:
    return ("nonsense",)


def _said(text: str) -> Blocks:
    return (Block("paragraph", text, 1, 1),)


def _natively(name: str, *arguments: str) -> Blocks:
    """Call the C library, which no audit hook sees; say by which error it is refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    typed = [int(argument) if argument.isdecimal() else argument.encode() for argument in arguments]
    done = libc[name](*typed)
    return _said(errno.errorcode[ctypes.get_errno()] if done == -1 else f"done: {done}")


_read: list[str] = []
_DOES: dict[str, Callable[..., Blocks | None]] = {
    "crash": os.abort,
    "crash-if-worn": _crash_if_worn,
    "exit": lambda: os._exit(0),
    "killed": lambda: signal.raise_signal(signal.SIGKILL),
    "natively": _natively,
    "hang": lambda *_: time.sleep(3600),
    "spin": _spin,
    "memory": _hoard,
    "endless": _endless,
    "nonsense": _nonsense,
    "many": lambda count: (Block("paragraph", "a", 1, 1),) * int(count),
    "not-text": lambda: (Block("paragraph", cast(str, 7), 1, 1),),
    "print": lambda: print("not a reply", flush=True),
    "call": lambda: _said(str(os.system("true"))),
    "connect": lambda: _said(str(socket.create_connection(("127.0.0.1", 9), 1))),
    "write": lambda path: _said(str(Path(path).write_text("x"))),
    "pid": lambda: _said(str(os.getpid())),
    "environment": lambda: _said(" ".join(sorted(os.environ))),
}


if __name__ == "__main__":
    if sys.argv[1] == "silent":
        sys.exit(3)
    main(read)
