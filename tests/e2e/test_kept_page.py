"""The page that the daemon keeps up, and what idle connections cannot do to it."""

import asyncio
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx2
import pytest

from hopsyncd.web.listener import COOKIE, KEPT_NAME
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.browser import PATIENCE_S, got, shown
from tests.fakes.port import free_port

CONNECTIONS = 8
ANYIO_THREADS = 40  # of a process, on which it answers admins and tells its health


def configure(place: Place, listen: str, connections: int = CONNECTIONS) -> None:
    place.configure(
        f'[web]\nlisten = "{listen}"\n[limits]\nconnections = {connections}\n'
        + source("notes", place.notes)
    )


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("ada.md", "# Ada\n\nAda Byron met Charles Babbage in London.\n")
        configure(made, f"127.0.0.1:{free_port()}")
        made.start()
        made.sync()
        yield made


def printed(place: Place) -> str:
    ran = place.run("web", "--no-browser")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def entered(http: httpx2.Client, address: str) -> str:
    """The page's address after its one-time one was used."""
    answer = http.get(address)
    assert answer.status_code == 200 and http.cookies.get(COOKIE)
    host = address.partition("/?")[0]
    return host + answer.text.partition("url=")[2].partition('"')[0]


def test_the_command_opens_what_the_daemon_keeps_up(place: Place) -> None:
    first = printed(place)
    with httpx2.Client(timeout=PATIENCE_S) as one, httpx2.Client(timeout=PATIENCE_S) as other:
        page = entered(one, first)
        assert "London" in one.get(f"{page}?q=Ada").text
        assert got(first).status_code == 401, "it was used"
        assert got(page).status_code == 401
        entered(other, printed(place))
        assert one.get(page).status_code == other.get(page).status_code == 200
        assert one.get(page, headers={"Host": "evil.example"}).status_code == 403
        assert "version" not in one.get(urlsplit(page)._replace(path="/v1/status").geturl()).text


def test_the_page_address_file_is_private_and_deleted_with_the_daemon(place: Place) -> None:
    kept = place.home / "data" / KEPT_NAME
    before = printed(place)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and before in kept.read_text()
    place.kill()
    assert "daemon" in place.run("web", "--no-browser").stderr
    place.start()
    with httpx2.Client(timeout=PATIENCE_S) as http:
        assert http.get(before).status_code == 401
        assert http.get(entered(http, printed(place))).status_code == 200
    place.stop()
    assert not kept.exists()


def test_another_address_waits_for_a_restart(place: Place) -> None:
    before = printed(place)
    configure(place, "")
    assert place.post("/v1/reload", {})["restart_needed"] == ["web.listen"]
    assert printed(place) == before
    place.stop()
    place.start()
    with shown(place) as own:
        assert urlsplit(own).port != urlsplit(before).port
    with pytest.raises(httpx2.ConnectError):
        got(before)


def test_a_port_in_use_is_reported_with_its_configuration_key(place: Place) -> None:
    place.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        configure(place, f"127.0.0.1:{taken.getsockname()[1]}")
        message = place.run("serve").stderr
    assert "Cannot listen on 127.0.0.1" in message and "web.listen" in message


def test_idle_connections_do_not_block_new_connections(place: Place) -> None:
    with shown(place, "--port", "0") as own, ExitStack() as held:
        for address in (own, printed(place)):
            for _ in range(3 * CONNECTIONS):
                parts = urlsplit(address)
                idle = socket.create_connection((parts.hostname or "", parts.port or 0))
                held.enter_context(idle)
            with httpx2.Client(timeout=PATIENCE_S) as http:
                assert http.get(entered(http, address)).status_code == 200


def test_views_that_wait_for_the_daemon_leave_it_threads_to_answer_with(place: Place) -> None:
    async def asked_at_once(page: str, cookie: str, count: int) -> list[int]:
        limits = httpx2.Limits(max_connections=count)
        async with httpx2.AsyncClient(cookies={COOKIE: cookie}, limits=limits, timeout=60) as http:
            answers = await asyncio.gather(*(http.get(f"{page}watches") for _ in range(count)))
        return [answer.status_code for answer in answers]

    place.stop()
    configure(place, f"127.0.0.1:{free_port()}", 4 * ANYIO_THREADS)
    place.start()
    with httpx2.Client(timeout=PATIENCE_S) as http:
        page = entered(http, printed(place))
        cookie = http.cookies[COOKIE]
    assert asyncio.run(asked_at_once(page, cookie, 2 * ANYIO_THREADS)) == [200] * 2 * ANYIO_THREADS
