"""The map of the collection in a real Chromium: drawn, searched, clicked, and as a list."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.films import FILMS
from tests.fakes.browser import opened

DRAWN = ".map[data-drawn]"
PIXELS = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4)
    if (data[at + 3] === 255) colours.add(`${data[at]} ${data[at + 1]} ${data[at + 2]}`);
  return colours.size;
}"""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        made.configure(source("notes", made.notes, "scan_every_s = 3600.0"))
        made.start()
        made.sync("notes")
        made.write("people/ibsen.md", "# Ruth Ibsen\n\nRuth Ibsen moves to Bergen.\n")
        made.sync("notes")
        yield made


@pytest.fixture(scope="module")
def context(place: Place, browser: Browser) -> Iterator[tuple[BrowserContext, str]]:
    with opened(place, browser, viewport={"width": 1100, "height": 800}) as page:
        yield page.context, page.url.rstrip("/")


@pytest.fixture
def page(context: tuple[BrowserContext, str]) -> Iterator[Page]:
    page = context[0].new_page()
    page.goto(f"{context[1]}/map")
    page.wait_for_selector(DRAWN)
    yield page
    page.close()


def test_the_map_draws_every_document_and_a_list_has_the_same_groups(
    page: Page, context: tuple[BrowserContext, str]
) -> None:
    expect(page.locator("canvas")).to_have_accessible_name(
        re.compile(rf"Map of {len(FILMS) + 1} documents in \d+ groups?")
    )
    assert page.locator("canvas").evaluate(PIXELS) > 10
    drawn = page.request.get(f"{context[1]}/map/data").json()
    assert sorted(drawn["documents"]["document"]) == sorted([*FILMS, "people/ibsen.md"])
    assert sum(group["documents"] for group in drawn["groups"]) == len(FILMS) + 1
    assert page.locator(".map-group").count() == len(drawn["groups"])


def test_words_find_documents_on_the_map_and_a_click_leads_to_one(page: Page) -> None:
    page.get_by_label("Find on the map").fill("Who repairs clocks?")
    first = page.locator("#map-found a").first
    expect(first).to_have_text("Tove Lindqvist")
    assert "find=Who" in page.url
    first.click()
    chosen = page.locator("#map-chosen")
    expect(chosen.get_by_role("heading", level=2)).to_have_text("Tove Lindqvist")
    expect(chosen.get_by_text("people/lindqvist.md")).to_be_visible()
    chosen.get_by_role("link", name="Open").click()
    expect(page.locator("#marked")).to_contain_text("repairs clocks")


def test_a_dot_is_chosen_by_a_click_and_its_partners_by_the_keyboard(page: Page) -> None:
    page.get_by_label("Find on the map").fill("Mira Kaltenbrunn")
    page.locator("#map-found a").first.click()  # which moves the map to its dot
    page.wait_for_timeout(600)
    title = page.locator("#map-chosen h2").inner_text()
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#map-chosen")).to_be_hidden()
    expect(page.locator("canvas")).to_be_focused()
    box = page.locator("canvas").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#map-chosen h2")).to_have_text(title)
    partner = page.locator("#map-chosen button.linklike").first
    name = partner.inner_text()
    partner.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#map-chosen h2")).to_have_text(name)


def test_the_map_is_moved_and_zoomed_by_keys(page: Page) -> None:
    canvas = page.locator("canvas")
    canvas.focus()
    picture = "canvas => canvas.toDataURL()"
    seen = {canvas.evaluate(picture)}
    for key in ("+", "ArrowRight", "ArrowDown", "-", "-"):
        page.keyboard.press(key)
        page.wait_for_timeout(500)
        seen.add(canvas.evaluate(picture))
    assert len(seen) == 6


def test_the_map_is_coloured_by_source_group_or_date(page: Page) -> None:
    colours = page.get_by_label("Colour")
    for kind, key in (("source", "notes"), ("date", re.compile(r"\d{4}-\d\d-\d\d"))):
        colours.select_option(kind)
        expect(page.locator("#map-key")).to_contain_text(key)
    colours.select_option("group")
    expect(page.locator("#map-key")).to_be_hidden()
    expect(page.locator(".map-group .dot").first).to_be_visible()


def test_the_map_of_an_older_version_has_its_documents_alone(
    page: Page, context: tuple[BrowserContext, str]
) -> None:
    page.goto(f"{context[1]}/map?at=1")
    page.wait_for_selector(DRAWN)
    expect(page.locator("#map-groups")).not_to_contain_text("Ruth Ibsen")
    expect(page.get_by_text("Your documents in version")).to_be_visible()
    drawn = page.request.get(f"{context[1]}/map/data?at=1").json()
    assert sorted(drawn["documents"]["document"]) == sorted(FILMS)


def test_an_open_map_follows_an_edit(page: Page, place: Place) -> None:
    before = page.locator("#map").get_attribute("data-drawn")
    place.write("places/oslo.md", "# Oslo\n\nOslo has an opera house of white marble.\n")
    page.wait_for_function(
        "before => document.querySelector('#map').dataset.drawn !== before", arg=before
    )
    expect(page.locator("canvas")).to_have_accessible_name(
        re.compile(rf"Map of {len(FILMS) + 2} documents")
    )
    (place.notes / "places/oslo.md").unlink()
    place.sync("notes")


def test_without_scripts_the_map_is_a_list_with_search(
    context: tuple[BrowserContext, str], browser: Browser
) -> None:
    plain = browser.new_context(java_script_enabled=False, storage_state=context[0].storage_state())
    page = plain.new_page()
    page.goto(f"{context[1]}/map")
    assert page.locator("canvas").is_hidden()
    expect(page.locator(".map-group").first).to_be_visible()
    page.get_by_label("Find on the map").fill("clocks")
    page.keyboard.press("Enter")
    page.locator("#map-found").get_by_role("link", name="Tove Lindqvist").click()
    expect(page.locator("#marked")).to_contain_text("repairs clocks")
    plain.close()
