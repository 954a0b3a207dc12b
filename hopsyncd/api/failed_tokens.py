"""Delays addresses that send wrong tokens. The counts are in memory, in tables of limited size."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from hopsyncd.client.trust import find_network

FREE = 5
"""How many wrong tokens an address may send before it has to wait."""

_MAX_WAIT_S = 60.0
_FORGOTTEN_S = 600.0  # after this time without a failure, an address is forgotten
_MAX_ADDRESSES = 4096


@dataclass(slots=True)
class _Failures:
    count: int = 0
    until_s: float = 0.0
    last_s: float = 0.0


class FailedTokens:
    """Counts wrong tokens by IP address, and delays addresses that send too many.

    After its sixth wrong token, an address must wait 1 s before the next wrong token is checked.
    Each further wrong token doubles the wait, up to a minute. Valid tokens never wait, so a
    misconfigured program does not lock out other programs at its address. The wait only reduces
    load and log lines. Tokens cannot be guessed, because they have 256 random bits.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._failed: OrderedDict[str, _Failures] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return the seconds until this address's next wrong token is checked, or 0."""
        failures = self._failed.get(find_network(address))
        return max(0.0, failures.until_s - self._now_s()) if failures else 0.0

    def note_failure(self, address: str) -> tuple[int, float]:
        """Count a wrong token. Returns the address's count, and the seconds that the address must
        wait."""
        now_s, network = self._now_s(), find_network(address)
        failures = self._failed.pop(network, None) or _Failures()
        if now_s - failures.last_s > _FORGOTTEN_S:
            failures.count = 0
        failures.count += 1
        failures.last_s = now_s
        more = failures.count - FREE
        wait_s = min(2.0 ** (more - 1), _MAX_WAIT_S) if 0 < more < 10 else _MAX_WAIT_S * (more > 0)
        failures.until_s = now_s + wait_s
        self._failed[network] = failures
        if len(self._failed) > _MAX_ADDRESSES:
            self._failed.popitem(last=False)
        return failures.count, wait_s
