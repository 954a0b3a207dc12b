"""The page of a server, in browsers of other machines: logins at a company's provider, over TLS."""

import html
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from hopsyncd.api.failed_tokens import FREE
from hopsyncd.web.team_page import CALLBACK, LOGIN_COOKIE, SESSION_COOKIE
from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source
from tests.e2e.test_access import new_token
from tests.fakes.browser import PATIENCE_S, chromium, other_site, violations
from tests.fakes.certificates import Authority
from tests.fakes.port import free_port
from tests.fakes.provider import CLIENT_ID, CLIENT_SECRET, Claims, LoginProvider, SigningKey

CANARY = "zyxwort"
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
PEOPLE: dict[str, Claims] = {
    "ann": {"groups": ["/board", "editors"]},
    "bob": {"groups": []},
    "eve": {"groups": ["interns"], "preferred_username": "not a name!"},
    "olga": {"groups": ["ops"]},
}


class Server:
    """A daemon whose page is at `address`; people log in at `provider`, if there is one."""

    def __init__(self, place: Place, provider: LoginProvider | None, authority: Authority) -> None:
        self.place, self.provider, self.authority = place, provider, authority
        place.home.mkdir(exist_ok=True)
        self.port = free_port()
        self.address = f"https://localhost:{self.port}"
        cert, key = authority.issue()
        place.write("open/barge.md", "# Barges\n\nA barge carries salt.\n")
        place.write("closed/plan.md", f"# Plan\n\nThe barge {CANARY} carries gold.\n")
        (place.base / "inbox").mkdir()
        secret = place.base / "secret"
        secret.touch(0o600)
        secret.write_text(CLIENT_SECRET)
        login = (
            f'[access.oidc]\nissuer = "{provider.issuer}"\nclient_id = "{CLIENT_ID}"\n'
            f'client_secret_file = "{secret}"\nca = "{authority.file}"\n'
            'roles = { editors = "write", ops = "admin" }\n'
            if provider
            else ""
        )
        place.configure(
            source("open", place.notes / "open")
            + source("closed", place.notes / "closed")
            + 'visible_to = ["group:board"]\n'
            + f'[access]\nlisten = "127.0.0.1:{self.port}"\ntls_cert = "{cert}"\n'
            + f'tls_key = "{key}"\npage = "{self.address}"\n{login}'
            + f'[mcp]\ninbox = "{place.base}/inbox"\n{GC_LATER}'
        )
        place.start()
        place.sync()

    @contextmanager
    def http(self, peer: str = "127.0.0.1", **headers: str) -> Iterator[httpx2.Client]:
        """A client of HTTP that keeps cookies as a browser does, and follows nothing.

        peer: its address.
        """
        context = ssl.create_default_context(cafile=self.authority.file)
        with httpx2.Client(
            transport=httpx2.HTTPTransport(verify=context, local_address=peer),
            base_url=self.address,
            headers={**NAVIGATION, **headers},
            timeout=PATIENCE_S,
        ) as client:
            yield client

    def begin(self, client: httpx2.Client, path: str = "/") -> str:
        """The address of the provider that a login leads to."""
        sent = client.get(path)
        assert sent.status_code == 303, sent.text
        return str(sent.headers["location"])

    def chosen(self, address: str, person: str) -> str:
        """Where the provider leads a browser back to, once somebody has said who they are."""
        assert self.provider
        query = urlsplit(address).query
        fields = {name: values[0] for name, values in parse_qs(query).items()}
        return self.provider.issue_code({**fields, "person": person})

    def log_in(self, client: httpx2.Client, person: str, path: str = "/") -> httpx2.Response:
        back = self.chosen(self.begin(client, path), person)
        return client.get(back, headers={"Sec-Fetch-Site": "cross-site"})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ExitStack() as stack:
        place = stack.enter_context(new_place(SMALL))
        authority = Authority(place.base)
        provider = stack.enter_context(LoginProvider(authority))
        provider.people.update(PEOPLE)
        yield Server(place, provider, authority)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(ignore_https_errors=True)
    made.set_default_timeout(1000 * PATIENCE_S)
    yield made
    made.close()


def _log_in(page: Page, server: Server, person: str, path: str = "/") -> None:
    page.goto(server.address + path)
    page.get_by_role("link", name=person).click()
    page.wait_for_selector("#q")


def _form_token(text: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', text)
    assert found
    return found[1]


def _post(
    client: httpx2.Client, server: Server, path: str, headers: dict[str, str], **form: str
) -> httpx2.Response:
    sent = {"Origin": server.address, "Sec-Fetch-Site": "same-origin", **headers}
    kept = {name: value for name, value in sent.items() if value}
    return client.post(path, data=form, headers=kept)


@contextmanager
def _logged_in(server: Server, person: str) -> Iterator[tuple[httpx2.Client, str]]:
    """A client with a session, and the token of its forms."""
    with server.http() as client:
        assert server.log_in(client, person).status_code == 200
        yield client, _form_token(client.get("/").text)


def test_somebody_logs_in_asks_and_logs_out(server: Server, context: BrowserContext) -> None:
    page = context.new_page()
    _log_in(page, server, "ann", "/?q=barge")
    assert page.url.startswith(f"{server.address}/?q=barge")
    expect(page.locator(".who")).to_contain_text("ann")
    expect(page.locator("#results")).to_contain_text(CANARY)  # by the group claim
    cookies = {one["name"]: one for one in context.cookies(server.address)}
    session = cookies[SESSION_COOKIE]
    assert session["httpOnly"] and session["secure"] and session["sameSite"] == "Strict"
    assert session["path"] == "/"
    assert cookies[LOGIN_COOKIE]["httpOnly"] and cookies[LOGIN_COOKIE]["sameSite"] == "Lax"
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("You are logged out")
    assert page.get_by_role("link", name="Log out there too").get_attribute("href") == (
        f"{server.provider.issuer}/end?where=here&client_id={CLIENT_ID}" if server.provider else ""
    )
    assert not [one for one in context.cookies() if one["value"] == session["value"]]
    with server.http(Cookie=f"{SESSION_COOKIE}={session['value']}") as thief:
        assert thief.get("/").status_code == 303  # the session has ended, not only its cookie
    page.goto(server.address + "/?q=barge")
    expect(page.locator("h1")).to_have_text("You are logged out")
    page.get_by_role("link", name="Log in again").click()
    page.get_by_role("link", name="bob").click()
    expect(page.locator(".who")).to_contain_text("bob")


def test_an_open_tab_does_not_log_in_again_after_the_logout(
    server: Server, context: BrowserContext
) -> None:
    page, other = context.new_page(), context.new_page()
    _log_in(page, server, "ann")
    other.goto(server.address + "/?q=barge")
    page.get_by_role("button", name="Log out").click()
    expect(other.locator("h1")).to_have_text("You are logged out")
    page.reload()
    expect(page.locator("h1")).to_have_text("You are logged out")


def test_a_hidden_source_leaves_no_trace_for_others(server: Server) -> None:
    with _logged_in(server, "bob") as (bob, _), _logged_in(server, "ann") as (ann, _):
        paths = ["/", "/?q=barge", f"/?q={CANARY}", "/results?q=barge", "/sources", "/map/data",
                 "/changes", "/changes/1", "/changes/2", "/welcome", "/examples", "/state",
                 "/compare?q=barge&old=1", "/?q=barge&f=source:closed"]  # fmt: skip
        for path in paths:
            answer = bob.get(path)
            assert answer.status_code in (200, 404), path
            shown = html.unescape(answer.text).replace(path, "")
            assert "gold" not in shown and "plan.md" not in shown, path
            assert CANARY not in shown or path == f"/?q={CANARY}", path
        assert "closed" not in bob.get("/sources").text
        assert "salt" in bob.get("/?q=barge").text
        read = re.search(r'data-open="([0-9a-f]+)"', ann.get(f"/?q={CANARY}").text)
        assert read
        for path in (f"/passage/{read[1]}", f"/preview/{read[1]}"):
            assert CANARY in ann.get(path).text and bob.get(path).status_code == 404


def test_the_role_of_the_group_decides_what_somebody_may_do(server: Server) -> None:
    with _logged_in(server, "bob") as (bob, token):
        assert "Scan all" not in bob.get("/sources").text
        for action in ("sync", "pause", "restore"):
            form = {"csrf": token, "source": "open", "version": "1"}
            assert _post(bob, server, f"/act/{action}", {}, **form).status_code == 403
        note = {"csrf": token, "thread": '[{"question": "Why?", "text": "So."}]'}
        assert _post(bob, server, "/thread/note", {}, **note).status_code == 403
    with _logged_in(server, "ann") as (ann, token):
        saved = _post(ann, server, "/thread/note", {}, **{**note, "csrf": token})
        assert saved.status_code == 200 and saved.json()["file"]
        assert _post(ann, server, "/act/sync", {}, csrf=token).status_code == 403
    with _logged_in(server, "olga") as (olga, token):
        assert "Scan all" in olga.get("/sources").text and CANARY in olga.get("/?q=barge").text
        paused = _post(olga, server, "/act/pause", {}, csrf=token, source="open")
        assert paused.status_code == 303
        assert "paused" in olga.get("/sources").text
        assert _post(olga, server, "/act/resume", {}, csrf=token, source="open").status_code == 303


def test_nobody_changes_the_configuration_or_runs_programs_from_afar(server: Server) -> None:
    before = (server.place.home / "config.toml").read_text()
    with _logged_in(server, "olga") as (olga, token):
        shown = olga.get("/sources").text
        assert "Add a source" not in shown and "Remove…" not in shown
        assert "config.toml" not in shown
        found = re.search(r'data-open="([0-9a-f]+)"', olga.get("/?q=barge").text)
        assert found and "editor" not in olga.get(f"/passage/{found[1]}").text.lower()
        for action in ("add", "remove", "ignore", "open"):
            form = {"csrf": token, "source": "open", "document": "barge.md", "place": "/etc"}
            answer = _post(olga, server, f"/act/{action}", {}, id=found[1], **form)
            assert answer.status_code == 403, (action, answer.text)
    assert (server.place.home / "config.toml").read_text() == before


def test_who_has_no_usable_name_is_told_so_and_gets_no_session(server: Server) -> None:
    with server.http() as eve:
        refused = server.log_in(eve, "eve")
        assert refused.status_code == 403 and "no access here" in refused.text
        assert SESSION_COOKIE not in eve.cookies


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
            assert refused.status_code == 403 and "not begun in this browser" in refused.text
            assert SESSION_COOKIE not in victim.cookies
        assert len(server.provider.redeemed) == count
        # The own state with a code of somebody else's login: the code has another verifier.
        state = parse_qs(urlsplit(own).query)["state"][0]
        assert victim.get(re.sub("state=[^&]+", f"state={state}", link)).status_code == 403
        assert len(server.provider.redeemed) == count and SESSION_COOKIE not in victim.cookies


def test_a_login_comes_back_once(server: Server) -> None:
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


def test_a_session_goes_on_while_the_provider_is_down(server: Server) -> None:
    assert server.provider
    with _logged_in(server, "ann") as (ann, _), server.http() as bob:
        back = server.chosen(server.begin(bob), "bob")
        server.provider.down = True
        try:
            refused = bob.get(back)
            assert refused.status_code == 503 and "does not answer" in refused.text
            assert SESSION_COOKIE not in bob.cookies
            assert CANARY in ann.get("/?q=barge").text
        finally:
            server.provider.down = False
        assert server.log_in(bob, "bob").status_code == 200


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
        (to,) = {html.unescape(one) for one in re.findall(r"url=([^\"]+)\"", came.text)}
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
    with _logged_in(server, "olga") as (olga, token):
        for path in ("/act/sync", "/logout", "/login"):
            refused = _post(olga, server, path, headers, csrf=token)
            assert refused.status_code == 403 and "Another page asked" in refused.text
        assert olga.get("/").status_code == 200
        for wrong in ("", "x", token[:-1]):
            assert _post(olga, server, "/act/sync", {}, csrf=wrong).status_code == 403
            assert _post(olga, server, "/logout", {}, csrf=wrong).status_code == 403
        assert olga.get("/").status_code == 200


def test_another_site_in_the_same_browser_gets_nothing(
    server: Server, context: BrowserContext
) -> None:
    page = context.new_page()
    _log_in(page, server, "ann")
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
        assert page.locator("h1").inner_text() == "Another page asked for this"
        page.goto(site)
        page.locator("#go").click()  # a link of a colleague in a chat, say
        expect(page.locator("#results")).to_contain_text(CANARY)
        assert not any("hopsyncd" in one for one in cookies)


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
    with _logged_in(server, "ann") as (ann, _):
        answer = ann.get("/?q=barge", headers=headers)
        assert "salt" not in answer.text and CANARY not in answer.text
        assert answer.status_code == 403 or "Go on" in answer.text


def test_every_answer_closes_the_page(server: Server) -> None:
    with _logged_in(server, "ann") as (ann, _), server.http() as stranger:
        answers = [ann.get(path) for path in ("/", "/sources", "/nowhere", "/state")]
        answers += [stranger.get(path) for path in ("/", CALLBACK, "/login")]
        answers.append(stranger.get("/state", headers={"Sec-Fetch-Mode": "cors"}))
        assert [one.status_code for one in answers[-3:]] == [403, 303, 401]
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


def test_the_api_knows_no_session(server: Server) -> None:
    with _logged_in(server, "olga") as (olga, _):
        for headers in ({}, {"Hopsyncd-Browser": "192.0.2.7"}):
            assert olga.get("/v1/status", headers=headers).status_code == 401


def test_nothing_is_answered_in_clear_text(server: Server) -> None:
    with _logged_in(server, "ann") as (ann, _):
        cookie = f"{SESSION_COOKIE}={ann.cookies[SESSION_COOKIE]}"
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"http://localhost:{server.port}/", headers={"Cookie": cookie}, timeout=5)


def test_an_open_page_hears_of_changes_until_its_user_logs_out(server: Server) -> None:
    cors = {"Sec-Fetch-Mode": "cors"}
    with (
        _logged_in(server, "bob") as (bob, token),
        bob.stream("GET", "/events", headers=cors) as events,
    ):
        lines = events.iter_lines()
        assert next(lines).startswith("retry")
        has_heard = Event()

        def edit() -> None:
            for number in range(60):  # until the page knows a version to compare with
                server.place.write("closed/other.md", f"# Other\n\nAnother {CANARY} {number}.\n")
                server.place.sync()
                server.place.write("open/raft.md", f"# Rafts\n\nA raft carries {number} tar.\n")
                server.place.sync()
                if has_heard.wait(1):
                    return

        with ThreadPoolExecutor() as pool:
            edits = pool.submit(edit)
            heard = next(line for line in lines if line.startswith("data"))
            has_heard.set()
            edits.result()
        assert "raft.md" in heard and "other.md" not in heard
        assert _post(bob, server, "/logout", {}, csrf=token).status_code == 303
        assert "other.md" not in "".join(lines)  # and it ends


def test_an_open_page_leads_to_the_login_once_its_session_is_over(
    server: Server, context: BrowserContext
) -> None:
    page = context.new_page()
    _log_in(page, server, "ann")
    context.clear_cookies()
    page.wait_for_selector("text=Who are you?")  # the page asks for its state every few seconds
    page.get_by_role("link", name="ann").click()
    page.wait_for_selector("#q")


def test_the_owner_ends_all_sessions_of_somebody(server: Server) -> None:
    with _logged_in(server, "ann") as (ann, _), _logged_in(server, "bob") as (bob, _):
        done = server.place.run("token", "revoke", "--user", "ann")
        assert done.returncode == 0 and "sessions of ann" in done.stdout
        assert ann.get("/").status_code == 303 and bob.get("/").status_code == 200
        assert server.log_in(ann, "ann").status_code == 200
        assert ann.get("/").status_code == 200


def test_the_audit_log_names_who_was_on_the_page(server: Server) -> None:
    with _logged_in(server, "olga") as (olga, token):
        assert _post(olga, server, "/act/sync", {}, csrf=token).status_code == 303
    lines = [json.loads(line) for line in (server.place.home / "data/audit.log").open()]
    line = next(one for one in reversed(lines) if one["user"] == "olga")
    assert (line["transport"], line["address"], line["role"]) == ("tcp", "127.0.0.1", "admin")
    assert line["action"] == "sync" and line["status"] == 202


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
    expect(page.locator(".problem")).to_contain_text("not valid here")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#results")).to_contain_text(CANARY)
    assert page.url.startswith(f"{server.address}/?q=barge")
    assert token not in page.content()
    assert token not in [one["value"] for one in context.cookies()]
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


def _paste(server: Server, client: httpx2.Client, token: str, to: str = "/") -> httpx2.Response:
    return _post(client, server, "/login", {}, token=token, to=to)


def test_a_token_that_reads_nothing_opens_no_page(small_server: Server) -> None:
    with small_server.http() as client:
        metrics = _paste(small_server, client, new_token(small_server.place, "metrics"))
        assert metrics.status_code == 403 and "may only read metrics" in metrics.text
        for wrong in ("", "x", "page_x", "hops_x\r\nHopsyncd-Browser: y", "\u00e4", "x" * 20_000):
            assert _paste(small_server, client, wrong).status_code == 401
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
            came = _paste(small_server, client, token, to)
            assert re.findall(r"url=([^\"]+)\"", came.text) == ["/"]


def test_guessing_tokens_on_the_page_is_slowed(small_server: Server) -> None:
    token = new_token(small_server.place, "read")
    with small_server.http(peer="127.0.0.4") as client:
        guesses = [
            _paste(small_server, client, f"hops_{number:08}_{'x' * 43}").status_code
            for number in range(FREE + 12)  # the waits grow to a minute
        ]
        assert guesses[: FREE + 1] == [401] * (FREE + 1) and guesses[-1] == 429
        assert _paste(small_server, client, token).status_code == 200  # a right one never waits


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
        (entry,) = [line for line in lines if line["event"] == "logged in to the page by a token"]
        assert entry["address"] == "198.51.100.1"
