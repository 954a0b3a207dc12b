"""Screenshots of every view of the page, in light and dark, at three widths.

python scripts/page_screenshots.py [FOLDER]     # default: /tmp/page-shots; needs chromium
"""

import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote_plus

# The daemon and the browser of the end-to-end tests serve here too.
sys.path.insert(0, str(Path(__file__).parents[1]))
from playwright.sync_api import Page

from tests.e2e.daemon import Place, new_place, source
from tests.fakes.browser import chromium, shown

ROOT = Path(__file__).parents[1]
QUESTION = "Who built the machine that Grace Hopper programmed?"
WIDTHS = {1280: 860, 768: 1024, 320: 640}
EDITS = (
    ("people/lord-byron.md", "He died in 1824", "He died on 19 April 1824"),
    ("people/luigi-menabrea.md", "born in Chambéry.", "born in Chambéry, in the old town."),
)


def main() -> None:
    """Draw all views, and print which are wider than their window."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/page-shots")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as base, new_place() as place:
        notes = Path(base) / "notes"
        shutil.copytree(ROOT / "examples/notes", notes)
        _prepare(place, notes)
        passage = place.query("Grace Hopper")[0]["id"]
        with shown(place) as address, chromium() as browser:
            page = browser.new_page()
            page.goto(address)
            page.wait_for_selector("#q")
            start = page.url.rstrip("/")
            for name, path in _views(passage).items():
                _draw(page, start + path, folder / name)


def _prepare(place: Place, notes: Path) -> None:
    """Index the notes, watch a question, and edit some of them."""
    place.configure(source("notes", notes))
    place.start()
    place.sync()
    place.run("watch", "Where did Lord Byron die?")
    (notes / "scan.pdf").write_text("%PDF-1.4 broken")
    for path, old, new in EDITS:
        text = (notes / path).read_text(encoding="utf-8")
        (notes / path).write_text(text.replace(old, new), encoding="utf-8")
        place.sync()


def _views(passage: str) -> dict[str, str]:
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
        "history": f"/passage/{passage}?tab=history",
        "map": "/map",
        "map-found": "/map?find=Grace+Hopper",
        "changes": "/changes",
        "version": "/changes/2",
        "compare": "/compare?q=Where+did+Lord+Byron+die%3F&old=1",
        "restore": "/restore/1",
        "watches": "/watches",
        "watched": "/watches/1",
        "sources": "/sources",
        "error": "/passage/00",
    }


def _draw(page: Page, address: str, file: Path) -> None:
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto(address)
            page.wait_for_timeout(600)  # the preview and the examples arrive
            page.screenshot(path=f"{file}-{width}-{scheme}.png")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            print(f"{file.name} is {wide} pixels wide in a window of {width}")


if __name__ == "__main__":
    main()
