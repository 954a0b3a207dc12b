"""The page before anything is indexed: each view says what to do, once, and nothing untrue."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import ViewportSize, expect

from tests.e2e.daemon import SMALL, Place, new_place
from tests.e2e.test_kept_page import entered
from tests.fakes.browser import PATIENCE_S, chromium, opened, shown

WIDE: ViewportSize = {"width": 1280, "height": 860}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.configure("")
        made.start()
        yield made


@pytest.fixture(scope="module")
def views(place: Place) -> Iterator[dict[str, str]]:
    """The texts of the views in their main part."""
    paths = ("", "?q=Who+repairs+clocks%3F", "map", "changes", "sources")
    with shown(place) as address, httpx2.Client(timeout=PATIENCE_S) as http:
        page = entered(http, address)
        found = {path: http.get(f"{page.rstrip('/')}/{path}").text for path in paths}
        yield {path: main_text(html) for path, html in found.items()}


def main_text(html: str) -> str:
    main = html.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    visible = re.sub(r"<(\w+)[^>]* hidden[ >].*?</\1>", "", main, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", visible).split())


@pytest.mark.parametrize("path", ["", "?q=Who+repairs+clocks%3F", "map"])
def test_a_view_without_documents_offers_to_add_a_folder(views: dict[str, str], path: str) -> None:
    text = views[path]
    assert text.count("Nothing is indexed yet") == 1
    assert "Add a folder" in text
    assert "hopsyncd add" not in text and "0 documents" not in text


def test_a_search_without_results_claims_none(views: dict[str, str]) -> None:
    text = views["?q=Who+repairs+clocks%3F"]
    assert "do not seem to answer" not in text and "below" not in text


def test_sources_and_changes_say_once_that_there_are_none(views: dict[str, str]) -> None:
    assert views["sources"].count("hopsyncd add") == 1
    assert "Scan all" not in views["sources"] and "version 0" not in views["sources"]
    assert views["changes"].endswith("Nothing has been indexed yet.")
    assert "hopsyncd add" not in views["changes"] and "How an answer" not in views["changes"]


def test_a_search_shows_no_empty_columns(place: Place) -> None:
    with chromium() as browser, opened(place, browser, viewport=WIDE) as page:
        page.locator("#q").fill("Who repairs clocks?")
        page.locator("#q").press("Enter")
        expect(page.locator("#found")).to_contain_text("Nothing is indexed yet")
        expect(page.locator("#preview")).to_be_hidden()
        expect(page.locator("#facets")).to_be_hidden()
