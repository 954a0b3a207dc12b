"""People know no message ids: a mail is named by its subject and sender."""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from starlette.requests import Request

from connectors.mail.maildir import MaildirConnector
from hopsyncd.api.mcp.shapes import describe_document
from hopsyncd.api.version_log import diff_answer, summarise_version
from hopsyncd.cli.output import format_place
from hopsyncd.client import Client
from hopsyncd.config.values import Search
from hopsyncd.display import format_document_name
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.retrieve.ranking import Hop
from hopsyncd.retrieve.results import Answer, format_hop, write_name
from hopsyncd.web.listener import Door
from hopsyncd.web.search_views import SearchViews
from hopsyncd.web.views import Shared
from store.history import diff
from store.reads import Place
from store.records import Passage
from store.versions import read_version
from tests.fakes.stack import Stack

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
    is_remote = False

    def passage(self, id_: str, at: str) -> Mapping[str, Any]:
        questions: dict[str, list[str]] = {"incoming": [], "outgoing": []}
        return {"passage": MAIL, "version": 3, "questions": questions}

    def document(self, source: str, document: str, at: str) -> Mapping[str, Any]:
        assert (source, document) == ("work", ID)
        return {"passages": [MAIL]}

    def facets(self, **_: object) -> Mapping[str, Any]:
        return {"modified": ["2026-03-03T10:00:00+00:00"]}


def test_the_page_shows_a_mail_by_its_subject_and_sender() -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    request = Request({**scope, "path_params": {"id": MAIL["id"]}})
    views = SearchViews(Shared(cast("Client", Daemon()), Door("127.0.0.1:1"), "0"))

    async def rendered() -> str:
        return bytes((await views.preview(request)).body).decode()

    html = asyncio.run(rendered())
    assert "<strong>The mast (Rune Vik)</strong>" in html
    # The title, its region, the place, the citation, and the other place.
    assert html.count("The mast (Rune Vik)") == 5


def test_an_agent_gets_the_title_and_the_id_of_a_mail() -> None:
    brief = describe_document(MAIL, {})
    assert (brief["title"], brief["document"]) == ("The mast (Rune Vik)", ID)
    assert "Rune Vik" not in describe_document({**MAIL, "origin": None}, {}).get("title", "")


def test_the_command_line_names_a_mail_by_its_subject() -> None:
    assert format_place(MAIL) == "work: The mast (Rune Vik <rune@fjord.example>)"


EML = """\
From: Rune Vik <rune@fjord.example>
To: Ann Lee <ann@fjord.example>
Subject: {subject}
Message-ID: <{id}>
Date: Tue, 3 Mar 2026 10:00:00 +0000
Content-Type: text/plain; charset=utf-8

{text}
"""


def test_diffs_and_summaries_name_mails_by_subject_and_sender(tmp_path: Path) -> None:
    maildir = tmp_path / "mail"
    for part in ("cur", "new", "tmp"):
        (maildir / part).mkdir(parents=True)

    def write(name: str, subject: str, text: str) -> None:
        content = EML.format(id=f"{name}@mail.example", subject=subject, text=text)
        (maildir / "cur" / f"{name}:2,S").write_text(content)

    write("1", "The mast", "The mast of the Gyda is of ash.")
    write("2", "The sail", "The sail of the Gyda is of wool.")
    with closing(Stack(tmp_path / "a.sqlite", MaildirConnector(maildir))) as stack:
        stack.sync()
        (maildir / "cur" / "1:2,S").unlink()
        write("3", "The keel", "The keel of the Gyda is of oak.")
        stack.sync()
        ends = read_version(stack.connection, 1), read_version(stack.connection, 2)
        answer = diff_answer(stack.connection, *ends, diff(stack.connection, *ends), None)
        assert [one["document_name"] for one in answer["documents"]["added"]] == [
            "The keel (Rune Vik)"
        ]
        assert [one["document_name"] for one in answer["documents"]["removed"]] == [
            "The mast (Rune Vik)"
        ]
        assert summarise_version(stack.connection, 2, frozenset()) == (
            "added The keel (Rune Vik); removed The mast (Rune Vik)"
        )


def test_hops_name_the_document_of_a_mail_by_subject_and_sender() -> None:
    place = Place("work", ID, "message/rfc822", 3, 5, MAIL["origin"], 1)
    passage = Passage(("The mast", "Spreaders"), "They are of ash.")
    answer = Answer(
        version=1,
        question="",
        search=Search("hop"),
        ranked=(),
        passages={passage.id: passage},
        places={passage.id: [place]},
        questions={},
        snapshot=cast("Snapshot", None),
    )
    hop = format_hop(answer, Hop(passage.id, passage.id, "link", None, "Gyda", 1.0))
    assert hop["to"].get("document_name") == "The mast (Rune Vik)"
    assert format_document_name(hop["to"]) == "The mast (Rune Vik)"


def test_hops_name_a_whole_title_if_the_other_passage_has_it() -> None:
    person = Passage(
        ("Grace Hopper",), "She was a programmer of the Harvard Mark I, and led a team."
    )
    machine = Passage(("Harvard Mark I",), "IBM built it at Endicott.")
    review = Passage(("Harvard Mark I in review",), "A Harvard Mark relay is slow.")
    answer = Answer(
        version=1,
        question="",
        search=Search("hop"),
        ranked=(),
        passages={one.id: one for one in (person, machine, review)},
        places={},
        questions={},
        snapshot=cast("Snapshot", None),
    )
    assert write_name(answer, (machine.id, person.id), "harvard mark") == "Harvard Mark I"
    assert write_name(answer, (review.id, person.id), "harvard mark") == "Harvard Mark"
    assert write_name(answer, (machine.id, person.id), "endicott") == "Endicott"
