"""Draw docs/images/answer.png: the page with an answer that takes two of the example notes.

python scripts/screenshot.py [FILE]     # needs chromium; takes about half a minute
"""

import shutil
import sys
import tempfile
from pathlib import Path

# The daemon and the browser of the end-to-end tests serve here too.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.e2e.daemon import new_place, source
from tests.fakes.browser import CHROMIUM, chromium, shown

ROOT = Path(__file__).parents[1]
QUESTION = "Who built the machine that Grace Hopper programmed?"
MAX_BYTES = 150_000


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/images/answer.png"
    if CHROMIUM is None:
        sys.exit("There is no chromium. Install it: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, new_place() as place:
        notes = Path(folder) / "notes"
        shutil.copytree(ROOT / "examples/notes", notes)
        place.configure(source("notes", notes))
        place.start()
        place.sync()
        with shown(place) as address, chromium() as browser:
            page = browser.new_page(viewport={"width": 1200, "height": 620})
            page.goto(address)
            page.fill("#q", QUESTION)
            page.keyboard.press("Enter")
            page.wait_for_selector(".card")
            page.wait_for_selector("#preview .marked")
            page.evaluate("document.activeElement.blur()")
            target.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=target)
    if target.stat().st_size > MAX_BYTES:
        sys.exit(f"{target} has {target.stat().st_size} bytes; at most {MAX_BYTES} are allowed")


if __name__ == "__main__":
    main()
