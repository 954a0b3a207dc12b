"""Screenshots of every view of the page, in light and dark, at three widths.

python scripts/page_screenshots.py [FOLDER [VIEW...]]    # default: all, in /tmp/page-shots
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
from tests.e2e.team_page import Server, browser_context, log_in, server_with_provider
from tests.fakes.browser import chromium, opened
from tests.fakes.certificates import Authority
from tests.fakes.endpoint import Endpoint, Response, stream, user_text

ROOT = Path(__file__).parents[1]
QUESTION = "Who built the machine that Grace Hopper programmed?"
FOLLOW_UP = "And where did he learn of it?"
DREDGED = "Who dredged the harbour of Missolonghi?"
LOOMS = "Who repairs the looms of the mill?"
DIED = "Where did Lord Byron die?"
WIDTHS = {1280: 860, 768: 1024, 320: 640}
PATIENCE_S = 120.0
IMPORTED = 4000
UNFOLDED = {
    "how": ("ask", "details.how"),
    "how-all": ("ask", "details.how, details.how details"),
    "filters": ("ask", "#facets"),
    "versions": ("ask", "#versions"),
    "past-versions": ("past", "#versions"),
    "settings": ("sources", "main details.settings"),
    "version-passages": ("version", "main details"),
}
# More notes: a page of HTML, tables, code and a mail.
ADDED = {
    "mill.html": """<title>The mill at Lyon</title>
<h1>The mill at Lyon</h1><p>Forty looms stood in two rows, with <b>cards</b> for each pattern.</p>
<h2>Repairs</h2><p>The looms of the mill are repaired by Odile Perrin, who keeps a list.</p>
<table><tr><th>Loom</th><th>Fault</th><th>Mended</th></tr>
<tr><td>4</td><td>torn card chain</td><td>3 March</td></tr>
<tr><td>17</td><td>worn hooks, and a needle that sticks when the air is damp</td><td>9 May</td></tr>
</table><ul><li>Oil on Mondays</li><li>New needles by post from Saint-Étienne</li></ul>""",
    "todo.md": """---
tags: [engines, reading]
author: Ada
---
# To do

- [x] Read Menabrea's article
- [ ] Find the looms' list of [the mill](mill.html)

```python
def bernoulli(n):
    return sum(comb(n + 1, k) * bernoulli(k) for k in range(n)) / -(n + 1)
```

| engine | built | parts |
| --- | --- | --- |
| Difference Engine | 1853 | 15000 |
| Analytical Engine | never | |
""",
    "letters/1833-06-05-to-the-secretary-of-the-royal-astronomical-society.eml": (
        "From: ada@example.org\nTo: secretary@example.org\nDate: Wed, 05 Jun 1996 10:00:00 +0000\n"
        "Subject: An evening at Mr Babbage's\nContent-Type: text/plain; charset=utf-8\n\n"
        "We saw the small engine turn. Mr Babbage showed it to us on Monday evening.\n"
    ),
}
EDITS = (
    ("people/lord-byron.md", "He died in 1824", "He died on 19 April 1824"),
    ("people/luigi-menabrea.md", "born in Chambéry.", "born in Chambéry, in the old town."),
)


def _yearly(sentence: str, first: int, count: int) -> str:
    """One sentence for each year, each with different figures."""
    years = range(first, first + count)
    return " ".join(sentence.format(year, 7 + year % 11, 90 + year * 37 % 400) for year in years)


REPORT = (
    ("Title", "The harbour of Missolonghi"),
    (
        "BodyText",
        _yearly("In {} the bar was {} feet deep, and {} ships waited outside it.", 1840, 22),
    ),
    ("Heading2", "The works of 1907"),
    ("BodyText", "The harbour was dredged by the engineer Tove Lindqvist in 1907."),
    ("BodyText", "The channel is six metres deep, and reaches the old quay and the salt works."),
    ("Heading2", "Trade"),
    ("BodyText", _yearly("In {} it shipped {} tons of salt and {} of currants.", 1908, 80)),
)


def main() -> None:
    """Draw all views, and print which are wider than their window."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/page-shots")
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        _draw_empty(browser, folder)
        _draw_import(browser, folder)
        _draw_logins(browser, folder)
        _draw_thread(browser, folder)
        _draw_notes(browser, folder)


def _draw_notes(browser: Browser, folder: Path) -> None:
    """Draw the views of a folder of notes with some history."""
    with tempfile.TemporaryDirectory() as base, new_place() as place:
        notes = Path(base) / "notes"
        shutil.copytree(ROOT / "examples/notes", notes)
        _prepare(place, notes)
        asked = (
            "Grace Hopper",
            DREDGED,
            "Lord Byron",
            LOOMS,
            "bernoulli comb",
            "small engine turn",
        )
        passages = [place.query(one)[0]["id"] for one in asked]
        views = _views(*passages)
        with opened(place, browser) as page:
            start = page.url.rstrip("/")
            for name, path in views.items():
                _draw(page, start + path, folder / name)
            for name, (view, parts) in UNFOLDED.items():
                page.set_viewport_size({"width": 1280, "height": 860})
                page.goto(start + views[view])
                for part in page.locator(parts).all():
                    part.evaluate("one => { one.open = true; }")
                _draw(page, "", folder / name)
            _draw_live(page, start, notes, folder)
        with opened(place, browser, java_script_enabled=False) as page:
            start = page.url.rstrip("/")
            for name in ("first", "ask", "open", "map", "sources"):
                _draw(page, start + views[name], folder / f"plain-{name}")


def _draw_live(page: Page, start: str, notes: Path, folder: Path) -> None:
    """Draw changes of an open page: an edited file, a copied citation, a paused source."""
    page.set_viewport_size({"width": 1280, "height": 860})
    page.goto(f"{start}/?q={quote_plus(DIED)}")
    page.locator(".preview-head").wait_for()
    file = notes / "people/lord-byron.md"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("at Missolonghi", "in a house at Missolonghi"), encoding="utf-8")
    page.locator(".card.fresh ins").first.wait_for()
    _draw(page, "", folder / "live")
    page.get_by_role("button", name="Copy").first.click()
    _draw(page, "", folder / "copied")
    page.set_viewport_size({"width": 1280, "height": 860})
    page.goto(f"{start}/?q={quote_plus(LOOMS)}")
    page.locator(".preview-head").wait_for()
    _draw(page, "", folder / "chosen-by-itself")
    page.goto(f"{start}/sources")
    page.locator("#source-notes").get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").wait_for()
    _draw(page, "", folder / "paused")
    _draw(page, f"{start}/?q={quote_plus(QUESTION)}", folder / "paused-ask")


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


def _draw_import(browser: Browser, folder: Path) -> None:
    """Draw the views of a new user during the first import."""
    with new_place(SMALL) as place:
        for number in range(IMPORTED):
            place.write(f"{number}.md", f"# Clock {number}\n\n" + f"Clock {number} chimes. " * 40)
        place.configure(source("clocks", place.notes))
        place.start()
        with opened(place, browser) as page:
            start = page.url.rstrip("/")
            for name, path in (("first", ""), ("sources", "sources"), ("ask", "?q=Clock+chimes")):
                _draw(page, f"{start}/{path}", folder / f"import-{name}")


def _draw_logins(browser: Browser, folder: Path) -> None:
    """Draw the login and logout pages that browsers on other machines see."""
    with new_place(SMALL) as place, browser_context(browser) as context:
        server = Server(place, None, Authority(place.base))
        _draw(context.new_page(), f"{server.address}/login", folder / "login")
    with server_with_provider() as server, browser_context(browser) as context:
        page = context.new_page()
        _draw(page, f"{server.address}/login/callback?state=x&code=x", folder / "login-failed")
        for person in ("bob", "olga"):  # who may only read, and an admin
            page.set_viewport_size({"width": 1280, "height": 860})
            log_in(page, server, person)
            for view in ("", "sources"):
                name = f"{person}-{view or 'first'}"
                _draw(page, f"{server.address}/{view}", folder / name)
            page.get_by_role("button", name="Log out").click()
            _draw(page, "", folder / f"{person}-logged-out")
            context.clear_cookies()


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
    """An answer that cites the first passages. Its second half waits for `drawn`."""
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
    for path, text in ADDED.items():
        (notes / path).parent.mkdir(exist_ok=True)
        (notes / path).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "examples/notes/machines", place.notes / "copies")
    place.configure(source("notes", notes) + source("archive", place.notes))
    place.start()
    place.sync()
    place.run("watch", DIED)
    place.run("watch", LOOMS)
    place.notes.rename(place.base / "unmounted")
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


def _views(
    passage: str, report: str, edited: str, web_page: str, code: str, mail: str
) -> dict[str, str]:
    asked = f"/?q={quote_plus(QUESTION)}"
    return {
        "first": "/",
        "ask": asked,
        "open": f"{asked}&open={passage}",
        "related": f"{asked}&open={passage}&tab=related",
        "filtered": f"{asked}&f=path:people/",
        "none": "/?q=How+many+moons+does+Saturn+have%3F",
        "weak": "/?q=What+did+the+engineers+of+Savoy+think+of+needles%3F",
        "nothing": f"{asked}&f=type:xlsx",
        "typing-error": "/?q=Jacqard+lom",
        "exact": "/?q=zxqv&match=exact",
        "long": f"/?q={quote_plus(' '.join([QUESTION] * 6))}",
        "past": f"{asked}&at=1",
        "document": f"/passage/{passage}",
        "history": f"/passage/{edited}?tab=history",
        "pdf": f"/?q={quote_plus(DREDGED)}&open={report}",
        "pdf-document": f"/passage/{report}",
        "pdf-page": f"/passage/{report}?page=2",
        "html": f"/?q={quote_plus(LOOMS)}&open={web_page}",
        "html-document": f"/passage/{web_page}",
        "code": f"/?q=bernoulli&open={code}",
        "mail": f"/?q=small+engine&open={mail}",
        "map": "/map",
        "map-found": "/map?find=Grace+Hopper",
        "changes": "/changes",
        "version": "/changes/2",
        "compare-empty": "/compare",
        "compare": f"/compare?q={quote_plus(DIED)}&old=1",
        "restore": "/restore/1",
        "watches": "/watches",
        "watched": "/watches/1",
        "watched-same": "/watches/2",
        "watch-form": f"/watches?q={quote_plus(QUESTION)}",
        "sources": "/sources",
        "removing": "/sources?remove=notes",
        "error": "/passage/00",
    }


def _draw(page: Page, address: str, file: Path) -> None:
    """Draw the page at each width and in each colour scheme, if this view was asked for.

    Without an address, the page is not loaded again, so a running answer continues.
    """
    if sys.argv[2:] and file.name not in sys.argv[2:]:
        return
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            if address:
                page.goto(address)
            page.wait_for_timeout(600)  # the preview and the examples arrive
            has_column = (
                page.locator(".preview:visible").count() > 0
            )  # which is as high as the window
            page.screenshot(path=f"{file}-{width}-{scheme}.png", full_page=not has_column)
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            print(f"{file.name} is {wide} pixels wide in a window of {width}")


if __name__ == "__main__":
    main()
