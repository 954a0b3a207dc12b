"""How soon an edit is searchable during a big import.

A folder of invented files is imported. Every few seconds, another fact is written into a file of
the folder. The time runs from before the write until a query over the socket returns the passage
with the fact. No client requests a sync.

python benchmarks/preempt.py --files 20000 --minutes 10

With --storm, the folder is imported first. Then the same number of files is moved in at once, and
the whole folder is renamed while these files are read: the worst case for a folder.

python benchmarks/preempt.py --storm --small --files 12000
"""

import random
import time
from pathlib import Path

from common import answered_s, arguments, p50, p95, table

from tests.e2e.daemon import HOPSYNCD, SMALL, Place, new_place, source

_POLL_S = 0.1
_DIARIES = 5
_RENAMED_AFTER = 5  # edits
_SYLLABLES = "ba cor del fin gar hul is jo kel lor mar nes or pel quin ros sul tar ven wil".split()
_DEEDS = (
    "founded a mill near",
    "wrote letters to",
    "sold the bridge of",
    "painted the harbour of",
    "mapped the river at",
)


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--files", {"type": int, "default": 20_000}),
        ("--minutes", {"type": float, "default": 10.0, "help": "The longest run. Default: 10"}),
        ("--every", {"type": float, "default": 5.0, "help": "Seconds between two edits"}),
        ("--small", {"action": "store_true", "help": "The tests' small models"}),
        ("--storm", {"action": "store_true", "help": "Edits while files move in by thousands"}),
    )
    with new_place(SMALL if given.small else HOPSYNCD) as place:
        folder = place.base / "away" if given.storm else place.notes / "import"
        _write(folder, given.files)
        diaries = [place.write(f"diary{n}.md", "# Diary\n") for n in range(_DIARIES)]
        place.configure(source("notes", place.notes))
        place.start()
        if given.storm:
            place.sync()
            folder = folder.rename(place.notes / "import")
        began_s = time.monotonic()
        took_s: list[float] = []
        while time.monotonic() - began_s < 60 * given.minutes:
            time.sleep(given.every)
            if given.storm and len(took_s) == _RENAMED_AFTER:
                folder = folder.rename(place.notes / "renamed")
            if _is_over(place, given.files, len(took_s), given.storm):
                break
            edits = len(took_s)
            took_s.append(answered_s(place, diaries[edits % _DIARIES], edits, _POLL_S, "\n"))
        import_s = time.monotonic() - began_s
        now, made = place.status(), place.generated()
    print(
        f"{given.files} files of 40 to 80 words; in {import_s:.0f} s questions made for"
        f" {made} passages ({made / import_s:.1f} a second), {now['version']} versions\n"
    )
    table(
        ["during the import", "edits", "p50", "p95", "max"],
        [
            [
                "seconds from the write to the answer",
                len(took_s),
                *(f"{of:.2f}" for of in (p50(took_s), p95(took_s), max(took_s))),
            ]
        ],
    )


def _is_over(place: Place, files: int, edits: int, storm: bool) -> bool:
    now = place.status()
    is_busy = storm and (edits <= 2 * _RENAMED_AFTER or now["syncing"])
    return now["documents"] >= files and not is_busy


def _write(folder: Path, files: int) -> None:
    for number in range(files):
        file = folder / f"{number // 500}/{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_text(number), encoding="utf-8")


def _text(number: int) -> str:
    """A page about an invented person and place; the same number gives the same page."""
    own, place = random.Random(number), _name(random.Random(number % 97))
    first, last = _name(own), _name(own)
    sentences = [f"{first} {last} was born in {place} in {1800 + number % 150}."]
    while sum(len(sentence.split()) for sentence in sentences) < 40 + number % 35:
        year = own.randrange(1700, 1900)
        sentences.append(
            f"{last} {own.choice(_DEEDS)} {own.choice([place, _name(own)])}, where"
            f" {_name(own)} {_name(own)} had lived since {year}."
        )
    return f"# {first} {last}\n\n{' '.join(sentences)}\n"


def _name(chance: random.Random) -> str:
    return "".join(chance.choices(_SYLLABLES, k=chance.choice((2, 3)))).capitalize()


if __name__ == "__main__":
    main()
