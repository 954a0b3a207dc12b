"""Formats titles, counts and times for people, at a terminal and in the web interface."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

KEPT_CLOSED = (
    "hidden from members, completely or in part: the database has a stricter access rule than the"
    " configuration, for example from before the source was removed or the database was restored"
)
"""The state of a source whose recorded access rule is stricter than its configuration."""

TO_OPEN = 'To open the source, give it `visible_to = ["members"]` and run `hopsyncd reload`'
"""The remedy for KEPT_CLOSED."""

LLM_FAILURES = {
    "queued": "not sent yet",
    "unavailable": "LLM unavailable",
    "refused": "refused by the LLM",
    "nonsense": "invalid reply",
    "budget": "limit reached",
    "failed": "call failed",
}
"""Why the LLM did not write the questions of a passage, by the kind of failure."""

HOP_VERBS = {
    "from": "raises a question that is answered in",
    "to": "answers a question from",
    "both": "shares a name with",
    "link": "links to",
    "backlink": "is linked from",
    "follow_up": "led to",
}
"""The words between the two ends of a hop, by its `asked_by`."""

_REVERSED = {"from": "to", "to": "from", "link": "backlink", "backlink": "link"}

_LINK_TEXT = re.compile(r"See (.+)\.", re.DOTALL)
# The question that models/questions.py makes about a name.
_NAME_QUESTION = re.compile(r"\w+ is said of (.+)\?")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_MOST_DAYS = 7  # older times are shown as a date


CELL_SHOWN = " \u00b7 "


def show_cells(text: str) -> str:
    """Replace the bars between the cells of table rows with dots.

    >>> show_cells("Cork: 2 | Oslo: 3")
    'Cork: 2 \u00b7 Oslo: 3'
    """
    return text.replace(" | ", CELL_SHOWN)


def format_title(passage: Mapping[str, Any]) -> str:
    """Return the headings above a passage, or the name of its document if it has no heading.

    >>> format_title({"heading": ["Ada", "Youth"], "document": "ada.md"})
    'Ada > Youth'
    """
    return " > ".join(passage["heading"]) or format_document_name(passage)


def choose_document_title(passage: Mapping[str, Any]) -> str:
    """Return the title of a passage's document: the first heading above the passage, or else the
    document's name.

    The title of a mail is its subject and sender.
    """
    name = format_document_name(passage)
    is_mail = name != passage["document"]
    return str(passage["heading"][0]) if passage["heading"] and not is_mail else name


def format_document_name(passage: Mapping[str, Any], heading: Sequence[str] | None = None) -> str:
    """Return the name of a passage's document, as people see it.

    The name of a mail is its subject and sender. The name of any other document is its path. If
    `passage` has no `heading` of its own, pass it as `heading`. If `passage` has a `document_name`,
    this name is returned.

    >>> format_document_name({"heading": ["Youth"], "document": "ada.md", "origin": None})
    'ada.md'
    >>> origin = {"author": "Ann Lee <ann@x.org>", "message_id": "1@x.org"}
    >>> format_document_name({"heading": ["Dinner"], "document": "1@x.org", "origin": origin})
    'Dinner (Ann Lee)'
    """
    above = passage.get("heading") if heading is None else heading
    name = passage.get("document_name") or format_mail_name(passage.get("origin"), above)
    return str(name or passage["document"])


def format_mail_name(origin: Mapping[str, str] | None, heading: Sequence[str] | None) -> str | None:
    """Return the subject and sender of a mail, given its origin and heading path. Returns None for
    other documents.

    >>> format_mail_name({"author": "<ann@x.org>", "message_id": "1@x.org"}, [])
    'Mail without a subject (ann@x.org)'
    """
    if not (origin and origin.get("message_id")):
        return None
    author = str(origin.get("author") or "")
    sender = author.partition("<")[0].strip(' "') or author.strip("<> ")
    subject = str(heading[0]) if heading else "Mail without a subject"
    return f"{subject} ({sender})" if sender and sender not in subject else subject


def find_mail_subject(passage: Mapping[str, Any]) -> str:
    """Return the subject of the mail that contains a passage, or "" for other documents."""
    is_mail = bool((passage.get("origin") or {}).get("message_id"))
    return str(passage["heading"][0]) if is_mail and passage["heading"] else ""


def choose_hop_verb(asked_by: str, *, is_reversed: bool = False) -> str:
    """Return the words to show between the two ends of a hop, such as "links to". `asked_by` is the
    hop's field of that name. If `is_reversed` is true, the second end comes first.

    >>> choose_hop_verb("link"), choose_hop_verb("link", is_reversed=True)
    ('links to', 'is linked from')
    """
    return HOP_VERBS[_REVERSED.get(asked_by, asked_by) if is_reversed else asked_by]


def explain_hop(question: str) -> str:
    """Return the reason for a hop: a name in both passages, the text of the link, or the question
    itself.

    >>> texts = "What is said of the Tiber?", "See Rome.", "Who signed it?"
    >>> [explain_hop(text) for text in texts]
    ['the Tiber', '"Rome"', 'Who signed it?']
    """
    if match := _NAME_QUESTION.fullmatch(question):
        return match[1]
    if match := _LINK_TEXT.fullmatch(question):
        return f'"{match[1]}"'
    return question.removeprefix("Then ")


def describe_offered_filter(offered_filter: str) -> str:
    """Return the words that describe what an offered date filter leaves.

    >>> describe_offered_filter("created-since:2026-03")
    'only documents dated in that period'
    """
    which = "dated" if offered_filter.startswith("created-") else "that changed"
    return f"only documents {which} in that period"


def describe_doubt(passages: Sequence[Mapping[str, Any]]) -> str:
    """Say that none of the passages quoted in an answer is strong. Returns "" if one is strong, or
    if strengths are unknown.

    >>> describe_doubt([{"strength": "weak"}])
    'These passages match your question only weakly.'
    >>> describe_doubt([{"strength": "weak"}, {"strength": "strong"}])
    ''
    """
    strengths = {passage["strength"] for passage in passages}
    if "strong" in strengths:
        return ""
    if "fair" in strengths:
        return "These passages may not answer your question: none matches it closely."
    return "These passages match your question only weakly." if "weak" in strengths else ""


def pluralise(number: int, noun: str) -> str:
    """Format a number with its noun.

    >>> pluralise(1, "passage"), pluralise(2000, "passage")
    ('1 passage', '2,000 passages')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_relative_time(time: str | None, now: datetime | None = None) -> str:
    """Format a time of the API relative to `now` (default: the current time). A time more than a
    week away is shown as a local date and time.

    >>> noon = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
    >>> times = "11:59:40", "11:48", "15:00"
    >>> [format_relative_time(f"2026-11-25T{time}+00:00", noon) for time in times]
    ['just now', '12 min ago', 'in 3 h']
    >>> format_relative_time("2026-11-23T11:00:00+00:00", noon), format_relative_time(None)
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
        text = pluralise(int(distance_s // _DAY_S), "day")
    return f"{text} ago" if away_s < 0 else f"in {text}"


def format_full_time(time: str | None) -> str:
    """Format a time of the API in the local time zone, to the second."""
    if time is None:
        return "never"
    return datetime.fromisoformat(time).astimezone().isoformat(" ", timespec="seconds")


def format_duration(seconds: float) -> str:
    """Format a number of seconds as a rounded duration.

    >>> format_duration(42), format_duration(600), format_duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
