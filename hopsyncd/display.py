"""How answers are shown to people, at a terminal and on the page: titles, counts and times."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

ARROWS = {
    "from": "->",
    "to": "<-",
    "both": "--",
    "link": "=>",
    "backlink": "<=",
    "follow_up": "~>",
}
"""By `asked_by`: the end of an edge that raises its question or has the link.

"both" stands for two passages that mention the same name, and "follow_up" for a passage that a
second search found.
"""

_NAME_QUESTION = re.compile(r"\w+ is said of (.+)\?")  # as models/questions.py asks about a name
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_MOST_DAYS = 7  # older times are shown as a date


def title_of(passage: Mapping[str, Any]) -> str:
    """The headings above a passage, or the name of its document if it has none.

    >>> title_of({"heading": ["Ada", "Youth"], "document": "ada.md"})
    'Ada > Youth'
    """
    return " > ".join(passage["heading"]) or document_name(passage)


def document_name(passage: Mapping[str, Any], heading: Sequence[str] | None = None) -> str:
    """The name of a passage's document for people: subject and sender of a mail, or else the path.

    `heading` is the passage's heading, if `passage` is only one of its places. An answer that has
    no `origin` may have the name itself, as `document_name`.

    >>> document_name({"heading": ["Youth"], "document": "ada.md", "origin": None})
    'ada.md'
    >>> origin = {"author": "Ann Lee <ann@x.org>", "message_id": "1@x.org"}
    >>> document_name({"heading": ["Dinner"], "document": "1@x.org", "origin": origin})
    'Dinner (Ann Lee)'
    """
    above = passage.get("heading") if heading is None else heading
    name = passage.get("document_name") or mail_name(passage.get("origin"), above)
    return str(name or passage["document"])


def mail_name(origin: Mapping[str, str] | None, heading: Sequence[str] | None) -> str | None:
    """The subject and sender of a mail, by its origin and a heading in it; None for other files.

    >>> mail_name({"author": "<ann@x.org>", "message_id": "1@x.org"}, [])
    'Mail without a subject (ann@x.org)'
    """
    if not (origin and origin.get("message_id")):
        return None
    author = str(origin.get("author") or "")
    sender = author.partition("<")[0].strip(' "') or author.strip("<> ")
    subject = str(heading[0]) if heading else "Mail without a subject"
    return f"{subject} ({sender})" if sender and sender not in subject else subject


def mail_subject(passage: Mapping[str, Any]) -> str:
    """The subject of the mail that a passage is from; empty for other documents."""
    is_mail = bool((passage.get("origin") or {}).get("message_id"))
    return str(passage["heading"][0]) if is_mail and passage["heading"] else ""


def hop_reason(question: str) -> str:
    """Why a hop joins two passages, for people: the name that both mention, or its question.

    >>> hop_reason("What is said of the Tiber?"), hop_reason("Who signed it?")
    ('(the Tiber)', 'Who signed it?')
    """
    found = _NAME_QUESTION.fullmatch(question)
    return f"({found[1]})" if found else question


def plural(number: int, noun: str) -> str:
    """The number with its noun.

    >>> plural(1, "passage"), plural(2000, "passage")
    ('1 passage', '2,000 passages')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def relative_time(time: str | None, now: datetime | None = None) -> str:
    """A time of the API as people say it: how long ago or until then, or else the local date.

    >>> noon = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
    >>> [relative_time(f"2026-11-25T{at}+00:00", noon) for at in ("11:59:40", "11:48", "15:00")]
    ['just now', '12 min ago', 'in 3 h']
    >>> relative_time("2026-11-23T11:00:00+00:00", noon), relative_time(None)
    ('2 days ago', 'never')
    """
    if time is None:
        return "never"
    then = datetime.fromisoformat(time)
    away_s = (then - (now or datetime.now(then.tzinfo))).total_seconds()
    distance_s = abs(away_s)
    if distance_s >= _MOST_DAYS * _DAY_S:
        return then.astimezone().strftime("%Y-%m-%d %H:%M")
    if distance_s < _MINUTE_S:
        return "just now" if away_s <= 0 else "in less than a minute"
    if distance_s < _HOUR_S:
        text = f"{distance_s // _MINUTE_S:.0f} min"
    elif distance_s < _DAY_S:
        text = f"{distance_s // _HOUR_S:.0f} h"
    else:
        text = plural(int(distance_s // _DAY_S), "day")
    return f"{text} ago" if away_s < 0 else f"in {text}"


def full_time(time: str | None) -> str:
    """A time of the API in the local time zone, to the second."""
    if time is None:
        return "never"
    return datetime.fromisoformat(time).astimezone().isoformat(" ", timespec="seconds")


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
