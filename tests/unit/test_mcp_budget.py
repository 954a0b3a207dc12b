"""What an agent is given stays within the tokens it asked for, and is cut where sentences end."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from hopsyncd.api.mcp.shapes import estimate_tokens, fit_grouped, fit_quotes

FRAME = {"version": 7, "degraded": [], "passages": []}
LONG = " ".join(f"Sentence number {number} says something." for number in range(200))


def quoting(*texts: str) -> list[dict[str, Any]]:
    return [{"id": f"{number:016x}", "quote": text} for number, text in enumerate(texts)]


def sent(objects: list[dict[str, Any]]) -> int:
    return estimate_tokens({**FRAME, "passages": objects})


@settings(max_examples=60, deadline=None)
@given(
    some.lists(some.text(max_size=2000), max_size=8),
    some.integers(min_value=0, max_value=1500),
    some.integers(min_value=1, max_value=4),
)
def test_no_answer_is_larger_than_asked_for(
    texts: list[str], max_tokens: int, documents: int
) -> None:
    objects = quoting(*texts)
    kept = fit_quotes(FRAME, objects, max_tokens)
    assert not kept or sent(kept) <= max_tokens
    places = [
        {"source": "notes", "document": f"{number % documents}.md", "heading": ["Ada", "Youth"]}
        for number in range(len(texts))
    ]
    groups, grouped = fit_grouped(FRAME, places, objects, {}, max_tokens)
    assert not grouped or estimate_tokens({**FRAME, "documents": groups}) <= max_tokens
    assert len({group["document"] for group in groups}) == len(groups) <= documents
    assert sum(len(group["passages"]) for group in groups) == len(grouped)
    for one, whole in zip(kept, objects, strict=False):
        assert whole["quote"].startswith(one["quote"])
        assert ("shortened" in one) == (one["quote"] != whole["quote"])


def test_with_enough_tokens_the_whole_answer_is_sent() -> None:
    objects = quoting("It rains.", LONG)
    assert fit_quotes(FRAME, objects, 10_000) == objects


def test_long_texts_are_shortened_before_short_texts() -> None:
    short, *long = fit_quotes(FRAME, quoting("It rains.", LONG, LONG), 600)
    assert short["quote"] == "It rains."
    assert long[0]["quote"] == long[1]["quote"]
    assert all(one["quote"].endswith(" says something.") for one in long)
    assert all(len(one["quote"]) > 400 for one in long)


def test_the_last_objects_are_left_out_before_quotes_become_useless() -> None:
    kept = fit_quotes(FRAME, quoting(*[LONG] * 20), 600)
    assert [one["id"] for one in kept] == [f"{number:016x}" for number in range(len(kept))]
    assert 1 < len(kept) < 20
    assert all("Sentence number 0 says something." in one["quote"] for one in kept)
