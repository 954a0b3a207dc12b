"""Renders the HTML templates, and defines the filters that they use."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hopsyncd.display import (
    describe_doubt,
    describe_offered_filter,
    format_document_name,
    format_full_time,
    format_relative_time,
    format_title,
    pluralise,
    show_cells,
)
from hopsyncd.printable import make_printable
from hopsyncd.web.evidence import link_citations
from hopsyncd.web.word_diff import mark_changed_lines

_LAID_OUT = "\n\t"
_DAY_S = 86_400
_FILTER_LABELS = {
    "source": "Source:",
    "type": "Type:",
    "path": "Folder:",
    "tag": "Tag:",
    "author": "Author:",
    "since": "Since",
    "before": "Before",
}
_SHORT_TYPES = {
    "markdown": "md",
    "rfc822": "mail",
    "": "file",
}


def make_templates(**shared: Any) -> Environment:
    """Create the template environment, with the functions and values that all templates use."""
    templates = Environment(
        loader=PackageLoader("hopsyncd.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean_value,
    )
    templates.trim_blocks = templates.lstrip_blocks = True
    templates.globals.update(
        describe_offered_filter=describe_offered_filter,
        plural=pluralise,
        title_of=_format_title,
        document_name=format_document_name,
        show_cells=show_cells,
        **shared,
    )
    templates.filters.update(
        time=render_time,
        changed=render_change_time,
        relative=format_relative_time,
        query=format_query,
        code=mark_code,
        kind=name_document_kind,
        file=get_file_name,
        changed_lines=mark_changed_lines,
        doubt=describe_doubt,
        cite=link_citations,
        filter_label=format_filter,
        sentence=lambda text: text if text.endswith((".", "?", "!", ":")) else f"{text}.",
        capitalize_first=lambda text: text[:1].upper() + text[1:],
    )
    templates.tests["match_start"] = str.startswith
    return templates


def _format_title(passage: Mapping[str, Any]) -> str:
    return format_title(passage).replace(" > ", " \u203a ")


def _clean_value(value: object) -> object:
    """Escape control characters in a value that a template prints."""
    if isinstance(value, Markup):
        return Markup(make_printable(value, keep=_LAID_OUT))
    return make_printable(value, keep=_LAID_OUT) if isinstance(value, str) else value


def format_query(fields: Mapping[str, Any]) -> str:
    """Build the query string of a link, without empty fields and the default version.

    >>> format_query({"q": "a b", "at": "head", "k": None, "f": ["type:md", "tag:x"]})
    'q=a+b&f=type%3Amd&f=tag%3Ax'
    """
    set_parameters = {
        name: field for name, field in fields.items() if field not in (None, "", "head", [], ())
    }
    return urlencode(set_parameters, doseq=True)


def mark_code(message: str) -> Markup:
    """Render a message as HTML, with text in backticks as code.

    >>> mark_code("Run `a < b`")
    Markup('Run <code>a &lt; b</code>')
    """
    parts = (Markup("<code>{}</code>" if index % 2 else "{}").format(part)
             for index, part in enumerate(message.split("`")))  # fmt: skip
    return Markup("").join(parts)


def render_time(moment: str | None) -> Markup:
    """Render a time of the API as relative time, which shows the full time on hover."""
    if moment is None:
        return Markup("never")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment, format_full_time(moment), format_relative_time(moment)
    )


def render_change_time(moment: str, today: date | None = None) -> Markup:
    """Render the time at which a document was last changed.

    If the time is midnight UTC, only the day is shown, because some formats state only the day.

    >>> render_change_time("2026-11-26T00:00:00Z", date(2026, 11, 27))
    Markup('<time datetime="2026-11-26">yesterday</time>')
    >>> render_change_time("2024-03-15T00:00:00Z")
    Markup('<time datetime="2024-03-15">2024-03-15</time>')
    """
    then = datetime.fromisoformat(moment).astimezone(UTC)
    if then.timestamp() % _DAY_S:
        return render_time(moment)
    day = then.date()
    days = ((today or datetime.now().astimezone().date()) - day).days
    names = ("today", "yesterday", *(f"{days} days ago" for days in range(2, 7)))
    text = names[days] if 0 <= days < len(names) else day.isoformat()
    return Markup('<time datetime="{}">{}</time>').format(day.isoformat(), text)


def name_document_kind(document: str | None) -> str:
    """Return a short name for a document's type, by its path.

    >>> name_document_kind("people/ada.md"), name_document_kind("1234@example.org")
    ('md', 'mail')
    """
    name = (document or "").rpartition("/")[2]
    _, dot, ending = name.rpartition(".")
    if "@" in name:
        return "mail"
    return _SHORT_TYPES.get(ending, ending.lower()[:5]) if dot else "file"


def format_filter(condition: str) -> str:
    """Describe a filter in words. Filters that are not facets are returned unchanged.

    >>> format_filter("path:people/"), format_filter("before:2026-01"), format_filter("-tag:x")
    ('Folder: people/', 'Before 2026-01', '-tag:x')
    """
    key, _, value = condition.partition(":")
    label = _FILTER_LABELS.get(key)
    return f"{label} {value}" if label and value else condition


def get_file_name(document: str | None) -> str:
    """Return the last part of a path."""
    return (document or "").rpartition("/")[2]
