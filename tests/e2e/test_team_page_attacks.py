"""Attacks on the page of a server: tampered logins, other sites, stolen sessions, clear text."""

import html
import re
import time
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from playwright.sync_api import BrowserContext, expect

from hopsyncd.web.team_page import CALLBACK, LOGIN_COOKIE, SESSION_COOKIE
from tests.e2e.team_page import (
    CANARY,
    Server,
    log_in,
    logged_in,
    post,
    server_with_provider,
)
from tests.fakes.browser import other_site
from tests.fakes.provider import Claims, SigningKey


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with server_with_provider() as made:
        yield made


def _stolen_login(server: Server) -> str:
    """The address that somebody else's login comes back to, with a code that is not used yet."""
    with server.http() as attacker:
        return server.chosen(server.begin(attacker), "bob")


def test_a_login_that_another_browser_began_logs_nobody_in(server: Server) -> None:
    assert server.provider
    link = _stolen_login(server)
    count = len(server.provider.redeemed)
    with server.http() as victim:
        own = server.begin(victim)
        for address in (
            link,
            re.sub("state=[^&]+", "state=" + parse_qs(urlsplit(own).query)["state"][0][:-1], link),
            re.sub("&?state=[^&]+", "", link),
            link + "&state=x",
        ):
            refused = victim.get(address)
            assert refused.status_code == 403 and "began in another browser" in refused.text
            assert SESSION_COOKIE not in victim.cookies
        assert len(server.provider.redeemed) == count
        # The own state with a code of somebody else's login: the code has another verifier.
        state = parse_qs(urlsplit(own).query)["state"][0]
        assert victim.get(re.sub("state=[^&]+", f"state={state}", link)).status_code == 403
        assert len(server.provider.redeemed) == count and SESSION_COOKIE not in victim.cookies


def test_the_reply_to_a_login_can_be_used_only_once(server: Server) -> None:
    assert server.provider
    with server.http() as ann:
        back = server.chosen(server.begin(ann), "ann")
        cookie = ann.cookies[LOGIN_COOKIE]
        assert ann.get(back).status_code == 200
        ann.cookies.set(LOGIN_COOKIE, cookie, domain="localhost.local")
        count = len(server.provider.redeemed)
        with server.http(Cookie=f"{LOGIN_COOKIE}={cookie}") as thief:
            assert thief.get(back).status_code == 403
            assert len(server.provider.redeemed) == count and SESSION_COOKIE not in thief.cookies
        assert ann.get("/").status_code == 200


def test_an_id_token_that_was_tampered_with_opens_nothing(server: Server) -> None:
    assert server.provider
    foreign, now_s = SigningKey("first"), int(time.time())
    spoilt: list[Callable[[Claims], Claims | str]] = [
        lambda claims: {**claims, "nonce": "another"},
        lambda claims: {**claims, "iss": "https://evil.example"},
        lambda claims: {**claims, "aud": "another client"},
        lambda claims: {**claims, "exp": now_s - 600, "iat": now_s - 1200},
        lambda claims: jwt.encode(claims, "", "none"),
        foreign.sign,
    ]
    try:
        for spoil in spoilt:
            server.provider.spoil = spoil
            with server.http() as client:
                refused = server.log_in(client, "olga")
                assert refused.status_code == 403 and "was not accepted" in refused.text
                assert "Error" not in refused.text and SESSION_COOKIE not in client.cookies
    finally:
        server.provider.spoil = lambda claims: claims
    lines = server.place.log.read_text()
    assert "InvalidSignatureError" in lines and "InvalidAlgorithmError" in lines


@pytest.mark.parametrize(
    "path",
    ["//evil.example/x", "/%5Cevil.example", "/\\evil.example", "/login?to=https://evil.example",
     "/?q=%22%3E%3Cscript%3E", "/x%0d%0aSet-Cookie:%20a=b"],
)  # fmt: skip
def test_a_login_leads_back_to_this_page_alone(server: Server, path: str) -> None:
    with server.http() as client:
        began = client.get(server.address + path)
        assert began.status_code == 303, began.text
        came = client.get(server.chosen(str(began.headers["location"]), "bob"))
        assert came.status_code == 200 and "<script>" not in came.text
        (to,) = {html.unescape(match) for match in re.findall(r"url=([^\"]+)\"", came.text)}
        assert to.startswith("/") and not to.startswith(("//", "/\\", "/login"))
        assert "a" not in client.cookies


FOREIGN = [
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": ""},
    {"Origin": "null", "Sec-Fetch-Site": ""},
    {"Origin": "", "Sec-Fetch-Site": ""},
    {"Origin": "http://localhost", "Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_form_of_another_site_is_refused(server: Server, headers: dict[str, str]) -> None:
    with logged_in(server, "olga") as (olga, token):
        for path in ("/act/sync", "/logout", "/login"):
            refused = post(olga, server, path, headers, csrf=token)
            assert refused.status_code == 403 and "Another website sent" in refused.text
        assert olga.get("/").status_code == 200
        for wrong in ("", "x", token[:-1]):
            assert post(olga, server, "/act/sync", {}, csrf=wrong).status_code == 403
            assert post(olga, server, "/logout", {}, csrf=wrong).status_code == 403
        assert olga.get("/").status_code == 200


def test_another_site_in_the_same_browser_gets_nothing(
    server: Server, context: BrowserContext
) -> None:
    page = context.new_page()
    log_in(page, server, "ann")
    evil = f"""<title>evil</title><iframe src="{server.address}/?q=barge"></iframe>
    <img src="{server.address}/?q=barge">
    <form method="post" action="{server.address}/logout"></form>
    <a id="go" href="{server.address}/?q=barge">go</a><script>window.got = [];
    for (const mode of ["cors", "no-cors"])
      fetch("{server.address}/?q=barge", {{mode, credentials: "include"}}).then(r => r.text())
        .then(t => got.push(t), () => got.push(""));</script>"""
    with other_site(evil) as (site, cookies):
        page.goto(site)
        page.wait_for_function("window.got.length === 2")
        assert page.evaluate("got.join('')") == ""
        assert CANARY not in page.content()
        page.evaluate("document.forms[0].submit()")
        page.wait_for_url(f"{server.address}/logout")
        assert page.locator("h1").inner_text() == "Another website sent this request"
        page.goto(site)
        page.locator("#go").click()  # a link of a colleague in a chat, say
        expect(page.locator("#results")).to_contain_text(CANARY)
        assert not any("hopsyncd" in cookie for cookie in cookies)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Host": "evil.example"},
        {"Host": "localhost"},
        {"Host": "127.0.0.1"},
    ],
)
def test_what_another_site_asks_for_is_never_answered(
    server: Server, headers: dict[str, str]
) -> None:
    with logged_in(server, "ann") as (ann, _):
        answer = ann.get("/?q=barge", headers=headers)
        assert "salt" not in answer.text and CANARY not in answer.text
        assert answer.status_code == 403 or "Go on" in answer.text


def test_every_response_forbids_framing_and_foreign_content(server: Server) -> None:
    with logged_in(server, "ann") as (ann, _), server.http() as stranger:
        answers = [ann.get(path) for path in ("/", "/sources", "/nowhere", "/state")]
        answers += [stranger.get(path) for path in ("/", CALLBACK, "/login")]
        answers.append(stranger.get("/state", headers={"Sec-Fetch-Mode": "cors"}))
        assert [answer.status_code for answer in answers[-3:]] == [403, 303, 401]
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "same-origin"


def test_a_session_is_never_one_that_the_browser_brought(server: Server) -> None:
    with server.http() as client:
        client.cookies.set(SESSION_COOKIE, "chosen-by-somebody", domain="localhost.local")
        assert server.log_in(client, "bob").status_code == 200
    with server.http(Cookie=f"{SESSION_COOKIE}=chosen-by-somebody") as attacker:
        assert attacker.get("/").status_code == 303


def test_a_new_login_ends_the_earlier_session_of_the_browser(server: Server) -> None:
    with server.http() as client:
        first, second = (server.begin(client) for _ in range(2))  # in two tabs
        assert client.get(server.chosen(first, "ann")).status_code == 200
        before = client.cookies[SESSION_COOKIE]
        assert client.get(server.chosen(second, "bob")).status_code == 200
        assert ">bob<" in client.get("/").text
    with server.http(Cookie=f"{SESSION_COOKIE}={before}") as other:
        assert other.get("/").status_code == 303


def test_the_api_does_not_accept_session_cookies(server: Server) -> None:
    with logged_in(server, "olga") as (olga, _):
        for headers in ({}, {"Hopsyncd-Browser": "192.0.2.7"}):
            assert olga.get("/v1/status", headers=headers).status_code == 401


def test_nothing_is_answered_in_clear_text(server: Server) -> None:
    with logged_in(server, "ann") as (ann, _):
        cookie = f"{SESSION_COOKIE}={ann.cookies[SESSION_COOKIE]}"
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"http://localhost:{server.port}/", headers={"Cookie": cookie}, timeout=5)
