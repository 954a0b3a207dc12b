"""How long the views of the page take: from the request to the last byte, and to a browser's load.

An invented collection (benchmarks/invented.py) through the real daemon with models that cost
nothing (benchmarks/fast_daemon.py), and `hopsyncd web` over it. `load` is that of a Chromium, if
there is one: navigation to the load event, assets included.

python benchmarks/page.py --passages 10000
"""

import random
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

import httpx2
from common import arguments, p50, p95, table
from invented import collection

from tests.e2e.daemon import Place, new_place, source
from tests.fakes.browser import chromium, shown

_ASKED = 30


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
            cookie = http.cookies.get("hopsyncd")
            print(f"load in Chromium, p50 ms: {_loaded(base, cookie or '', questions):.0f}")


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


def _loaded(base: str, cookie: str, questions: Sequence[str]) -> float:
    with chromium() as browser:
        context = browser.new_context()
        context.add_cookies([{"name": "hopsyncd", "value": cookie, "url": base}])
        page = context.new_page()
        times = []
        for one in questions[:10]:
            began_s = time.perf_counter()
            page.goto(f"{base}/?q={quote(one)}", wait_until="load")
            times.append((time.perf_counter() - began_s) * 1000)
        return p50(times)


if __name__ == "__main__":
    main()
