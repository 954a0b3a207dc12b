"""What `hopsyncd ask` and the page show if no answer was found, or if one is doubtful."""

from typing import Any

import pytest

from hopsyncd.cli.output import format_place
from hopsyncd.cli.query import _print_closest, _print_sentences
from hopsyncd.web.thread_views import make_turn


def passage(document: str, strength: str | None) -> dict[str, Any]:
    return {
        "id": "64cc0e656fedeaca", "text": f"The text of {document}.", "heading": [],
        "source": "notes", "document": document, "unit": "line", "lines": [3, 3], "span": [3, 3],
        "location": "line 3", "origin": {}, "strength": strength, "hops": [], "statements": [],
        "similar": [],
    }  # fmt: skip


def test_the_first_passages_that_may_answer_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        passage("a.md", "weak"), passage("b.md", "fair"), passage("c.md", "strong"),
        passage("d.md", "fair"),
    ]  # fmt: skip
    _print_closest({"passages": found, "version": 1}, "Who?", format_place)
    printed = capsys.readouterr()
    assert printed.out.startswith("The closest passages:\n1. b.md\n   notes: b.md:3   fair   id ")
    assert "2. c.md" in printed.out
    assert "a.md" not in printed.out and "d.md" not in printed.out
    assert not printed.err


@pytest.mark.parametrize("strength", ["weak", None])
def test_one_passage_is_printed_if_none_is_fair(
    capsys: pytest.CaptureFixture[str], strength: str | None
) -> None:
    found = [passage("a.md", strength), passage("b.md", strength)]
    _print_closest({"passages": found, "version": 1}, "Who?", format_place)
    printed = capsys.readouterr()
    assert printed.out.startswith("The closest passage:\n1. a.md\n")
    assert "b.md" not in printed.out


def test_nothing_is_printed_if_no_passage_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    _print_closest({"passages": [], "version": 1}, "Who?", format_place)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("is_found", [False, True])
def test_a_conversation_gets_cards_of_the_closest_passages(is_found: bool) -> None:
    answer = {
        "found": is_found, "by": "extractive", "answer": None, "degraded": [], "subjects": [],
        "sentences": [], "citations": [], "version": 1,
        "llm": {"calls": 0, "cached": 0, "tokens": 0},
        "passages": [passage(f"{name}.md", "weak") for name in "abcd"],
    }  # fmt: skip
    closest = [(card["number"], card["file"]) for card in make_turn(answer)["closest"]]
    assert closest == ([] if is_found else [(1, "a.md"), (2, "b.md"), (3, "c.md")])


@pytest.mark.parametrize(
    ("strengths", "told"),
    [
        (["weak", "strong"], ""),
        (["weak", "fair"], "These passages may not answer your question: none matches it closely."),
        (["weak"], "These passages match your question only weakly."),
        ([None], ""),
    ],
)
def test_an_answer_without_a_strong_passage_is_called_doubtful(
    capsys: pytest.CaptureFixture[str], strengths: list[str | None], told: str
) -> None:
    citations = [passage(f"{number}.md", each) for number, each in enumerate(strengths)]
    sentences = [{"text": "The gate closes at ten.", "title": "", "citation": 1}]
    _print_sentences({"short": None, "sentences": sentences, "citations": citations})
    lines = capsys.readouterr().out.splitlines()
    assert lines == [*filter(None, [told]), "  The gate closes at ten. [1]"]
