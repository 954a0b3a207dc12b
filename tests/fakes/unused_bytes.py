"""The bytes of a database file that SQLite does not use, found by reading every b-tree.

This reads https://sqlite.org/fileformat2.html cell by cell and from the roots, and shares nothing
with the code that erases these bytes. Close all connections first.
"""

from contextlib import closing
from pathlib import Path

from store.engines.sqlite.database import open_file

LEAVES, TABLES = (10, 13), (5, 13)


def left_in_unused(path: Path) -> dict[int, bytes]:
    """By page, the bytes without a meaning that are not zero."""
    pages = _read(path)
    return {number: left for number in pages.used if (left := pages.left(number))}


def fill_gaps(path: Path, filler: bytes) -> None:
    """Write into the gap of every b-tree page, as if something deleted had been there."""
    pages = _read(path)
    with path.open("r+b") as file:
        for number, (start, end) in pages.gaps.items():
            file.seek((number - 1) * pages.size + start)
            file.write((filler * (end - start))[: end - start])


def _read(path: Path) -> "_Pages":
    with closing(open_file(path, "ro")) as connection:
        roots = [row[0] for row in connection.execute("SELECT rootpage FROM sqlite_master")]
    pages = _Pages(path.read_bytes())
    for root in [1, *filter(None, roots)]:
        pages.read_tree(root)
    pages.read_freelist()
    return pages


class _Pages:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = int.from_bytes(data[16:18])
        self.used: dict[int, bytearray] = {}  # by page: 1 for each byte that has a meaning
        self.gaps: dict[int, tuple[int, int]] = {}

    def __getitem__(self, number: int) -> bytes:
        return self.data[(number - 1) * self.size : number * self.size]

    def left(self, number: int) -> bytes:
        kept = zip(self[number], self.used[number], strict=True)
        return bytes(byte for byte, is_used in kept if byte and not is_used)

    def mark(self, number: int, start: int, end: int) -> None:
        used = self.used.setdefault(number, bytearray(self.size))
        used[start:end] = b"\1" * (end - start)

    def number(self, page: bytes, at: int, length: int) -> int:
        return int.from_bytes(page[at : at + length])

    def read_tree(self, number: int) -> None:
        page, head = self[number], 100 if number == 1 else 0
        kind, cells = page[head], self.number(page, head + 3, 2)
        pointers = head + (8 if kind in LEAVES else 12)
        self.mark(number, 0, pointers + 2 * cells)
        self.gaps[number] = pointers + 2 * cells, self.number(page, head + 5, 2)
        block = self.number(page, head + 1, 2)
        while block:
            self.mark(number, block, block + 4)
            block = self.number(page, block, 2)
        for cell in range(cells):
            at = self.number(page, pointers + 2 * cell, 2)
            if kind not in LEAVES:
                self.read_tree(self.number(page, at, 4))
            self.read_cell(number, page, kind, at)
        if kind not in LEAVES:
            self.read_tree(self.number(page, head + 8, 4))

    def read_cell(self, number: int, page: bytes, kind: int, start: int) -> None:
        at = start if kind in LEAVES else start + 4
        if kind == 5:
            _, at = varint(page, at)
            self.mark(number, start, at)
            return
        payload, at = varint(page, at)
        if kind == 13:
            _, at = varint(page, at)
        most = self.size - 35 if kind == 13 else (self.size - 12) * 64 // 255 - 23
        if payload <= most:
            self.mark(number, start, max(at + payload, start + 4))
            return
        least = (self.size - 12) * 32 // 255 - 23
        local = least + (payload - least) % (self.size - 4)
        local = local if local <= most else least
        self.mark(number, start, at + local + 4)
        self.read_chain(self.number(page, at + local, 4), payload - local)

    def read_chain(self, number: int, left: int) -> None:
        while left > 0:
            here = min(left, self.size - 4)
            self.mark(number, 0, 4 + here)
            number, left = self.number(self[number], 0, 4), left - here

    def read_freelist(self) -> None:
        trunk = self.number(self.data, 32, 4)
        while trunk:
            page = self[trunk]
            leaves = self.number(page, 4, 4)
            self.mark(trunk, 0, 8 + 4 * leaves)
            for leaf in range(leaves):
                self.mark(self.number(page, 8 + 4 * leaf, 4), 0, 0)
            trunk = self.number(page, 0, 4)


def varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for length in range(8):
        value = value << 7 | page[at + length] & 127
        if page[at + length] < 128:
            return value, at + length + 1
    return value << 8 | page[at + 8], at + 9
