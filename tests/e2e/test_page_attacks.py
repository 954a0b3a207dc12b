"""What other sites, other users and documents try against the page: nothing runs, nothing leaks."""

import codecs
import grp
import html
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Response
from starlette.testclient import TestClient

from hopsyncd.client import Client, RequestFailed
from hopsyncd.web.listener import COOKIE, Door
from hopsyncd.web.pages import make_page
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.browser import PATIENCE_S, chromium, got, other_site, shown
from tests.fakes.other_user import as_user
from tests.fakes.port import free_port

SCRIPT = "<script>window.hacked=1</script>"
IMAGE = "<img src=x onerror=window.hacked=1>"
EVIL = (
    f"# {SCRIPT} {IMAGE}\n\nThe barge {SCRIPT} carries {IMAGE} salt. \"' onload='x' {{{{7*7}}}}\n"
)
# Templates need it, and another user may not be able to load it from this Python.
codecs.lookup("unicode-escape")
TEAM = grp.getgrgid(1)
CANARY = "zyxwort"
GIANT_S = 60.0  # a view of it; what would hang takes many minutes


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write(f"{IMAGE.replace('/', '')}.md", EVIL)
        made.write("raw.txt", f"The ferry {SCRIPT} carries {IMAGE} salt.\n")
        made.write("plain.md", "# Barges\n\nA barge carries salt.\n")
        made.configure(source("notes", made.notes))
        made.start()
        made.sync()
        made.write(f"{IMAGE.replace('/', '')}.md", EVIL.replace("salt", f"sand {SCRIPT}"))
        made.sync()
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("--host-resolver-rules=MAP evil.example 127.0.0.1") as made:
        yield made


@pytest.fixture(scope="module")
def address(place: Place) -> Iterator[str]:
    with shown(place) as printed:
        yield printed


@pytest.fixture(scope="module")
def base(browser: Browser, address: str) -> Iterator[tuple[str, BrowserContext]]:
    context = browser.new_context()
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#q")
    yield page.url.rstrip("/"), context
    context.close()


Base = tuple[str, BrowserContext]


def _script(context: BrowserContext, url: str) -> str:
    """The address of the page's script."""
    page = context.new_page()
    page.goto(url + "/")
    found: str = page.evaluate("document.scripts[0].src")
    page.close()
    return found


def test_an_address_opens_the_page_once(address: str, base: Base) -> None:
    again = got(address)
    assert again.status_code == 401 and COOKIE not in again.cookies
    assert got(base[0] + "/").status_code == 401


def test_a_stolen_address_is_worth_nothing_after_the_command_stopped(place: Place) -> None:
    with shown(place, "--port", str(free_port())) as stolen:
        pass
    with pytest.raises(httpx2.ConnectError):
        got(stolen)
    with shown(place, "--port", str(urlsplit(stolen).port)):
        assert got(stolen).status_code == 401


def test_the_page_listens_on_this_machine_alone(address: str) -> None:
    port = urlsplit(address).port
    assert f"0100007F:{port:04X}" in Path("/proc/net/tcp").read_text()
    assert f"00000000:{port:04X}" not in Path("/proc/net/tcp").read_text()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_of_another_page_are_refused_even_with_the_cookie(
    base: Base, headers: dict[str, str]
) -> None:
    url, context = base
    cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies(url)}
    assert got(url + "/", cookies=cookies).status_code == 200
    refused = got(url + "/", cookies=cookies, headers=headers)
    assert refused.status_code == 403 and "barge" not in refused.text


def test_every_response_forbids_framing_and_foreign_content(base: Base) -> None:
    url, context = base
    cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies(url)}
    script = _script(context, url)
    for address in (url + "/", script, url + "/passage/00", url + "/nowhere"):
        headers = got(address, cookies=cookies).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store" or address == script
    (cookie,) = context.cookies(url)
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert cookie["path"] == urlsplit(url).path != "/"


def test_another_site_gets_nothing_not_even_from_this_machine(base: Base) -> None:
    url, context = base
    # As if it had learned the page's secret path.
    script = _script(context, url)
    evil = f"""<title>evil</title><iframe src="{url}/"></iframe>
    <img src="{script.replace("page.js", "icon.svg")}"><script src="{script}"></script>
    <form method="post" action="{url}/"></form>
    <a id="go" href="{url}/?q=barge">go</a><script>window.got = [];
    for (const mode of ["cors", "no-cors"])
      fetch("{url}/?q=barge", {{mode, credentials: "include"}}).then(r => r.text())
        .then(t => got.push(t), () => got.push(""));</script>"""
    with other_site(evil) as (site, cookies):
        page = context.new_page()
        statuses: list[int] = []

        def note(response: Response) -> None:
            if response.url.startswith(url):
                statuses.append(response.status)

        page.on("response", note)
        page.goto(site)
        page.wait_for_function("window.got.length === 2")
        assert page.evaluate("got.join('')") == ""
        with page.expect_navigation():
            page.locator("#go").click()
        assert "barge" not in page.content()
        page.goto(site)
        page.evaluate("document.forms[0].submit()")
        page.wait_for_url(f"{url}/")
        assert statuses and set(statuses) <= {403, 405}
        assert not any(COOKIE in cookie for cookie in cookies)
        page.close()


def test_a_name_rebound_to_this_machine_is_refused(base: Base) -> None:
    url, context = base
    page = context.new_page()
    rebound = url.replace("127.0.0.1", "evil.example")
    answer = page.goto(rebound + "/?q=barge")
    assert answer is not None and answer.status == 403
    assert "barge" not in page.content()
    page.close()


def test_a_script_in_title_path_or_text_is_text(base: Base) -> None:
    url, context = base
    page = context.new_page()
    for path in ("/?q=barge+salt", "/", "/changes", "/changes/2", "/compare?q=barge&old=1",
                 "/sources", f"/?q={SCRIPT}{IMAGE}", "/passage/%3Cscript%3E",
                 f"/?at={SCRIPT}&q=x", f"/?q=barge&f={IMAGE}", f"/?q=barge&open={SCRIPT}",
                 f"/?q=barge&tab={SCRIPT}", f"/changes?before={SCRIPT}"):  # fmt: skip
        page.goto(url + path)
        page.wait_for_timeout(50)
        assert page.evaluate("window.hacked") is None, path
        assert page.locator("main script, main img").count() == 0
    page.goto(url + "/?q=barge+salt")
    assert IMAGE in page.locator("#results").inner_text()
    page.locator(".read", has_text="ferry").click()
    marked = page.locator("#preview .marked", has_text="ferry")
    marked.wait_for()
    assert page.evaluate("window.hacked") is None
    assert SCRIPT in marked.inner_text()
    page.locator("#preview").get_by_role("link", name="Related").click()
    page.locator(".related").wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img").count() == 0
    page.close()


def test_a_form_without_the_token_of_its_session_changes_nothing(place: Place, base: Base) -> None:
    url, context = base
    cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies(url)}
    origin = url.removesuffix(urlsplit(url).path)
    before = place.get("/v1/watches")["watches"]
    for form in ({"q": "barge?"}, {"q": "barge?", "csrf": ""}, {"q": "barge?", "csrf": "0" * 64}):
        sent = httpx2.post(f"{url}/watches", data=form, cookies=cookies, headers={"Origin": origin})
        assert sent.status_code == 403
    refused = httpx2.post(
        f"{url}/watches", data={"q": "barge?"}, cookies=cookies, headers={"Origin": "null"}
    )
    assert refused.status_code == 403
    assert place.get("/v1/watches")["watches"] == before


def test_a_script_that_got_in_would_not_run(base: Base) -> None:
    url, context = base
    page = context.new_page()
    page.goto(url + "/")
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">');"
        "const s = document.createElement('script'); s.textContent = 'window.hacked=1';"
        "document.body.append(s)"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    page.close()


def test_a_huge_document_does_not_block_the_page(place: Place, base: Base) -> None:
    url, context = base
    parts = (f"## Part {n}\n\n" + f"The canal {n} is long. " * 80 for n in range(300))
    place.write("giant.md", "# Canals\n\n" + "\n\n".join(parts))
    place.sync()
    page = context.new_page()
    page.set_default_timeout(GIANT_S * 1000)
    page.goto(url + "/?q=canal+150")
    page.locator(".read").first.click()
    page.locator("#preview .marked", has_text="canal").wait_for()
    assert page.locator(".passage").count() <= 60
    assert "Part 150" in html.unescape(page.content())
    place.write("giant.md", "# Canals\n\n" + "The lock is shut. " * 20_000)
    place.sync()
    version = place.status()["version"]
    page.goto(f"{url}/changes/{version}")
    assert "too many to compare" in page.locator(".change").inner_text()
    page.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take on another user's rights")
def test_hidden_sources_are_on_no_view_of_others() -> None:
    with new_place(SMALL) as made:
        made.base.chmod(0o755)
        closed = made.base / "closed"
        closed.mkdir()
        (closed / f"{CANARY}.md").write_text(f"# The {CANARY}\n\nAda praised the {CANARY}.\n")
        made.write("ada.md", "# Ada\n\nAda met Charles in London.\n")
        made.socket = made.base / "run/s.sock"
        made._client = Client(made.socket)
        made.configure(
            f'[daemon]\nsocket = "{made.socket}"\n[access]\ngroup = "{TEAM.gr_name}"\n'
            + source("open", made.notes)
            + source("closed", closed, 'visible_to = ["user:root"]')
        )
        made.start()
        made.sync()
        (closed / f"{CANARY}.md").write_text(f"# The {CANARY}\n\nAda blames the {CANARY}.\n")
        made.sync()
        made.run("watch", f"Who praised the {CANARY}?")
        seen = as_user(65_534, [TEAM.gr_gid], partial(_all_views, made.socket))
        assert isinstance(seen, list), seen
        assert any("London" in text for _, text in seen)
        for status, text in seen:
            assert status in (200, 403, 404)
            assert CANARY not in text and "closed" not in text
            assert "blames" not in text and "2 documents" not in text
        assert any(CANARY in text for _, text in _all_views(made.socket))
        # A member is offered no action that only admins may do; the owner is.
        offered = ("/act/sync", "/act/pause", "/act/add", "/restore/", "remove=", "/watches")
        for phrase in offered:
            assert not [text for status, text in seen if status == 200 and phrase in text], phrase
            assert any(phrase in text for _, text in _all_views(made.socket)), phrase
        told = as_user(65_534, [TEAM.gr_gid], partial(_of_the_closed, made.socket))
        assert told == "{'open': 1} {'md': 1} refused refused []", told


def _all_views(socket: Path) -> list[tuple[int, str]]:
    """What a session of this process's user is shown, without echoing what it asks."""
    door = Door("127.0.0.1:1")
    http = TestClient(make_page(Client(socket), door), base_url="http://127.0.0.1:1")
    http.get(door.create_address())
    passage = Client(socket).query("Ada")["passages"][0]["id"]
    views = ("/", "/?q=Ada", "/?q=Ada&f=type:md", f"/passage/{passage}",
             f"/passage/{passage}?tab=related", f"/preview/{passage}", "/results?q=Ada",
             "/welcome", "/state", "/changes", "/changes/1", "/changes/2", "/changes/3",
             "/compare?q=Ada&old=1", "/map", "/map?group=1",
             "/map?at=1", "/map/data", "/map/found?find=Ada", "/sources",
             "/watches", "/watches/1")  # fmt: skip
    return [
        (reply.status_code, reply.text) for reply in (http.get(door.base + path) for path in views)
    ]


def _of_the_closed(socket: Path) -> str:
    """What the endpoints of the page say about the hidden source."""
    client = Client(socket)
    facets = client.facets(documents=[f"closed/{CANARY}.md"])
    assert facets["modified"] == [None] and facets["documents"] == 1
    told = [
        str({one["value"]: one["documents"] for one in facets["facets"]["source"]}),
        str({one["value"]: one["documents"] for one in facets["facets"]["type"]}),
    ]
    for call in (client.file, client.history):
        try:
            told.append(str(call("closed", f"{CANARY}.md")))
        except RequestFailed as error:
            told.append("refused" if error.status == 404 else str(error))
    return " ".join([*told, str(client.examples()["questions"])])
