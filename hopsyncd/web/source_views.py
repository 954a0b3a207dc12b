"""The view Sources: the sources with their state, and unreadable documents."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from hopsyncd.config.configuration import find_config_path
from hopsyncd.web.index_state import describe_state
from hopsyncd.web.views import Shared, View, run_view


class SourceViews(View):
    name = "Sources"

    def __init__(self, shared: Shared, config_file: Path | None = None) -> None:
        super().__init__(shared)
        self._config_file = config_file

    @run_view
    def show_sources(self, request: Request) -> Response:
        """Show the sources with their state, the running sync, and unreadable documents."""
        removing = request.query_params.get("remove", "")
        if "part" in request.query_params:
            status = self.client.status()
            state = describe_state(status, self.shared.clock)
            return self.render_part(
                request, "source_list.html", status=status, state=state, removing=removing
            )
        file = str(find_config_path(self._config_file))
        return self.render_page(request, "sources.html", config_file=file, removing=removing)

    @run_view
    def show_state(self, request: Request) -> Response:
        status = self.client.status()
        state = describe_state(status, self.shared.clock)
        return self.render_part(request, "state.html", state=state)
