"""Detects a daemon that is starting by the lock that it holds beside its socket.

Loading Python's modules takes a second or more, and the socket is created only after that.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hopsyncd.errors import DaemonUnavailable

START_S = 10.0  # how long a client waits for a daemon that is starting
PAUSE_S = 0.05  # the pause between two attempts to connect.
_ATTEMPTS = 5  # tries to take the lock, which clients hold for a moment when they check it.


class StartLock:
    """Holds the lock that announces a daemon's start, until `release` or the end of the process.

    If the lock cannot be taken, clients do not wait for the start.
    """

    def __init__(self, place: Path, *, may_create_folder: bool) -> None:
        self._descriptor: int | None = None
        with suppress(OSError):
            if may_create_folder:
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.parent.stat().st_uid == os.geteuid():
                flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(_get_lock_path(place), flags, 0o644)
                self._take(self._descriptor)

    def release(self) -> None:
        """Release the lock. Call this once the socket exists or the start has failed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @staticmethod
    def _take(descriptor: int) -> None:
        for _ in range(_ATTEMPTS):
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            time.sleep(0.01)


def is_starting(place: Path) -> bool:
    """Return whether a daemon is starting that will listen at the socket `place`."""
    try:
        descriptor = os.open(_get_lock_path(place), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)


def wait_while_starting(place: Path | object, timeout_s: float | None = None) -> Iterator[None]:
    """Yield until a starting daemon listens. The caller must wait PAUSE_S after each yield.

    Yields nothing if no daemon is starting at `place`. Raises DaemonUnavailable after START_S, or
    after `timeout_s` if that is shorter.
    """
    if not isinstance(place, Path):
        return
    end_s = time.monotonic() + min(START_S, START_S if timeout_s is None else timeout_s)
    while is_starting(place) and not _listens(place):
        if time.monotonic() > end_s:
            raise DaemonUnavailable(
                f"No daemon answers at {place}",
                "the daemon is still starting",
                "Try again in a moment; the daemon's output shows its progress",
            )
        yield


def _get_lock_path(place: Path) -> Path:
    return place.with_name(f"{place.name}.starting")


def _listens(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(place))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True  # the request will report the problem
        return True
