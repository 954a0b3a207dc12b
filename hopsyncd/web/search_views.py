"""The view Ask: shows the answer with its evidence, the results, and the preview of a passage."""

import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from hopsyncd.client import RequestFailed
from hopsyncd.display import choose_document_title, format_title
from hopsyncd.web.evidence import (
    Reason,
    explain_hops,
    find_shared_name,
    group_by_document,
    make_cards,
)
from hopsyncd.web.histogram import make_histogram
from hopsyncd.web.links import Asked, Links, read_asked, read_number
from hopsyncd.web.markdown_page import MOST_CHARACTERS, render_markdown
from hopsyncd.web.pdf_views import draw_pages
from hopsyncd.web.reading import Opened, open_document
from hopsyncd.web.views import View, run_view

_ID = re.compile("[0-7][0-9a-f]{3,15}")
_MOST_K = 50
_ANSWER_K = 8  # how many passages an answer is made from
_RELATED = 8
_NEIGHBOURS = 30
_MOST_REASONS = 24


class SearchViews(View):
    """Serves the question form and its results."""

    name = "Ask"

    @run_view
    def search(self, request: Request) -> Response:
        """Show the answer and the results. Without a question or filter, show the first screen."""
        asked = read_asked(request)
        if not asked.words:
            return self.render_page(
                request, "ask.html", answer=None, opened=None, **self._prepare_welcome(request)
            )
        # Without JavaScript, a link asks the LLM. Otherwise the script does, and streams.
        results = self._search(request, asked, by_llm="llm" in request.query_params)
        opened = self._open(asked.opened, asked.at, asked.tab) if asked.opened else None
        return self.render_page(request, "ask.html", **results, opened=opened)

    @run_view
    def show_results(self, request: Request) -> Response:
        """Return only the answer and the results, for searches while the user types."""
        asked = read_asked(request)
        if not asked.words:
            return self.render_page(request, "welcome.html", **self._prepare_welcome(request))
        return self.render_part(
            request, "results.html", **self._search(request, asked, by_llm=False)
        )

    @run_view
    def show_welcome(self, request: Request) -> Response:
        """Return the first screen without the frame of the page."""
        return self.render_page(request, "welcome.html", **self._prepare_welcome(request))

    @run_view
    def show_examples(self, request: Request) -> Response:
        """Return the example questions of the first screen, which take a moment to find."""
        return self.render_part(
            request, "examples.html", examples=self.client.examples()["questions"]
        )

    def _prepare_welcome(self, request: Request) -> Mapping[str, Any]:
        """Render the first screen. The example questions are loaded separately."""
        is_asked = "examples" in request.query_params
        examples = self.client.examples()["questions"] if is_asked else None
        return {"examples": examples, "is_first": True}

    def _search(self, request: Request, asked: Asked, by_llm: bool) -> Mapping[str, Any]:
        """Search, and prepare the answer and the results for the templates."""
        filters = list(asked.filters)
        llm = None if by_llm and asked.question else False
        answer = self.client.ask(
            asked.words,
            # By default an LLM gets more passages than the page shows.
            k=None if llm is None and asked.k == _ANSWER_K else min(asked.k, _ANSWER_K),
            at=asked.at,
            llm=llm,
            strategy=asked.strategy,
            match=asked.match,
            filters=filters,
            passages=True,
        )
        passages = answer["passages"]
        if asked.k > _ANSWER_K:
            passages = self.client.query(
                asked.words,
                k=asked.k,
                at=asked.at,
                strategy=asked.strategy,
                match=asked.match,
                filters=filters,
            )["passages"]
        shown = [*passages, *answer["citations"]]
        facets, modified = self.read_modified_times(asked.at, shown, filters)
        links = Links(request, self.base, asked)
        understood = answer["understood"]
        question = understood["question"] if understood and understood["question"] else asked.words
        used = explain_hops(answer["chain"])
        explanations = explain_hops(hop for passage in passages for hop in passage["hops"])
        return {
            "answer": {**answer, "question": question},
            "cards": make_cards({**answer, "question": question}, modified),
            "groups": group_by_document(passages, question, modified),
            "facets": facets,
            "histogram": make_histogram(facets["facets"]["month"], links, asked.filters),
            "how": _group_reasons(used, explanations),
            "can_show_more": asked.k < _MOST_K and len(passages) >= _ANSWER_K,
            "opened_id": asked.opened,
        }

    @run_view
    def preview(self, request: Request) -> Response:
        """Show a passage in its document, as the preview beside the results."""
        asked = read_asked(request)
        opened = self._open(request.path_params["id"], asked.at, asked.tab)
        return self.render_part(request, "preview.html", opened=opened)

    @run_view
    def show_passage(self, request: Request) -> Response:
        """Show a passage in its document, on a separate page."""
        asked = read_asked(request)
        opened = self._open(request.path_params["id"], asked.at, asked.tab)
        opened.page = read_number(request.query_params.get("page", ""))
        if opened.is_pdf and request.query_params.get("as") == "page":
            opened.drawn, opened.problem = draw_pages(self.client, opened.passage["id"], request)
        return self.render_page(request, "document.html", opened=opened)

    def _open(self, id_: str, at: str, tab: str) -> Opened:
        if not _ID.fullmatch(id_):
            raise RequestFailed(
                404, "not_found", "The address names no passage", "Search for the passage again"
            )
        answer = self.client.passage(id_, at)
        passage, version = answer["passage"], answer["version"]
        source, document = passage["source"], passage["document"]
        # In parallel, because all requests take equally long.
        submit = self.shared.pool.submit
        times = submit(self.read_modified_times, str(version), [passage])
        written = submit(self._read_written, passage, at) if tab == "document" else None
        related = submit(self._find_related, passage, str(version)) if tab == "related" else None
        passages, changes = [passage], []
        if source is not None and document is not None:
            passages = list(self.client.document(source, document, str(version))["passages"])
            if tab == "history":
                changes = self.client.history(source, document)["changes"]
        opened = open_document(passage, passages, version)
        _, modified = times.result()
        opened.modified = next(iter(modified.values()), None)
        opened.tab = tab
        opened.questions = answer["questions"]
        opened.written = written.result() if written else None
        opened.related = related.result() if related else []
        opened.history = changes
        return opened

    def _read_written(self, passage: Mapping[str, Any], at: str) -> Markup | None:
        """Render the Markdown file of a passage.

        Returns None at earlier versions, and if the file is not Markdown, is too long, cannot be
        read, or has changed since it was indexed.
        """
        path = str(passage["document"] or "")
        if at != "head" or not path.lower().endswith((".md", ".markdown")):
            return None
        try:
            text = self.client.file(passage["source"], path)["text"]
        except RequestFailed:  # the file has changed, or is not in a folder source
            return None
        if len(text) > MOST_CHARACTERS:
            return None
        return render_markdown(text, passage["lines"], choose_document_title(passage))

    def _find_related(self, passage: Mapping[str, Any], at: str) -> list[Mapping[str, Any]]:
        """Find up to `_RELATED` passages that are related to a passage, each with the reason.

        Each is from another document, and no two are from the same document.
        """
        neighbours = self.client.neighbours(passage["id"], limit=_NEIGHBOURS, at=at)
        ends = {passage["id"]: passage for passage in neighbours["passages"]}
        related = dict[tuple[str | None, str | None], Mapping[str, Any]]()
        for edge in neighbours["edges"]:
            if passage["id"] not in (edge["from"], edge["to"]):
                continue
            leaves = edge["from"] == passage["id"]
            end = ends[edge["to"] if leaves else edge["from"]]
            key = (end["source"], end["document"])
            if key == (passage["source"], passage["document"]) or key in related:
                continue
            full = {**end, "text": end["start"]}
            name = find_shared_name(passage, full)
            reason, name = _describe_edge(edge, leaves=leaves, name=name)
            if name and name in end["heading"]:
                reason = f"{choose_document_title(passage)} mentions"
            elif name and name in passage["heading"]:
                reason = f"{choose_document_title(end)} mentions"
            related[key] = {**end, "title": format_title(end), "reason": reason, "name": name}
        return list(related.values())[:_RELATED]


def _group_reasons(used: list[Reason], others: list[Reason]) -> Mapping[str, Any]:
    used_edges = {(reason.start_id, reason.end_id) for reason in used}
    rest = [reason for reason in others if (reason.start_id, reason.end_id) not in used_edges][
        :_MOST_REASONS
    ]
    return {"used": used, "others": rest}


def _describe_edge(edge: Mapping[str, Any], *, leaves: bool, name: str) -> tuple[str, str]:
    """Return why a passage is related to another, and the name or question that connects them."""
    kind = edge["asked_by"]
    if kind in ("link", "backlink"):
        return ("Linked from this passage" if leaves else "Links to this passage"), ""
    if kind == "both":
        return "Both mention", edge.get("name") or name
    if name:
        return "Both mention", name
    asks = leaves == (kind == "from")
    return ("Answers" if asks else "Raises a question that this passage answers:"), edge["question"]
