"""The page by keyboard alone."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.film_page import (
    QUESTION,
    Shown,
    wait_until,
)

SHOWS_FOCUS = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
  const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
  const over = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return one !== document.body && outlined && right > left && bottom > top && one.contains(over);
}"""


def _expect_focus(page: Page, wanted: Locator) -> None:
    """The element has the focus, and whoever looks at the window sees that."""
    expect(wanted).to_be_focused()
    wait_until(page, SHOWS_FOCUS)


def _tab_to(page: Page, wanted: Locator, key: str = "Tab", most: int = 12) -> None:
    """Press the key until the element has the focus, which is seen at each step."""
    for _ in range(most):
        page.keyboard.press(key)
        wait_until(page, SHOWS_FOCUS)
        if wanted.evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"{key} does not reach it")


@pytest.mark.parametrize("width", [1280, 700])
def test_the_keyboard_alone_asks_reads_opens_watches_and_comes_back(
    opened: Page, view: Shown, width: int
) -> None:
    page, preview = opened, opened.locator("#preview")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(view.base + "/changes")
    page.keyboard.press("/")
    _expect_focus(page, page.locator("#q"))
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator(".card").first).to_be_visible()
    for number in (0, 1):
        page.keyboard.press("ArrowDown")
        _expect_focus(page, page.locator(".card .file").nth(number))
        page.keyboard.press("Enter")
        expect(preview).to_have_class(re.compile("chosen"))
        expect(preview.locator(".marked").first).to_be_visible()
        _expect_focus(page, preview.locator(".preview-body"))
        page.keyboard.press("Escape")
        expect(preview).not_to_have_class(re.compile("chosen"))
        _expect_focus(page, page.locator(".card .file").nth(number))
    page.keyboard.press("Enter")
    _expect_focus(page, preview.locator(".preview-body"))
    results = page.url
    _tab_to(page, preview.get_by_role("link", name="Whole page"), "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/passage/**")
    _expect_focus(page, page.locator("#marked, .marked").first)
    _tab_to(page, page.get_by_role("link", name="Watch the question"), "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/watches?**")
    _expect_focus(page, page.get_by_label("Question to watch"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/watches/*")
    expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
    watched = page.url
    page.go_back()  # Alt and the left arrow are for the browser's window, which is not here
    page.go_back()
    page.wait_for_url("**/passage/**")
    _tab_to(page, page.get_by_role("link", name="Results for"), "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?**")
    expect(page.locator(".card").first).to_be_visible()
    assert page.url.partition("#")[0] == results
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Watch this question").click()
    page.get_by_role("button", name="Watch", exact=True).click()
    page.wait_for_url(watched)  # it is watched only once
    _tab_to(page, page.get_by_role("button", name="Stop watching"), most=20)
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("You are not watching any questions")


def test_the_first_tab_offers_to_skip_to_the_content(opened: Page, view: Shown) -> None:
    opened.goto(view.base + "/changes")
    opened.keyboard.press("Tab")
    expect(opened.locator(".skip")).to_be_focused()
    opened.keyboard.press("Enter")
    expect(opened.locator("main")).to_be_focused()
