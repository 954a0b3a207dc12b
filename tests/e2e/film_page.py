"""The page of a small collection of films in Chromium, with what it asked of the network."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.films import FILMS
from tests.fakes.browser import PATIENCE_S, shown, violations

QUESTION = "Where did Mira Kaltenbrunn, director of The Bronze Door, grow up?"
ASKED = "/?q=Where+did+Mira+Kaltenbrunn%2C+director+of+The+Bronze+Door%2C+grow+up%3F"
MOVED = "# Mira Kaltenbrunn\n\nMira Kaltenbrunn grew up in the harbour of Vasterholm. She paints.\n"


@contextmanager
def film_place() -> Iterator[Place]:
    """A daemon with the films, a document that changed, a broken one and a lost folder."""
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

    def check_network(self) -> None:
        """Assert that all requests went to the page itself, and that no view broke its policy."""
        ours = urlsplit(self.base).netloc
        assert {urlsplit(url).netloc for url in self.requests} == {ours}
        assert self.complaints == []


@contextmanager
def film_page(place: Place, browser: Browser) -> Iterator[Shown]:
    """The page of the place. At the end its requests are checked."""
    with shown(place) as address:
        context = browser.new_context(viewport={"width": 1100, "height": 800})
        context.set_default_timeout(1000 * PATIENCE_S)
        requests: list[str] = []
        context.on("request", lambda request: requests.append(request.url))
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#q")
        made = Shown(page.url.rstrip("/"), context, requests, [])
        yield made
        context.close()
    made.check_network()


def wait_until(page: Page, script: str) -> None:
    """Wait for a script to be true. The page's policy forbids what `wait_for_function` does."""
    until_s = time.monotonic() + PATIENCE_S
    while not page.evaluate(script):
        assert time.monotonic() < until_s, script
        page.wait_for_timeout(50)


def check_usable(page: Page) -> None:
    expect(page.locator("h1")).to_have_count(1)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(Axe().run(page).response["violations"]) == []
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert violations(Axe().run(page).response["violations"]) == []
