"""Measure the page: its first load, a search, and the time until an open page shows a saved file.

HOPSYNCD_HOME=... python benchmarks/page.py FOLDER QUESTIONS.jsonl

FOLDER is a source of the running daemon. The benchmark adds a note to the folder, edits the note,
and removes it. Needs chromium.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from common import JSON, arguments, lines, p50, p95, table, write_result

from tests.fakes.browser import chromium

_LOADS, _SEARCHES, _EDITS = 20, 60, 25
_WAIT_MS = 15_000
_NOTE = "# Quendale lighthouse\n\nThe Quendale lighthouse has {} keepers in the tower.\n"
_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_SEARCH = """async (question) => {
  const started = performance.now();
  await (await fetch(`${document.body.dataset.base}/results?${new URLSearchParams({q: question})}`))
    .text();
  return performance.now() - started;
}"""


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("folder", {"type": Path}),
        ("questions", {"type": Path}),
        JSON,
    )
    asked = [line["question"] for line in lines(given.questions)]
    command = [sys.executable, "-m", "hopsyncd", "web", "--no-browser", "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as served,
        chromium() as browser,
    ):
        assert served.stdout
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(served.stdout.readline().strip())
        page.wait_for_selector("#q")
        start = page.url
        loads, searches, edits = [], [], []
        for _ in range(_LOADS):
            page.goto(start)
            page.wait_for_load_state("load")
            loads.append(float(page.evaluate(_LOADED)))
        for question in asked[:_SEARCHES]:
            searches.append(float(page.evaluate(_SEARCH, question)))
        note = given.folder / "quendale.md"
        note.write_text(_NOTE.format("no"), encoding="utf-8")
        time.sleep(3)
        page.goto(f"{start}?q=How+many+keepers+does+the+Quendale+lighthouse+have%3F")
        page.locator(".hit", has_text="no keepers").first.wait_for(timeout=_WAIT_MS)
        time.sleep(1)
        for number in range(100, 100 + _EDITS):
            began_s = time.monotonic()
            note.write_text(_NOTE.format(number), encoding="utf-8")
            page.locator(".hit ins, .hit .snippet", has_text=str(number)).first.wait_for(
                timeout=_WAIT_MS
            )
            edits.append((time.monotonic() - began_s) * 1000)
            time.sleep(0.7)
        note.unlink()
        served.terminate()
    steps = {
        "first load": loads,
        "search, answer and results": searches,
        "from a saved file to the open page": edits,
    }
    columns = ["step", "p50 ms", "p95 ms", "runs"]
    rows = [
        [step, round(p50(times), 1), round(p95(times), 1), len(times)]
        for step, times in steps.items()
    ]
    table(columns, rows)
    if given.json:
        write_result("page", columns, rows)


if __name__ == "__main__":
    main()
