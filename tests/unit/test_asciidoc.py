"""AsciiDoc is read as its readers see it, without its signs."""

import pytest

from connectors.media_type import guess_media_type
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract

GUIDE = """\
= Harbour Guide
Ilse Brandt
:berths: 214

== Mooring

It has {berths} berths on 10^6^ m and H~2~O. Use *two* _lines_ and `moor()`; see
<<crane,the crane>> and https://example.org/terms[the terms].footnote:[Since 1987.]

[[crane]]
=== The crane

.Loads of a year
[cols="1,1", options="header"]
|===
|Year |Loads

|1987
|12

2+|none since
|===

* Winch
** Drum
. First
+
More of it.

Draught:: how deep it lies

[source,python]
----
*left* = "as it is" # <1>
----

[NOTE]
====
Bring fenders.
====

image::crane.png[Crane 3 with boom]
// a comment
include::other.adoc[]
"""


def read(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), guess_media_type("guide.adoc"))


def test_a_guide_is_read_without_its_signs() -> None:
    assert [(b.kind, b.first_line, " ".join(b.text.split())) for b in read(GUIDE)] == [
        ("heading", 1, "Harbour Guide"),
        ("paragraph", 2, "Ilse Brandt"),
        ("heading", 5, "Mooring"),
        (
            "paragraph",
            7,
            "It has 214 berths on 10^6 m and H_2O. Use two lines and moor(); see the crane and"
            " the terms. (Since 1987.)",
        ),
        ("heading", 11, "The crane"),
        ("paragraph", 16, "Loads of a year"),
        ("table", 18, "Year: 1987 | Loads: 12"),
        ("table", 21, "none since"),
        ("list_item", 24, "Winch"),
        ("list_item", 25, "Drum"),
        ("list_item", 26, "1. First"),
        ("list_item", 28, "More of it."),
        ("list_item", 30, "Draught: how deep it lies"),
        ("code", 34, '*left* = "as it is" #'),
        ("paragraph", 38, "Note: Bring fenders."),
        ("paragraph", 42, "Crane 3 with boom"),
    ]


def test_cells_span_rows_and_values_may_be_separated_by_commas() -> None:
    spanning = "|===\n|Zone|Port|Fee\n\n.2+|North|Kiel|9\n|Riga|7\n|South|Pula|5\n|===\n"
    assert [b.text for b in read(spanning)] == [
        "Zone: North | Port: Kiel | Fee: 9",
        "Zone: North | Port: Riga | Fee: 7",
        "Zone: South | Port: Pula | Fee: 5",
    ]
    separated = "[%header]\n,===\nPort,Fee\nKiel,9\n,===\nand on\n"
    assert [b.text for b in read(separated)] == ["Port: Kiel | Fee: 9", "and on"]


@pytest.mark.parametrize("text", ["|===\nno cell\n|===\n", "----\nopen", "|===\n|open", "= \n:a:"])
def test_text_of_truncated_constructs_is_kept(text: str) -> None:
    said = " ".join(block.text for block in read(text))
    for word in ("cell", "open"):
        assert (word in said) == (word in text)


def test_block_formulas_are_written_in_characters() -> None:
    tex = "[latexmath]\n++++\n\\frac{a}{b} \\leq c\n++++\n\nAfter."
    assert [block.text for block in read(tex)] == ["a/b ≤ c", "After."]
    assert read(tex.replace("latexmath", "stem"))[0].text == "a/b ≤ c"
    ascii_math = "[stem]\n++++\nsqrt(4) = 2\n++++"
    assert read(ascii_math)[0].text == "sqrt(4) = 2"
    assert (
        read(":stem: latexmath\n\n" + ascii_math.replace("sqrt(4)", "x^{2}"))[0].text == "x^2 = 2"
    )


def test_tables_in_the_format_csv_have_cells() -> None:
    table = '[%header,format=csv]\n|===\nName,Note\nAnn,"cook, driver"\n|==='
    assert [block.text for block in read(table)] == ["Name: Ann | Note: cook, driver"]
    tabs = '[%header,format="tsv"]\n|===\nName\tAge\nAnn\t30\n|==='
    assert [block.text for block in read(tabs)] == ["Name: Ann | Age: 30"]


def test_text_that_is_attached_to_an_item_keeps_the_numbers_of_the_list() -> None:
    text = (
        "* one\n* two\n+\nmore of\nit\n\n[arabic]\n. first\n+\n----\ncode\n----\n. second\n"
        "** nested\n+\ndeep\n\nEnd.\n"
    )
    assert [(block.kind, block.text, block.leads) for block in read(text)] == [
        ("list_item", "one", ()),
        ("list_item", "two", ()),
        ("list_item", "more of\nit", ("two",)),
        ("list_item", "1. first", ()),
        ("code", "code", ("1. first",)),
        ("list_item", "2. second", ()),
        ("list_item", "nested", ("2. second",)),
        ("list_item", "deep", ("2. second", "nested")),
        ("paragraph", "End.", ()),
    ]
