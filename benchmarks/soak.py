"""Compress a day of work into minutes, and measure the growth of memory, log and descriptors: files
are edited, and the daemon is queried and restarted, without a pause.

The number of documents stays the same, so growth is a leak. Between two restarts, the first third
of the time is warm-up, and growth is counted after it.

python benchmarks/soak.py --minutes 10          # with the default models
python benchmarks/soak.py --minutes 10 --small  # with tiny models: more edits and queries
python benchmarks/soak.py --edits 10000 --small # until 10,000 edits are done
"""

import random
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

from common import arguments, p50, table

from tests.e2e.daemon import HOPSYNCD, SMALL, Place, new_place, source

_LIVES = 3
_LOOK_EVERY_S = 5.0
_TOLD_EVERY = 6  # looks
_NAMES = (
    "Ansgar",
    "Tove",
    "Mira",
    "Ximena",
    "Ostrava",
    "Bergen",
    "Lisbon",
    "Riga",
    "Turku",
    "Gent",
)
_STRATEGIES = ("hop", "hop", "hop", "bm25", "dense", "hybrid", "decompose")


@dataclass(frozen=True, slots=True)
class Look:
    """Measurements of the process at one moment."""

    life: int
    at_s: float
    own_mb: float
    mapped_mb: float
    descriptors: int
    threads: int
    wal_mb: float
    database_mb: float


@dataclass(slots=True)
class Work:
    """The work that the daemon has done."""

    edits: int = 0
    queries: int = 0
    kills: int = 0


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--minutes", {"type": float, "default": 10.0}),
        ("--edits", {"type": int, "default": 0, "help": "Instead of minutes"}),
        ("--documents", {"type": int, "default": 300}),
        ("--small", {"action": "store_true"}),
    )
    chance, work, looks = random.Random(7), Work(), list[Look]()
    with new_place(SMALL if given.small else HOPSYNCD) as place:
        # As a day would have it, gc collects and scans come many times.
        place.configure(
            '[watch]\nscan_every_s = 20.0\n[schedule]\ngc_at = "* * * * *"\njitter_s = 0.0\n'
            "[retention]\nkeep_versions = 20\nkeep_days = 0.0\n" + source("notes", place.notes)
        )
        files = [place.notes / f"{number % 20}/{number}.md" for number in range(given.documents)]
        for file in files:
            _edit(file, chance)
        for life in range(_LIVES):

            def is_over(for_s: float, until: int = given.edits * (life + 1) // _LIVES) -> bool:
                return work.edits >= until if until else for_s >= 60 * given.minutes / _LIVES

            _live(place, files, life, is_over, chance, work, looks)
        versions = place.status()["version"]
    print(f"{work.edits} edits, {versions} versions, {work.queries} queries, {work.kills} kills\n")
    _tell(looks)


def _live(
    place: Place,
    files: list[Path],
    life: int,
    is_over: Callable[[float], bool],
    chance: random.Random,
    work: Work,
    looks: list[Look],
) -> None:
    """Run the daemon once, from start to stop; the last run continues until the end."""
    place.start()
    place.sync()
    began_s = look_s = time.monotonic()
    while not is_over((now_s := time.monotonic()) - began_s):
        _edit(chance.choice(files), chance)
        work.edits += 1
        for _ in range(5):
            asked = " and ".join(chance.sample(_NAMES, 2))
            place.query(f"Where did {asked} meet?", strategy=chance.choice(_STRATEGIES))
            work.queries += 1
        place.sync()
        if now_s >= look_s:
            looks.append(_look(place, life, now_s - began_s))
            look_s += _LOOK_EVERY_S
    looks.append(_look(place, life, time.monotonic() - began_s))
    if life == _LIVES - 1:
        return
    if life % 2:
        place.kill()
        work.kills += 1
    else:
        place.stop()


def _edit(file: Path, chance: random.Random) -> None:
    """Give the file another text of the same length; sometimes delete it or create it again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    who, where, other = chance.sample(_NAMES, 3)
    day = chance.randrange(10_000)
    file.write_text(
        f"# {who} {file.stem}\n\nOn day {day} {who} met {other} in {where}. "
        f"The ledger of {where} has it on page {chance.randrange(1000)}.\n"
    )


def _look(place: Place, life: int, at_s: float) -> Look:
    assert place.process is not None
    process = Path(f"/proc/{place.process.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    database = place.home / "data/hopsyncd.db"
    wal = database.with_name("hopsyncd.db-wal")
    return Look(
        life + 1,
        at_s,
        int(status["RssAnon"].split()[0]) / 1024,
        int(status["RssFile"].split()[0]) / 1024,
        len(list((process / "fd").iterdir())),
        int(status["Threads"]),
        wal.stat().st_size / 1e6 if wal.exists() else 0.0,
        database.stat().st_size / 1e6,
    )


def _tell(looks: list[Look]) -> None:
    table(
        ["life", "at s", "own MB", "mapped MB", "descriptors", "threads", "log MB", "database MB"],
        [[one.life, round(one.at_s), *astuple(one)[2:]] for one in looks[::_TOLD_EVERY]],
    )
    rows = []
    for life in range(1, _LIVES + 1):
        own = [one for one in looks if one.life == life]
        warm = [one for one in own if one.at_s >= own[-1].at_s / 3]
        few = max(1, len(warm) // 5)
        first, last = p50([o.own_mb for o in warm[:few]]), p50([o.own_mb for o in warm[-few:]])
        held = [one.descriptors for one in warm]
        growth = f"{100 * (last / first - 1):+.1f} %"
        rows.append(
            [life, first, last, growth, f"{min(held)} to {max(held)}", max(o.wal_mb for o in own)]
        )
    print("From the end of the warm-up to the end of each life:\n")
    table(["life", "own MB", "then", "growth", "descriptors", "largest log MB"], rows)


if __name__ == "__main__":
    main()
