"""A real Chromium, and the page that `hopsyncd web` shows in it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.e2e.daemon import Place
from tests.fakes.forked import ForkedProcess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PATIENCE_S = 60.0  # a busy machine is no fault of the page's
expect.set_options(timeout=1000 * PATIENCE_S)


def got(address: str, **more: Any) -> httpx2.Response:
    """The answer to a GET that no browser sent."""
    return httpx2.get(address, timeout=PATIENCE_S, **more)


@contextmanager
def chromium(*more: str) -> Iterator[Browser]:
    """A browser without a window; the test skips where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    # Its own sandbox needs rights that root in a container lacks.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*flags, *more])
        except Error as error:
            pytest.skip(f"chromium does not start here: {error.message.splitlines()[0]}")
        yield browser
        browser.close()


@contextmanager
def shown(place: Place, *flags: str) -> Iterator[str]:
    """The one-time address that `hopsyncd web` prints; it runs until the end."""
    environment = {**os.environ, "HOPSYNCD_HOME": str(place.home), "PYTHONUNBUFFERED": "1"}
    with TemporaryDirectory() as folder:
        printed, errors = Path(folder, "printed"), Path(folder, "errors")
        program = ["hopsyncd", "web", "--no-browser", *flags]
        running = ForkedProcess(program, Path.cwd(), environment, printed, errors)
        try:
            place.until(lambda: running.poll() is not None or _has_line(printed))
            yield printed.read_text().partition("\n")[0].strip()
        finally:
            running.terminate()
            assert running.wait(60) == 0, errors.read_text()


def _has_line(file: Path) -> bool:
    return file.exists() and "\n" in file.read_text()


@contextmanager
def opened(place: Place, browser: Browser, **more: Any) -> Iterator[Page]:
    """The page that `hopsyncd web` shows, in a context of its own, made with `more` settings."""
    with shown(place) as address:
        context = browser.new_context(**more)
        context.set_default_timeout(1000 * PATIENCE_S)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#q")
        yield page
        context.close()


@contextmanager
def other_site(html: str) -> Iterator[tuple[str, list[str]]]:
    """A page of another port of this machine, and the cookies that browsers sent there."""
    cookies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", cookies
    finally:
        server.shutdown()
        server.server_close()


def violations(found: list[dict[str, object]]) -> list[str]:
    """Everything that axe finds, however small."""
    return [f"{one['id']}: {one['help']}: {one['nodes']}" for one in found]
