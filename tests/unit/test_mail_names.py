"""People know no message ids: a mail is named by its subject and sender."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request

from hopsyncd.api.mcp.shapes import passage_brief
from hopsyncd.cli.output import place_text
from hopsyncd.client import Client
from hopsyncd.web.drawing import way_found
from hopsyncd.web.pages import Pages

ID = "CAJ12345@mail.example"
PLACE = {
    "source": "work",
    "document": ID,
    "lines": [3, 5],
    "unit": "line",
    "location": "lines 3-5",
    "origin": {"author": "Rune Vik <rune@fjord.example>", "message_id": ID},
}
MAIL: dict[str, Any] = {
    **PLACE,
    "id": "00000000000000aa",
    "heading": ["The mast", "Spreaders"],
    "text": "They are of ash.",
    "also_in": [PLACE],
    "hops": [],
}


class Daemon:
    def passage(self, id_: str, at: str) -> Mapping[str, Any]:
        questions: dict[str, list[str]] = {"incoming": [], "outgoing": []}
        return {"passage": MAIL, "version": 3, "questions": questions}

    def document(self, source: str, document: str, at: str) -> Mapping[str, Any]:
        assert (source, document) == ("work", ID)
        return {"passages": [MAIL]}


def test_the_page_of_a_mail_is_headed_by_its_subject_and_sender() -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    request = Request({**scope, "path_params": {"id": MAIL["id"]}})
    pages = Pages(cast("Client", Daemon()), "")

    async def rendered() -> str:
        return bytes((await pages.passage(request)).body).decode()

    html = asyncio.run(rendered())
    assert "<h1>The mast (Rune Vik)</h1>" in html
    assert html.count("The mast (Rune Vik)") == 3  # the heading, the place, the other place
    assert html.count(ID) == 1  # among the fields of the message


def test_a_mail_in_a_picture_has_its_subject_and_sender() -> None:
    (box,) = way_found([MAIL]).boxes
    assert (box.title, box.document) == ("Spreaders", "The mast (Rune Vik)")
    (box,) = way_found([{**MAIL, "document": "notes/a.md", "origin": None}]).boxes
    assert box.document == "a.md"


def test_an_agent_gets_a_title_for_a_mail_and_its_id_to_ask_with() -> None:
    brief = passage_brief(MAIL)
    assert (brief["title"], brief["document"]) == ("The mast (Rune Vik)", ID)
    assert "title" not in passage_brief({**MAIL, "origin": None})


def test_the_command_line_names_a_mail_by_its_subject() -> None:
    assert place_text(MAIL) == "work: The mast (Rune Vik <rune@fjord.example>)"
