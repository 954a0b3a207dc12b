"""A terminal of so many columns in which a command runs, and what it shows there."""

import os
import pty
import subprocess
import sys
import termios
import time
from pathlib import Path

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
    process = subprocess.Popen(
        [sys.executable, "-m", "hopsyncd", *arguments],
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen, began_s = b"", time.monotonic()
    try:
        while part := _read(ours):
            assert time.monotonic() - began_s < _DEADLINE_S, seen
            seen += part
            if key and once_seen in seen:
                os.write(ours, key)
                key = b""
        return process.wait(_DEADLINE_S), seen.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> bytes:
    """What was written next; nothing when the other end is closed, which Linux calls an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
