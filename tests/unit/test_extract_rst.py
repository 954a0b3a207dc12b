from pathlib import Path

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/x-rst")


def test_sections_take_their_levels_from_the_order_of_adornments() -> None:
    text = "=====\nTitle\n=====\n\nSub\n~~~\ntext\n\nOther\n=====\n\nTwo\n~~~\n"
    assert [(b.text, b.level, b.first_line) for b in blocks(text)] == [
        ("Title", 1, 2),
        ("Sub", 2, 5),
        ("text", 0, 7),
        ("Other", 3, 9),
        ("Two", 2, 12),
    ]


def test_inline_markup_is_reduced_to_its_text() -> None:
    text = ":ref:`guide <x>`, `link <http://a.b>`_, ``co_de``, **b**, *i*, |sub|, foo_ and a_b.\n"
    assert blocks(text)[0].text == "guide, link, co_de, b, i, sub, foo and a_b."


def test_literal_blocks_and_code_directives_are_code() -> None:
    text = "So::\n\n  x\n\n    y\n\nafter\n\n.. code-block:: py\n   :linenos:\n\n   z = 1\n"
    assert blocks(text) == (
        Block("paragraph", "So:", 1, 1),
        Block("code", "x\n\n  y", 3, 5, leads=("So:",)),
        Block("paragraph", "after", 7, 7),
        Block("code", "z = 1", 12, 12),
    )


def test_directives_with_text_keep_it_and_others_go() -> None:
    text = ".. note:: Careful\n   here\n\n.. toctree::\n   a\n\n.. comment\n   b\n\n.. _x:\n\nend\n"
    assert [block.text for block in blocks(text) if block.text] == ["Careful\nhere", "end"]


def test_a_change_in_a_version_reads_as_the_manual_shows_it() -> None:
    text = ".. versionadded:: 3.9\n\n.. deprecated:: 3.12\n   Use b.\n\n.. versionchanged:: 3.1\n"
    assert [block.text for block in blocks(text)] == [
        "New in version 3.9",
        "Deprecated since version 3.12: Use b.",
        "Changed in version 3.1",
    ]


def test_list_items_and_tables_are_read() -> None:
    text = "* a\n* b\n  c\n\n=== ===\nA   B\n=== ===\n1   2\n=== ===\n\n+--+--+\n|x | y|\n+--+--+\n"
    assert [(block.kind, block.text) for block in blocks(text)] == [
        ("list_item", "a"),
        ("list_item", "b\nc"),
        ("table", "A: 1 | B: 2"),
        ("table", "x | y"),
    ]


def test_a_pep_has_its_head_as_title_and_facts() -> None:
    text = "PEP: 999\nTitle: Widgets\nStatus: Active\n\nAbstract\n========\n\nOf :pep:`602`.\n"
    title, *facts, section, said = blocks(text)
    assert (title.text, title.level, title.names) == ("PEP 999: Widgets", 1, ("PEP 999",))
    assert [fact.text for fact in facts] == ["PEP: 999", "Status: Active"]
    assert (section.level, said.text) == (2, "Of PEP 602.")
    assert [(link.target, link.text) for _, link in said.links] == [("PEP 602", "602")]


def test_fields_terms_and_items_lead_what_stands_below_them() -> None:
    text = (
        ":security: Only fixes.\n\n   Source only.\n\nterm\n   Its text.\n\n"
        "Do this:\n\n#. One.\n\n   - Sub\n\n.. option:: --all\n\nOr:\n\n.. x\n\n"
        ".. option:: --dry\n\n   Shows.\n\n.. option:: --wet\n\n::\n\n   code\n\nEnd.\n"
    )
    found = [block for block in blocks(text) if block.kind != "skipped"]
    assert [(block.text, block.leads) for block in found] == [
        ("security: Only fixes.", ()),
        ("Source only.", ("security",)),
        ("term: Its text.", ()),
        ("Do this:", ()),
        ("1. One.", ("Do this:",)),
        ("Sub", ("Do this:", "1. One.")),
        ("--all", ()),
        ("Or:", ()),
        ("--dry", ("Or:",)),
        ("Shows.", ("Or:", "--dry")),
        ("--wet", ("Or:",)),
        ("code", ()),
        ("End.", ()),
    ]


def test_table_cells_are_labelled_with_their_columns() -> None:
    text = (
        ".. list-table::\n   :header-rows: 1\n\n   * - Name\n     - Role\n   * - Ada\n"
        "     - Admin\n       of all\n\n.. csv-table::\n   :header: Name, Role\n\n   Bob, User\n\n"
        "+-----+-------+\n| Key | Value |\n+=====+=======+\n| a   | one   |\n|     | two   |\n"
        "+-----+-------+\n"
    )
    assert [(block.text, block.first_line) for block in blocks(text)] == [
        ("Name: Ada | Role: Admin of all", 6),
        ("Name: Bob | Role: User", 10),
        ("Key: a | Value: one two", 18),
    ]


def test_links_and_targets_join_documents() -> None:
    text = (
        ".. _the-guide:\n\nTitle\n=====\n\nSee :doc:`../other`, :ref:`the rest <rest>` and\n"
        "`this <https://x.y/z>`__.\n\n.. toctree::\n   :maxdepth: 1\n\n   one\n   Two <b/two>\n"
    )
    found = blocks(text)
    assert found[0].names == ("the-guide",)
    assert [(link.target, link.text) for block in found for _, link in block.links] == [
        ("../other", "../other"),
        ("rest", "the rest"),
        ("https://x.y/z", "this"),
        ("one", ""),
        ("b/two", "Two"),
    ]


def test_footnotes_follow_what_refers_to_them_and_citations_stay() -> None:
    text = (
        "Rope [#f1]_ and tar [1]_ [CIT2002]_.\n\nNext.\n\n.. [#f1] Of hemp.\n"
        ".. [1] Of pine.\n.. [CIT2002] A book on oakum.\n"
    )
    assert [(block.kind, block.text) for block in blocks(text)] == [
        ("paragraph", "Rope  and tar [1] [CIT2002]."),
        ("note", "Of hemp."),
        ("note", "Of pine."),
        ("paragraph", "Next."),
        ("note", "[CIT2002] A book on oakum."),
    ]


def test_substitutions_are_replaced_and_powers_kept() -> None:
    text = ".. |v| replace:: 3.4\n\nVersion |v| holds 10\\ :sup:`6` cells of H\\ :sub:`2`\\ O.\n"
    assert [block.text for block in blocks(text)] == ["Version 3.4 holds 10^6 cells of H_2O."]


def test_definitions_of_a_document_do_not_apply_to_the_next_document() -> None:
    blocks(".. role:: red\n.. default-role:: math\n\n`x`\n")
    assert [block.text for block in blocks(":red:`said` and `so`")] == ["said and so"]


def test_directives_do_not_read_other_files() -> None:
    text = (
        ".. include:: /etc/hostname\n\n.. csv-table::\n   :file: /etc/hostname\n\n"
        ".. literalinclude:: /etc/hostname\n\n.. raw:: html\n   :file: /etc/hostname\n\nEnd.\n"
    )
    secret = Path("/etc/hostname").read_text().strip()
    assert blocks(text)[-1].text == "End."
    assert all(secret not in block.text for block in blocks(text))


def test_what_cannot_be_parsed_stays_word_for_word() -> None:
    table = "+---+---+\n| a | b |\n+---+\n| 7 |\n+---+---+"
    assert "| a | b |" in "\n".join(block.text for block in blocks(f"Text.\n\n{table}\n\nEnd.\n"))


def test_cells_that_span_columns_and_rows_keep_their_labels() -> None:
    text = (
        "+-------+-------------+\n| Route | Fare        |\n+       +------+------+\n"
        "|       | Low  | High |\n+=======+======+======+\n| North | 110  | 310  |\n"
        "+-------+------+------+\n"
    )
    assert [block.text for block in blocks(text)] == [
        "Route: North | Fare > Low: 110 | Fare > High: 310"
    ]


def test_a_table_in_a_cell_adds_no_rows_to_the_table_around_it() -> None:
    text = """
+-------+------------------+
| Plan  | Detail           |
+=======+==================+
| Basic | +------+-------+ |
|       | | Feat | Limit | |
|       | +======+=======+ |
|       | | User | 5     | |
|       | +------+-------+ |
+-------+------------------+
| Other | - shop           |
|       | - cook           |
+-------+------------------+
"""
    assert [block.text for block in blocks(text)] == [
        "Plan: Basic | Detail > Feat: User | Detail > Limit: 5",
        "Plan: Other | Detail: shop; cook",
    ]


def test_a_class_of_sphinx_keeps_its_members_and_a_class_of_docutils_its_content() -> None:
    text = (
        ".. class:: Boat(length)\n\n   A small boat.\n\n   .. method:: sail(to)\n\n      Sails.\n"
        "\n.. class:: wide\n\n   A paragraph.\n"
    )
    found = [block.text for block in extract(text.encode(), "text/x-rst")]
    assert found == ["Boat(length)", "A small boat.", "sail(to)", "Sails.", "A paragraph."]


def test_a_directive_of_a_domain_is_not_the_directive_of_docutils() -> None:
    text = ".. rst:role:: math:numref\n\n   Refers.\n\n.. py:module:: tides\n\n   Reads tides.\n"
    assert [block.text for block in blocks(text)] == ["math:numref", "Refers.", "Reads tides."]
