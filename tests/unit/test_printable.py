"""Control characters of strangers are escapes wherever people read."""

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest
import structlog

from hopsyncd.cli.output import format_place, print_json
from hopsyncd.logs import configure_logs
from hopsyncd.printable import make_printable

DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
CONTROLS = "\x00\x07\x1b\x7f\x85\x9b" + DIRECTIONS


@pytest.mark.parametrize("character", CONTROLS)
def test_a_control_character_becomes_its_escape(character: str) -> None:
    shown = make_printable(f"a{character}b")
    assert shown.isprintable() and shown.startswith("a\\") and shown.endswith("b")
    assert shown.encode().decode("unicode_escape") == f"a{character}b"


def test_letters_of_all_scripts_are_unchanged() -> None:
    for text in ("naïve", "שלום", "یک‌نمونه", "東京", "👩‍🔬", "a b"):
        assert make_printable(text) == text


def test_characters_in_keep_are_not_escaped() -> None:
    assert make_printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


def test_a_place_is_shown_with_escapes() -> None:
    shown = format_place(
        {"source": "notes", "document": f"a{CONTROLS}.md", "lines": (1, 2), "origin": None}
    )
    assert shown.isprintable()


def test_json_output_is_not_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": f"a{DIRECTIONS}"})
    assert DIRECTIONS in capsys.readouterr().out


@pytest.fixture(params=["console", "json"])
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    before = logging.root.handlers[:], logging.root.level, threading.excepthook
    yield request.param
    structlog.reset_defaults()
    logging.root.handlers, threading.excepthook = before[0], before[2]
    logging.root.setLevel(before[1])


def test_control_characters_are_escaped_in_the_log(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    configure_logs("info", form)
    try:
        raise ValueError(f"boom {CONTROLS}")
    except ValueError as error:
        structlog.get_logger("x").error("failed", name=f"a{CONTROLS}", exc_info=error)
    logging.getLogger("library").warning("of a library: %s", CONTROLS)
    said = written.getvalue()
    assert "failed" in said and "of a library" in said and "\\u202e" in said
    for character in CONTROLS:
        assert character not in said
    if form == "json":
        assert json.loads(said.splitlines()[0])["name"] == f"a{CONTROLS}"
