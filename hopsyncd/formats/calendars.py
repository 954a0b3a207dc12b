"""Reads calendars (RFC 5545) and contacts (RFC 6350), which have the same line format."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from html import unescape

from hopsyncd.formats.blocks import Block

_FOLDED = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(
    r"(?:[\w-]{1,40}\.)?([A-Za-z][A-Za-z0-9-]{0,40})((?:;(?:[^:\";]|\"[^\"]*\")*)*):(.*)"
)
_PARAMETER = re.compile(r";([A-Za-z-]{1,40})=(\"[^\"]*\"|[^;]*)")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?\Z")
_DURATION = re.compile(
    r"P(?:(\d{1,5})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:\d+S)?)?\Z"
)
_ESCAPED = re.compile(r"\\([\\;,nN])")
_COMPONENTS = frozenset(("VEVENT", "VTODO", "VJOURNAL"))
_MAX_PEOPLE = 200
_HTML_BREAK = re.compile(r"<br ?/?>|</?(?:p|ul|li)>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>")

# Properties and their labels in the text.
_SHOWN = (
    ("STATUS", "Status"),
    ("DTSTART", "Start"),
    ("DTEND", "End"),
    ("DUE", "Due"),
    ("DURATION", "Duration"),
    ("RRULE", "Repeats"),
    ("LOCATION", "Place"),
    ("ORGANIZER", "Organiser"),
    ("ATTENDEE", "Attendees"),
)


_CONTACT = (
    ("NICKNAME", "Also called"),
    ("ORG", "Organisation"),
    ("TITLE", "Position"),
    ("ROLE", "Role"),
    ("EMAIL", "Mail"),
    ("TEL", "Telephone"),
    ("ADR", "Address"),
    ("URL", "Page"),
    ("BDAY", "Birthday"),
    ("NOTE", "Note"),
)
_KINDS = frozenset(("work", "home", "cell", "fax"))


@dataclass(frozen=True, slots=True)
class _Value:
    text: str
    parameters: Mapping[str, str]


@dataclass(slots=True)
class _Event:
    line: int
    values: dict[str, list[_Value]] = field(default_factory=dict)

    def get_text(self, name: str) -> str:
        values = self.values.get(name)
        return _strip_markup(values[0].text).strip() if values else ""


def read_calendar(text: str) -> tuple[Block, ...]:
    """Read events, tasks and journal entries: a heading, a line for each fact, and the description.

    Times include their time zone. Alarms and time zone definitions are left out.
    """
    return tuple(block for event in _read_events(text) for block in _make_event_blocks(event))


def read_contacts(text: str) -> tuple[Block, ...]:
    """Read contacts. Each person becomes a table row with all fields."""
    return tuple(filter(None, map(_make_contact_block, _read_events(text, frozenset(("VCARD",))))))


def _make_contact_block(card: _Event) -> Block | None:
    name_parts = _strip_markup(card.get_text("N")).split(";")
    name = card.get_text("FN") or " ".join(filter(None, [*name_parts[1:2], *name_parts[:1]]))
    parts = [" ".join(name.split())]
    for field_name, label in _CONTACT:
        values = [_format_contact_value(value) for value in card.values.get(field_name, [])]
        parts += [f"{label}: {value}" for value in dict.fromkeys(filter(None, values))]
    text = " | ".join(filter(None, parts))
    return Block("table", text, card.line, card.line, names=(parts[0],)) if text else None


def _format_contact_value(value: _Value) -> str:
    """Format the parts of a value in order, followed by the kind of the value: "+46 1 (work)"."""
    text = value.text
    if re.match(r"\A[\w.+-]{1,10}:", text) and not text.startswith("http"):
        text = text.partition(":")[2]  # without the scheme (tel:, mailto:)
    parts = (" ".join(_strip_markup(part).split()) for part in re.split(r"(?<!\\);", text))
    parts_text = ", ".join(filter(None, parts))
    if found := re.match(r"(\d{4})(\d\d)(\d\d)\Z", parts_text):
        return "-".join(found.groups())
    kinds = [kind for kind in value.parameters.get("TYPE", "").lower().split(",") if kind in _KINDS]
    return f"{parts_text} ({', '.join(kinds)})" if parts_text and kinds else parts_text


def _read_events(text: str, components: frozenset[str] = _COMPONENTS) -> Iterator[_Event]:
    event: _Event | None = None
    inner = 0  # the number of open nested components, such as alarms
    number = 1
    for line in _unfold(text):
        first, number = number, number + line.count("\n") + 1
        found = _LINE.match(_FOLDED.sub("", line))
        if not found:
            continue
        name, value = found[1].upper(), found[3]
        kind = value.strip().upper()
        if name == "BEGIN":
            if event is None and kind in components:
                event, inner = _Event(first), 0
            elif event is not None:
                inner += 1
        elif name == "END" and event is not None:
            if inner:
                inner -= 1
            else:
                yield event
                event = None
        elif event is not None and not inner:
            parameters: dict[str, str] = {}
            for key, values_text in _PARAMETER.findall(found[2]):
                before = (
                    f"{parameters[key.upper()]},"
                    if key.upper() == "TYPE" and "TYPE" in parameters
                    else ""
                )
                parameters[key.upper()] = before + values_text.strip('"')
            event.values.setdefault(name, []).append(_Value(value.strip(), parameters))
    if event is not None:  # the file is truncated
        yield event


def _unfold(text: str) -> Iterator[str]:
    """Join each line with its continuation lines."""
    waiting: list[str] = []
    for line in text.split("\n"):
        if waiting and line[:1] not in (" ", "\t"):
            yield "\n".join(waiting)
            waiting = []
        waiting.append(line.rstrip("\r"))
    if waiting:
        yield "\n".join(waiting)


def _make_event_blocks(event: _Event) -> Iterator[Block]:
    line = event.line
    title = event.get_text("SUMMARY")
    if title:
        yield Block("heading", " ".join(title.split()), line, line, level=1)
    for name, label in _SHOWN:
        if value := _format_field(event, name):
            yield Block("list_item", f"{label}: {value}", line, line)
    description = event.get_text("DESCRIPTION")
    if _HTML_BREAK.search(description):  # Google Calendar writes HTML
        description = unescape(_TAG.sub("", _HTML_BREAK.sub("\n", description)))
    for paragraph in re.split(r"\n\s*\n", description):
        if paragraph.strip():
            yield Block("paragraph", paragraph.strip(), line, line)


def _format_field(event: _Event, name: str) -> str:
    values = event.values.get(name, [])
    if name in ("ORGANIZER", "ATTENDEE"):
        return ", ".join(filter(None, map(_format_person, values[:_MAX_PEOPLE])))
    if name == "DTEND" and (last := _find_last_day(values)):
        return last if last != _format_field(event, "DTSTART") else ""
    if name in ("DTSTART", "DTEND", "DUE"):
        return _format_time(values[0]) if values else ""
    if name == "DURATION":
        return _format_duration(values[0].text) if values else ""
    if name == "RRULE":
        return _describe_rule(values[0].text) if values else ""
    if name == "STATUS":
        return event.get_text(name).lower().replace("-", " ")
    return " ".join(event.get_text(name).split())


def _find_last_day(values: Sequence[_Value]) -> str:
    """Return the last day of an all-day event, or "" for other events. The file contains the day
    after the last day."""
    if not values or not re.fullmatch(r"\d{8}", values[0].text):
        return ""
    with suppress(ValueError, OverflowError):
        return str(date.fromisoformat(values[0].text) - timedelta(days=1))
    return ""


def _format_person(value: _Value) -> str:
    """Format a person as "Ann Lee <ann@example.org>", followed by the person's reply to the
    invitation if the file states a reply."""
    address = re.sub(r"(?i)\Amailto:", "", value.text).strip()
    name = value.parameters.get("CN", "").strip()
    person = f"{name} <{address}>" if name and address and name != address else name or address
    answer = value.parameters.get("PARTSTAT", "").lower()
    return f"{person} ({answer})" if answer in ("accepted", "declined", "tentative") else person


def _format_time(value: _Value) -> str:
    """Format a date, or a time with its zone: "2026-07-01 08:00 UTC"."""
    found = _TIME.match(value.text)
    if not found:
        return value.text
    date = "-".join(found.group(1, 2, 3))
    if not found[4]:
        return date
    zone = "UTC" if found[6] else value.parameters.get("TZID", "")
    return f"{date} {found[4]}:{found[5]} {zone}".rstrip()


def _format_duration(text: str) -> str:
    """Format a duration in words.

    >>> _format_duration("PT1H30M"), _format_duration("P1D")
    ('1 hour 30 minutes', '1 day')
    """
    found = _DURATION.match(text)
    if not found:
        return text
    units = zip(found.groups(), ("week", "day", "hour", "minute"), strict=True)
    parts = [f"{int(n)} {unit}{'' if int(n) == 1 else 's'}" for n, unit in units if n]
    return " ".join(parts) or text


_EVERY = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year", "HOURLY": "hour"}
_DAYS = {
    "MO": "Monday",
    "TU": "Tuesday",
    "WE": "Wednesday",
    "TH": "Thursday",
    "FR": "Friday",
    "SA": "Saturday",
    "SU": "Sunday",
}

_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_ORDINALS = ["last", "first", "second", "third", "fourth", "fifth"]
_BYDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)\Z")


def _describe_rule(text: str) -> str:
    """Describe in words how an event repeats.

    >>> _describe_rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH;UNTIL=20261231T000000Z")
    'every 2 weeks, on Monday and Thursday, until 2026-12-31'
    >>> _describe_rule("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")
    'every year, on the fourth Thursday, in November'
    """
    fields = dict(part.split("=", 1) for part in text.upper().split(";") if "=" in part)
    unit = _EVERY.get(fields.get("FREQ", ""))
    if not unit:
        return text
    interval = fields.get("INTERVAL", "1")
    parts = [f"every {unit}" if interval == "1" else f"every {interval} {unit}s"]
    parts += _describe_days(fields)
    if "COUNT" in fields:
        parts.append(f"{fields['COUNT']} times")
    if "UNTIL" in fields:
        parts.append(f"until {_format_time(_Value(fields['UNTIL'], {}))[:10]}")
    return ", ".join(parts)


def _describe_days(fields: Mapping[str, str]) -> Iterator[str]:
    """Describe the days and months to which a rule is limited. Values that RFC 5545 does not define
    stay as written."""
    days = " and ".join(map(_describe_weekday, filter(None, fields.get("BYDAY", "").split(","))))
    places = [*filter(None, fields.get("BYSETPOS", "").split(","))]
    if days and places:
        joint = " of " if " " in days else " "
        days = f"the {' and '.join(map(_format_ordinal, places))}{joint}{days}"
    if days:
        yield f"on {days}"
    month_days = [*filter(None, fields.get("BYMONTHDAY", "").split(","))]
    if any(day.startswith("-") for day in month_days):
        yield f"on the {' and '.join(map(_format_ordinal, month_days))} day"
    elif month_days:
        yield f"on day {' and '.join(month_days)}"
    if months := [*filter(None, fields.get("BYMONTH", "").split(","))]:
        yield f"in {' and '.join(map(_format_month, months))}"


def _describe_weekday(text: str) -> str:
    """Describe a value of BYDAY: "MO" is "Monday", "-1FR" is "the last Friday"."""
    found = _BYDAY.match(text)
    if not found:
        return text
    day = _DAYS[found[2]]
    return f"the {_format_ordinal(found[1])} {day}" if found[1] else day


def _format_ordinal(text: str) -> str:
    """Write a position in words if English has a short word for it.

    >>> _format_ordinal("2"), _format_ordinal("-1"), _format_ordinal("-2"), _format_ordinal("21")
    ('second', 'last', 'second to last', '21st')
    """
    if not re.fullmatch(r"[+-]?[1-9]\d{0,2}", text, re.ASCII):
        return text
    number = int(text)
    if number < -1:
        return f"{_format_ordinal(str(-number))} to last"
    if number < len(_ORDINALS):
        return _ORDINALS[max(number, 0)]
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _format_month(text: str) -> str:
    number = int(text) if text.isdecimal() and len(text) < 3 else 0
    return _MONTHS[number - 1] if 1 <= number <= 12 else text


def _strip_markup(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], text)
