"""Notes: front matter and rules, footnotes, comments, tasks, what is deleted, and note programs."""

import pytest

from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.readers import extract


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/markdown")


def texts(text: str) -> list[str]:
    return [block.text for block in blocks(text) if block.text]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("---\nThe lathe was serviced.\n\n## Budget\n\n212 crowns.\n\n---\n\nEnd.\n", "The lathe"),
        ("---\n- Departs at 07:40\n- Returns at 18:15\n\n---\n\nWinter.\n", "Departs at 07:40"),
        (
            "---\nDate: 3 May\nPresent: Olve\n\n## Agenda\n\nThe crane.\n\n---\n\nEnd.\n",
            "The crane.",
        ),
        ("---\ntitle: Mill\nno name here\n---\n\nEnd.\n", "no name here"),
        ("+++\nnot = = toml\n+++\n\nEnd.\n", "not = = toml"),
        ("---\ntitle: Mill\n\nNo second rule.\n", "No second rule."),
    ],
)
def test_text_between_two_rules_is_front_matter_only_if_it_has_keys_and_values(
    text: str, kept: str
) -> None:
    found = "\n".join(texts(text))
    assert kept in found
    assert "End." in found or "End." not in text


def test_front_matter_may_end_with_dots_and_have_values_over_several_lines() -> None:
    text = (
        "---\ntitle: Smithy\nsummary: The anvil\n  and the bellows\ntags: [iron,\n  fire]\n"
        "# a comment\nétat: fermé\n...\n\nText.\n"
    )
    first = blocks(text)[0]
    assert first.text == "Smithy"
    assert ("summary", "The anvil and the bellows") in first.properties
    assert {("tag", "iron"), ("tag", "fire")} < {*first.properties}
    assert texts(text)[-1] == "Text."
    assert "état: fermé" in texts(text)


@pytest.mark.parametrize(
    ("written", "name", "date"),
    [
        ("updated: 1642032000000", "modified", "2022-01-13"),
        ("created: 1642032061", "created", "2022-01-13T00:01:01+00:00"),
        ("lastmod: 2026-05-03T10:00:00Z", "modified", "2026-05-03T10:00:00Z"),
        ("date modified: 2026-05-03", "modified", "2026-05-03"),
    ],
)
def test_a_date_added_by_a_note_program_is_metadata_and_no_text(
    written: str, name: str, date: str
) -> None:
    text = f"---\n{written}\n---\n\nText.\n"
    assert texts(text) == ["Text."]
    assert blocks(text)[0].properties == ((name, date),)


def test_a_date_that_people_write_stays_text() -> None:
    assert texts("---\ndate: 2020-03-18\n---\n\nMinutes.\n") == ["date: 2020-03-18", "Minutes."]
    assert texts("---\nupdated: in spring\n---\n\nM.\n") == ["updated: in spring", "M."]


def test_footnotes_follow_the_text_that_refers_to_them() -> None:
    text = """# Peat

Nine metres[^1]. Assayed twice[^lab].

Next.

[^1]: https://peat.example/77
[^lab]: Measured at Vantaa
  by Eero.

    Twice, in duplicate.

[^3]: ISO-25177

End.
"""
    found = blocks(text)
    assert [(block.kind, block.first_line, block.text) for block in found[1:]] == [
        ("paragraph", 3, "Nine metres. Assayed twice."),
        ("note", 7, "https://peat.example/77"),
        ("note", 8, "Measured at Vantaa\nby Eero."),
        ("note", 11, "Twice, in duplicate."),
        ("paragraph", 5, "Next."),
        ("note", 13, "ISO-25177"),  # nothing refers to it
        ("paragraph", 15, "End."),
    ]


def test_a_footnote_of_a_table_follows_the_table() -> None:
    text = "| Site | Depth |\n|---|---|\n| Ilo | 9[^a] |\n| Una | 3 |\n\n[^a]: estimated\n"
    assert texts(text) == ["Site: Ilo | Depth: 9", "Site: Una | Depth: 3", "estimated"]


def test_a_definition_without_an_address_is_text() -> None:
    text = "[Deadline]: Friday\n[site]: https://a.example\n[//]: # (hidden)\n\nSee [site].\n"
    assert texts(text) == ["Deadline: Friday", "See site."]
    assert texts("See [rust].\n\n[rust]: rust\n") == ["See rust."]


def test_comments_are_left_out_and_counted_and_code_is_kept() -> None:
    text = "Fine. %%cost 90%%\n\n%%\nSecret.\n\nMore.\n%%\n\n```\n%% kept %%\n```\n\n`%%a%%` end.\n"
    assert texts(text) == ["Fine.", "%% kept %%", "%%a%% end."]
    assert [block.first_line for block in blocks(text) if block.text] == [1, 10, 13]
    assert count_skipped(blocks(text)) == {"comments": 2}


def test_text_in_braces_is_kept_unless_a_program_replaces_it() -> None:
    text = (
        "Write {{ invoice.total }} and $\\frac{{a}}{{b}}$. {{embed [[x]]}}{{< fig >}}"
        " {{cloze Paris}}. [up]({{ site.url }}/up/)"
    )
    assert texts(text) == ["Write {{ invoice.total }} and a/b.  Paris. up"]
    assert [link.target for _, link in blocks(text)[0].links] == ["/up/"]


def test_formulas_keep_their_operators() -> None:
    assert texts("The product $a*b*c$ is $x_1 * y_1$.\n") == ["The product $a*b*c$ is x_1 * y_1."]
    assert texts("It costs $5 and *not* $6.\n") == ["It costs $5 and not $6."]


def test_deleted_text_is_left_out_and_raised_text_is_marked() -> None:
    text = "Fee <del>700</del><ins>750</ins>, ~~12~~13 rings, 40 m<sup>2</sup>, 10<sup>6</sup>."
    assert texts(text) == ["Fee 750, 13 rings, 40 m^2, 10^6."]
    assert count_skipped(blocks(text)) == {"deletions": 2}


def test_the_state_of_a_task_is_kept() -> None:
    assert texts("- [ ] Buy rope\n- [x] Sell boat\n") == ["[ ] Buy rope", "[x] Sell boat"]


def test_a_drawing_of_excalidraw_is_its_texts() -> None:
    text = (
        "---\nexcalidraw-plugin: parsed\ntags: [excalidraw]\n---\n"
        "==\u26a0  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu. \u26a0==\n\n%%\n"
        "# Excalidraw Data\n\n## Text Elements\nThe mill race ^aB3dE5\n\nSluice gate ^zZ9yY8\n\n"
        "## Drawing\n```compressed-json\nN4KAkARALgngDgUwgLgAQQQDwMYEMA2AlgCYBOu\n```\n%%\n"
    )
    assert [one.strip() for one in texts(text)] == [
        "tags: excalidraw",
        "The mill race",
        "Sluice gate",
    ]
    assert count_skipped(blocks(text)) == {"drawings": 1}


def test_links_of_dendron_have_their_label_first() -> None:
    head = "---\nid: x1\ntitle: Mill\ncreated: 1642032000000\nupdated: 1642032000000\n---\n\n"
    found = blocks(f"{head}See [[the race|proj.mill.race]] and [[proj.dam]].\n")
    assert found[-1].text == "See the race and proj.dam."
    assert [link.target for _, link in found[-1].links] == ["proj.mill.race", "proj.dam"]


def test_front_matter_that_a_program_put_its_own_above_is_read_too() -> None:
    text = (
        "---\npermalink: vault/a\n---\n\n---\ntitle: Ledger\nstatus: open\n---\n\nJars sold: 61.\n"
    )
    blocks = extract(text.encode(), "text/markdown")
    assert ("paragraph", "Jars sold: 61.", 10) in [(b.kind, b.text, b.first_line) for b in blocks]
    assert ("list_item", "status: open", 7) in [(b.kind, b.text, b.first_line) for b in blocks]
    assert any("Ledger" in block.names for block in blocks)
    assert not [block for block in blocks if block.kind == "heading" and "status" in block.text]


def test_a_field_between_rules_of_the_text_is_no_front_matter() -> None:
    text = "---\na: b\n---\n\n---\nNote: read this\n---\n\ntext\n"
    blocks = extract(text.encode(), "text/markdown")
    assert "Note: read this" in [block.text for block in blocks if block.kind != "list_item"]
