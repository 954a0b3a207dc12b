"""The page of a server, in browsers of other machines: logins at a provider, and their rights."""

import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import Event

import pytest
from playwright.sync_api import BrowserContext, expect

from hopsyncd.web.team_page import LOGIN_COOKIE, SESSION_COOKIE
from tests.e2e.team_page import (
    CANARY,
    Server,
    log_in,
    logged_in,
    post,
    server_with_provider,
)
from tests.fakes.provider import CLIENT_ID


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with server_with_provider() as made:
        yield made


def test_a_user_can_log_in_ask_and_log_out(server: Server, context: BrowserContext) -> None:
    page = context.new_page()
    log_in(page, server, "ann", "/?q=barge")
    assert page.url.startswith(f"{server.address}/?q=barge")
    expect(page.locator(".who")).to_contain_text("ann")
    expect(page.locator("#results")).to_contain_text(CANARY)  # by the group claim
    cookies = {cookie["name"]: cookie for cookie in context.cookies(server.address)}
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
    assert not [cookie for cookie in context.cookies() if cookie["value"] == session["value"]]
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
    log_in(page, server, "ann")
    other.goto(server.address + "/?q=barge")
    page.get_by_role("button", name="Log out").click()
    expect(other.locator("h1")).to_have_text("You are logged out")
    page.reload()
    expect(page.locator("h1")).to_have_text("You are logged out")


def test_a_hidden_source_leaves_no_trace_for_others(server: Server) -> None:
    with logged_in(server, "bob") as (bob, _), logged_in(server, "ann") as (ann, _):
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
    with logged_in(server, "bob") as (bob, token):
        shown = bob.get("/sources").text
        assert "Scan all" not in shown and "<dt>Socket</dt>" not in shown
        for action in ("sync", "pause", "restore"):
            form = {"csrf": token, "source": "open", "version": "1"}
            assert post(bob, server, f"/act/{action}", {}, **form).status_code == 403
        note = {"csrf": token, "thread": '[{"question": "Why?", "text": "So."}]'}
        assert post(bob, server, "/thread/note", {}, **note).status_code == 403
    with logged_in(server, "ann") as (ann, token):
        saved = post(ann, server, "/thread/note", {}, **{**note, "csrf": token})
        assert saved.status_code == 200 and saved.json()["file"]
        assert post(ann, server, "/act/sync", {}, csrf=token).status_code == 403
    with logged_in(server, "olga") as (olga, token):
        assert "<dt>Socket</dt>" in olga.get("/sources").text
        assert "Scan all" in olga.get("/sources").text and CANARY in olga.get("/?q=barge").text
        paused = post(olga, server, "/act/pause", {}, csrf=token, source="open")
        assert paused.status_code == 303
        assert "paused" in olga.get("/sources").text
        assert post(olga, server, "/act/resume", {}, csrf=token, source="open").status_code == 303


def test_nobody_changes_the_configuration_or_runs_programs_from_afar(server: Server) -> None:
    before = (server.place.home / "config.toml").read_text()
    with logged_in(server, "olga") as (olga, token):
        shown = olga.get("/sources").text
        assert "Add a source" not in shown and "Remove…" not in shown
        assert "config.toml" not in shown
        found = re.search(r'data-open="([0-9a-f]+)"', olga.get("/?q=barge").text)
        assert found and "editor" not in olga.get(f"/passage/{found[1]}").text.lower()
        for action in ("add", "remove", "ignore", "open"):
            form = {"csrf": token, "source": "open", "document": "barge.md", "place": "/etc"}
            answer = post(olga, server, f"/act/{action}", {}, id=found[1], **form)
            assert answer.status_code == 403, (action, answer.text)
    assert (server.place.home / "config.toml").read_text() == before


def test_a_login_without_a_usable_name_gets_a_message_and_no_session(server: Server) -> None:
    with server.http() as eve:
        refused = server.log_in(eve, "eve")
        assert refused.status_code == 403 and "no access to this server" in refused.text
        assert SESSION_COOKIE not in eve.cookies


def test_a_session_goes_on_while_the_provider_is_down(server: Server) -> None:
    assert server.provider
    with logged_in(server, "ann") as (ann, _), server.http() as bob:
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


def test_an_open_page_hears_of_changes_until_its_user_logs_out(server: Server) -> None:
    cors = {"Sec-Fetch-Mode": "cors"}
    with (
        logged_in(server, "bob") as (bob, token),
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
            begin, heard = islice((line for line in lines if line.startswith("data")), 2)
            has_heard.set()
            edits.result()
        assert json.loads(begin.partition(" ")[2])["version"] > 0
        assert "raft.md" in heard and "other.md" not in heard
        assert post(bob, server, "/logout", {}, csrf=token).status_code == 303
        assert "other.md" not in "".join(lines)  # and it ends


def test_an_open_page_leads_to_the_login_once_its_session_is_over(
    server: Server, context: BrowserContext
) -> None:
    page = context.new_page()
    log_in(page, server, "ann")
    context.clear_cookies()
    page.wait_for_selector("text=Who are you?")  # the page asks for its state every few seconds
    page.get_by_role("link", name="ann").click()
    page.wait_for_selector("#q")


def test_the_owner_ends_all_sessions_of_somebody(server: Server) -> None:
    with logged_in(server, "ann") as (ann, _), logged_in(server, "bob") as (bob, _):
        done = server.place.run("token", "revoke", "--user", "ann")
        assert done.returncode == 0 and "sessions of ann" in done.stdout
        assert ann.get("/").status_code == 303 and bob.get("/").status_code == 200
        assert server.log_in(ann, "ann").status_code == 200
        assert ann.get("/").status_code == 200


def test_the_audit_log_names_who_was_on_the_page(server: Server) -> None:
    with logged_in(server, "olga") as (olga, token):
        assert post(olga, server, "/act/sync", {}, csrf=token).status_code == 303
    lines = [json.loads(line) for line in (server.place.home / "data/audit.log").open()]
    line = next(line for line in reversed(lines) if line["user"] == "olga")
    assert (line["transport"], line["address"], line["role"]) == ("tcp", "127.0.0.1", "admin")
    assert line["action"] == "sync" and line["status"] == 202
