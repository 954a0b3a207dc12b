"""The page in a real Chromium: what it shows, by mouse, keyboard and screen reader."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from tests.e2e.conftest import FILMS
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.browser import PATIENCE_S, chromium, serious, shown

QUESTION = "Where did Mira Kaltenbrunn, director of The Bronze Door, grow up?"
ASKED = "/?q=Where+did+Mira+Kaltenbrunn%2C+director+of+The+Bronze+Door%2C+grow+up%3F"
MOVED = "# Mira Kaltenbrunn\n\nMira Kaltenbrunn grew up in the harbour of Vasterholm. She paints.\n"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        made.configure(
            source("notes", made.notes, "scan_every_s = 3600.0")
            + source("away", made.base / "unmounted")
        )
        made.start()
        made.sync("notes")
        made.write("people/kaltenbrunn.md", MOVED)
        made.write("broken.pdf", "%PDF-1.4 broken")
        made.sync("notes")
        yield made


@dataclass
class Shown:
    """The page in a browser; what it asked of the network, and what its console said."""

    base: str
    context: BrowserContext
    requests: list[str]
    complaints: list[str]

    def page(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._note)
        page.goto(self.base + path)
        return page

    def _note(self, told: ConsoleMessage) -> None:
        if "Content Security" in told.text:
            self.complaints.append(told.text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def view(place: Place, browser: Browser) -> Iterator[Shown]:
    with shown(place) as address:
        context = browser.new_context(viewport={"width": 1100, "height": 800})
        context.set_default_timeout(1000 * PATIENCE_S)
        requests: list[str] = []
        context.on("request", lambda request: requests.append(request.url))
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#q")
        yield Shown(page.url.rstrip("/"), context, requests, [])
        context.close()


@pytest.fixture
def opened(view: Shown) -> Iterator[Page]:
    page = view.page()
    yield page
    page.close()


def open_first(page: Page, link: str) -> None:
    """From the results of the question to what a link of the first one leads to."""
    page.goto(page.url.partition("?")[0].rstrip("/") + ASKED)
    page.locator(".results li").first.get_by_role("link", name=link).click()
    page.wait_for_url(lambda url: "?q=" not in url)


VIEWS = {
    "search": "/",
    "results": ASKED,
    "how": f"/how{ASKED[1:]}",
    "versions": "/versions",
    "version": "/versions/2",
    "compare": f"/compare{ASKED[1:]}&old=1",
    "sources": "/sources",
    "watches": "/watches",
    "error": "/passage/0000000000000000",
}


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_is_usable_by_everyone_in_light_and_dark_and_narrow(
    view: Shown, name: str
) -> None:
    page = view.page(VIEWS[name])
    _check_usable(page)
    page.close()


@pytest.mark.parametrize("link", ["The Bronze Door", "Related passages"])
def test_a_passage_and_its_neighbourhood_are_usable_by_everyone(opened: Page, link: str) -> None:
    open_first(opened, link)
    _check_usable(opened)


def _check_usable(page: Page) -> None:
    expect(page.locator("h1")).to_have_count(1)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert serious(Axe().run(page).response["violations"]) == []
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_what_is_typed_is_answered_with_citations_and_without_a_reload(opened: Page) -> None:
    opened.evaluate("window.same = true")
    opened.locator("#q").press_sequentially(QUESTION, delay=2)
    expect(opened.locator(".results li").first).to_contain_text("The Bronze Door")
    expect(opened.locator(".answer q").first).to_be_visible()
    expect(opened.locator("#told")).to_contain_text("passages")
    expect(opened).to_have_url(re.compile(r"q=Where\+did\+Mira"))
    assert opened.evaluate("window.same") is True


def test_a_citation_leads_to_the_passage_marked_in_its_document(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.locator(".cite").first.click()
    opened.locator(".citations a").first.click()
    opened.wait_for_url("**/passage/**")
    expect(opened.locator("mark")).to_have_count(1)
    cited = opened.locator("h1").inner_text()
    assert opened.locator("mark").inner_text() in FILMS.get(cited, MOVED)


def test_a_search_at_an_older_version_finds_what_was_there_then(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    expect(opened.locator("#results")).to_contain_text("Vasterholm")
    opened.get_by_text("Filters").click()
    opened.get_by_label("At version").fill("1")
    expect(opened.locator("#results")).to_contain_text("village of Ostrava Vale")
    expect(opened.locator("#results")).to_contain_text("version 1")


def test_filters_bound_what_is_shown_and_are_kept_in_the_address(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.get_by_text("Filters").click()
    opened.get_by_role("spinbutton", name="Passages").fill("2")
    opened.get_by_label("Strategy").select_option("bm25")
    expect(opened).to_have_url(re.compile("k=2.*strategy=bm25|strategy=bm25.*k=2"))
    expect(opened.locator(".results li")).to_have_count(2)
    opened.reload()
    expect(opened.locator(".results li")).to_have_count(2)
    assert "strategy=bm25" in opened.url


def test_a_search_is_narrowed_to_a_folder_and_says_so(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.get_by_text("Filters").click()
    opened.get_by_label("Path").fill("people/")
    expect(opened.locator(".results")).not_to_contain_text("films/")
    expect(opened.locator("#results")).to_contain_text("path:people")
    opened.get_by_role("link", name="How it was found").click()
    expect(opened.locator("ol.lines").last).not_to_contain_text("films/")


def test_an_unknown_version_is_told_in_words(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED + "&at=nowhere")
    expect(opened.get_by_role("alert")).to_contain_text("nowhere")


def test_it_works_without_scripts(view: Shown, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(view.context.cookies(view.base))  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(view.base + "/")
    page.locator("#q").fill(QUESTION)
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".results li").first).to_contain_text("The Bronze Door")
    context.close()


def test_the_keyboard_alone_goes_from_the_question_to_a_passage(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.locator("h2").first.click()
    opened.keyboard.press("/")
    expect(opened.locator("#q")).to_be_focused()
    opened.keyboard.press("ArrowDown")
    opened.keyboard.press("ArrowDown")
    second = opened.locator(".results h3 a").nth(1)
    expect(second).to_be_focused()
    title = second.inner_text()
    opened.keyboard.press("Enter")
    expect(opened.locator("mark")).to_be_visible()
    expect(opened).to_have_title(f"{title} · hopsyncd")


def test_the_first_tab_offers_to_skip_to_the_content(opened: Page, view: Shown) -> None:
    opened.goto(view.base + "/versions")
    opened.keyboard.press("Tab")
    expect(opened.locator(".skip")).to_be_focused()
    opened.keyboard.press("Enter")
    expect(opened.locator("main")).to_be_focused()


def left_of(box: Locator) -> float:
    found = box.bounding_box()
    assert found
    return found["x"]


def test_how_it_was_found_is_drawn_from_seeds_over_hops(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED + "&at=1")
    with opened.expect_navigation():
        opened.get_by_role("link", name="How it was found").click()
    hops = opened.locator("ol.lines").first.locator("li")
    assert hops.count() == opened.locator("svg .number").count() > 0
    start, end = hops.first.locator("strong").all_inner_texts()
    boxes = {
        (box.get_attribute("aria-label") or "").partition(", result")[0]: left_of(box)
        for box in opened.locator("svg .box").all()
    }
    assert boxes[start] < boxes[end]
    question = opened.locator("svg .hop title").first.text_content()
    assert question and question in hops.first.inner_text()


def test_a_box_of_the_picture_opens_its_passage(opened: Page, view: Shown) -> None:
    opened.goto(view.base + f"/how{ASKED[1:]}")
    opened.locator("svg .box").first.click()
    expect(opened.locator("mark")).to_be_visible()


def test_the_neighbourhood_is_walked_by_mouse(opened: Page) -> None:
    open_first(opened, "Related passages")
    here = opened.locator("h1").inner_text()
    opened.locator("svg .box:not(.centre)").first.click()
    expect(opened.locator("h1")).not_to_have_text(here)
    expect(
        opened.locator(f'svg .box[aria-label="{here[len("Related to “") : -1]}"]')
    ).to_have_count(1)


def test_the_neighbourhood_is_walked_by_keys(opened: Page) -> None:
    open_first(opened, "Related passages")
    here = opened.locator("h1").inner_text()
    opened.locator(".drawing").focus()
    opened.keyboard.press("ArrowRight")
    expect(opened.locator("svg .centre")).to_be_focused()
    beside = opened.locator("svg .box:not(.centre)").first
    is_right = left_of(beside) > left_of(opened.locator("svg .centre"))
    opened.keyboard.press("ArrowRight" if is_right else "ArrowLeft")
    assert opened.evaluate("document.activeElement.matches('.box:not(.centre)')")
    opened.keyboard.press("Enter")
    expect(opened.locator("h1")).not_to_have_text(here)


def test_a_narrow_picture_begins_at_what_it_is_about(opened: Page) -> None:
    open_first(opened, "Related passages")
    opened.set_viewport_size({"width": 320, "height": 640})
    opened.reload()
    expect(opened.locator("svg .centre")).to_be_in_viewport(ratio=0.9)


def test_an_error_shows_what_to_type_as_code(opened: Page, view: Shown) -> None:
    opened.goto(view.base + "/passage/0000000000000000")
    expect(opened.locator("main code")).to_have_text("at")


def test_a_dot_on_the_line_shows_which_sentences_its_version_changed(opened: Page) -> None:
    opened.get_by_role("link", name="Time").click()
    expect(opened.locator("svg .dot")).to_have_count(2)
    expect(opened.locator("ol.versions li").first).to_contain_text("changed people/kaltenbrunn.md")
    opened.locator("svg .dot").last.click()
    expect(opened.locator("h1")).to_contain_text("Version 2")
    expect(opened.locator("ins").first).to_contain_text("harbour")
    expect(opened.locator("del").first).to_contain_text("village")


def test_the_first_version_is_told_as_such(opened: Page, view: Shown) -> None:
    opened.goto(view.base + "/versions/1")
    expect(opened.locator("main")).to_contain_text("This is the first version")


def test_a_question_at_two_versions_shows_what_changed(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.get_by_role("link", name="Compare versions").click()
    opened.get_by_label("Earlier version").fill("1")
    with opened.expect_navigation():
        opened.get_by_role("button", name="Compare").click()
    before, after = opened.locator(".columns section").all()
    expect(before.locator(".changed").first).to_be_visible()
    expect(after.locator(".changed").first).to_be_visible()
    expect(after).to_contain_text("Vasterholm")
    expect(before).not_to_contain_text("Vasterholm")


def test_sources_show_their_health_and_what_cannot_be_read(opened: Page) -> None:
    opened.get_by_role("link", name="Sources").click()
    expect(opened.locator(".card.paused")).to_contain_text("No such file or directory")
    expect(opened.locator(".card.ok")).to_contain_text("12")
    expect(opened.locator("main")).to_contain_text("broken.pdf")


def test_a_question_is_watched_and_its_change_shown_before_and_after(
    opened: Page, view: Shown, place: Place
) -> None:
    opened.goto(view.base + "/?q=Who+repairs+clocks+in+Bergen%3F")
    opened.get_by_role("link", name="Watch it").click()
    opened.get_by_role("button", name="Watch").click()
    expect(opened.locator("h1")).to_have_text("Who repairs clocks in Bergen?")
    text = FILMS["people/lindqvist.md"].replace("repairs clocks in Bergen", "left Bergen")
    place.write("people/lindqvist.md", text)
    version = place.sync("notes")["version"]
    place.until(lambda: place.get("/v1/watches")["watches"][0]["checked"] >= version)
    opened.reload()
    before, after = opened.locator(".change .columns section").all()
    expect(before).to_contain_text("repairs clocks")
    expect(after).not_to_contain_text("repairs clocks")
    _check_usable(opened)
    opened.set_viewport_size({"width": 1100, "height": 800})
    opened.get_by_role("button", name="Stop watching").click()
    expect(opened.locator("main")).to_contain_text("You are not watching a question")


def test_sources_keep_up_by_themselves(opened: Page, view: Shown, place: Place) -> None:
    opened.goto(view.base + "/sources")
    expect(opened.locator("#now")).to_contain_text("notes ok")
    place.post("/v1/pause", {"name": "notes"})
    expect(opened.locator("#now")).to_contain_text("notes paused")
    place.post("/v1/resume", {"name": "notes"})


# The last of the file, after all views were used.
def test_nothing_came_from_other_hosts_and_no_view_broke_its_policy(view: Shown) -> None:
    assert len(view.requests) > 30
    ours = urlsplit(view.base).netloc
    assert {urlsplit(url).netloc for url in view.requests} == {ours}
    assert view.complaints == []
