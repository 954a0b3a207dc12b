"""How long the views of the page take: from the request to the last byte, and to a browser's load.

An invented collection (benchmarks/invented.py) through the real daemon with models that cost
nothing (benchmarks/fast_daemon.py), and `hopsyncd web` over it. In a Chromium, if there is one: the
first load and a search, each from the navigation to the load event, assets included; and a search
as it is typed, from the last key until the results are there, with the pause that asks.

python benchmarks/page.py --passages 10000
"""

import random
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

import httpx2
import pytest
from common import arguments, p50, p95, table
from invented import collection
from playwright.sync_api import Page

from tests.e2e.daemon import Place, new_place, source
from tests.fakes.browser import chromium, shown

_ASKED = 30
_IN_BROWSER = 10


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0], ("--passages", {"type": int, "default": 10_000})
    )
    with new_place(("benchmarks.fast_daemon",)) as place:
        questions = _filled(place, given.passages)
        with shown(place) as address, httpx2.Client(timeout=60) as http:
            entered = http.get(address)
            base = address.partition("/?")[0] + entered.text.partition("url=")[2].partition('"')[0]
            base = base.rstrip("/")
            found = http.get(f"{base}/results?q={quote(questions[0])}").text
            passage = found.partition("/passage/")[2][:16]
            views: dict[str, Callable[[str], str]] = {
                "first load": lambda _: "/",
                "search with its answer": lambda one: f"/results?q={quote(one)}",
                "how it was found": lambda one: f"/how?q={quote(one)}",
                "a passage": lambda _: f"/passage/{passage}",
                "around it": lambda _: f"/around/{passage}",
                "versions": lambda _: "/versions",
                "sources": lambda _: "/sources",
            }
            rows = [_row(http, base, name, path, questions) for name, path in views.items()]
            table(["view", "p50 ms", "p95 ms"], rows)
            try:
                in_browser = _in_browser(base, http.cookies.get("hopsyncd") or "", questions)
            except pytest.skip.Exception as absent:
                print(f"not measured in a browser: {absent.msg}")
            else:
                table(["in Chromium", "p50 ms", "p95 ms"], in_browser)


def _filled(place: Place, passages: int) -> Sequence[str]:
    questions = []
    for one in collection(passages):
        place.write(one.path, one.text)
        questions.append(one.question)
    place.configure(source("notes", place.notes))
    place.start()
    place.sync()
    return random.Random(1).sample(questions, _ASKED)


def _row(
    http: httpx2.Client,
    base: str,
    name: str,
    path: Callable[[str], str],
    questions: Sequence[str],
) -> list[object]:
    times = []
    for one in questions:
        began_s = time.perf_counter()
        answer = http.get(base + path(one))
        times.append((time.perf_counter() - began_s) * 1000)
        assert answer.status_code == 200, (name, answer.text[:500])
    return [name, round(p50(times)), round(p95(times))]


def _in_browser(base: str, cookie: str, questions: Sequence[str]) -> list[list[object]]:
    first, loaded, typed = list[float](), list[float](), list[float]()
    with chromium() as browser:
        for one in questions[:_IN_BROWSER]:
            with browser.new_context() as context:  # which has kept nothing yet
                context.add_cookies([{"name": "hopsyncd", "value": cookie, "url": base}])
                page = context.new_page()
                first.append(_load_ms(page, base + "/"))
                loaded.append(_load_ms(page, f"{base}/?q={quote(one)}"))
                page.goto(base + "/")
                found = page.locator(".results li").first
                began_s = time.perf_counter()
                page.fill("#q", one)
                found.wait_for()
                typed.append((time.perf_counter() - began_s) * 1000)
    named = ("first load", first), ("search", loaded), ("search while typing", typed)
    return [[name, round(p50(times)), round(p95(times))] for name, times in named]


def _load_ms(page: Page, address: str) -> float:
    began_s = time.perf_counter()
    page.goto(address, wait_until="load")
    return (time.perf_counter() - began_s) * 1000


if __name__ == "__main__":
    main()
