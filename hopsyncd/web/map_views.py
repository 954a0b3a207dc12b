"""The view Map: all documents in groups of similar documents, and their connections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hopsyncd.display import choose_document_title
from hopsyncd.printable import make_printable
from hopsyncd.web.links import Asked, read_asked, read_number
from hopsyncd.web.views import View, run_view

_LISTED = 6  # documents listed per group
_MOST_OF_GROUP = 500
_MOST_FOUND = 20
_FEW_FOUND = 3  # how many weak matches to show if all are weak
_LONGEST_FIND = 1000


@dataclass(frozen=True, slots=True)
class Listed:
    """A document of the map, as the list shows it."""

    title: str
    source: str
    document: str
    passage: str
    modified: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of similar documents. `documents` are the first of its `total` documents."""

    number: int
    name: str
    total: int
    documents: Sequence[Listed]


class MapViews(View):
    """Shows the map, which a script draws. Without JavaScript, the groups are shown as a list."""

    name = "Map"

    @run_view
    def show_map(self, request: Request) -> Response:
        """Show the map, and the list of its groups or of up to 500 documents of a group."""
        asked = read_asked(request)
        drawn = self.client.document_map(asked.at, asked.filters)
        only = read_number(request.query_params.get("group", ""))
        groups = list_groups(drawn, _MOST_OF_GROUP if only else _LISTED)
        if only:
            groups = groups[only - 1 : only]
        template = "map_groups.html" if "part" in request.query_params else "map.html"
        render = self.render_part if template == "map_groups.html" else self.render_page
        return render(
            request,
            template,
            drawn=drawn,
            groups=groups,
            only=only,
            **self._search(request, asked),
        )

    @run_view
    def send_data(self, request: Request) -> Response:
        """Return the map as JSON, for the script that draws it."""
        asked = read_asked(request)
        drawn = self.client.document_map(asked.at, asked.filters)
        documents = drawn["documents"]
        titles = [title and make_printable(title) for title in documents["title"]]
        return JSONResponse({**drawn, "documents": {**documents, "title": titles}})

    @run_view
    def find(self, request: Request) -> Response:
        """Return the documents that a search finds, to mark them on the map."""
        return self.render_part(
            request, "map_found.html", **self._search(request, read_asked(request))
        )

    def _search(self, request: Request, asked: Asked) -> Mapping[str, Any]:
        """Search for the field `find` of a request, and return the documents found.

        Weak matches are left out. If all matches are weak, the best `_FEW_FOUND` are returned.
        """
        words = request.query_params.get("find", "").strip()[:_LONGEST_FIND]
        if not words:
            return {"find": "", "found": [], "title": choose_document_title}
        answer = self.client.query(words, k=_MOST_FOUND, at=asked.at, filters=list(asked.filters))
        close_passages = [
            passage for passage in answer["passages"] if passage["strength"] != "weak"
        ]
        passages = {
            (passage["source"], passage["document"]): passage
            for passage in reversed(close_passages or answer["passages"][:_FEW_FOUND])
            if passage["document"]
        }
        return {
            "find": words,
            "found": [*reversed(passages.values())],
            "title": choose_document_title,
        }


def list_groups(drawn: Mapping[str, Any], most: int) -> list[Group]:
    """List the groups of a map, each with up to `most` of its most central documents."""
    documents = drawn["documents"]
    members: list[list[tuple[int, int]]] = [[] for _ in drawn["groups"]]
    for row, (group, rank) in enumerate(zip(documents["group"], documents["rank"], strict=True)):
        if rank < most:
            members[group].append((rank, row))
    return [
        Group(
            number,
            ", ".join(group["names"]) or f"Group {number}",
            group["documents"],
            [_describe(drawn, row) for _, row in sorted(documents)],
        )
        for number, (group, documents) in enumerate(
            zip(drawn["groups"], members, strict=True), start=1
        )
    ]


def _describe(drawn: Mapping[str, Any], row: int) -> Listed:
    documents = drawn["documents"]
    path = documents["document"][row]
    return Listed(
        documents["title"][row] or path.rpartition("/")[2],
        drawn["sources"][documents["source"][row]],
        path,
        documents["passage"][row],
        documents["modified"][row],
    )
