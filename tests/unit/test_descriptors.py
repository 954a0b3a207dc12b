"""How many connections leave enough files for the rest of the daemon."""

import pytest

from hopsyncd.api.connection import (
    ACCEPTED_AT_ONCE,
    RESERVED,
    Connections,
    compute_connection_limit,
)
from hopsyncd.api.metrics import Load


@pytest.mark.parametrize("wanted", [1, 16, 256, 10_000])
@pytest.mark.parametrize("descriptors", [256, 700, 1024, 4096, 65_536])
def test_connections_leave_the_reserve_free(wanted: int, descriptors: int) -> None:
    most = compute_connection_limit(wanted, descriptors)
    assert 1 <= most <= wanted
    if descriptors >= 700:
        assert most + most // 4 + 3 * ACCEPTED_AT_ONCE + RESERVED <= descriptors


class _Closing:
    """A connection that is refused."""

    def __init__(self) -> None:
        self.closed = False
        self.transport = self
        self.loop = self

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def call_later(self, *_: object) -> None:
        return None


def test_few_refused_connections_linger() -> None:
    connections = Connections(40, Load())
    refused = [_Closing() for _ in range(100)]
    for one in refused:
        connections.linger(one)  # type: ignore[arg-type]
    assert sum(not one.closed for one in refused) == 10
