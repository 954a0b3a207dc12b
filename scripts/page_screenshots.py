"""Screenshots of every view of the page, in light and dark, at three widths.

python scripts/page_screenshots.py [FOLDER]     # default: /tmp/page-shots; needs chromium
"""

import io
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

# The daemon and the browser of the end-to-end tests serve here too.
sys.path.insert(0, str(Path(__file__).parents[1]))
from playwright.sync_api import Browser, Page
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.team_page import Server, browser_context, server_with_provider
from tests.fakes.browser import chromium, opened
from tests.fakes.certificates import Authority
from tests.fakes.endpoint import Endpoint, Response, stream, user_text

ROOT = Path(__file__).parents[1]
QUESTION = "Who built the machine that Grace Hopper programmed?"
FOLLOW_UP = "And where did he learn of it?"
DREDGED = "Who dredged the harbour of Missolonghi?"
WIDTHS = {1280: 860, 768: 1024, 320: 640}
PATIENCE_S = 120.0
UNFOLDED = {
    "how": ("ask", "details.how"),
    "filters": ("ask", "#facets"),
    "versions": ("changes", "details.menu"),
    "settings": ("sources", "main details"),
}
EDITS = (
    ("people/lord-byron.md", "He died in 1824", "He died on 19 April 1824"),
    ("people/luigi-menabrea.md", "born in Chambéry.", "born in Chambéry, in the old town."),
)
REPORT = (
    ("Title", "The harbour of Missolonghi"),
    ("BodyText", "The lagoon is shallow, and ships of any size stayed outside the bar. " * 24),
    ("Heading2", "The works of 1907"),
    ("BodyText", "The harbour was dredged by the engineer Tove Lindqvist in 1907."),
    ("BodyText", "The channel is six metres deep and reaches the old quay. " * 9),
    ("Heading2", "The trade since"),
    ("BodyText", "Salt, fish and currants leave in autumn; timber and coal arrive. " * 75),
)


def main() -> None:
    """Draw all views, and print which are wider than their window."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/page-shots")
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        _draw_empty(browser, folder)
        _draw_logins(browser, folder)
        _draw_thread(browser, folder)
        _draw_notes(browser, folder)


def _draw_notes(browser: Browser, folder: Path) -> None:
    """Draw the views of a folder of notes with some history."""
    with tempfile.TemporaryDirectory() as base, new_place() as place:
        notes = Path(base) / "notes"
        shutil.copytree(ROOT / "examples/notes", notes)
        _prepare(place, notes)
        asked = ("Grace Hopper", DREDGED, "Lord Byron")
        passages = [place.query(one)[0]["id"] for one in asked]
        with opened(place, browser) as page:
            start = page.url.rstrip("/")
            views = _views(*passages)
            for name, path in views.items():
                _draw(page, start + path, folder / name)
            for name, (view, part) in UNFOLDED.items():
                page.goto(start + views[view])
                page.locator(part).first.evaluate("one => { one.open = true; }")
                _draw(page, "", folder / name)


def _draw_empty(browser: Browser, folder: Path) -> None:
    """Draw the views before anything is indexed."""
    with new_place(SMALL) as place:
        place.configure("")
        place.start()
        with opened(place, browser) as page:
            start = page.url.rstrip("/")
            for name in ("", "map", "changes", "compare", "watches", "sources"):
                _draw(page, f"{start}/{name}", folder / f"empty-{name or 'first'}")
            _draw(page, f"{start}/?q=Who+repairs+clocks%3F", folder / "empty-ask")


def _draw_logins(browser: Browser, folder: Path) -> None:
    """Draw what a browser of another machine meets before and after a session."""
    with new_place(SMALL) as place, browser_context(browser) as context:
        server = Server(place, None, Authority(place.base))
        _draw(context.new_page(), f"{server.address}/login", folder / "login")
    with server_with_provider() as server, browser_context(browser) as context:
        page = context.new_page()
        _draw(page, f"{server.address}/login/callback?state=x&code=x", folder / "login-failed")


def _draw_thread(browser: Browser, folder: Path) -> None:
    """Draw an LLM's answer while it is written, when it is done, and with a follow-up."""
    drawn = threading.Event()

    def play(request: dict[str, Any]) -> Response:
        return stream(_answer(request, drawn))

    with Endpoint(play) as endpoint, new_place() as place:
        shutil.copytree(ROOT / "examples/notes", place.notes, dirs_exist_ok=True)
        place.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "small"\n'
            f"input_price = 2.0\noutput_price = 10.0\ntimeout_s = {PATIENCE_S}\n"
            + source("notes", place.notes)
        )
        place.start()
        place.sync()
        with opened(place, browser) as page:
            page.locator("#q").fill(QUESTION)
            page.locator("#q").press("Enter")
            page.locator("#thread .draft", has_text="Howard").wait_for()
            _draw(page, "", folder / "thread-writing")
            drawn.set()
            page.locator("#thread .written:not(.draft)").wait_for()
            _draw(page, "", folder / "thread")
            page.get_by_label("Ask a follow-up").fill(FOLLOW_UP)
            page.get_by_label("Ask a follow-up").press("Enter")
            page.locator("#thread .turn:nth-of-type(2) .written:not(.draft)").wait_for()
            _draw(page, "", folder / "thread-follow-up")


def _answer(request: dict[str, Any], drawn: threading.Event) -> Iterator[str]:
    """An answer that cites the first passages; the half of it waits until `drawn`."""
    numbers = [
        label.partition(".")[0]
        for document in json.loads(user_text(request))["documents"]
        for label in document["passages"]
    ]
    first, second = (numbers * 2)[:2]
    if drawn.is_set():
        text = f"From **brass wheels** of Babbage's work, in an attic at Harvard [{first}]."
        yield json.dumps({"found": True, "answer": text, "citations": [int(first)]})
        return
    yield f'{{"found": true, "answer": "**Howard Aiken** conceived the Harvard Mark I [{first}], '
    drawn.wait(PATIENCE_S)
    yield f"and **IBM** built it at Endicott [{second}]."
    yield f'", "citations": [{first}, {second}]}}'


def _prepare(place: Place, notes: Path) -> None:
    """Index the notes, watch a question, and edit some of them."""
    place.configure(source("notes", notes))
    place.start()
    place.sync()
    place.run("watch", "Where did Lord Byron die?")
    (notes / "scan.pdf").write_text("%PDF-1.4 broken")
    (notes / "places/harbour.pdf").write_bytes(_report())
    for path, old, new in EDITS:
        text = (notes / path).read_text(encoding="utf-8")
        (notes / path).write_text(text.replace(old, new), encoding="utf-8")
        place.sync()


def _report() -> bytes:
    """A PDF of two pages."""
    buffer, styles = io.BytesIO(), getSampleStyleSheet()
    parts = [Paragraph(text, styles[style]) for style, text in REPORT]
    SimpleDocTemplate(buffer, title=REPORT[0][1]).build(parts)
    return buffer.getvalue()


def _views(passage: str, report: str, edited: str) -> dict[str, str]:
    asked = f"/?q={quote_plus(QUESTION)}"
    return {
        "first": "/",
        "ask": asked,
        "open": f"{asked}&open={passage}",
        "related": f"{asked}&open={passage}&tab=related",
        "filtered": f"{asked}&f=path:people/",
        "none": "/?q=How+many+moons+does+Saturn+have%3F",
        "past": f"{asked}&at=1",
        "document": f"/passage/{passage}",
        "history": f"/passage/{edited}?tab=history",
        "pdf": f"/?q={quote_plus(DREDGED)}&open={report}",
        "pdf-document": f"/passage/{report}",
        "pdf-page": f"/passage/{report}?page=2",
        "map": "/map",
        "map-found": "/map?find=Grace+Hopper",
        "changes": "/changes",
        "version": "/changes/2",
        "compare-empty": "/compare",
        "compare": "/compare?q=Where+did+Lord+Byron+die%3F&old=1",
        "restore": "/restore/1",
        "watches": "/watches",
        "watched": "/watches/1",
        "sources": "/sources",
        "error": "/passage/00",
    }


def _draw(page: Page, address: str, file: Path) -> None:
    """Pictures of the page at each width and in each scheme.

    Without an address they show the page as it stands: what is being written there goes on.
    """
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            if address:
                page.goto(address)
            page.wait_for_timeout(600)  # the preview and the examples arrive
            page.screenshot(path=f"{file}-{width}-{scheme}.png")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            print(f"{file.name} is {wide} pixels wide in a window of {width}")


if __name__ == "__main__":
    main()
