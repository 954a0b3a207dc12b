"""Measure the page on a served index: first load, search, and from a saved file to the open page.

HOPSYNCD_HOME=... python benchmarks/page.py FOLDER QUESTIONS.jsonl [RESULT.json]

FOLDER is a source of the running daemon; the benchmark adds one note there, edits it, and removes
it. Needs chromium.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
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
    """Print the percentiles, and write them to a file if one is given."""
    folder, questions = Path(sys.argv[1]), Path(sys.argv[2])
    asked = [json.loads(line)["question"] for line in questions.read_text().splitlines()]
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
        note = folder / "quendale.md"
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
    found = {"load_ms": _percentiles(loads), "search_ms": _percentiles(searches)}
    found["saved_to_page_ms"] = _percentiles(edits)
    print(json.dumps(found, indent=1))
    if len(sys.argv) > 3:
        Path(sys.argv[3]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _percentiles(times_ms: list[float]) -> dict[str, float]:
    ordered = statistics.quantiles(times_ms, n=20)
    return {"p50": round(ordered[9], 1), "p95": round(ordered[18], 1), "runs": len(times_ms)}


if __name__ == "__main__":
    main()
