"""Plain text, read by its layout."""

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.readers import extract

MANUAL = """MILL(1)                          Mill Manual                          MILL(1)

NAME
       mill - Grind corn

SYNOPSIS
       mill [-n] <corn>...

OPTIONS
       -n, --dry-run
           Show what would be ground, and stop before the stones begin to
           turn.

           Nothing is worn by it.

       -q
           Be quiet.

   Signals
       The stones stop at SIGTERM.

Mill 2.1                          10/07/2025                          MILL(1)
"""

RFC = """
Network Working Group                                        J. Doe, Ed.
Request for Comments: 9999                                     Example Org

                  The Widget Transfer Protocol (WTP)

Table of Contents

   1. Introduction ....................................................3
   2. Commands ........................................................4

1.  Introduction

   The Widget Transfer Protocol moves widgets from one host to another.
   It listens on port 4444.

Doe                          Standards Track                    [Page 3]
\f
RFC 9999            Widget Transfer Protocol (WTP)             March 2019

2.  Terms

   Widget
      A thing that is moved.

   Host:  A machine that sends or receives widgets, and that is known
      by its name.

   o  One item goes on over
      two lines.
"""


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/plain")


def shown(text: str) -> list[tuple[int, str]]:
    return [(block.level, " ".join(block.text.split())) for block in blocks(text)]


def test_a_manual_page_has_its_name_sections_and_options() -> None:
    assert shown(MANUAL) == [
        (1, "mill"),
        (0, "mill - Grind corn"),
        (2, "SYNOPSIS"),
        (0, "mill [-n] <corn>..."),
        (2, "OPTIONS"),
        (0, "-n, --dry-run: Show what would be ground, and stop before the stones begin to turn."),
        (0, "Nothing is worn by it."),
        (0, "-q: Be quiet."),
        (3, "Signals"),
        (0, "The stones stop at SIGTERM."),
    ]
    option, more, other = blocks(MANUAL)[5:8]
    assert (option.leads, more.leads, other.leads) == ((), ("-n, --dry-run",), ())
    assert (option.first_line, option.last_line) == (10, 12)


def test_a_passage_that_begins_inside_an_option_says_which() -> None:
    more = "\n\n".join(f"           Reason {n} is that stones are worn." for n in range(40))
    found = split_into_passages(
        blocks(MANUAL.replace("           Nothing is worn by it.", more)), 100
    )
    inside = [one.text for one in found if one.text.endswith(("worn.", "quiet.")) and one]
    assert len(inside) > 4
    assert all("-n, --dry-run" in text for text in inside[:4])
    assert found[0].heading == ("mill",)


def test_an_rfc_has_its_title_and_no_furniture() -> None:
    assert shown(RFC) == [
        (1, "The Widget Transfer Protocol (WTP)"),
        (0, "Network Working Group J. Doe, Ed. Request for Comments: 9999 Example Org"),
        (2, "Table of Contents"),
        (2, "1. Introduction"),
        (0, "The Widget Transfer Protocol moves widgets from one host to another. It listens on"
         " port 4444."),
        (2, "2. Terms"),
        (0, "Widget: A thing that is moved."),
        (0, "Host: A machine that sends or receives widgets, and that is known by its name."),
        (0, "One item goes on over two lines."),
    ]  # fmt: skip


def test_headings_of_text_at_the_margin_are_recognised() -> None:
    text = (
        "The Project\n===========\n\nOf all.\n\n3. Members\n\n3.1. Powers\n\nOne may act.\n\nEND\n"
    )
    assert shown(text) == [
        (1, "The Project"),
        (0, "Of all."),
        (2, "3. Members"),
        (3, "3.1. Powers"),
        (0, "One may act."),
        (2, "END"),
    ]
    numbered = "8. The leader serves for one year.\n\n9. The deputy too.\n"
    assert [level for level, _ in shown(numbered)] == [0, 0]


def test_a_head_is_the_title_and_facts() -> None:
    text = "PEP: 999\nTitle: Widgets\nAuthor: Jane Doe,\n  John Roe\nStatus: Active\n\nText.\n"
    title, *facts, last = blocks(text)
    assert (title.text, title.level, title.names) == ("PEP 999: Widgets", 1, ("PEP 999",))
    assert [fact.text for fact in facts] == [
        "PEP: 999",
        "Author: Jane Doe,\nJohn Roe",
        "Status: Active",
    ]
    assert (last.text, last.first_line) == ("Text.", 7)


def test_items_are_led_by_what_introduces_them() -> None:
    text = "These are read:\n * one thing that\n   goes on\n * two\n\n * three\n\nEnd.\n"
    assert [(block.kind, block.text, block.leads) for block in blocks(text)] == [
        ("paragraph", "These are read:", ()),
        ("list_item", "one thing that\ngoes on", ("These are read:",)),
        ("list_item", "two", ("These are read:",)),
        ("list_item", "three", ("These are read:",)),
        ("paragraph", "End.", ()),
    ]


def test_code_and_columns_keep_their_lines() -> None:
    text = "Run it:\n\n    $ mill -n\n    would grind corn\n\nname     size\ncorn     12\n"
    assert [(block.kind, block.text) for block in blocks(text)] == [
        ("paragraph", "Run it:"),
        ("code", "$ mill -n\nwould grind corn"),
        ("code", "name     size\ncorn     12"),
    ]


def test_a_word_broken_at_its_hyphen_is_whole() -> None:
    (passage,) = split_into_passages(blocks("The user-\ninterface is - as ever -\nsmall.\n"))
    assert passage.text == "The user-interface is - as ever - small."


def test_manual_pages_and_numbered_papers_that_a_text_names_are_links() -> None:
    (block,) = blocks("See mill(1), corn-flour(5), mill(1) again, RFC 9309 and PEP8. Not f(x).\n")
    assert [(at, link.target, link.text) for at, link in block.links] == [
        (4, "mill", "mill(1)"),
        (13, "corn-flour", "corn-flour(5)"),
        (43, "RFC 9309", "RFC 9309"),
        (56, "PEP 8", "PEP8"),
    ]


def headings(text: str) -> list[tuple[int, str]]:
    return [one for one in shown(text) if one[0]]


def test_numbers_that_go_on_are_headings_at_any_depth() -> None:
    text = """
1.  Status Codes

   They are these.

2.2.1.  Deep

   Text.

3.  429 Too Many Requests

   The client sent too much.

4. The members, by way of
   their chair
"""
    assert headings(text) == [
        (2, "1. Status Codes"),
        (4, "2.2.1. Deep"),
        (2, "3. 429 Too Many Requests"),
    ]


def test_indented_numbers_are_headings_below_the_one_that_they_go_on_from() -> None:
    text = """
4. Members

  4.1. Powers

   Together they may:

    1. Appoint a leader

    2. Dismiss one

  4.2. Duties

   They have none.

   9.1 Alone
"""
    assert headings(text) == [(2, "4. Members"), (3, "4.1. Powers"), (3, "4.2. Duties")]


def test_numbered_questions_over_unindented_text_are_headings() -> None:
    text = "1. What is it?\n\nA mill.\n\n2. What for?\n\nFor corn.\n\n2.1. Of what kind?\n\nAny.\n"
    assert headings(text) == [
        (2, "1. What is it?"),
        (2, "2. What for?"),
        (3, "2.1. Of what kind?"),
    ]


def test_numbered_items_are_not_headings() -> None:
    alone = "To do:\n\n1. Buy milk\n\n2. Buy bread\n\n3. Sleep\n\nThen rest.\n"
    with_numbers = "1. 2 cups of flour\n\n2. 3 eggs\n\nMix.\n"
    wrapped = "1. Buy milk and\n   some bread\n\n   Not more.\n\n2. Go home\n   at once\n\nRest.\n"
    street = "12 Main Street\n\nAnn.\n\n14 Main Street\n\nBob.\n"
    for text in (alone, with_numbers, wrapped, street):
        assert headings(text) == []


def test_a_long_numbered_heading_goes_on_in_the_column_of_its_title() -> None:
    first = "4.2.1.  The Negotiation of Widgets between a Host That Has Some and"
    text = f"{first}\n        One That Has None\n\n   Text.\n"
    title = f"{first} One That Has None".replace("  ", " ")
    assert shown(text) == [(4, title), (0, "Text.")]


def test_a_table_of_contents_that_repeats_the_headings_is_left_out() -> None:
    text = """
Table of Contents

   1.  Mills
     1.1.  Stones
   2.  Corn

   Acknowledgements

1.  Mills

1.1.  Stones

   They turn.

2.  Corn

   It is ground.
"""
    assert [text for level, text in shown(text) if not level] == [
        "Acknowledgements",
        "They turn.",
        "It is ground.",
    ]


def test_running_heads_are_left_out_and_text_continues_across_pages() -> None:
    pages = "".join(
        f"Mill Manual          Part {n}\n\nStone {n} turns slowly in the\n\n{n}\n\f"
        for n in range(1, 4)
    )
    text = f"{pages}Mill Manual          Part 4\n\nwind.\n\n4\n"
    assert [one for _, one in shown(text)] == [
        "Stone 1 turns slowly in the",
        "Stone 2 turns slowly in the",
        "Stone 3 turns slowly in the wind.",
    ]
    last = blocks(text)[-1]
    assert (last.first_line, last.last_line) == (13, 18)


def test_an_indented_line_for_which_there_was_no_room_is_no_explanation() -> None:
    text = """
   Host:  A machine that sends or receives widgets, and that is known
      by its name, which nobody but the owner of the machine may
      change, as others trust it.

   See the Guidelines for Writers of Documents about Widgets by the
      Working Group.
"""
    assert [(block.kind, block.leads) for block in blocks(text)] == [("paragraph", ())] * 2


def test_a_term_is_told_from_its_text_by_the_column_below() -> None:
    text = """
   [WIDGETS]  Doe, J., "Key Words for the Use of Widgets to Indicate
              Levels of Need", March 1997.

   -v, --loud   Say more and
                be heard.
"""
    assert [(block.kind, " ".join(block.text.split())) for block in blocks(text)] == [
        (
            "list_item",
            '[WIDGETS]: Doe, J., "Key Words for the Use of Widgets to Indicate Levels of Need",'
            " March 1997.",
        ),
        ("list_item", "-v, --loud: Say more and be heard."),
    ]


def test_a_word_that_was_hyphenated_for_the_line_is_whole() -> None:
    (passage,) = split_into_passages(
        blocks("The inter\u2010\nface is auto\u00ad\nmatic, and soft\u00adware.\n")
    )
    assert passage.text == "The interface is automatic, and software."
    *_, item = blocks("It takes these op\u2010\ntions:\n\n * one\n")
    assert item.leads == ("It takes these options:",)
    (passage,) = split_into_passages(blocks("A state\u2010of\u2010the\u2010\nart mill.\n"))
    assert passage.text == "A state\u2010of\u2010the\u2010art mill."


def test_letters_between_numbers_stand_below_the_first_and_appendices_beside() -> None:
    lettered = "\n\n".join(
        f"{number}  Part\n\n   Text." for number in ("1.", "A.", "B.", "2.", "A.", "A.1.", "B.")
    )
    assert [level for level, _ in headings(lettered)] == [2, 3, 3, 2, 2, 3, 2]


def test_bold_and_underlined_text_of_printers_is_text() -> None:
    text = "B\bBo\bol\bld\bd and _\bl_\bi_\bn_\be_\bd, \x1b[1mtoo\x1b[0m.\n"
    assert shown(text) == [(0, "Bold and lined, too.")]


def test_terms_beside_their_texts_are_told_from_text_and_from_tables() -> None:
    text = """BASH(1)            General Commands Manual            BASH(1)

VARIABLES
       These are set.  What is set before is kept until the shell ends,
       unless  it is local to a function that ends before.
       PWD    The working directory.
       OLDPWD The working directory before, as set by the command that was
              given last.
       -f     Use functions only.
       SHELLOPTIONS
              All options.

       Ship     Port       Days
       Ada      Oslo       12
                Bergen     3
"""
    assert [(block.kind, " ".join(block.text.split())) for block in blocks(text)[1:]] == [
        (
            "paragraph",
            "These are set. What is set before is kept until the shell ends, unless it is local to"
            " a function that ends before.",
        ),
        ("list_item", "PWD: The working directory."),
        (
            "list_item",
            "OLDPWD: The working directory before, as set by the command that was given last.",
        ),
        ("list_item", "-f: Use functions only."),
        ("list_item", "SHELLOPTIONS: All options."),
        ("code", "Ship Port Days Ada Oslo 12 Bergen 3"),
    ]
