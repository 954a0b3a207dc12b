"""The error of a client whose connection timed out."""

from pathlib import Path

import pytest

from hopsyncd.client.protocol import unreachable_error
from hopsyncd.client.remote import Remote

SERVER = Remote("notes.example.org", 7717, tls=True)


@pytest.mark.parametrize(
    ("place", "connecting", "why", "hint"),
    [
        (SERVER, True, "the connection timed out", "Check the address"),
        (SERVER, False, "did not answer in time", "restart the daemon"),
        (Path("/run/hopsyncd.sock"), True, "did not answer in time", "restart the daemon"),
    ],
)
def test_a_timeout_names_the_step_that_failed(
    place: Path | Remote, connecting: bool, why: str, hint: str
) -> None:
    error = unreachable_error(place, TimeoutError(), connecting=connecting)
    assert why in str(error) and hint in str(error)
