"""Replies of this process, kept so that the same call is made once."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

_ENTRY_BYTES = 200  # of the key and the bookkeeping, about


class Replies:
    """Texts by key, the least recently used forgotten first; safe from any thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._flights: dict[bytes, Future[str]] = {}
        self.bytes = 0

    def once(
        self, key: bytes, make: Callable[[], str], shared: Callable[[BaseException], bool]
    ) -> tuple[str, bool]:
        """The text of the key, and whether it was there without a call of `make`.

        While one thread makes it, others with the same key wait for it. An error of the maker is
        theirs too if it is `shared`, else the next of them makes it.
        """
        while True:
            with self._lock:
                if key in self._texts:
                    self._texts.move_to_end(key)
                    return self._texts[key], True
                flight = self._flights.get(key)
                if flight is None:
                    own = self._flights[key] = Future()
                    break
            error = flight.exception()
            if error is not None and shared(error):
                raise error
        return self._made(key, make, own), False

    def _made(self, key: bytes, make: Callable[[], str], own: "Future[str]") -> str:
        try:
            text = make()
        except BaseException as error:
            with self._lock:
                del self._flights[key]
            own.set_exception(error)
            raise
        with self._lock:
            self._keep(key, text)
            del self._flights[key]
        own.set_result(text)
        return text

    def _keep(self, key: bytes, text: str) -> None:
        self._texts[key] = text
        self.bytes += _bytes(text)
        while self.bytes > self._max_bytes:
            _, forgotten = self._texts.popitem(last=False)
            self.bytes -= _bytes(forgotten)


def _bytes(text: str) -> int:
    return len(text.encode()) + _ENTRY_BYTES
