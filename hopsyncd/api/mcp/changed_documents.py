"""Finds the documents that differ between two versions, with the added and removed sentences."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hopsyncd.api.mcp.shapes import Sources
from hopsyncd.client.local_files import find_local_file

_LINES = 12  # the most lines per document
_LINE_CHARACTERS = 300
_KINDS = ("changed", "added", "removed", "renamed")
_Place = tuple[str, str]


def list_changed_documents(
    diff: Mapping[str, Any], places: Collection[_Place] | None, sources: Sources
) -> list[dict[str, Any]]:
    """List the documents that differ, edited documents first. If `places` is given, only these
    documents are listed."""
    lines = _list_sentences(diff)
    documents = []
    for kind, document in _list_documents(diff):
        place = (document["source"], document["document"])
        if places is not None and place not in places:
            continue
        path = find_local_file(*place, sources)
        shown = [line[:_LINE_CHARACTERS] for line in lines.get(place, ())]
        documents.append(
            {
                "change": kind,
                **{key: document[key] for key in ("source", "document", "was") if key in document},
                **({"path": path} if path else {}),
                **({"title": document["document_name"]} if "document_name" in document else {}),
                **({"lines": shown[:_LINES]} if shown else {}),
                **({"more_lines": len(shown) - _LINES} if len(shown) > _LINES else {}),
            }
        )
    return documents


def select_documents_about(
    about: str, diff: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]
) -> set[_Place]:
    """Select the changed documents that concern a topic.

    A document concerns a topic if a search for the topic finds it at either version with more than
    a weak match, or if a changed sentence has all words of the topic.
    """
    # These modules load SQLite and NumPy, which the server otherwise does not need.
    from hopsyncd.retrieve.sentences import list_function_terms
    from hopsyncd.text.words import list_index_terms

    documents = {
        (passage["source"], passage["document"])
        for answer in answers
        for passage in answer["passages"]
        if passage["strength"] != "weak"
    }
    terms = {*list_index_terms(about)} - list_function_terms()
    for place, lines in _list_sentences(diff).items():
        if terms and any(terms <= {*list_index_terms(line)} for line in lines):
            documents.add(place)
    return documents & {
        (document["source"], document["document"]) for _, document in _list_documents(diff)
    }


def _list_documents(diff: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _KINDS:
        for document in diff["documents"].get(kind, ()):
            yield kind, document


def _list_sentences(diff: Mapping[str, Any]) -> dict[_Place, list[str]]:
    """Return the removed and added sentences of each document."""
    return {
        (text["source"], text["document"]): [
            line for line in text["lines"] if line[:1] in ("-", "+")
        ]
        for text in diff["texts"]
    }
