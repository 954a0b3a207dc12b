"""Reads the time and place of Outlook's appointments and tasks, as a calendar.

Outlook stores them as named properties (MS-OXOCAL, MS-OXOTASK). A file assigns a number to each of
its named properties (MS-OXMSG, 2.2.3).
"""

import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

_NAMES, _ENTRIES = "__nameid_version1.0", "__substg1.0_00030102"
_FIRST_NUMBER = 0x8000
_LOCATION, _START, _END = 0x8208, 0x820D, 0x820E
_TASK_START, _TASK_DUE = 0x8104, 0x8105
_NEVER_YEAR = 4501  # the year of the date that stands for no date


class Properties(Protocol):
    def get_line(self, *numbers: int) -> str: ...

    def get_date(self, number: int) -> datetime | None: ...


def read_named_properties(root: Any) -> dict[int, int]:
    """Return the numbers of the named properties in a file, by the identifiers of their names."""
    storage = next((storage for storage in root.storages if storage.name == _NAMES), None)
    streams = storage.streams if storage is not None else ()
    entries = next((stream.bytes_ for stream in streams if stream.name == _ENTRIES), b"")
    whole = entries[: len(entries) // 8 * 8]
    return {
        name: _FIRST_NUMBER + index
        for name, kind, index in struct.iter_unpack("<IHH", whole)
        if not kind & 1  # the other names are strings
    }


def format_event(
    title: str, kind: str, properties: Properties, numbers: Mapping[int, int]
) -> bytes | None:
    """Return the time and place of an appointment or a task as an iCalendar file. Returns None for
    other messages, and if the message states neither time nor place.

    `kind` is the class of the message, and `numbers` is the result of `read_named_properties`.
    """
    kind = kind.lower()
    if kind.startswith(("ipm.appointment", "ipm.schedule.meeting")):
        name, dates, form = "VEVENT", {"DTSTART": _START, "DTEND": _END}, "%Y%m%dT%H%M%SZ"
    elif kind.startswith("ipm.task"):
        name, dates, form = "VTODO", {"DTSTART": _TASK_START, "DUE": _TASK_DUE}, "%Y%m%d"
    else:
        return None
    known = {field: numbers[number] for field, number in dates.items() if number in numbers}
    days = {field: properties.get_date(number) for field, number in known.items()}
    found = [
        f"{field}:{day.strftime(form)}" for field, day in days.items()
        if day is not None and day.year < _NEVER_YEAR
    ]  # fmt: skip
    if _LOCATION in numbers and (place := properties.get_line(numbers[_LOCATION])):
        found.append(f"LOCATION:{_escape(place)}")
    lines = ["BEGIN:VCALENDAR", f"BEGIN:{name}", f"SUMMARY:{_escape(title)}", *found]
    text = "\r\n".join([*lines, f"END:{name}", "END:VCALENDAR", ""])
    return text.encode("utf-8", "replace") if found else None


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")
