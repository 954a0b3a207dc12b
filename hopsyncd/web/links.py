"""Builds the links of the web interface. The links keep the current version, question and
filters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from hopsyncd.config.values import MATCHES, STRATEGIES, Match, Strategy
from hopsyncd.web.rendering import format_query

MAX_DIGITS = 9
_K = 8
_MOST = 50
_MAX_FILTERS = 20
_HEAD = "head"


@dataclass(frozen=True, slots=True)
class Asked:
    """The fields of the search form.

    question: the question, which may be empty. opened: the passage in the preview. tab: the visible
    part of the preview.
    """

    question: str
    filters: Sequence[str]
    k: int
    strategy: Strategy | None
    match: Match
    at: str
    opened: str
    tab: str

    @property
    def words(self) -> str:
        """The words to search for. Without a question, these are the values of the filters."""
        return self.question or " ".join(self.filters)


def read_asked(request: Request) -> Asked:
    """Read the search from a request. Invalid values are left out."""
    query = request.query_params
    strategy, match, tab = query.get("strategy"), query.get("match"), query.get("tab", "")
    filters = dict.fromkeys(text.strip() for text in query.getlist("f"))
    return Asked(
        question=query.get("q", "").strip(),
        filters=[filter_ for filter_ in filters if filter_][:_MAX_FILTERS],
        k=min(max(read_number(query.get("k", "")) or _K, 1), _MOST),
        strategy=strategy if strategy in STRATEGIES else None,
        match=match if match in MATCHES else "auto",
        at=query.get("at", "").strip() or _HEAD,
        opened=query.get("open", "").strip(),
        tab=tab if tab in ("related", "history") else "document",
    )


def read_number(text: str) -> int | None:
    """Parse a positive number in a query string. Returns None for other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) or None if is_number else None


class Links:
    """Builds links for the templates, based on the current request."""

    def __init__(self, request: Request, base: str, asked: Asked) -> None:
        self._base = base
        self._asked = asked
        self.here_path = request.url.path
        self._fields = [pair for pair in request.query_params.multi_items() if pair[0] != "part"]

    def make_template_values(self) -> Mapping[str, Any]:
        """Return the functions and values for the templates, by name."""
        return {
            "url": self.make_url,
            "at_version": self.link_to_version,
            "here_path": self.here_path,
            "here_fields": [pair for pair in self._fields if pair[0] not in ("at", "open", "tab")],
            "now_url": self.link_to_version(""),
            "open_url": self.open_url,
            "close_url": self._make_search_url(),
            "toggled": self.toggle_filter,
            "with_filters": lambda added: self.replace_filters((), added),
            "more_url": self._make_search_url(k=_MOST),
            "asked_query": format_query(self._make_search_fields()),
        }

    def make_url(self, path: str, **fields: Any) -> str:
        """Return the link to a path, at the version in view."""
        query = format_query({**fields, "at": self._asked.at})
        return f"{self._base}{path}{'?' if query else ''}{query}"

    def link_to_version(self, version: object) -> str:
        """Return the link to the current view at another version."""
        fields = dict[str, list[str]]()
        for name, value in self._fields:
            if name not in ("at", "open", "tab"):
                fields.setdefault(name, []).append(value)
        query = format_query({**fields, "at": version})
        return f"{self.here_path}{'?' if query else ''}{query}"

    def open_url(self, passage: str, tab: str = "document") -> str:
        """Return the link to the current search with a passage in the preview."""
        shown = None if tab == "document" else tab
        return f"{self._make_search_url(open=passage, tab=shown)}#preview"

    def toggle_filter(self, text: str) -> str:
        """Return the link to the search with the filter added, or removed if the filter is
        active."""
        filters = [filter_ for filter_ in self._asked.filters if filter_ != text]
        if len(filters) == len(self._asked.filters):
            filters.append(text)
        return self._make_search_url(f=filters)

    def replace_filters(self, keys: Sequence[str], added: Sequence[str]) -> str:
        """Return the link to the search with the filters of these keys replaced by `added`."""
        remaining = [
            filter_ for filter_ in self._asked.filters if filter_.partition(":")[0] not in keys
        ]
        return self._make_search_url(f=[*remaining, *added])

    def _make_search_url(self, **fields: Any) -> str:
        query = format_query(self._make_search_fields() | fields)
        return f"{self._base}/{'?' if query else ''}{query}"

    def _make_search_fields(self) -> dict[str, Any]:
        asked = self._asked
        return {
            "q": asked.question,
            "f": asked.filters,
            "k": asked.k if asked.k != _K else None,
            "strategy": asked.strategy,
            "match": asked.match if asked.match != "auto" else None,
            "at": asked.at,
        }
