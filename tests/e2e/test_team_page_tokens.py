"""The page of a server without a provider: people paste a token."""

import json
import re
from collections.abc import Iterator

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, expect

from hopsyncd.api.failed_tokens import FREE
from hopsyncd.web.team_page import SESSION_COOKIE
from tests.e2e.daemon import GC_LATER, SMALL, new_place, source
from tests.e2e.team_page import (
    CANARY,
    NAVIGATION,
    Server,
    paste,
)
from tests.e2e.test_access import new_token
from tests.fakes.browser import PATIENCE_S, violations
from tests.fakes.certificates import Authority
from tests.fakes.port import free_port


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    """A server without a provider."""
    with new_place(SMALL) as place:
        yield Server(place, None, Authority(place.base))


def test_a_pasted_token_opens_the_page(small_server: Server, context: BrowserContext) -> None:
    server = small_server
    token = new_token(server.place, "read", "--group", "board")
    page = context.new_page()
    page.goto(server.address + "/?q=barge")
    field = page.get_by_label("Token")
    field.fill("hops_00000000_" + "x" * 43)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator(".problem")).to_contain_text("not valid on this server")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#results")).to_contain_text(CANARY)
    assert page.url.startswith(f"{server.address}/?q=barge")
    assert token not in page.content()
    assert token not in [cookie["value"] for cookie in context.cookies()]
    assert server.place.run("token", "revoke", token.split("_")[1]).returncode == 0
    page.get_by_label("Token").wait_for()  # the page notices by itself
    page.goto(server.address + "/?q=barge")
    expect(page.locator("h1")).to_have_text("Log in")
    assert CANARY not in page.content()


def test_the_login_pages_are_accessible(small_server: Server, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(small_server.address)
    assert violations(Axe().run(page).response["violations"]) == []
    page.get_by_label("Token").fill(new_token(small_server.place, "read"))
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#q")
    assert violations(Axe().run(page).response["violations"]) == []
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("You are logged out")
    assert violations(Axe().run(page).response["violations"]) == []
    page.goto(small_server.address + "/login")
    page.get_by_label("Token").fill("x")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector(".problem")
    assert violations(Axe().run(page).response["violations"]) == []


def test_a_token_that_reads_nothing_opens_no_page(small_server: Server) -> None:
    with small_server.http() as client:
        metrics = paste(small_server, client, new_token(small_server.place, "metrics"))
        assert metrics.status_code == 403 and "has the role metrics" in metrics.text
        for wrong in ("", "x", "page_x", "hops_x\r\nHopsyncd-Browser: y", "\u00e4", "x" * 20_000):
            assert paste(small_server, client, wrong).status_code == 401
        assert SESSION_COOKIE not in client.cookies


def test_a_token_login_leads_to_this_page_alone(small_server: Server) -> None:
    token = new_token(small_server.place, "read")
    for to in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:x",
        "/\t/e",
    ):
        with small_server.http() as client:
            came = paste(small_server, client, token, to)
            assert re.findall(r"url=([^\"]+)\"", came.text) == ["/"]


def test_guessing_tokens_on_the_page_is_slowed(small_server: Server) -> None:
    token = new_token(small_server.place, "read")
    with small_server.http(peer="127.0.0.4") as client:
        guesses = [
            paste(small_server, client, f"hops_{number:08}_{'x' * 43}").status_code
            for number in range(FREE + 12)  # the waits grow to a minute
        ]
        assert guesses[: FREE + 1] == [401] * (FREE + 1) and guesses[-1] == 429
        assert paste(small_server, client, token).status_code == 200  # a right one never waits


def test_a_page_behind_a_proxy_is_open_over_https_alone() -> None:
    with new_place(SMALL) as place:
        place.home.mkdir()
        port = free_port()
        place.write("barge.md", "# Barges\n\nA barge carries salt.\n")
        place.configure(
            source("notes", place.notes) + f'[access]\nlisten = "127.0.0.1:{port}"\n'
            'behind_proxy = ["127.0.0.1/32"]\npage = "https://notes.example.org"\n' + GC_LATER
        )
        place.start()
        place.sync()
        token = new_token(place, "read")
        proxied = {
            **NAVIGATION,
            "Host": "notes.example.org",
            "X-Forwarded-For": "198.51.100.1",
            "X-Forwarded-Proto": "https",
        }
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            sent = {**proxied, "Origin": "https://notes.example.org"}
            entered = client.post("/login", data={"token": token, "to": "/"}, headers=sent)
            cookie = entered.headers["set-cookie"].partition(";")[0]
            assert cookie.startswith(SESSION_COOKIE) and "Secure" in entered.headers["set-cookie"]
            shown = client.get("/?q=barge", headers={**proxied, "Cookie": cookie})
            assert shown.status_code == 200 and "salt" in shown.text
            plain = {**proxied, "Cookie": cookie, "X-Forwarded-Proto": "http"}
            for headers in (plain, {**NAVIGATION, "Cookie": cookie}):
                refused = client.get("/?q=barge", headers=headers)
                assert refused.status_code == 403 and "salt" not in refused.text
        lines = [json.loads(line) for line in place.log.read_text().splitlines()]
        (entry,) = [
            line
            for line in lines
            if line["event"] == "a user logged in to the web interface with a token"
        ]
        assert entry["address"] == "198.51.100.1"
