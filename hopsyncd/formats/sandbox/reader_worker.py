"""Runs in the worker process: reads documents, confined, until the daemon closes the pipe.

Started as `python -m hopsyncd.formats.sandbox.reader_worker MEMORY_BYTES`, with pipes as standard
input and output.
"""

import math
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import BinaryIO

from hopsyncd import formats
from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import Extract, extract_or_picture
from hopsyncd.formats.sandbox.confine import confine
from hopsyncd.formats.sandbox.messages import LENGTH, READY, REQUEST, encode_reply

_NICE = 10  # gives priority to queries and the user's programs
# Optional libraries: the fewer libraries read untrusted bytes, the better.
_NOT_WANTED = ("numpy", "pandas", "PIL", "defusedxml")
_HINT = "Split the file, or add it to `ignore`"


def main(read: Extract = extract_or_picture) -> None:
    """Read requests from standard input and write replies to standard output, with the function
    `read`."""
    # Output that a library prints must not mix with the replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - its number is all that is wanted
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    memory_bytes = int(sys.argv[1])
    os.nice(_NICE)
    for name in _NOT_WANTED:
        sys.modules[name] = None  # type: ignore[assignment]
    os.environ["OPENPYXL_LXML"] = "False"  # sheets are read by the standard library's expat
    store_bytecode(Path(formats.__path__[0]))
    confine(memory_bytes)
    serve(sys.stdin.buffer, replies, read, memory_bytes)


def store_bytecode(folder: Path) -> None:
    """Compile the modules in a folder that have no bytecode yet.

    Readers are imported after the process has lost write access. Without this call, each worker of
    a new installation would compile the modules again.
    """
    modules = [] if sys.dont_write_bytecode else sorted(folder.glob("*.py"))
    modules = [module for module in modules if not Path(cache_from_source(str(module))).exists()]
    if modules:
        import py_compile  # rarely needed, and slow to import
    for module in modules:
        with suppress(OSError):  # the installation is read-only
            py_compile.compile(str(module), quiet=2)


def serve(requests: BinaryIO, replies: BinaryIO, read: Extract, memory_bytes: int) -> None:
    """Answer requests with the function `read` until the daemon closes the pipe."""
    replies.write(READY)
    replies.flush()
    while head := requests.read(REQUEST.size):
        cpu_s, wall_s, kind, size = REQUEST.unpack(head)
        media_type, data = requests.read(kind).decode(), requests.read(size)
        _begin(cpu_s, wall_s)
        reply = encode_reply(_read_result(read, data, media_type, memory_bytes))
        signal.alarm(0)
        replies.write(LENGTH.pack(len(reply)) + reply)
        replies.flush()


def _begin(cpu_s: int, wall_s: int) -> None:
    """Make the kernel end this process after the time limits, in case the daemon no longer waits
    for a reply."""
    end = math.ceil(time.process_time() + cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (end, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.alarm(wall_s)


def _read_result(
    read: Extract, data: bytes, media_type: str, memory_bytes: int
) -> tuple[Block, ...] | DocumentUnreadable | ReaderUnavailable:
    try:
        return read(data, media_type)
    except (DocumentUnreadable, ReaderUnavailable) as problem:
        return problem
    except MemoryError:
        given_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
        if 0 <= given_bytes < memory_bytes:
            return ReaderUnavailable(
                "Documents cannot be read",
                f"{given_bytes >> 20} MiB of memory are not enough: a worker takes up to"
                f" {memory_bytes >> 20} MiB, and the limit that hopsyncd was started with is lower",
                "Start hopsyncd with a higher limit: `ulimit -v`, or LimitAS= in the systemd unit",
            )
        why = f"reading the file needs more than {memory_bytes >> 20} MiB of memory"
        return DocumentUnreadable("the document", why, _HINT)


if __name__ == "__main__":
    main()
