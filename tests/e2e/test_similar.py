"""Pages from one template are one result, in the terminal, in JSON and on the page."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import expect

from tests.e2e.daemon import SMALL, Place, new_place
from tests.e2e.test_kept_page import configure, entered, printed
from tests.fakes.browser import PATIENCE_S, chromium
from tests.fakes.port import free_port

NOTICE = (
    "# Ticket {0}\n\nThe heating in the north wing of the library was inspected by the caretaker"
    " and found to be in good order, so the boiler stays on until the end of the winter season.\n"
)
QUESTION = "Is the heating of the library in good order?"


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for number in range(1, 5):
            made.write(f"tickets/{number}.md", NOTICE.format(number))
        made.write("roof.md", "The roof leaks in heavy rain.\n")
        configure(made, f"127.0.0.1:{free_port()}")
        made.start()
        made.sync()
        yield made


def test_similar_passages_are_listed_below_the_best(place: Place) -> None:
    found = place.query(QUESTION, k=2)
    assert [len(passage["similar"]) for passage in found] == [3, 0]
    shown = place.run("query", QUESTION, "-k", "2").stdout
    assert "and 3 similar" in shown
    assert {*re.findall(r"tickets/(\d)\.md", shown)} == {"1", "2", "3", "4"}
    with httpx2.Client(timeout=PATIENCE_S) as http:
        page = entered(http, printed(place))
        text = http.get(page, params={"q": QUESTION}).text
    assert "and 3 similar passages" in text
    similar = text.partition("and 3 similar passages")[2].partition("</details>")[0]
    assert {*re.findall(r'data-open="([^"]+)"', similar)} == {
        passage["id"] for passage in found[0]["similar"]
    }
    assert len({*re.findall(r"tickets/\d\.md", similar)}) == 3


def test_the_page_searches_for_words_as_typed(place: Place) -> None:
    with httpx2.Client(timeout=PATIENCE_S) as http:
        page = entered(http, printed(place))
        exact = http.get(page, params={"q": "the roof inspected", "match": "exact"}).text
        auto = http.get(page, params={"q": "the roof inspected", "match": "nonsense"}).text
    assert "roof.md" not in exact and "roof.md" in auto
    assert '<option value="exact" selected>' in exact and "selected" not in auto


@pytest.mark.parametrize("has_scripts", [True, False])
def test_the_field_for_exact_words_searches_again(place: Place, has_scripts: bool) -> None:
    with chromium() as browser:
        context = browser.new_context(
            java_script_enabled=has_scripts, viewport={"width": 1280, "height": 900}
        )
        context.set_default_timeout(1000 * PATIENCE_S)
        page = context.new_page()
        page.goto(printed(place))
        page.locator("#q").fill("the roof inspected")
        page.locator("#q").press("Enter")
        roof = page.locator(".group", has_text="roof.md")
        expect(roof).to_have_count(1)
        field = page.get_by_role("combobox", name="Match words")
        field.select_option("exact")
        if not has_scripts:
            page.get_by_role("region", name="Match words").get_by_role("button").click()
        expect(roof).to_have_count(0)
        expect(page).to_have_url(re.compile("match=exact"))
        expect(field).to_have_value("exact")
        page.locator("#q").fill("the roof leaks in inspected")
        page.locator("#q").press("Enter")
        expect(page).to_have_url(re.compile("leaks.*match=exact"))
        expect(roof).to_have_count(0)
