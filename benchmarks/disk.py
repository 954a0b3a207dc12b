"""Measures the disk space of a data folder, by part, for benchmarks/scale.py."""

import sqlite3
from contextlib import closing
from pathlib import Path

OTHER = "other tables"
# By the beginning of the names of their tables and indexes.
_TABLES = {
    "question_set": "vectors of questions",
    "question": "questions",
    "match": "matches",
    "passage": "texts",
}
_FILES = {
    "exact.bin": "index: vectors",  # of hopsyncd 0.3 and older
    "remainders.bin": "index: vectors",
    "codes.bin": "index: codes of vectors",
    "passage_codes.bin": "index: codes of vectors",
}
_COLUMNS = "index: columns"
PARTS = (*_TABLES.values(), OTHER, *dict.fromkeys(_FILES.values()), _COLUMNS)


def measure(data: Path, passages: int) -> dict[str, float]:
    """The bytes on disk per passage, by part."""
    parts = dict.fromkeys(PARTS, 0.0)
    for name, size in _table_bytes(data / "hopsyncd.db"):
        part = next((part for start, part in _TABLES.items() if name.startswith(start)), OTHER)
        parts[part] += size / passages
    for file in (data / "index").glob("*"):
        parts[_FILES.get(file.name, _COLUMNS)] += file.stat().st_blocks * 512 / passages
    return parts


def _table_bytes(database: Path) -> list[tuple[str, int]]:
    """The bytes of each table and index, or of the whole file if this SQLite cannot report them."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(
                "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"
            ).fetchall()
    except sqlite3.OperationalError:
        return [("all tables", database.stat().st_size)]
