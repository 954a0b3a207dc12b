"""A terminal of so many columns in which a command runs, and what it shows there."""

import os
import pty
import termios
import time
from pathlib import Path
from threading import Thread

from tests.fakes.forked import ForkedProcess

_DEADLINE_S = 60.0


def at_terminal(
    home: Path, *arguments: str, columns: int = 80, key: bytes = b"", once_seen: bytes = b""
) -> tuple[int, str]:
    """Run `hopsyncd`; the exit status, and all it wrote, escape sequences included.

    `key` is pressed when `once_seen` has been written.
    """
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    environment = {**os.environ, "HOPSYNCD_HOME": str(home), "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES"):  # they would speak louder than the terminal
        environment.pop(name, None)
    terminal = Path(os.ttyname(theirs))
    process = ForkedProcess(
        ["hopsyncd", *arguments], Path.cwd(), environment, terminal, terminal, terminal
    )
    ending = Thread(target=_close_after, args=(process, theirs))
    ending.start()
    seen, began_s = b"", time.monotonic()
    try:
        while part := _read(ours):
            assert time.monotonic() - began_s < _DEADLINE_S, seen
            seen += part
            if key and once_seen in seen:
                os.write(ours, key)
                key = b""
        ending.join(_DEADLINE_S)  # two threads that wait would each get a different status
        status = process.poll()
        assert status is not None, seen
        return status, seen.decode(errors="replace")
    finally:
        process.kill()
        ending.join()
        os.close(ours)


def _close_after(process: ForkedProcess, terminal: int) -> None:
    """Close our copy of the other end after the process. Before, the process opens it by name."""
    process.wait()
    os.close(terminal)


def _read(terminal: int) -> bytes:
    """What was written next; nothing when the other end is closed, which Linux calls an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
