"""A backup, a lost disk, and a restore on another machine: how long each takes.

A daemon indexes the passages as Markdown files and makes a backup. Then notes are added, the daemon
is killed, and its data are deleted. A second home, which has only the documents and the backups,
restores the newest backup and scans. In the end, its rows are compared with the rows of a fresh
index of the same files. The benchmark fails if a row is missing or different.

python benchmarks/backups.py --corpus 2wiki
python benchmarks/backups.py --json   # also write benchmarks/results/backups.json
"""

import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from common import JSON, arguments, dataset, table, write_markdown, write_result

from store.open_database import open_reader
from store.versions import read_head
from tests.e2e.daemon import Place, new_place, source
from tests.fakes.dump import Rows, graph_at

_ADDED = 20  # notes after the backup
_COLUMNS = ("step", "value")


def main() -> None:
    given = arguments(
        __doc__ or "", ("--corpus", {"default": "hotpotqa", "help": "Default: hotpotqa"}), JSON
    )
    corpus = dataset(given.data, given.corpus) / "corpus.jsonl"
    with TemporaryDirectory(prefix="hop-") as made, new_place() as place, new_place() as other:
        backups = Path(made)
        rows = _back_up(place, corpus, backups)
        rows += _restore(place, other, backups)
        with new_place() as fresh:
            shutil.copytree(other.notes, fresh.notes, dirs_exist_ok=True)
            fresh.configure(source("notes", fresh.notes))
            fresh.start()
            rows.append(["s to index the same files without a backup", _time(fresh.sync)])
            if _rows(fresh) != _rows(other):
                raise SystemExit("the restored database differs from a fresh index")
    rows.append(["rows that differ from a fresh index", 0])
    table(_COLUMNS, rows)
    if given.json:
        write_result("backups", _COLUMNS, rows)


def _back_up(place: Place, corpus: Path, backups: Path) -> list[list[object]]:
    files = write_markdown(corpus, place.notes / "passages")
    place.configure(f'[backup]\ndir = "{backups}"\nat = ""\n' + source("notes", place.notes))
    place.start()
    place.sync()
    took_s = _time(lambda: place.printed("backup", "now"))
    (made,) = place.printed("backup", "list")["backups"]
    size = sum(file.stat().st_size for file in backups.rglob("*") if file.is_file())
    return [
        ["documents", len(files)],
        ["MB of the backup", size / 1e6],
        ["s to make and verify the backup", took_s],
        ["version in the backup", made["version"]],
    ]


def _restore(place: Place, other: Place, backups: Path) -> list[list[object]]:
    """Lose the data of `place`, and restore them in `other`."""
    for number in range(_ADDED):
        place.write(f"added/{number}.md", f"# Ledger {number}\n\nBrannoc {number} keeps it.\n")
    place.sync()
    before = _rows(place)
    place.kill()
    shutil.rmtree(place.home)
    shutil.rmtree(other.notes)
    place.notes.rename(other.notes)
    (newest,) = [folder for folder in backups.iterdir() if not folder.name.startswith(".")]
    kept = (newest / "config.toml").read_text(encoding="utf-8")
    other.configure(kept.replace(str(place.base), str(other.base)))
    began_s = time.monotonic()
    restored_s = _time(lambda: _restore_newest(other))
    started_s = _time(other.start)
    scanned_s = _time(other.sync)
    answers = other.query(f"Who keeps ledger {_ADDED - 1}?")
    if not any(f"Brannoc {_ADDED - 1} " in passage["text"] for passage in answers):
        raise SystemExit("a note that was written after the backup is not found")
    whole_s = time.monotonic() - began_s
    if _rows(other) != before:
        raise SystemExit("the restored database differs from the lost one")
    return [
        ["s to restore it elsewhere", restored_s],
        ["s until the daemon answers", started_s],
        [f"s to index the {_ADDED} notes written after the backup", scanned_s],
        ["minutes from the lost disk to current answers", whole_s / 60],
    ]


def _restore_newest(place: Place) -> None:
    ran = place.run("backup", "restore", "latest", timeout_s=3600.0)
    if ran.returncode:
        raise SystemExit(ran.stderr)


def _rows(place: Place) -> Rows:
    with closing(open_reader(place.home / "data/hopsyncd.db")) as connection:
        newest = read_head(connection)
        assert newest
        return graph_at(connection, newest.id)


def _time(run: Callable[[], object]) -> float:
    began_s = time.monotonic()
    run()
    return time.monotonic() - began_s


if __name__ == "__main__":
    main()
