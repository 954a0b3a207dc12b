"""Who has no session sends whatever cookies they like, and is refused at once."""

import time

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from hopsyncd.web.listener import COOKIE, Door, PageGuard

HOST = "127.0.0.1:1234"


@pytest.fixture
def door() -> Door:
    return Door(HOST)


@pytest.fixture
def browser(door: Door) -> TestClient:
    page = Starlette(routes=[Route("/x", lambda _: PlainTextResponse("in"))])
    return TestClient(PageGuard(page, door), base_url=f"http://{HOST}")


def test_a_session_is_found_among_other_cookies(browser: TestClient, door: Door) -> None:
    door.create_address()
    session = door.open_session(door._token)
    for cookie in (
        f"{COOKIE}={session}",
        f"other=1; {COOKIE}={session}; more=2",
        f"{COOKIE}=stale; {COOKIE}={session}",
    ):
        assert browser.get("/x", headers={"Cookie": cookie}).text == "in"
    for cookie in ("", COOKIE, f"{COOKIE}=", f"x{COOKIE}={session}", f"{COOKIE}={session}x"):
        assert browser.get("/x", headers={"Cookie": cookie}).status_code == 401


@pytest.mark.parametrize("value", ["\\a", "\\101", "\\", ";", '"'])
def test_a_hostile_cookie_is_refused_at_once(browser: TestClient, value: str) -> None:
    cookie = f'{COOKIE}="{value * (15_000 // len(value))}"'
    began_s = time.process_time()
    for _ in range(10):
        assert browser.get("/x", headers={"Cookie": cookie}).status_code == 401
    assert time.process_time() - began_s < 0.5
