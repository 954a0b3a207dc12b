"""The view Sources: the sources with their state, and what cannot be read."""

from starlette.requests import Request
from starlette.responses import Response

from hopsyncd.web.index_state import describe_state
from hopsyncd.web.views import View, run_view


class SourceViews(View):
    """Where the documents come from."""

    name = "Sources"

    @run_view
    def sources(self, request: Request) -> Response:
        """The sources with their state, the running sync, and unreadable documents."""
        if "part" in request.query_params:
            status = self.client.status()
            state = describe_state(status, self.shared.clock)
            return self.part(request, "source_list.html", status=status, state=state)
        return self.html(request, "sources.html")

    @run_view
    def state(self, request: Request) -> Response:
        """The state of the index alone, for the header."""
        status = self.client.status()
        state = describe_state(status, self.shared.clock)
        return self.part(request, "state.html", state=state)
