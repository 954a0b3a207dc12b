"""The view Watches: watched questions, and how their answers changed."""

from starlette.requests import Request
from starlette.responses import Response

from hopsyncd.web.views import View, run_view
from hopsyncd.web.word_diff import mark_word_diff

_CHANGES_SHOWN = 20


class WatchViews(View):
    name = "Watches"

    @run_view
    def show_watches(self, request: Request) -> Response:
        """Show the watched questions, and a form to watch another question."""
        listed = self.client.watches()
        if "part" in request.query_params:
            return self.render_part(request, "watch_list.html", listed=listed)
        return self.render_page(request, "watches.html", listed=listed)

    @run_view
    def show_watched_question(self, request: Request) -> Response:
        """Show a watched question with its changes: the answers before and after each."""
        answer = self.client.watch_changes(request.path_params["number"], _CHANGES_SHOWN)
        if "part" in request.query_params:
            return self.render_part(
                request, "watched_answers.html", shown=answer, word_diff=mark_word_diff
            )
        return self.render_page(request, "watched.html", shown=answer, word_diff=mark_word_diff)

    async def watch(self, request: Request) -> Response:
        """Watch the question of the form."""
        form = await self.read_form(request)
        if form is None:
            return self.refuse_form(request)
        return await self._watch(request, form.get("q", ""))

    @run_view
    def _watch(self, request: Request, question: str) -> Response:
        watched = self.client.watches()["watches"]
        equal_watches = [
            watch
            for watch in watched
            if watch["question"] == question.strip() and not watch["action"]
        ]
        available = [watch for watch in equal_watches if not watch["unavailable"]]
        watch = available[0] if available else self.client.watch(question)["watch"]
        return self.redirect(f"/watches/{watch['id']}")

    async def unwatch(self, request: Request) -> Response:
        if await self.read_form(request) is None:
            return self.refuse_form(request)
        return await self._unwatch(request)

    @run_view
    def _unwatch(self, request: Request) -> Response:
        self.client.unwatch(request.path_params["number"])
        return self.redirect("/watches")
