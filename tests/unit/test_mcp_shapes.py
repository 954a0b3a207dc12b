"""What an agent is told of a passage and of a hop, in few words."""

from typing import Any

import pytest

from hopsyncd.api.mcp.shapes import hop_line, passage_brief

MAIL: dict[str, Any] = {
    "id": "00000000000000aa",
    "source": "mail",
    "document": "1.eml",
    "location": "line 3",
    "heading": ["Dinner"],
    "text": "At eight.",
    "also_in": [],
    "origin": None,
}


def test_who_wrote_a_passage_is_told_and_what_is_too_long_to_cite_is_not() -> None:
    origin = {"author": "Ada <ada@example.org>", "date": "2026-11-01T09:00:00+00:00"}
    told = passage_brief({**MAIL, "origin": {**origin, "url": "https://x.org/" + "a" * 150}})
    assert told["origin"] == origin


@pytest.mark.parametrize("origin", [None, {}])
def test_where_a_source_tells_nothing_nothing_is_said(origin: object) -> None:
    assert "origin" not in passage_brief({**MAIL, "origin": origin})


@pytest.mark.parametrize(("asked_by", "arrow"), [("link", "=>"), ("backlink", "<=")])
def test_a_hop_over_a_link_tells_where_the_link_stands(asked_by: str, arrow: str) -> None:
    ends = {"from": {"heading": ["Ada"]}, "to": {"heading": [], "document": "b.md"}}
    line = hop_line({**ends, "asked_by": asked_by, "question": "See the inventor."})
    assert line == f"Ada {arrow} b.md: See the inventor."
