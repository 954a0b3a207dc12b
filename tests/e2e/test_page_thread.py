"""A conversation with an LLM on the page, in a real Chromium: stream, stop, follow-ups, notes."""

import itertools
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.browser import PATIENCE_S, opened, shown, violations
from tests.fakes.endpoint import Endpoint, Response, error, event, say_json, stream, user_text

QUESTION = "Where was Kaltenbrunn, whose film is Bronze Door, born?"
BEGINNING, END = '{"found": true, "answer": "In Ost', 'rava", "citations": [1]}'
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(lambda _: error(500)) as made:
        yield made


@pytest.fixture(scope="module")
def place(endpoint: Endpoint) -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("door.md", "# Bronze Door\n\nBronze Door is a film by Kaltenbrunn.\n")
        made.write("mira.md", "# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava.\n")
        (made.base / "inbox").mkdir()
        made.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "small"\n'
            f"input_price = 2.0\noutput_price = 10.0\ntimeout_s = {2 * PATIENCE_S}\n"
            f'[mcp]\ninbox = "{made.base / "inbox"}"\n' + source("notes", made.notes)
        )
        made.start()
        made.sync()
        yield made


@pytest.fixture(scope="module")
def window(place: Place, browser: Browser) -> Iterator[Page]:
    with opened(
        place, browser, viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
    ) as page:
        yield page


@pytest.fixture
def page(window: Page) -> Page:
    window.goto(base(window) + "/")
    return window


@pytest.fixture
def question() -> str:
    """One in other bytes than those before, for replies are kept."""
    return QUESTION + "?" * next(_NUMBERS)


def base(page: Page) -> str:
    return re.sub(r"^(http://[^/]+/[^/]+).*", r"\1", page.url)


def submit(page: Page, question: str) -> None:
    page.locator("#q").fill(question)
    page.locator("#q").press("Enter")


def answering(text: str) -> Response:
    return stream([json.dumps({"found": True, "answer": text, "citations": [1, 2]})])


def test_an_answer_appears_while_it_is_written_with_its_sources_and_its_price(
    page: Page, endpoint: Endpoint, question: str
) -> None:
    seen = threading.Event()

    def texts() -> Iterator[str]:
        yield BEGINNING
        assert seen.wait(PATIENCE_S), "the first words were not shown"
        yield END

    endpoint.play = lambda _: stream(texts())
    submit(page, question)
    expect(page.locator("#thread .draft")).to_have_text("In Ost")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    seen.set()
    expect(page.locator("#thread .written")).to_contain_text("In Ostrava [1]")
    expect(page.locator("#thread .cost")).to_have_text("120 tokens · 0.0004 USD")
    expect(page.locator(".answer .chain")).to_be_hidden()
    expect(page.get_by_role("link", name="Watch this question")).to_be_visible()
    page.locator("#thread .sources .file").first.click()
    expect(page.locator("#preview")).to_contain_text("Kaltenbrunn")
    assert violations(Axe().run(page).response["violations"]) == []


def test_a_mark_opens_its_passage_by_key_also_while_the_answer_is_written(
    page: Page, endpoint: Endpoint, question: str
) -> None:
    opened = threading.Event()

    def texts(request: Any) -> Iterator[str]:
        shown = json.loads(user_text(request))["documents"]
        mira = next(one for one in shown if one["path"] == "mira.md")
        (number,) = (label.partition(".")[0] for label in mira["passages"])
        yield f'{{"found": true, "answer": "In **Ostrava** [{number}], '
        yield "the town"
        assert opened.wait(PATIENCE_S), "the mark was not opened"
        yield ' of her birth [9].", "citations": [1, 2]}'

    endpoint.play = lambda request: stream(texts(request))
    submit(page, question)
    draft = page.locator("#thread .draft")
    expect(draft).to_have_text("In Ostrava [1], the town")
    page.get_by_label("Ask a follow-up").press("Shift+Tab")
    mark = draft.get_by_role("link", name="Source 1: mira.md")
    expect(mark).to_be_focused()
    page.keyboard.press("Enter")
    preview = page.locator("#preview")
    expect(preview.locator(".marked, #marked").first).to_contain_text("born in Ostrava")
    page.keyboard.press("Escape")
    expect(mark).to_be_focused()
    opened.set()
    written = page.locator("#thread .written:not(.draft)")
    expect(written).to_have_text("In Ostrava [1], the town of her birth.")
    expect(written.get_by_role("link", name="Source 1: mira.md")).to_be_focused()
    cards = page.locator("#thread .sources .card")
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text("mira.md")
    expect(page.locator("#thread .notes")).to_contain_text("Citations of passage 9 were removed")
    assert violations(Axe().run(page).response["violations"]) == []


def test_stop_ends_the_call_of_the_endpoint_and_keeps_the_page_usable(
    page: Page, place: Place, endpoint: Endpoint, question: str
) -> None:
    stopped = threading.Event()

    def endless() -> Iterator[bytes]:
        yield event({"choices": [{"delta": {"content": BEGINNING}}]})
        while not stopped.wait(0.02):
            yield b": still here\n\n"

    def calls() -> int:
        rows = place.status()["llm"]["today"]
        return sum(row["calls"] for row in rows if row["purpose"] == "answers")

    endpoint.play = lambda _: Response(parts=endless())
    left, sent, counted = endpoint.left, len(endpoint.requests), calls()
    try:
        submit(page, question)
        expect(page.locator("#thread .draft")).to_have_text("In Ost")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#thread .stale")).to_contain_text("Stopped")
        place.until(lambda: endpoint.left > left, PATIENCE_S)
    finally:
        stopped.set()
    assert len(endpoint.requests) == sent + 1
    place.until(lambda: calls() == counted + 1, PATIENCE_S)
    expect(page.locator(".answer")).to_be_visible()
    endpoint.play = lambda _: answering("In Ostrava")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator("#thread .turn").last).to_contain_text("In Ostrava [1]")


def test_a_follow_up_keeps_the_context_and_the_thread_stays_in_the_tab(
    page: Page, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: answering("Kaltenbrunn")
    submit(page, question)
    expect(page.locator("#thread .written")).to_contain_text("Kaltenbrunn")
    endpoint.play = lambda _: answering("In Ostrava")
    page.get_by_label("Ask a follow-up").fill("And where was she born?")
    page.get_by_label("Ask a follow-up").press("Enter")
    last = page.locator("#thread .turn").last
    expect(last).to_contain_text("Searched with Kaltenbrunn, Bronze Door")
    expect(last.locator(".written")).to_contain_text("In Ostrava")
    sent = json.loads(user_text(endpoint.requests[-1]))
    assert sent["question"] == "And where was she born?"
    assert sent["thread"] == [{"question": question, "answer": "Kaltenbrunn"}]
    asked = len(endpoint.requests)
    page.reload()
    expect(page.locator("#thread .turn")).to_have_count(2)
    assert len(endpoint.requests) == asked, "a reload asked the LLM again"
    other = page.context.new_page()
    other.goto(base(page) + "/")
    assert other.evaluate("sessionStorage.getItem('hopsyncd.threads')") is None
    other.close()


def test_an_endpoint_that_dies_midway_leaves_the_quoted_answer_and_one_line(
    page: Page, endpoint: Endpoint, question: str
) -> None:
    def torn() -> Iterator[bytes]:
        yield event({"choices": [{"delta": {"content": BEGINNING}}]})
        raise ConnectionResetError

    calls = itertools.count()
    endpoint.play = lambda _: error(500) if next(calls) else Response(parts=torn())
    submit(page, question)
    expect(page.locator("#thread .notes li")).to_have_count(1)
    expect(page.locator("#thread .notes li")).to_contain_text("made without the LLM")
    expect(page.locator("#thread")).not_to_contain_text("In Ost")
    expect(page.locator(".answer")).to_contain_text("Kaltenbrunn was born in Ostrava.")


def test_a_changed_document_is_named_and_the_llm_is_not_asked_again(
    page: Page, place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: answering("In Ostrava")
    submit(page, question)
    expect(page.locator("#thread .sources .card")).to_have_count(2)
    asked = len(endpoint.requests)
    text = f"# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava. Edited {next(_NUMBERS)}.\n"
    place.write("mira.md", text)
    place.sync()
    expect(page.locator("#thread .stale")).to_contain_text("mira.md changed since")
    assert len(endpoint.requests) == asked


HOSTILE = (
    '<img src=x onerror="window.owned=1"><script>window.owned=1</script>\n\n'
    "[Click](https://evil.example/) ![x](https://evil.example/x.png) https://evil.example/\n"
    "- **bold** `<b>code</b>`\n\n[x](javascript:window.owned=1) \u202eDrow"
)


def test_the_text_of_a_hostile_model_is_only_text(
    page: Page, place: Place, endpoint: Endpoint, question: str
) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    endpoint.play = lambda _: answering(HOSTILE)
    submit(page, question)
    written = page.locator("#thread .written:not(.draft)")
    expect(written).to_contain_text("<script>window.owned=1</script>")
    expect(written).to_contain_text("[Click](https://evil.example/)")
    expect(written.locator("li strong")).to_have_text("bold")
    expect(written.locator("code")).to_have_text("<b>code</b>")
    expect(written).to_contain_text("\\u202eDrow")
    assert written.locator("img, script, b, a:not(.cite)").count() == 0
    assert page.evaluate("window.owned") is None
    assert all(url.startswith(base(page)) for url in requests)
    page.reload()
    expect(written).to_contain_text("<script>window.owned=1</script>")
    assert page.evaluate("window.owned") is None
    page.get_by_role("button", name="Save as a note").click()
    expect(page.locator("#toast")).to_contain_text("Saved as")
    newest = max((place.base / "inbox").iterdir(), key=lambda one: one.stat().st_mtime_ns)
    note = newest.read_text()
    assert "tags: [hopsyncd-answer]" in note
    assert (
        "://" not in note
        and "](" not in note.replace("\\](", "")
        and "<" not in note.replace("\\<", "")
    )


def test_a_thread_is_saved_as_a_note_in_the_inbox(
    page: Page, place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: answering("In Ostrava")
    submit(page, question)
    before = {*(place.base / "inbox").iterdir()}
    page.get_by_role("button", name="Save as a note").click()
    expect(page.locator("#toast")).to_contain_text("Saved as")
    (made,) = {*(place.base / "inbox").iterdir()} - before
    note = made.read_text()
    assert note.count("Where was Kaltenbrunn") == 2
    assert "In Ostrava" in note and "notes/mira.md" in note


@pytest.mark.parametrize("path", ["/thread", "/thread/note"])
def test_requests_of_other_pages_are_refused_and_spend_nothing(
    page: Page, place: Place, endpoint: Endpoint, path: str
) -> None:
    (cookie,) = (cookie for cookie in page.context.cookies() if cookie["name"] == "hopsyncd")
    origin = base(page).rpartition("/")[0]
    token = str(page.evaluate("document.body.dataset.csrf"))
    asked = json.dumps({"question": QUESTION})
    thread = json.dumps([{"question": QUESTION, "text": "x"}])
    before = len(endpoint.requests), [*(place.base / "inbox").iterdir()]
    endpoint.play = lambda _: say_json({"found": False, "answer": "", "citations": []})

    def post(token: str, **headers: str) -> httpx2.Response:
        return httpx2.post(
            base(page) + path,
            data={"csrf": token, "asked": asked, "thread": thread},
            headers={"Cookie": f"hopsyncd={cookie['value']}", **headers},
            timeout=PATIENCE_S,
        )

    assert post(token, Origin="http://evil.example").status_code == 403
    assert post(token, Origin=origin, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert post("0" * 64, Origin=origin).status_code == 403
    assert post("", Origin=origin).status_code == 403
    assert (len(endpoint.requests), [*(place.base / "inbox").iterdir()]) == before
    assert post(token, Origin=origin).status_code == 200


def test_a_garbled_question_is_refused_in_words(page: Page) -> None:
    (cookie,) = (cookie for cookie in page.context.cookies() if cookie["name"] == "hopsyncd")
    origin = base(page).rpartition("/")[0]
    token = str(page.evaluate("document.body.dataset.csrf"))
    garbled: list[Any] = [
        "",
        "[",
        "[]",
        '{"question": 5, "thread": 5}',
        '{"filters": {}}',
        "9" * 99,
    ]
    for asked in (*garbled, '{"question": "a", "thread": [{"question": "b", "cards": [1]}]}'):
        for path in ("/thread", "/thread/note"):
            answer = httpx2.post(
                base(page) + path,
                data={"csrf": token, "asked": asked, "thread": asked},
                headers={"Cookie": f"hopsyncd={cookie['value']}", "Origin": origin},
                timeout=PATIENCE_S,
            )
            refused = answer.status_code == 400 or b'"event": "error"' in answer.content
            assert refused, (path, asked, answer.status_code)


def test_without_scripts_a_link_asks_the_llm(
    page: Page, browser: Browser, endpoint: Endpoint, question: str
) -> None:
    marked = {"found": True, "answer": "In Ostrava [2]", "citations": [1]}
    endpoint.play = lambda _: say_json(marked)
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
    plain = context.new_page()
    asked = len(endpoint.requests)
    plain.goto(base(page) + "/")
    plain.locator("#q").fill(question)
    plain.locator("#q").press("Enter")
    expect(plain.locator(".results")).to_be_visible()
    assert len(endpoint.requests) == asked
    plain.get_by_role("link", name="Let the LLM answer").click()
    expect(plain.locator(".answer .written")).to_have_text("In Ostrava [1]")
    plain.get_by_role("link", name="Source 1").click()
    expect(plain.locator("#preview .preview-body")).to_be_visible()
    context.close()


def test_without_an_llm_the_page_shows_no_llm_controls(browser: Browser) -> None:
    with new_place(SMALL) as place:
        place.write("mira.md", "# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava.\n")
        place.configure(source("notes", place.notes))
        place.start()
        place.sync()
        with shown(place) as address:
            page = browser.new_page()
            page.set_default_timeout(1000 * PATIENCE_S)
            page.goto(address)
            page.wait_for_selector("#q")
            submit(page, QUESTION)
            expect(page.locator(".results")).to_be_visible()
            text = page.content()
            assert "thread.js" not in text and "follow-up" not in text and "LLM" not in text
            page.close()
