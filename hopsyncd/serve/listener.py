"""The client that waits for an answer: what it is told meanwhile, and whether it is still there."""

import threading
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]


class Listener:
    """`hear` is called with what there is to tell, from a thread that does the work."""

    def __init__(self, hear: Callable[[Event], None] | None = None) -> None:
        self._hear = hear
        self.hears = hear is not None
        self._lock = threading.Lock()
        self._acts: list[Callable[[], None]] = []
        self.gone = False

    def tell(self, event: str, **more: Any) -> None:
        """Say how far the work is, or a part of the answer; unheard where nobody asked for it."""
        if self._hear and not self.gone:
            self._hear({"event": event, **more})

    def when_gone(self, act: Callable[[], None]) -> None:
        """Have work ended that only this client waits for; at once if it has gone already."""
        with self._lock:
            if not self.gone:
                self._acts.append(act)
                return
        act()

    def leave(self) -> None:
        """The client has gone away."""
        with self._lock:
            self.gone = True
            acts, self._acts = self._acts, []
        for act in acts:
            act()
