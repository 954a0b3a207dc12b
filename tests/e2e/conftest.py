"""One daemon with the real models for most tests, and places of their own for the others."""

import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.e2e.daemon import Place, new_place, source
from tests.e2e.film_page import Shown, film_page, film_place
from tests.e2e.films import FILMS
from tests.e2e.team_page import browser_context
from tests.fakes.browser import chromium


@pytest.fixture
def place() -> Iterator[Place]:
    """A home where nothing is configured and nothing runs."""
    with new_place() as made:
        yield made


@pytest.fixture(scope="session")
def daemon() -> Iterator[Place]:
    """A running daemon; every test keeps to a folder of its own in `notes`.

    Its data lies inside the watched folder. The source `away` is for the test that takes it away.
    """
    with new_place() as made:
        for path, text in FILMS.items():
            made.write(path, text)
        (made.base / "away").mkdir()
        (made.base / "away/kept.md").write_text("The lighthouse keeper is called Ansgar Nyborg.\n")
        made.configure(
            f'[daemon]\ndata_dir = "{made.notes}/own"\n[watch]\ndebounce_ms = 100\n'
            + source("notes", made.notes)
            + source("away", made.base / "away")
        )
        made.python = sys.executable  # as users start it
        made.start()
        made.sync()
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A context of the browser that accepts the certificates of servers in tests."""
    with browser_context(browser) as made:
        yield made


@pytest.fixture(scope="module")
def films() -> Iterator[Place]:
    with film_place() as made:
        yield made


@pytest.fixture(scope="module")
def view(films: Place, browser: Browser) -> Iterator[Shown]:
    """The page of the films."""
    with film_page(films, browser) as made:
        yield made


@pytest.fixture
def opened(view: Shown) -> Iterator[Page]:
    """A new tab with the first screen of the films' page."""
    page = view.page()
    yield page
    page.close()
