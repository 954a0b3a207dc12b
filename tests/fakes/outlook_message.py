"""Outlook messages: compound files (MS-CFB) with the properties of a message (MS-OXMSG)."""

import itertools
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Properties = Mapping[int, Any]
"""Number to text, bytes, a number, a date or the storage of a message."""

Storage = Mapping[str, Any]
"""Name to bytes or to another storage."""

_SECTOR, _MINI_SECTOR, _MINI_LIMIT = 512, 64, 4096
_FREE, _END, _FAT, _NONE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF
_STORAGE, _STREAM, _ROOT = 1, 2, 5
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)


def message(
    properties: Properties,
    recipients: Sequence[Properties] = (),
    attachments: Sequence[Properties] = (),
    *,
    codec: str = "",
    header_bytes: int = 32,
) -> Storage:
    """The storage of a message; text is UTF-16 unless a `codec` is given."""
    storage = dict(_properties(properties, header_bytes, codec))
    for number, one in enumerate(recipients):
        storage[f"__recip_version1.0_#{number:08X}"] = _properties(one, 8, codec)
    for number, one in enumerate(attachments):
        storage[f"__attach_version1.0_#{number:08X}"] = _properties(one, 8, codec)
    return storage


def embedded(storage: Storage) -> Storage:
    """The storage of a message that is attached to another: its header is shorter."""
    own = storage["__properties_version1.0"]
    return {**storage, "__properties_version1.0": own[:24] + own[32:]}


def _properties(properties: Properties, header: int, codec: str) -> Storage:
    streams: dict[str, Any] = {}
    table = bytes(header)
    for number, value in properties.items():
        if isinstance(value, int):
            table += struct.pack("<HHIIxxxx", 0x0003, number, 6, value)
        elif isinstance(value, datetime):
            ticks = int((value - _EPOCH).total_seconds()) * 10**7
            table += struct.pack("<HHIQ", 0x0040, number, 6, ticks)
        else:
            if isinstance(value, str):
                kind = 0x001E if codec else 0x001F
                data = value.encode(codec or "utf-16-le")
            else:
                kind, data = (0x0102 if isinstance(value, bytes) else 0x000D), value
            streams[f"__substg1.0_{number:04X}{kind:04X}"] = data
            table += struct.pack("<HHIIxxxx", kind, number, 6, len(data))
    return {**streams, "__properties_version1.0": table}


def compound_file(root: Storage) -> bytes:
    """A compound file, version 3, with these streams and storages."""
    return _Writer(root).data()


def reverse_sectors(file: bytes) -> bytes:
    """The same compound file with its sectors in reverse order: as Outlook does, it has the table
    of sectors before the content."""
    sectors = [file[index : index + _SECTOR] for index in range(_SECTOR, len(file), _SECTOR)]

    def moved(number: int) -> int:
        return len(sectors) - 1 - number if number < len(sectors) else number

    head = bytearray(file[:_SECTOR])
    numbers = struct.unpack_from("<109I", head, 76)
    tables = b"".join(sectors[number] for number in numbers if number < len(sectors))
    chain = struct.unpack(f"<{len(tables) // 4}I", tables)
    new_chain = list(chain)
    for number in range(len(sectors)):
        new_chain[moved(number)] = moved(chain[number])
    table = struct.pack(f"<{len(chain)}I", *new_chain)
    for index, number in enumerate(numbers):
        if number < len(sectors):
            sectors[number] = table[index * _SECTOR : (index + 1) * _SECTOR]
            struct.pack_into("<I", head, 76 + 4 * index, moved(number))
    (number,) = struct.unpack_from("<I", head, 48)
    while number < len(sectors):
        entries = bytearray(sectors[number])
        for begin in range(0, _SECTOR, 128):
            start, size = struct.unpack_from("<IQ", entries, begin + 116)
            if size >= _MINI_LIMIT or entries[begin + 66] == _ROOT:
                struct.pack_into("<I", entries, begin + 116, moved(start))
        sectors[number] = bytes(entries)
        number = chain[number]
    for place in (48, 60):
        struct.pack_into("<I", head, place, moved(struct.unpack_from("<I", head, place)[0]))
    return bytes(head) + b"".join(reversed(sectors))


class _Writer:
    def __init__(self, root: Storage) -> None:
        self._sectors: list[bytes] = []
        self._fat: list[int] = []
        self._mini, self._mini_fat = b"", list[int]()
        self._entries: list[list[int | str]] = [["Root Entry", _ROOT, _NONE, _NONE, 0, 0]]
        self._entries[0][3] = self._children(root)

    def data(self) -> bytes:
        self._entries[0][4:6] = self._stored(self._mini), len(self._mini)
        mini_fat = self._stored(struct.pack(f"<{len(self._mini_fat)}I", *self._mini_fat))
        directory = self._stored(b"".join(map(_entry, self._entries)))
        fat_sectors = -(-len(self._fat) // 127)
        first = len(self._fat)
        assert fat_sectors <= 109
        self._fat += [_FAT] * fat_sectors
        self._fat += [_FREE] * (fat_sectors * 128 - len(self._fat))
        fat = struct.pack(f"<{len(self._fat)}I", *self._fat)
        numbers = [*range(first, first + fat_sectors), *[_FREE] * (109 - fat_sectors)]
        magic = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
        head = struct.pack("<HHHHH6xII", 0x3E, 3, 0xFFFE, 9, 6, 0, fat_sectors)
        mini_sectors = -(-len(self._mini_fat) * 4 // _SECTOR)
        head += struct.pack("<IIIIIII", directory, 0, _MINI_LIMIT, mini_fat, mini_sectors, _END, 0)
        return magic + head + struct.pack("<109I", *numbers) + b"".join(self._sectors) + fat

    def _children(self, storage: Storage) -> int:
        """The number of the entry that leads to the others of a storage, as a list in order."""
        numbers = []
        for name in sorted(storage, key=lambda name: (len(name), name.upper())):
            value = storage[name]
            number = len(self._entries)
            numbers.append(number)
            if isinstance(value, bytes):
                self._entries.append([name, _STREAM, _NONE, _NONE, *self._placed(value)])
            else:
                self._entries.append([name, _STORAGE, _NONE, _NONE, 0, 0])
                self._entries[number][3] = self._children(value)
        for number, right in itertools.pairwise(numbers):
            self._entries[number][2] = right
        return numbers[0] if numbers else _NONE

    def _placed(self, data: bytes) -> tuple[int, int]:
        if len(data) >= _MINI_LIMIT:
            return self._stored(data), len(data)
        if not data:
            return _END, 0
        first, count = len(self._mini_fat), -(-len(data) // _MINI_SECTOR)
        self._mini_fat += [*range(first + 1, first + count), _END]
        self._mini += data.ljust(count * _MINI_SECTOR, b"\0")
        return first, len(data)

    def _stored(self, data: bytes) -> int:
        first, count = len(self._fat), -(-len(data) // _SECTOR)
        if not count:
            return _END
        self._fat += [*range(first + 1, first + count), _END]
        self._sectors.append(data.ljust(count * _SECTOR, b"\0"))
        return first


def _entry(entry: list[int | str]) -> bytes:
    name, kind, right, child, start, size = entry
    text = f"{name}\0".encode("utf-16-le")
    head = text.ljust(64, b"\0") + struct.pack("<HBBIII", len(text), kind, 1, _NONE, right, child)
    return head + bytes(36) + struct.pack("<IQ", start, size)
