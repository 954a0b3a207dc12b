"""What an agent is given stays within the tokens it asked for, and is cut where sentences end."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from hopsyncd.api.mcp.shapes import fit_quotes, in_order, shares, shorten, token_count

FRAME = {"version": 7, "degraded": [], "passages": []}
LONG = " ".join(f"Sentence number {number} says something." for number in range(200))


def quoting(*texts: str) -> list[dict[str, Any]]:
    return [{"id": f"{number:016x}", "quote": text} for number, text in enumerate(texts)]


def sent(objects: list[dict[str, Any]]) -> int:
    return token_count({**FRAME, "passages": objects})


@settings(max_examples=60, deadline=None)
@given(
    some.lists(some.text(max_size=2000), max_size=8),
    some.integers(min_value=0, max_value=1500),
    some.sampled_from([fit_quotes, in_order]),
)
def test_no_answer_is_larger_than_asked_for(texts: list[str], max_tokens: int, fit: Any) -> None:
    objects = quoting(*texts)
    kept = fit(FRAME, objects, max_tokens)
    assert not kept or sent(kept) <= max_tokens
    for one, whole in zip(kept, objects, strict=False):
        assert whole["quote"].startswith(one["quote"])
        assert ("shortened" in one) == (one["quote"] != whole["quote"])


def test_all_is_there_when_there_is_room() -> None:
    objects = quoting("It rains.", LONG)
    assert fit_quotes(FRAME, objects, 10_000) == objects
    assert in_order(FRAME, objects, 10_000) == objects


def test_long_texts_give_way_to_each_other_and_short_ones_to_none() -> None:
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


def test_what_is_read_in_order_is_whole_until_the_room_ends() -> None:
    kept = in_order(FRAME, quoting("First.", "Second.", LONG), 200)
    assert [one["quote"] for one in kept] == ["First.", "Second."]
    (only,) = in_order(FRAME, quoting(LONG, "Second."), 200)
    assert only["shortened"]


def test_a_text_without_sentences_is_cut_at_a_line_or_a_word() -> None:
    assert shorten("one two three four five six", 6) == "one two three"
    assert shorten("name;town\nAda;London\nGrace;New York", 9) == "name;town\nAda;London"


def test_shares_use_up_what_there_is() -> None:
    assert shares([5, 5], 100) == [5, 5]
    assert sum(shares([50, 70, 90], 100)) in (98, 99, 100)
    assert shares([50, 70], -3) == [0, 0]
