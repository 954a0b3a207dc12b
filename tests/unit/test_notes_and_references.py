"""Org files, subtitles, bibliographies and contacts: what a reader of them would keep."""

import pytest

from connectors.media_type import guess_media_type, is_text_name
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.readers import extract
from hopsyncd.models.questions import find_sentence_spans

ORG = """#+TITLE: Harbour notes
#+AUTHOR: Ada
#+FILETAGS: :work:

Intro with *bold*, =code=, +gone+ and [[https://a.org][our page]].
* TODO [#A] Buy rope [1/2]                              :shopping:
  SCHEDULED: <2024-05-01 Wed 10:00>
  :PROPERTIES:
  :ID: 12345
  :END:
  Meet [2024-04-02 Tue] at the pier.[fn:1]
   - [X] thick rope
     + nested
   - Anchor :: holds the boat
#+CAPTION: Prices
| Season | Price |
|--------+-------|
| High   |   310 |
#+BEGIN_SRC python
x = 1  # kept
#+END_SRC
# a comment
#+BEGIN_COMMENT
hidden
#+END_COMMENT
[fn:1] A footnote text.
"""
SRT = """1
00:00:01,000 --> 00:00:03,000
<i>Hello there,</i>
my friend.

2
00:00:03,500 --> 00:00:05,000
Where is it?

3
00:01:05,500 --> 00:01:07,000
{\\an8}In the &amp; harbour.
"""
VTT = """WEBVTT - Title

NOTE not shown

00:01.000 --> 00:04.000 position:10%
<v Anna Berg>Where is <c.x>the</c> key?

00:05.000 --> 00:09.000
<v Bo>On the <00:06.000>table.
"""
BIB = """@string{jm = "Journal of Masts"}
@article{smith2020,
  author = {Smith, John and M{\\"u}ller, Eva},
  title = "The {Nightjar}: 5\\% better",
  journal = jm # { B}, year = 2020, volume={12}, number={3}, pages={1--9},
  doi = {10.1000/x}, abstract = {We measure.},
}
@comment{x}
@book{open, editor={Ada Lovelace}, title={Not closed
}
@misc{last, title={Last}, month = may, year = "1999"}
"""
VCF = """BEGIN:VCARD
VERSION:3.0
N:Lovelace;Ada;;;
FN:Ada Lovelace
ORG:Analytical Engines;Research
item1.EMAIL;TYPE=INTERNET;TYPE=WORK:ada@example.org
TEL;TYPE=CELL:+44 1
ADR;TYPE=HOME:;;1 Mill St;London;;W1;UK
BDAY:18151210
NOTE:Likes\\, numbers
PHOTO;ENCODING=b:AAAA
END:VCARD
"""


def read(text: str, name: str) -> list[Block]:
    return [
        block for block in extract(text.encode(), guess_media_type(name)) if block.kind != "skipped"
    ]


def test_an_org_file_is_read_with_its_headings_tables_and_tasks() -> None:
    blocks = read(ORG, "a.org")
    assert [(block.kind, block.level, block.text) for block in blocks] == [
        ("heading", 1, "Harbour notes"),
        ("paragraph", 0, "Intro with bold, code,  and our page."),
        ("heading", 2, "TODO Buy rope"),
        ("paragraph", 0, "SCHEDULED: 2024-05-01 10:00"),
        ("paragraph", 0, "Meet 2024-04-02 at the pier."),
        ("note", 0, "A footnote text."),
        ("list_item", 0, "[X] thick rope"),
        ("list_item", 0, "nested"),
        ("list_item", 0, "Anchor: holds the boat"),
        ("paragraph", 0, "Prices"),
        ("table", 0, "Season: High | Price: 310"),
        ("code", 0, "x = 1  # kept"),
    ]
    assert set(blocks[0].properties) == {("author", "Ada"), ("tag", "work"), ("tag", "shopping")}
    assert [link.target for _, link in blocks[1].links] == ["https://a.org"]
    assert [block.first_line for block in blocks if block.kind in ("table", "code")] == [18, 20]


def test_an_org_table_without_a_rule_and_plain_text() -> None:
    assert [block.text for block in read("| a | 1 |\n| b | 2 |\n\nText.", "a.org")] == [
        "a | 1", "b | 2", "Text."
    ]  # fmt: skip


def test_subtitles_are_paragraphs_with_their_times() -> None:
    blocks = read(SRT, "film.srt")
    assert [(block.text, block.first_line, block.last_line) for block in blocks] == [
        ("[0:00:01] Hello there, my friend.\nWhere is it?", 2, 8),
        ("[0:01:05] In the & harbour.", 11, 12),
    ]
    (block,) = read(VTT, "talk.vtt")
    assert block.text == "[0:00:01] Anna Berg: Where is the key?\nBo: On the table."


def test_long_speech_is_split_at_sentences_and_scrolling_lines_are_read_once() -> None:
    cues = [f"00:00:{n:02}.000 --> 00:00:{n + 1:02}.000\nSentence number {n}." for n in range(40)]
    blocks = read("\n\n".join(cues), "talk.vtt")
    assert len(blocks) > 2
    assert all(block.text.endswith(".") and len(block.text) < 600 for block in blocks)
    scrolled = "00:01.000 --> 00:02.000\none two\n\n00:02.000 --> 00:03.000\none two\nthree four\n"
    assert [block.text for block in read(scrolled, "a.vtt")] == ["[0:00:01] one two\nthree four"]
    other = scrolled.replace("one two\n\n", "I\n\n").replace("one two\nthree four", "It was late")
    assert [block.text for block in read(other, "a.vtt")] == ["[0:00:01] I\nIt was late"]


def test_the_entries_of_a_bibliography_are_sections() -> None:
    assert [(block.text, block.first_line) for block in read(BIB, "refs.bib")] == [
        ("The Nightjar: 5% better", 2),
        (
            "[smith2020] John Smith, Eva Müller (2020): The Nightjar: 5% better,"
            " Journal of Masts B, 12(3), pages 1\u20139, doi:10.1000/x. We measure.",
            2,
        ),
        ("Not closed", 9),
        ("[open] Ada Lovelace (eds.): Not closed.", 9),
        ("Last", 11),
        ("[last] May 1999: Last.", 11),
    ]


def test_each_entry_of_a_bibliography_is_a_passage() -> None:
    text = "@book{a, title={Ropes}, year=2015}\n@misc{b, note={No title.}}\n@book{c, title={Salt}}"
    pieces = split_into_passages(read(text, "refs.bib"), 400)
    assert [(piece.heading, piece.text) for piece in pieces] == [
        (("Ropes",), "[a] 2015: Ropes."),
        ((), "[b] No title."),
        (("Salt",), "[c] Salt."),
    ]


def test_authors_year_and_title_of_a_reference_are_one_sentence() -> None:
    _, block = read(
        "@article{dahl, author={Dahl, Ida Marie and Berg, O.}, title={Rain in bogs.},"
        " year={2021}, journal={J. Ecol. Res.}, abstract={We measure rain in two bogs.}}",
        "refs.bib",
    )
    (start, end), *_ = find_sentence_spans(block.text)
    assert block.text[start:end].startswith("[dahl] Ida Marie Dahl, O. Berg (2021): Rain in bogs, ")


@pytest.mark.parametrize("end", ["", ",", " ,\n", "\n}\n@misc{b, title={Other}}"])
def test_an_unclosed_value_keeps_its_last_character(end: str) -> None:
    for mark in '{"':
        (_, first, *_) = read(f"@book{{a, title = {mark}Cut off{end}", "refs.bib")
        assert "Cut off." in first.text


def test_a_contact_becomes_a_row() -> None:
    (block,) = read(VCF, "ada.vcf")
    assert block.names == ("Ada Lovelace",)
    assert block.text == (
        "Ada Lovelace | Organisation: Analytical Engines, Research | Mail: ada@example.org (work)"
        " | Telephone: +44 1 (cell) | Address: 1 Mill St, London, W1, UK (home)"
        " | Birthday: 1815-12-10 | Note: Likes, numbers"
    )


def test_org_latex_and_subtitles_are_read_by_default_and_contacts_are_not() -> None:
    assert all(map(is_text_name, ("a.org", "a.tex", "a.bib", "a.srt", "a.vtt")))
    assert not is_text_name("a.vcf")  # as calendars
