"""A lock that is given in the order in which it was asked for."""

import threading
from collections import deque
from types import TracebackType


class Turns:
    """As threading.Lock in a `with`, but fair.

    A thread that lets go of a plain lock and asks for it at once mostly gets it again, past all who
    wait: one that goes through many texts would keep others waiting for several of them.
    """

    def __init__(self) -> None:
        self._inner = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    def __enter__(self) -> None:
        with self._inner:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        with self._inner:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
