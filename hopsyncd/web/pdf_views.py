"""Shows pages of PDFs as pictures, with the passage marked."""

import base64
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from hopsyncd.client import Client, RequestFailed
from hopsyncd.responses.images import PageImageAnswer
from hopsyncd.web.links import read_asked, read_number
from hopsyncd.web.views import View, run_view

_MOST_PAGES = 3  # the most pages shown for a passage


class PdfViews(View):
    name = "Ask"

    @run_view
    def show_pages(self, request: Request) -> Response:
        """Show the pages of a passage with its text marked, or the reason why the pages cannot be
        shown."""
        passage = request.path_params["id"]
        drawn, problem = draw_pages(self.client, passage, request)
        return self.render_part(
            request, "pdf_page.html", drawn=drawn, problem=problem, passage_id=passage
        )

    @run_view
    def send_picture(self, request: Request) -> Response:
        asked = read_asked(request)
        number: int = request.path_params["page"]
        drawn = self.client.page_image(request.path_params["id"], asked.at, number)
        headers = {"Cache-Control": "private, max-age=300"}
        return Response(base64.b64decode(drawn["picture"]), 200, headers, "image/png")


def draw_pages(client: Client, id_: str, request: Request) -> tuple[Sequence[PageImageAnswer], str]:
    """Draw the requested page, or else the pages of the passage with id `id_`.

    Also returns the reason if no page can be drawn, otherwise "".
    """
    asked = read_asked(request)
    page = read_number(request.query_params.get("page", ""))
    try:
        first = client.page_image(id_, asked.at, page)
        end = 0 if page else min(first["last"], first["page"] + _MOST_PAGES - 1)
        more_pages = range(first["page"] + 1, end + 1)
        return [first, *(client.page_image(id_, asked.at, number) for number in more_pages)], ""
    except RequestFailed as error:
        return [], str(error.why)
