from itertools import pairwise

import pytest

from hopsyncd.formats.blocks import Block, Kind
from hopsyncd.formats.chunking import Chunk, split_into_passages
from hopsyncd.formats.units import estimate_tokens, split_into_sentences


def heading(text: str, level: int, line: int = 1) -> Block:
    return Block("heading", text, line, line, level)


def block(text: str, line: int = 1, kind: Kind = "paragraph") -> Block:
    return Block(kind, text, line, line + text.count("\n"))


def test_each_passage_has_its_heading_path() -> None:
    blocks = (
        block("lead", 1),
        heading("A", 1, 2),
        heading("B", 3, 3),
        block("b", 4),
        heading("C", 2, 5),
        block("c", 6),
        heading("", 1, 7),
        block("d", 7),
    )
    assert split_into_passages(blocks) == (
        Chunk(("A",), "lead", 1, 1),
        Chunk(("A", "B"), "b", 4, 4),
        Chunk(("A", "C"), "c", 6, 6),
        Chunk((), "d", 7, 7),
    )


def test_blocks_are_joined_by_kind_and_wrapped_lines_flow() -> None:
    blocks = (
        block("one\n  two", 1),
        block("x", 4, "list_item"),
        block("y", 5, "list_item"),
        block("a\n  b", 7, "code"),
        block("1 | 2", 9, "table"),
        block("3 | 4", 10, "table"),
    )
    assert split_into_passages(blocks) == (
        Chunk((), "one two\n\nx\ny\n\na\n  b\n\n1 | 2\n3 | 4", 1, 10),
    )


def test_wrapped_chinese_flows_without_spaces() -> None:
    assert split_into_passages((block("今天天气\n很好"),))[0].text == "今天天气很好"


def test_headings_without_text_are_text() -> None:
    assert split_into_passages((heading("A", 1), heading("B", 2), block("b"))) == (
        Chunk(("A", "B"), "b", 1, 1),
    )
    assert split_into_passages((heading("A", 1, 1), heading("B", 2, 3))) == (
        Chunk(("A",), "A\n\nB", 1, 3),
    )
    assert split_into_passages((heading("", 1),)) == ()
    log = (
        heading("Log", 1, 1),
        heading("Order 4471 shipped", 2, 2),
        heading("Order 4472 cancelled", 2, 3),
        heading("Notes", 2, 4),
        block("All others are open.", 5),
        heading("Date: 2020-03-18", 3, 6),
        heading("Invoice 9981 unpaid", 2, 7),
    )
    assert split_into_passages(log) == (
        Chunk(("Log",), "Order 4471 shipped\nOrder 4472 cancelled", 2, 3),
        Chunk(("Log", "Notes"), "All others are open.", 5, 5),
        Chunk(("Log", "Notes"), "Date: 2020-03-18", 6, 6),
        Chunk(("Log",), "Invoice 9981 unpaid", 7, 7),
    )


def test_text_before_the_first_heading_stands_below_the_title() -> None:
    assert split_into_passages((block("by Ada"), heading("Engines", 1, 2), block("b", 3))) == (
        Chunk(("Engines",), "by Ada", 1, 1),
        Chunk(("Engines",), "b", 3, 3),
    )
    chapters = (block("by Ada"), heading("One", 1, 2), block("b", 3), heading("Two", 1, 4))
    assert split_into_passages(chapters)[0] == Chunk((), "by Ada", 1, 1)


def test_a_paragraph_that_fits_is_not_split() -> None:
    text = "A sentence of words. " * 50
    assert estimate_tokens(text) < 300
    assert [passage.text for passage in split_into_passages((block(text),))] == [text.strip()]


def test_a_long_paragraph_is_split_at_sentences_with_their_lines() -> None:
    text = "\n".join(f"Sentence number {n} says\nthat {n * n} is a square." for n in range(200))
    passages = split_into_passages((block(text, 11),))
    assert " ".join(passage.text for passage in passages) == " ".join(text.split())
    assert all(passage.text.endswith("square.") for passage in passages)
    assert passages[0].first_line == 11
    assert passages[-1].last_line == 410
    for before, after in pairwise(passages):
        assert after.first_line == before.last_line + 1
    assert all(60 <= estimate_tokens(passage.text) <= 400 for passage in passages)


def test_long_code_is_split_at_lines_and_keeps_blank_ones() -> None:
    text = "\n".join(f"    call({n})" if n % 5 else "" for n in range(1, 600))
    passages = split_into_passages((block(text, 1, "code"),))
    assert len(passages) > 5
    lines = text.split("\n")
    for passage in passages:
        assert passage.text == "\n".join(lines[passage.first_line - 1 : passage.last_line])


@pytest.mark.parametrize("text", ["word " * 5000, "字" * 5000, "x" * 20_000, "字。" * 3000])
def test_text_without_sentences_still_has_a_limit(text: str) -> None:
    passages = split_into_passages((block(text.strip()),))
    assert len(passages) > 1
    assert all(estimate_tokens(passage.text) <= 400 for passage in passages)
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())


def test_text_is_split_into_sentences() -> None:
    text = 'Dr. J. Smith (b. 1950) left. "Why?" he asked. See e.g. No. 5, 4.5 km off... Done!'
    assert [sentence.strip() for sentence in split_into_sentences(text)] == [
        "Dr. J. Smith (b. 1950) left.",
        '"Why?" he asked.',
        "See e.g. No. 5, 4.5 km off...",
        "Done!",
    ]
    assert list(split_into_sentences("今日は。明日も!はい。")) == ["今日は。", "明日も!はい。"]


def test_tokens_are_counted_without_knowing_the_language() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("four words of text") == 5
    assert 14 <= estimate_tokens("今日は天気がいいので散歩に行きましょう") <= 22


def test_a_larger_target_gives_longer_passages() -> None:
    blocks = [block(f"Paragraph {n} is about the number {n}.", 2 * n + 1) for n in range(300)]
    small, large = split_into_passages(blocks, 50), split_into_passages(blocks, 200)
    assert len(small) > 2 * len(large)
    assert max(estimate_tokens(passage.text) for passage in small) <= 100
    with pytest.raises(ValueError, match="at least 1"):
        split_into_passages(blocks, 0)


def test_nested_list_items_are_indented() -> None:
    def item(text: str, *leads: str) -> Block:
        return Block("list_item", text, 1, 1, leads=leads)

    items = [
        item("1. Open the valve."),
        item("Wait for 2 bar.", "Open the valve."),
        item("Read the gauge twice.", "1. Open the valve.", "Wait for 2 bar."),
        item("2. Start the pump."),
    ]
    (whole,) = split_into_passages(items)
    assert whole.text.splitlines() == [
        "1. Open the valve.",
        "  Wait for 2 bar.",
        "    Read the gauge twice.",
        "2. Start the pump.",
    ]
    first, second, *_ = split_into_passages(items, target_tokens=5)
    assert first.text == "1. Open the valve."
    assert second.text == "Open the valve.\n  Wait for 2 bar.", "it begins inside the list"
