"""Endpoints about all documents of a version, such as facets and the map, and an endpoint for
notes."""

import time
from collections.abc import Mapping, Sequence

import numpy as np

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.document_history import list_document_changes
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.facets import FacetCounts, read_modified_times
from hopsyncd.api.file_text import no_folder_document_error, read_file_text
from hopsyncd.api.map_answer import MapMaker
from hopsyncd.api.notes import write_note
from hopsyncd.api.page_images import PageImages, find_page
from hopsyncd.api.requests import (
    FacetsRequest,
    FileTextRequest,
    HistoryRequest,
    MapRequest,
    NoParameters,
    NoteRequest,
    PageImageRequest,
)
from hopsyncd.api.serving import DaemonParts
from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.responses.changes import HistoryAnswer
from hopsyncd.responses.images import MapAnswer, PageImageAnswer
from hopsyncd.responses.results import (
    ExampleQuestion,
    ExamplesAnswer,
    Facets,
    FacetsAnswer,
    FileTextAnswer,
    NoteAnswer,
)
from hopsyncd.retrieve.bridges import Bridge, find_bridges
from hopsyncd.retrieve.query_parser import parse_question
from store.transactions import snapshot
from store.visibility import Mask

_EXAMPLES = 3
_TRIED_EXAMPLES = 12
_EXAMPLE_K = 8
_EXAMPLES_S = 3.0
_KEPT_EXAMPLES = 3
_NO_FACETS: Facets = {
    "source": [],
    "type": [],
    "folder": [],
    "tag": [],
    "author": [],
    "month": [],
}


class CollectionService:
    """The endpoints about the whole collection, its history, and notes for it."""

    def __init__(self, parts: DaemonParts) -> None:
        self._parts = parts
        # By version and hidden sources. Never changed in place, because threads share it.
        self._examples: Mapping[tuple[int, Mask], list[ExampleQuestion]] = {}
        self._facets = FacetCounts()
        self._maps = MapMaker()
        self._pages = PageImages()

    @endpoint("POST", "/v1/facets", "read")
    def facets(self, request: FacetsRequest, caller: Caller) -> FacetsAnswer:
        """Count the documents that match the filters, by source, type, folder and so on."""
        acl = caller.acl
        filters = parse_question("", request.filters).filter_
        engine = self._parts.state.engine
        with engine.reading(request.at, acl, filters) as (_, head):
            degraded = self._parts.freshness.list_reasons(acl)
            if head is None:
                modified: list[str | None] = [None] * len(request.documents)
                return {
                    "version": 0,
                    "degraded": degraded,
                    "documents": 0,
                    "passages": 0,
                    "facets": _NO_FACETS,
                    "modified": modified,
                }
            return {
                "version": head.version.id,
                "degraded": degraded,
                "documents": int(np.count_nonzero(head.statistics.visible.documents)),
                "passages": head.statistics.passages,
                "facets": self._facets.count(head, filters),
                "modified": read_modified_times(head.unfiltered or head, request.documents),
            }

    @endpoint("POST", "/v1/map", "read")
    def document_map(self, request: MapRequest, caller: Caller) -> MapAnswer:
        """Group similar documents, and show the connections between documents."""
        filters = parse_question("", request.filters).filter_
        engine = self._parts.state.engine
        with engine.reading(request.at, caller.acl, filters) as (connection, head):
            answer = self._maps.make(connection, head, filters)
        return {**answer, "degraded": self._parts.freshness.list_reasons(caller.acl)}

    @endpoint("GET", "/v1/examples", "read")
    def examples(self, request: NoParameters, caller: Caller) -> ExamplesAnswer:
        """Suggest questions about the documents; each needs two documents."""
        engine = self._parts.state.engine
        with engine.reading("head", caller.acl) as (connection, head):
            if head is None:
                return {"version": 0, "questions": []}
            key = (head.version.id, head.hidden)
            stored = self._examples.get(key)
            bridges = find_bridges(connection, head, _TRIED_EXAMPLES) if stored is None else []
        if stored is None:
            stored = self._select_answerable(bridges, caller)
            self._examples = {key: stored, **dict([*self._examples.items()][: _KEPT_EXAMPLES - 1])}
        return {"version": key[0], "questions": stored}

    def _select_answerable(
        self, bridges: Sequence[Bridge], caller: Caller
    ) -> list[ExampleQuestion]:
        """Keep the questions for which the search finds both passages that they were made from."""
        engine, answerable = self._parts.state.engine, list[ExampleQuestion]()
        until_s = time.monotonic() + _EXAMPLES_S
        for bridge in bridges:
            question = f"How is {bridge.start} connected to {bridge.end}?"
            answer = engine.query(question, _EXAMPLE_K, Search("hop"), hidden=caller.acl)
            if answer and set(bridge.passages) <= {each.passage for each in answer.ranked}:
                answerable.append(
                    {"question": question, "path": [bridge.start, bridge.middle, bridge.end]}
                )
            if len(answerable) == _EXAMPLES or time.monotonic() > until_s:
                break
        return answerable

    @endpoint("GET", "/v1/file", "read")
    def file(self, request: FileTextRequest, caller: Caller) -> FileTextAnswer:
        """Read a document's text file. Fails with 404 if the file has changed since indexing.

        Also fails with 404 for other kinds of sources than folders, and for files over 1 MiB.
        """
        if not caller.acl.shows_document(request.source, request.document):
            raise no_folder_document_error(request.source, request.document)
        state = self._parts.state
        with snapshot(connection := self._parts.reader.get_connection()):
            text = read_file_text(connection, state.config, request.source, request.document)
        return {
            "version": state.version,
            "source": request.source,
            "document": request.document,
            "text": text,
        }

    @endpoint("GET", "/v1/page-image/{id}", "read")
    def page_image(self, request: PageImageRequest, caller: Caller) -> PageImageAnswer:
        """Draw a page of a PDF, and mark the places of a passage."""
        state = self._parts.state
        with state.engine.reading(request.at, caller.acl) as (connection, head):
            page = find_page(connection, head, request)
        return self._pages.draw(state.config, page)

    @endpoint("POST", "/v1/notes", "write")
    def note(self, request: NoteRequest, caller: Caller) -> NoteAnswer:
        """Write a note into the inbox folder, as a new file."""
        inbox = self._parts.state.config.mcp.inbox
        if inbox is None:
            raise BadRequest(
                "The note was not written",
                "no folder is configured for notes",
                "Set mcp.inbox to a folder",
            )
        author = "" if caller.role == "owner" else caller.name
        file = write_note(inbox, request.title, request.text, request.tags, author)
        return {"file": str(file)}

    @endpoint("GET", "/v1/history", "read")
    def history(self, request: HistoryRequest, caller: Caller) -> HistoryAnswer:
        """List a document's changes by sentence, newest first."""
        if not caller.acl.shows_document(request.source, request.document):
            raise _no_document_error(request)
        with snapshot(connection := self._parts.reader.get_connection()):
            changes = list_document_changes(
                connection, request.source, request.document, request.limit
            )
        if not changes:
            raise _no_document_error(request)
        return {
            "version": self._parts.state.version,
            "source": request.source,
            "document": request.document,
            "changes": changes,
        }


def _no_document_error(request: HistoryRequest) -> NotFound:
    return NotFound(
        f"There is no document {request.document}",
        f"no version has a document with this path in the source {request.source!r}",
        "Copy source and path from a search result",
    )
