"""The view Changes: versions with their changed sentences, and an answer at two versions."""

from itertools import pairwise
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from hopsyncd.client import RequestFailed
from hopsyncd.web.links import read_asked, read_number
from hopsyncd.web.views import View, run_view
from hopsyncd.web.word_diff import mark_word_diff

_VERSIONS_SHOWN = 20
_DIFFED = 6  # the newest versions, whose changed sentences are shown at once
_FEW_DOCUMENTS = 4
_LINES_SHOWN = 14  # per document in the list
_DIFF_LINES = 100  # per list of documents, passages or edges


class ChangeViews(View):
    name = "Changes"

    @run_view
    def show_changes(self, request: Request) -> Response:
        """Show the newest versions, with the sentences that each changed."""
        before = read_number(request.query_params.get("before", ""))
        log = self.client.log(_VERSIONS_SHOWN, before)
        versions = log["versions"]
        texts = dict[int, Any]()
        for new, old in pairwise(versions):
            has_few = 0 < new["documents_changed"] <= _FEW_DOCUMENTS
            if len(texts) < _DIFFED and has_few and not (new["collected"] or old["collected"]):
                diff = self.client.diff(
                    str(old["version"]), str(new["version"]), _FEW_DOCUMENTS, graph=False
                )
                texts[new["version"]] = [
                    {**text, "lines": text["lines"][:_LINES_SHOWN]} for text in diff["texts"]
                ]
        context: dict[str, Any] = {"log": log, "texts": texts, "before": before}
        if "part" in request.query_params:
            return self.render_part(request, "change_list.html", **context)
        return self.render_page(request, "changes.html", **context)

    @run_view
    def show_version(self, request: Request) -> Response:
        number: int = request.path_params["number"]
        entry, previous = [*self.client.log(2, number + 1)["versions"], None, None][:2]
        if entry is None or entry["version"] != number:
            problem = RequestFailed(
                404,
                "not_found",
                f"There is no version {number}",
                "`hopsyncd log` lists the versions",
            )
            return self.render_page(request, "error.html", 404, error=problem)
        diff = None
        if previous and not (entry["collected"] or previous["collected"]):
            diff = self.client.diff(str(previous["version"]), str(number), _DIFF_LINES)
        return self.render_page(request, "version.html", entry=entry, previous=previous, diff=diff)

    @run_view
    def compare(self, request: Request) -> Response:
        """Show the answers to a question at two versions, side by side."""
        search = read_asked(request)
        parameters = request.query_params
        old, new = parameters.get("old", "").strip(), parameters.get("new", "").strip() or "head"
        sides, ranks = [], []
        if search.question and old:
            for version in (old, new):
                answer = self.client.ask(
                    search.question,
                    k=search.k,
                    strategy=search.strategy,
                    match=search.match,
                    at=version,
                    llm=False,
                    passages=True,
                )
                sides.append(answer)
                ranks.append(
                    {passage["id"]: rank for rank, passage in enumerate(answer["passages"], 1)}
                )
        return self.render_page(
            request,
            "compare.html",
            old=old,
            new=new,
            sides=sides,
            ranks=ranks,
            changed_answer=_mark_changed_answer,
        )


def _mark_changed_answer(sides: Any, side: int) -> Markup:
    """Return the answer at one version. Words that the other answer lacks are marked."""
    texts = [str(answered["answer"] or "") for answered in sides]
    return mark_word_diff(texts[1 - side], texts[side], bool(side))
