"""The preview of a PDF: the picture of its page with the passage marked, or its text."""

import io
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect
from reportlab.pdfgen.canvas import Canvas

from hopsyncd.client import Client, RequestFailed
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.browser import opened, violations

ASKED = "/?q=Who+dredged+the+harbour%3F"


def harbours(who: str) -> bytes:
    """Two pages; the engineer stands at the end of the second."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(600, 800))
    canvas.drawString(60, 90, "Ships from Lisbon unload wine and cork in spring and autumn.")
    canvas.showPage()
    canvas.drawString(60, 60, f"The harbour was dredged by the engineer {who} in 1907.")
    canvas.save()
    return buffer.getvalue()


def client_of(place: Place) -> Client:
    return Client(place.socket)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.notes.mkdir(exist_ok=True)
        (made.notes / "harbours.pdf").write_bytes(harbours("Tove Lindqvist"))
        made.write("kept.md", "# Kept\n\nA note about nothing.\n")
        made.configure(source("notes", made.notes, "scan_every_s = 3600.0"))
        made.start()
        made.sync("notes")
        yield made


@pytest.fixture(scope="module")
def context(place: Place, browser: Browser) -> Iterator[tuple[BrowserContext, str]]:
    with opened(place, browser, viewport={"width": 1300, "height": 500}) as page:
        yield page.context, page.url.rstrip("/")


@pytest.fixture
def page(context: tuple[BrowserContext, str]) -> Iterator[Page]:
    page = context[0].new_page()
    page.goto(context[1] + ASKED)
    yield page
    page.close()


def test_the_preview_shows_the_page_with_the_passage_marked_and_in_view(page: Page) -> None:
    for number in (1, 2):  # the passage goes on from one page to the other
        name = f"Page {number} of harbours.pdf, with the passage marked"
        expect(page.get_by_role("img", name=name)).to_be_visible()
    expect(page.locator("#preview rect[data-marked]").first).to_be_in_viewport()
    assert page.locator("#preview image").first.evaluate(
        "async one => { const made = new Image(); made.src = one.href.baseVal;"
        " await made.decode(); return made.naturalWidth; }"
    ) == 1100  # fmt: skip
    expect(page.locator("#preview .as-text")).not_to_have_attribute("open", "")


def test_a_click_on_the_page_shows_it_large_with_its_neighbours(page: Page) -> None:
    page.locator("#preview .pdf-page a").first.click()
    expect(page.get_by_role("img", name="Page 1 of harbours.pdf")).to_be_visible()
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("img", name="Page 2 of harbours.pdf")).to_be_visible()
    expect(page.get_by_role("img", name="Page 1 of harbours.pdf")).to_have_count(0)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(Axe().run(page).response["violations"]) == []


def test_without_scripts_the_text_is_shown_and_a_link_leads_to_the_page(
    context: tuple[BrowserContext, str], browser: Browser, place: Place
) -> None:
    passage = place.query("Who dredged the harbour?")[0]["id"]
    plain = browser.new_context(java_script_enabled=False, storage_state=context[0].storage_state())
    page = plain.new_page()
    page.goto(f"{context[1]}/passage/{passage}")
    expect(page.locator("#marked")).to_contain_text("Tove Lindqvist")
    page.get_by_role("link", name="Show the page of the PDF").click()
    expect(page.get_by_role("img", name="with the passage marked").first).to_be_visible()
    plain.close()


def test_an_older_version_shows_the_page_only_while_the_file_is_the_same(
    page: Page, place: Place, context: tuple[BrowserContext, str]
) -> None:
    passage = place.query("Who dredged the harbour?")[0]["id"]
    first = client_of(place).status()["version"]
    place.write("kept.md", "# Kept\n\nA note about something.\n")
    place.sync("notes")
    assert client_of(place).page_image(passage, str(first))["boxes"]
    file = place.notes / "harbours.pdf"
    before = file.read_bytes()
    file.write_bytes(harbours("Ansgar Nyborg"))
    with pytest.raises(RequestFailed, match="has changed since it was indexed"):
        client_of(place).page_image(passage, str(first))
    page.goto(f"{context[1]}/passage/{passage}?at={first}")
    expect(page.locator(".pdf")).to_contain_text("has changed since it was indexed")
    expect(page.locator("#marked")).to_contain_text("Tove Lindqvist")
    file.write_bytes(before)
    place.sync("notes")


def test_a_passage_of_another_type_has_no_page(place: Place) -> None:
    passage = next(
        passage["id"] for passage in place.query("A note") if passage["document"] == "kept.md"
    )
    with pytest.raises(RequestFailed, match="not in a PDF"):
        client_of(place).page_image(passage)
