"""Markdown: its text, links, lists and definitions, and the markup of site generators."""

from time import process_time

import pytest
from markdown_it.token import Token

from hopsyncd.formats import markdown_rules
from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.readers import extract


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/markdown")


def test_headings_and_paragraphs_keep_their_lines() -> None:
    assert blocks("# One\n\nfirst\nline\n\nTwo\n---\n\nlast\n") == (
        Block("heading", "One", 1, 1, level=1),
        Block("paragraph", "first\nline", 3, 4),
        Block("heading", "Two", 6, 6, level=2),
        Block("paragraph", "last", 9, 9),
    )


def test_markup_is_reduced_to_its_visible_text() -> None:
    (block,) = blocks("A **bold** [link](http://x.y), `a_b`, ![alt](i.png) &amp; a\\*b<br>c\n")
    assert block.text == "A bold link, a_b, alt & a*b c"


def test_reference_links_need_their_definition() -> None:
    assert [block.text for block in blocks("[a][1] and [b][2]\n\n[1]: http://x\n")] == [
        "a and [b][2]"
    ]


def test_front_matter_title_becomes_the_heading_where_there_is_none() -> None:
    text = '---\ndate: 1\ntitle: "Foo: bar"\n---\n\ntext\n'
    assert blocks(text) == (
        Block(
            "heading",
            "Foo: bar",
            3,
            3,
            level=1,
            names=("Foo: bar",),
            properties=(("created", "1"),),
        ),
        Block("list_item", "date: 1", 2, 2),
        Block("paragraph", "text", 6, 6),
    )
    (head, *_) = blocks("---\ntitle: R&D &amp; Mills &#43; a&copy=b\n---\ntext\n")
    assert head.text == "R&D & Mills + a&copy=b"
    own = blocks("---\ntitle: Foo\n---\n# Own\n\ntext\n")
    assert [(block.text, block.level) for block in own] == [("Own", 1), ("text", 0)]


def test_a_title_stands_above_the_chapters_of_its_document() -> None:
    found = blocks("---\ntitle: Foo\n---\n# One\n\na\n\n## Two\n\n# Three\n\nb\n")
    assert [(block.text, block.level) for block in found] == [
        ("Foo", 1),
        ("One", 2),
        ("a", 0),
        ("Two", 3),
        ("Three", 2),
        ("b", 0),
    ]


def test_a_thematic_break_is_no_front_matter() -> None:
    assert [block.text for block in blocks("---\n\ntext\n")] == ["text"]
    assert [block.text for block in blocks("---\nnever: closed\n")] == ["never: closed"]


def test_code_is_kept_and_cited_without_its_fence() -> None:
    assert blocks("```py\ndef f():\n\n    x\n```\n\n    indented\n") == (
        Block("code", "def f():\n\n    x", 2, 4),
        Block("code", "indented", 7, 7),
    )


def test_list_items_and_table_rows_are_separate_blocks() -> None:
    assert blocks("- a\n  b\n  - c\n\n| x | y |\n|---|---|\n| 1 | **2** |\n") == (
        Block("list_item", "a\nb", 1, 2),
        Block("list_item", "c", 3, 3, leads=("a b",)),
        Block("table", "x: 1 | y: 2", 7, 7),
    )
    assert [block.text for block in blocks("| x | y |\n|---|---|\n")] == ["x | y"]


def test_embedded_html_is_read_as_html_at_its_lines() -> None:
    assert blocks("text\n\n<div>\n<h2>Head</h2>\n<p>body</p></div>\n") == (
        Block("paragraph", "text", 1, 1),
        Block("heading", "Head", 4, 4, level=2),
        Block("paragraph", "body", 5, 5),
    )


def test_text_nested_too_deep_for_the_parser_is_kept() -> None:
    for text in (">" * 5000 + " needle", "- " * 5000 + "needle", "[" * 5000 + "needle"):
        assert any("needle" in block.text for block in blocks(text))


def test_a_run_away_heading_is_a_paragraph() -> None:
    assert blocks("# " + "word " * 100)[0].kind == "paragraph"


def links(text: str) -> list[tuple[str, str]]:
    return [(link.target, link.text) for block in blocks(text) for _, link in block.links]


def test_links_and_images_lead_to_documents_and_not_to_programs() -> None:
    text = "[a](../My%20Notes.md#x) [b][1] ![c](d.pdf) [e](mailto:e@x.y) [f](http://x.y/z)\n"
    assert links(f"{text}\n[1]: ref.md\n") == [
        ("../My Notes.md#x", "a"),
        ("ref.md", "b"),
        ("d.pdf", "c"),
        ("http://x.y/z", "f"),
    ]


def test_brackets_inside_a_link_are_its_text() -> None:
    assert links("As said [[1]](notes.md), [[2]].\n") == [("notes.md", "[1]"), ("2", "2")]


def test_links_stand_where_they_are_in_a_row() -> None:
    *_, row = blocks("| a | b |\n|---|---|\n| x |  [[One]] [z](z.md) |\n")
    assert [row.text[at:].split()[0] for at, _ in row.links] == ["One", "z"]


def test_the_sentence_above_a_list_leads_its_items() -> None:
    text = "These are read:\n\n- One. And more.\n  - Two\n\n      code\n- Three\n\nEnd.\n"
    assert [(block.text, block.leads) for block in blocks(text)] == [
        ("These are read:", ()),
        ("One. And more.", ("These are read:",)),
        ("Two", ("These are read:", "One.")),
        ("code", ("These are read:", "One.", "Two")),
        ("Three", ("These are read:",)),
        ("End.", ()),
    ]


def test_a_table_of_contents_is_left_out_and_a_reference_stays() -> None:
    text = """# Mill

In short: see [stones](#stones).

## Contents

- [Stones](#stones)
  1. [`turn[n]` and **more**](#turn)
- [Corn](#corn)

[Stones](#stones) | [Corn](#corn)

## Stones

- [Corn](#corn)
- [Flour](flour.md)

See:

- [Corn](#corn)
"""
    assert count_skipped(blocks(text)) == {"tables of contents": 2}
    assert [block.text for block in blocks(text) if not block.level and block.text] == [
        "In short: see stones.",
        "Corn",
        "Flour",
        "See:",
        "Corn",
    ]


def test_a_heading_that_says_the_title_is_not_repeated_below_text() -> None:
    found = blocks("---\ntitle: The Mill\n---\nOf old.\n\n## The Mill\n\na\n\n## Corn\n\nb\n")
    assert [(block.text, block.level) for block in found] == [
        ("The Mill", 1),
        ("Of old.", 0),
        ("a", 0),
        ("Corn", 2),
        ("b", 0),
    ]


def test_omitted_parts_of_embedded_html_are_counted() -> None:
    text = "---\nweight: heavy\n---\n<script>x()</script>\n\n# T\n\nold ~~a~~ b\n"
    found = extract(text.encode(), "text/markdown")
    assert count_skipped(found) == {"deletions": 1, "scripts": 1}
    assert found[-1].kind == "skipped" and found[0].kind != "skipped"


OF_SITE_GENERATORS = """---
title: Guide
---
import Tabs from '@theme/Tabs';
import {
  Card,
} from './card';

export const rate = 1;

:::tip[My tip]

Use **this**.

:::

:::note
Mind *that*.
:::

!!! warning "Be careful"
    The ice is thin.

    ```py
    x = 1
    ```

=== "C"

    In C.

<Tabs>
  <TabItem value="apple" label="Apple">

An apple.

  </TabItem>
</Tabs>

{/* never
shown */}

## Heading {#id .class}

{{< figure src="a.jpg" title="A boat" caption="Old boat" >}}

{{< youtube w7Ft2ymGmfc >}}

{% comment %}gone{% endcomment %}

{% highlight ruby %}
puts "{% x %}"
{% endhighlight %}

After `{{< kept >}}` and {{ site.title }}.
"""


@pytest.mark.parametrize("name", ["label", "title", "summary"])
def test_the_title_of_a_component_is_shown_without_other_markup(name: str) -> None:
    read = blocks(f'<Tab {name}="Apple">\n\nA fruit.\n\n</Tab>\n')
    assert [block.text for block in read if block.text] == ["Apple:", "A fruit."]


def test_the_markup_of_site_generators_shows_titles_only() -> None:
    text = OF_SITE_GENERATORS
    read = blocks(text)
    assert [block.text for block in read if block.text] == [
        "Guide",
        "My tip:",
        "Use this.",
        "Mind that.",
        "Be careful:\nThe ice is thin.",
        "x = 1",
        "C:",
        "In C.",
        "Apple:",
        "An apple.",
        "Heading",
        "A boat. Old boat.",
        'puts "{% x %}"',
        "After {{< kept >}} and {{ site.title }}.",
    ]
    last = read[-2]
    assert (last.first_line, last.text[:5]) == (text.count("\n"), "After")
    assert dict(read[0].properties).get("tag") is None
    assert count_skipped(read) == {"comments": 2, "imports and exports": 3, "shortcodes": 2}


def test_code_and_what_only_looks_like_markup_stay() -> None:
    fenced = "```\n:::note\nimport x from 'y'\n{/* kept */}\n```\n\n<X/>"
    assert blocks(fenced)[0].text == ":::note\nimport x from 'y'\n{/* kept */}"
    assert blocks("Goods\nimport duties from 'abroad' are due.")[0].text.endswith("are due.")
    assert blocks("Set {/* without an end")[0].text == "Set {/* without an end"
    assert blocks("# C# {x}")[0].text == "C# {x}"


def test_terms_precede_their_definitions() -> None:
    text = (
        "The words:\n\nApple\n: A fruit.\n: A company.\n\n"
        "Pear, *quince*\n\n:   Other fruits,\n    in autumn.\n\n    Both are yellow.\n\nEnd.\n"
    )
    assert [(block.kind, block.text, block.leads) for block in blocks(text)] == [
        ("paragraph", "The words:", ()),
        ("list_item", "Apple: A fruit.", ("The words:",)),
        ("list_item", "A company.", ("The words:", "Apple")),
        ("list_item", "Pear, quince: Other fruits,\nin autumn.", ("The words:",)),
        (
            "list_item",
            "Both are yellow.",
            ("The words:", "Pear, quince: Other fruits, in autumn."),
        ),
        ("paragraph", "End.", ()),
    ]


def test_a_definition_without_text_has_its_term_above() -> None:
    text = "[Keys](keys.md)\n: - up\n  - down\n\nTerm 1\nTerm 2\n:     code\n"
    found = blocks(text)
    assert [(block.kind, block.text, block.leads) for block in found] == [
        ("list_item", "Keys", ()),
        ("list_item", "up", ("Keys",)),
        ("list_item", "down", ("Keys",)),
        ("list_item", "Term 1, Term 2: code", ()),
    ]
    assert found[0].links


@pytest.mark.parametrize(
    "text",
    ["# Heading\n: text", "It is\n:30 now", "Text\n\n\n: text", ": text", "a\nb\nc\nd\n: text"],
)
def test_a_colon_without_a_term_defines_nothing(text: str) -> None:
    assert not any(block.kind == "list_item" for block in blocks(text))


def test_a_numbered_item_that_begins_with_a_heading_keeps_its_number() -> None:
    text = "1. # Install\n\n   Run it.\n2. # 2. Start\n3. Stop\n"
    texts = [block.text for block in blocks(text)]
    assert texts == ["1. Install", "Run it.", "2. Start", "3. Stop"]


def test_the_time_for_many_definitions_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    token = Token("definition", "", 0)
    monkeypatch.setattr(markdown_rules, "_make_definition", lambda *_: token)

    def time_s(count: int) -> float:
        lines = {
            f"A{number}": {"map": [number, number + 1], "href": "b"} for number in range(count)
        }
        below = Token("paragraph_open", "p", 1, map=[count, count + 1])
        begin_s = process_time()
        found = [*markdown_rules.add_definition_tokens([below], {"references": lines}, "")]
        assert len(found) == count + 1
        return process_time() - begin_s

    # Eight times the work; quadratic time would take 64 times as long.
    slow_s = min(time_s(160_000) for _ in range(3))
    assert slow_s < 40 * min(time_s(20_000) for _ in range(3))
