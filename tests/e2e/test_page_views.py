"""The views beside the search: changes, sources and watches; and all views for everybody."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.daemon import Place
from tests.e2e.film_page import (
    ASKED,
    Shown,
    check_usable,
)
from tests.e2e.films import FILMS

VIEWS = {
    "first": "/",
    "results": ASKED,
    "filtered": f"{ASKED}&f=path:people/",
    "past": f"{ASKED}&at=1",
    "map": "/map?find=clocks",
    "group": "/map?group=1",
    "changes": "/changes",
    "version": "/changes/2",
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
    check_usable(page)
    page.close()


@pytest.mark.parametrize("tab", ["Document", "Related"])
def test_a_document_is_usable_by_everyone(opened: Page, view: Shown, tab: str) -> None:
    opened.goto(view.base + ASKED)
    opened.locator(".read").first.click()
    opened.get_by_role("link", name="Whole page").click()
    opened.get_by_role("navigation", name="Document").get_by_role("link", name=tab).click()
    check_usable(opened)


def test_changes_show_the_sentences_of_each_version(opened: Page) -> None:
    opened.get_by_role("link", name="Changes").click()
    item = opened.locator(".timeline > li", has_text="village").first
    expect(item.locator("ins").first).to_contain_text("harbour")
    expect(item.locator("del").first).to_contain_text("village")
    item.get_by_role("link", name="changed people/kaltenbrunn.md").click()
    expect(opened.locator("main")).to_contain_text("Version 2")
    expect(opened.locator("ins").first).to_contain_text("harbour")


def test_the_first_version_is_shown_as_the_first(opened: Page, view: Shown) -> None:
    opened.goto(view.base + "/changes/1")
    expect(opened.locator("main")).to_contain_text("This is the first version")


def test_a_question_at_two_versions_shows_what_changed(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.get_by_role("link", name="How the answer changed").click()
    opened.get_by_label("Earlier version").fill("1")
    with opened.expect_navigation():
        opened.get_by_role("button", name="Compare").click()
    before, after = opened.locator(".sides section").all()
    expect(before.locator(".changed").first).to_be_visible()
    expect(after.locator(".changed").first).to_be_visible()
    expect(after.locator("ins", has_text="Vasterholm").first).to_be_visible()
    expect(before).not_to_contain_text("Vasterholm")


def test_sources_show_their_health_and_what_cannot_be_read(opened: Page) -> None:
    opened.get_by_role("link", name="Sources").click()
    expect(opened.locator(".source.paused")).to_contain_text("No such file or directory")
    expect(opened.locator(".source.ok")).to_contain_text("12")
    expect(opened.locator("main")).to_contain_text("broken.pdf")


def test_a_question_is_watched_and_its_change_shown_before_and_after(
    opened: Page, view: Shown, films: Place
) -> None:
    opened.goto(view.base + "/?q=Who+repairs+clocks+in+Bergen%3F")
    opened.get_by_role("link", name="Watch this question").click()
    opened.get_by_role("button", name="Watch", exact=True).click()
    expect(opened.locator("h1")).to_have_text("Who repairs clocks in Bergen?")
    text = FILMS["people/lindqvist.md"].replace("repairs clocks in Bergen", "left Bergen")
    films.write("people/lindqvist.md", text)
    version = films.sync("notes")["version"]
    films.until(lambda: films.get("/v1/watches")["watches"][0]["checked"] >= version)
    opened.reload()
    before, after = opened.locator(".change .columns section").all()
    expect(before).to_contain_text("repairs clocks")
    expect(after).not_to_contain_text("repairs clocks")
    with opened.expect_response(lambda answer: "part=1" in answer.url):
        films.write("people/lindqvist.md", f"{text}\nHer tools stayed behind.\n")
        films.sync("notes")
    check_usable(opened)
    opened.set_viewport_size({"width": 1100, "height": 800})
    opened.get_by_role("button", name="Stop watching").click()
    expect(opened.locator("main")).to_contain_text("You are not watching any questions")


def test_the_view_of_sources_updates_by_itself(opened: Page, view: Shown, films: Place) -> None:
    opened.goto(view.base + "/sources")
    expect(opened.locator("#now .source.ok h2")).to_have_text("notes")
    films.post("/v1/pause", {"name": "notes"})
    expect(opened.locator("#now .source.paused h2").first).to_be_visible()
    films.post("/v1/resume", {"name": "notes"})
