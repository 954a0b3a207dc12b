"""The passages of other documents that the page shows beside a passage."""

from types import SimpleNamespace
from typing import Any, cast

from hopsyncd.web.search_views import SearchViews
from hopsyncd.web.views import Shared


def passage(number: str, source: str, document: str) -> dict[str, Any]:
    text = "Ada wrote a note."
    place = {"source": source, "document": document}
    return {"id": number, **place, "heading": [], "text": text, "start": text}


HERE = passage("1", "notes", "index.md")


class _FakeClient:
    def neighbours(self, start: str, limit: int, at: str) -> dict[str, Any]:
        others = [passage("2", "work", "index.md"), passage("3", "notes", "index.md")]
        edges = [{"from": start, "to": other["id"], "asked_by": "link"} for other in others]
        return {"passages": [HERE, *others], "edges": edges}


def test_a_document_with_the_same_path_in_another_source_is_another_document() -> None:
    shared = cast(Shared, SimpleNamespace(client=_FakeClient(), base="/"))
    related = SearchViews(shared)._find_related(HERE, "head")
    assert [(end["source"], end["id"]) for end in related] == [("work", "2")]
