"""How the database grows under edits, and what gc gives back.

One file of a folder is edited again and again, a version each; then everything but the newest
version is collected, while a reader goes on asking. The questions are the built-in ones, the
vectors come from the tests' stand-in for the encoder: of the real size (384 components), without
the real time.

python benchmarks/growth.py
"""

import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from common import arguments, p95, table

from hopsyncd.models.questions import BuiltinMaker
from store.sqlite.database import Connection, open_reader, snapshot
from store.sqlite.gc import GcResult, Retention, collect
from store.sqlite.search import nearest, postings
from store.sqlite.space import file_bytes, truncate_wal
from store.sqlite.versions import version
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

_DIMENSIONS = 384
_FILE_PASSAGES = 10  # of the file that is edited, as of the others
_LATER_MS = 10**12


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--passages", {"type": int, "default": 2000}),
        ("--edits", {"type": int, "default": 1000}),
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "growth.db"
        files = MemoryConnector(
            {f"{n}.md": _text(n, 0) for n in range(given.passages // _FILE_PASSAGES)}
        )
        stack = Stack(path, files, BuiltinMaker(FakeLanguage(), FakeEncoder(_DIMENSIONS)))
        stack.sync()
        start, first = _size(stack.connection), stack.head.id
        began_s = time.monotonic()
        for edit in range(1, given.edits + 1):
            files.put("0.md", _text(0, edit))
            stack.sync()
        edits_s = time.monotonic() - began_s
        edited = _size(stack.connection)
        added = _added(stack.connection, first)
        idle, _ = _asked(path, stack.head.id, None)
        busy, done = _asked(path, stack.head.id, stack.connection)
        left = _size(stack.connection)
        stack.close()
    print(
        f"{given.passages} passages, {given.edits} edits of one file of {_FILE_PASSAGES} passages"
        f" ({edits_s / given.edits * 1000:.0f} ms each); stand-in encoder, {_DIMENSIONS}"
        " components\n"
    )
    table(
        ["database", "bytes", "of the start"],
        [
            ["at the start", f"{start:,}", "1.00"],
            ["after the edits", f"{edited:,}", f"{edited / start:.2f}"],
            ["grown by", f"{edited - start:,}", f"{(edited - start) / start:.2f}"],
            ["content and rows that the edits added", f"{added:,}", f"{added / start:.2f}"],
            ["after gc", f"{left:,}", f"{left / start:.2f}"],
        ],
    )
    if done:
        print(
            f"gc: {done[1]:.2f} s, {len(done[0].versions)} versions, {done[0].lives} lives,"
            f" {done[0].matches} matches, {done[0].question_sets} question sets\n"
        )
    table(
        ["search of one reader, ms", "p50", "p95", "max"],
        [
            [name, *(f"{1000 * of:.1f}" for of in (float(np.median(took)), p95(took), max(took)))]
            for name, took in (("writer idle", idle), ("during gc", busy))
        ],
    )


def _text(file: int, edit: int) -> bytes:
    """A document whose middle paragraph changes with each edit, as small edits do."""
    paragraphs = []
    for n in range(_FILE_PASSAGES):
        told = edit if n == _FILE_PASSAGES // 2 else 0
        paragraphs.append(
            f"# Part {file} {n}\n\nThe engineer Ada{file} met Babbage{n} in Rome{told}."
            f" Turin{told} lies near Milan{n}, and Caesar{file} wrote of Turin{told} there."
        )
    return "\n\n".join(paragraphs).encode()


def _size(connection: Connection) -> int:
    truncate_wal(connection, wait=True)
    return file_bytes(connection)


def _added(connection: Connection, first: int) -> int:
    """The bytes of the columns of every row that came after the version `first`."""
    total = 0
    for sql in (
        "SELECT sum(length(CAST(p.text AS BLOB)) * 2 + length(heading) + 24) FROM passage AS p"
        " WHERE id IN (SELECT passage FROM life WHERE born > ?)",
        "SELECT sum(length(s.vectors) + 40) FROM question_set AS s"
        " WHERE id IN (SELECT question_set FROM life WHERE born > ?)",
        "SELECT sum(length(CAST(text AS BLOB)) + length(keywords) + 40) FROM question"
        " WHERE question_set IN (SELECT question_set FROM life WHERE born > ?)",
        f"SELECT count(*) * ({_DIMENSIONS} * 4 + 80) FROM life WHERE born > ?",
        "SELECT count(*) * 80 FROM match WHERE born > ?",
        "SELECT count(*) * 70 FROM document WHERE born > ?",
        "SELECT count(*) * 40 FROM placement AS p JOIN document AS d ON d.id = p.document"
        " WHERE d.born > ?",
        "SELECT sum(length(reason) + length(rules) + length(counters) + 70) FROM version"
        " WHERE id > ?",
    ):
        total += connection.execute(sql, [first]).fetchone()[0]
    return int(total)


def _asked(
    path: Path, number: int, writer: Connection | None
) -> tuple[list[float], tuple[GcResult, float] | None]:
    """Seconds of each search of one reader for a second, or while gc works; and the gc."""
    took: list[float] = []
    ended = threading.Event()

    def ask() -> None:
        reader = open_reader(path)
        query = np.arange(_DIMENSIONS, dtype=np.int16)
        while not ended.is_set():
            began_s = time.monotonic()
            with snapshot(reader):
                at = version(reader, number)
                assert nearest(reader, at, query, 20)
                postings(reader, "rome")
            took.append(time.monotonic() - began_s)

    thread = threading.Thread(target=ask)
    thread.start()
    began_s = time.monotonic()
    done = None
    if writer:
        done = collect(writer, Retention(1, 0), _LATER_MS), time.monotonic() - began_s
    else:
        time.sleep(1)
    ended.set()
    thread.join()
    return took, done


if __name__ == "__main__":
    main()
