"""Markdown of note programs: Obsidian, Logseq, Joplin and Notion."""

import pytest

from hopsyncd.formats.blocks import Block, count_skipped
from tests.unit.test_extract_markdown import blocks, links


def test_wiki_links_leave_what_they_show_and_say_where_they_lead() -> None:
    (block,) = blocks("She met [[Charles Babbage|him]], ![[Engine#Mill]] and `[[nobody]]`.\n")
    assert block.text == "She met him, Engine#Mill and [[nobody]]."
    assert [(at, link.target, link.text) for at, link in block.links] == [
        (8, "Charles Babbage", "him"),
        (13, "Engine#Mill", "Engine#Mill"),
    ]


def test_tags_are_links_and_numbers_are_none() -> None:
    assert links("On #maths and #19th/poets. Item #1, C#, a#b.\n") == [
        ("maths", "maths"),
        ("19th/poets", "19th/poets"),
    ]


def test_front_matter_says_names_links_and_facts() -> None:
    text = """---
title: Ada
aliases: [Countess, "Lovelace, A."]
tags:
  - maths
  - "#poets"
cover:
  title: not this
related: "[[Babbage]]"
layout: page
draft: false
redirect: /old/ada
about: >
  The first
  programmer.
---
She wrote.
"""
    title, *facts, text_block = blocks(text)
    assert (title.text, title.first_line, text_block.text) == ("Ada", 2, "She wrote.")
    assert [(fact.text, fact.first_line) for fact in facts] == [
        ("aliases: Countess, Lovelace, A.", 3),
        ("tags: maths, #poets", 4),
        ("related: Babbage", 9),
        ("about: The first programmer.", 13),
    ]
    assert title.names == ("Ada", "Countess", "Lovelace, A.")
    assert links(text) == [("maths", "maths"), ("poets", "poets"), ("Babbage", "Babbage")]


def test_front_matter_of_joplin_is_read() -> None:
    text = (
        "---\ntitle: Sourdough\nupdated: 2025-03-04 19:21:10Z\nlatitude: 59.32930000\n"
        "author: Elin Berg\ntags:\n  - baking\ncompleted?: no\n---\n\nFeed the starter.\n"
    )
    heading, *others = blocks(text)
    assert [heading.text, *(block.text for block in others)] == [
        "Sourdough",
        "author: Elin Berg",
        "tags: baking",
        "Feed the starter.",
    ]
    assert {("author", "Elin Berg"), ("tag", "baking")} <= {*heading.properties}


def test_toml_front_matter_is_read_too() -> None:
    title, tags, _ = blocks('+++\ntitle="Ada"\ntags = ["maths"]\n+++\nShe wrote.\n')
    assert tags.text == "tags: maths"
    assert title.names == ("Ada",)
    assert [link.target for _, link in title.links] == ["maths"]


def test_properties_of_logseq_say_the_same_and_its_ids_are_no_text() -> None:
    text = """title:: Ada
alias:: Countess, [[Lovelace]]
tags:: maths

- She wrote. ((64b0c2a1-0000-4000-8000-123456789abc))
  id:: 64b0c2a1-0000-4000-8000-123456789abc
- On #[[the engine]].
"""
    title, *items = blocks(text)
    assert title.names == ("Ada", "Countess", "Lovelace")
    assert [item.text.strip() for item in items] == [
        "alias:: Countess, Lovelace",
        "tags:: maths",
        "She wrote.",
        "On #the engine.",
    ]
    assert ("the engine", "the engine") in links(text)


def test_a_page_of_nothing_but_links_is_read_as_one() -> None:
    (block,) = blocks(" ".join(f"[[{n}]]" for n in range(200)))
    assert len(block.links) == 200
    assert block.text.startswith("0 1 2 3 ")


def test_the_markup_of_note_programs_is_no_text() -> None:
    text = """> [!tip] Save often
> and early ==twice==. ^id-1

![[lucide-x.svg#icon]] ![[mill.png|300]] Press {{embed x}} `{{y}}` [here]({% page "/leave/" %}).

- [ ] Ask {% channel "help" %}[^1] %%or not%%

#+BEGIN_NOTE
Beta.
#+END_NOTE
"""
    assert [" ".join(block.text.split()) for block in blocks(text)] == [
        "Save often: and early twice.",
        "Press {{y}} here.",
        "[ ] Ask help",
        "Note: Beta.",
        "",
    ]
    assert count_skipped(blocks(text)) == {"comments": 1}
    assert ("/leave/", "here") in links(text)


def test_an_outline_below_a_heading_is_no_code() -> None:
    text = "## Usage\n\t- Open it\n\t\t- twice\n"
    assert blocks(text)[1:] == (
        Block("list_item", "Open it", 2, 2),
        Block("list_item", "twice", 3, 3, leads=("Open it",)),
    )


def test_the_front_matter_and_tags_of_a_note_become_its_properties() -> None:
    text = (
        "---\nTags: [garden/herbs, '#draft']\nauthors:\n  - Ann Lee\nupdated: 2026-03-01\n"
        "status: done\n---\n# Roses\n\nPruned in #spring, not `#code`.\n"
    )
    assert blocks(text)[0].properties == (
        ("tag", "garden/herbs"),
        ("tag", "draft"),
        ("author", "Ann Lee"),
        ("modified", "2026-03-01"),
        ("status", "done"),
        ("tag", "spring"),
    )


def test_the_properties_of_a_page_from_notion_are_fields() -> None:
    text = (
        "# Crane\n\nStatus: Done\nTags: harbour, steel\nCreated time: November 3, 2025 10:12 AM\n"
        "Created by: Ann Lee\nOwner: [Bo](Bo%20152b.md)\n\nIt lifts: 38 tonnes.\n"
    )
    found = blocks(text)
    assert [(block.kind, block.text, block.first_line) for block in found[1:]] == [
        ("list_item", "Status: Done", 3),
        ("list_item", "Tags: harbour, steel", 4),
        ("list_item", "Created time: November 3, 2025 10:12 AM", 5),
        ("list_item", "Created by: Ann Lee", 6),
        ("list_item", "Owner: Bo", 7),
        ("paragraph", "It lifts: 38 tonnes.", 9),
    ]
    assert found[0].properties == (
        ("status", "Done"),
        ("tag", "harbour"),
        ("tag", "steel"),
        ("created", "2025-11-03"),
        ("author", "Ann Lee"),
        ("owner", "Bo"),
    )
    assert found[5].links[0][0] == len("Owner: ")


@pytest.mark.parametrize("text", ["# Tides\n\nNote: the tide\nis high.\n", "# A\n\nOnly: one\n"])
def test_a_paragraph_that_begins_with_a_label_is_no_list_of_fields(text: str) -> None:
    assert [block.kind for block in blocks(text)] == ["heading", "paragraph"]


@pytest.mark.parametrize(
    "text",
    [
        "---\ndate: {{date:YYYY-MM-DD}}\n---\n## Agenda\n",
        "# {{title}}\n\n## Decisions\n",
        "---\naliases: [day]\n---\n\nWeekly review {{date:YYYY-[W]ww}}\n======\n\n- \n",
        "---\nup: '[[{{date:YYYY}}]]'\n---\n\nText.\n",
        "---\ncreated: <% tp.file.creation_date() %>\n---\n\nText.\n",
    ],
)
def test_templates_of_notes_are_left_out(text: str) -> None:
    assert count_skipped(blocks(text)) == {"templates": 1}
    assert not any(block.text for block in blocks(text))


def test_a_note_about_templates_and_pages_of_generators_are_read() -> None:
    for text in (
        "# Templates\n\nWrite `{{title}}` or <% tp.date %>.\n",
        "# {{ page.title }}\n\nA.\n",
        "# The variable `{{title}}`\n\nA.\n",
        "# How {{title}} works\n\nA.\n",
        "---\ndescription: Use {{date}} to insert the day\n---\n\nA.\n",
    ):
        assert "templates" not in count_skipped(blocks(text))
        assert any(block.text for block in blocks(text))


def test_queries_of_obsidian_are_no_text() -> None:
    found = blocks("Due:\n\n```dataview\nTABLE due FROM #x\n```\n\n```sql\nSELECT 1\n```\n")
    assert [block.text for block in found if block.text] == ["Due:", "SELECT 1"]
    assert count_skipped(found) == {"queries": 1}


def test_clocks_of_logseq_are_no_text_and_references_show_their_block() -> None:
    block = "64a1f3c2-7b1e-4f0a-9a51-0c2d3e4f5a6b"
    text = (
        f"- The queen is blue\n  collapsed:: true\n  id:: {block}\n- TODO Treat\n  :LOGBOOK:\n"
        f"  CLOCK: [2026-07-01 Wed 10:00:00]\n  :END:\n- See (({block}))\n- See (({block[::-1]}))\n"
        f"- See [her]((({block}))) or (({block[:-1]}0)) too\n"
    )
    found = [(item.text, item.first_line) for item in blocks(text)]
    assert found[0] == ("The queen is blue", 1) and found[1][0].strip() == "TODO Treat"
    assert found[2] == ("See The queen is blue", 8)
    assert found[-1][0] == "See her or  too"
