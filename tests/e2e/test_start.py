"""The first command after `hopsyncd serve &`."""

from tests.e2e.daemon import Place


def test_a_command_waits_for_the_daemon_that_is_starting(place: Place) -> None:
    place.launch()
    ran = place.run("status", "--json")
    assert ran.returncode == 0, ran.stderr
