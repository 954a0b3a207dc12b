"""Web pages: their text, links, headings, lists and metadata."""

import re

import pytest

from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.readers import extract


def blocks(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/html; charset=utf-8")


def test_headings_paragraphs_and_their_lines_are_read() -> None:
    text = (
        "<h1>A\nb</h1>\n<p>one <b>two</b>\n  three</p>\n<ul><li>x<li>y</ul>\n<pre>\n a\n\n b</pre>"
    )
    assert blocks(text) == (
        Block("heading", "A b", 1, 2, level=1),
        Block("paragraph", "one two\nthree", 3, 4),
        Block("list_item", "x", 5, 5),
        Block("list_item", "y", 5, 5),
        Block("code", " a\n\n b", 7, 9),
    )


def test_the_title_is_a_heading_unless_the_h1_says_it() -> None:
    assert blocks("<title>T &amp; U</title><p>x")[0] == Block("heading", "T & U", 1, 1, level=1)
    assert [b.text for b in blocks("<title>The H - site</title><h1>The H</h1>")] == ["The H"]
    told = blocks("<title>T</title><h1>H</h1><h2>I</h2><p>x")
    assert [(b.text, b.level) for b in told] == [("T", 1), ("H", 2), ("I", 3), ("x", 0)]


def test_scripts_styles_and_comments_are_dropped() -> None:
    text = "<script>if (a<b) '</p>'</script><style>p{}</style><!-- <p>no --><p>yes<!doctype x>"
    assert [block.text for block in blocks(text) if block.text] == ["yes"]
    assert count_skipped(blocks(text)) == {"scripts": 1, "styles": 1}


def test_text_in_broken_markup_is_kept() -> None:
    assert blocks("a < b <p title='x > y'>c <p class=it's>d")[0].text == "a < b"
    assert [b.text for b in blocks("<p title='x > y'>c <p class=it's>d")] == ["c", "d"]
    assert blocks("<p>5 <6> 7 </ 8")[0].text == "5 <6> 7"  # a comment


def test_links_stand_where_their_text_begins() -> None:
    text = (
        '<p>See <a href="b%20c.html#x"> the\n <b>other</b></a>, <a name=q>here</a> or'
        ' <a href=mailto:a@x.y>ask</a>.</p><a href="d.md"><h2>Head</h2><p>Text</p></a>'
    )
    paragraph, heading, below = blocks(text)
    assert paragraph.text == "See the\nother, here or ask."
    assert [(at, link.target, link.text) for at, link in paragraph.links] == [
        (4, "b c.html#x", "the other")
    ]
    assert [link.text for _, link in (*heading.links, *below.links)] == ["Head", "Text"]


def test_a_term_stands_with_its_definition() -> None:
    text = "<dl><dt>-n<dt>--dry-run<dd><p>Show only.<p>Change nothing.<dt>-q<dd>Be quiet</dl><p>End"
    assert [(block.text, block.leads) for block in blocks(text)] == [
        ("-n, --dry-run: Show only.", ()),
        ("Change nothing.", ("-n, --dry-run",)),
        ("-q: Be quiet", ()),
        ("End", ()),
    ]


def test_lists_are_led_by_what_introduces_them() -> None:
    text = "<p>Two of them:<ul><li>One. More.<ul><li>Sub</ul><li>Two</ul><p>End"
    assert [(block.text, block.leads) for block in blocks(text)] == [
        ("Two of them:", ()),
        ("One. More.", ("Two of them:",)),
        ("Sub", ("Two of them:", "One.")),
        ("Two", ("Two of them:",)),
        ("End", ()),
    ]


def test_a_menu_without_links_is_no_text() -> None:
    found = blocks("<nav><span>Home</span> <span>About</span></nav><p>The mill grinds rye.")
    assert [block.text for block in found if block.text] == ["The mill grinds rye."]


def test_navigation_is_left_out_but_its_links_stay() -> None:
    text = (
        "<title>Mill</title><div class='x menu'><ul><li><a href=a.html>A</a></ul></div>"
        "<nav><a href=b.html>B</a></nav><ul><li><a href=c.html>C</a></ul><h1>Mill</h1>"
        "<ul class=toc><li><a href=#x>X</a></ul><div><a href=#y>Y</a></div><p>It grinds."
        "<p><a href=d.html>D</a><nav>unclosed <p>text"
    )
    found = blocks(text)
    assert [block.text for block in found if block.text] == [
        "Mill",
        "It grinds.",
        "D",
        "unclosed",
        "text",
    ]
    targets = [link.target for block in found for _, link in block.links]
    assert targets == ["a.html", "b.html", "c.html", "#x", "#y", "d.html"]


def test_a_bold_line_is_a_heading_and_a_bold_sentence_is_not() -> None:
    text = "<h2>Limits</h2><li><p><b>Joins</b></p><p>64.</p><li><p><b>Take care.</b></p></li>"
    assert [(block.text, block.level) for block in blocks(text)] == [
        ("Limits", 2),
        ("Joins", 3),
        ("64.", 0),
        ("Take care.", 0),
    ]


def test_chapters_stand_below_the_title_of_the_page() -> None:
    text = "<title>Log</title><h1>One</h1>a<h2>Two</h2>b<h1>Three</h1>c"
    assert [(b.text, b.level) for b in blocks(text) if b.level] == [
        ("Log", 1),
        ("One", 2),
        ("Two", 3),
        ("Three", 2),
    ]
    same = blocks("<title>The Log</title><h2>The log</h2>a<h2>Two</h2>b")
    assert [(b.text, b.level) for b in same if b.level] == [("The log", 1), ("Two", 2)]


def test_a_box_of_text_is_read_and_ends_where_it_closes_but_a_menu_is_not() -> None:
    box = "<div class=sidebar><p><b>Going further</b></p><p>Inside, <a href=x>linked</a>.</p></div>"
    menu = "<div class=sidebar><p>See</p><a href=x>Another page</a></div>"
    found = blocks(f"<h1>A</h1><h2>B</h2><p>one</p>{box}{menu}<p>after</p>")
    assert [(b.kind, b.text, b.level) for b in found if b.level or b.text] == [
        ("heading", "A", 1),
        ("heading", "B", 2),
        ("paragraph", "one", 0),
        ("heading", "Going further", 3),
        ("paragraph", "Inside, linked.", 0),
        ("heading", "", 3),
        ("paragraph", "after", 0),
    ]


def test_the_title_of_a_note_is_no_heading_of_what_follows_the_note() -> None:
    note = "<div class=note><h3>Note</h3><p>Only since 12.</p></div>"
    page = f"<h1>A</h1><div class=navheader><p>Prev</p></div><p>one</p>{note}<p>after</p>"
    assert [(b.kind, b.text) for b in blocks(page) if b.text] == [
        ("heading", "A"),
        ("paragraph", "one"),
        ("paragraph", "Note:"),
        ("paragraph", "Only since 12."),
        ("paragraph", "after"),
    ]


def test_a_first_heading_that_says_the_title_is_the_title_below_text_too() -> None:
    page = "<title>The Mill</title><p>Of old.<h1>The Mill</h1><p>a<h1>Corn</h1><p>b"
    assert [(block.text, block.level) for block in extract(page.encode(), "text/html")] == [
        ("The Mill", 1),
        ("Of old.", 0),
        ("a", 0),
        ("Corn", 2),
        ("b", 0),
    ]


def texts(page: str) -> list[str]:
    return [block.text for block in blocks(page) if block.text]


@pytest.mark.parametrize(
    "page",
    [
        "<body class='page menu'><h1>Bed</h1><p>Oysters lie here.</p></body>",
        "<h1>Inn</h1><div class=menu><h2>Soups</h2><p>Beetroot soup costs 65 crowns.</p></div>",
        "<h1>Inn</h1><section id=related><p>Gerda is the aunt of Folke.</p></section>",
        "<h1>Inn</h1><div class=footer><p>Open Tuesday to Sunday.</p></div>",
        "<h1>Inn</h1><div class='toc noprint'><p>A theory of constraints.</p></div>",
        "<h1>Inn</h1><div class=panel aria-hidden=true><p>Collapsed text.</p></div>",
        "<h1>Inn</h1><div role=tabpanel hidden style='display:none'><p>Second tab.</p></div>",
        "<h1>Inn</h1><details><summary>More</summary>Closed details.</details>",
        "<h1>Inn</h1><button>May dogs come in?</button><p>Yes, on a lead.</p>",
        "<h1>Inn</h1><h3><button aria-expanded=false>Opening hours</button></h3><p>9 to 5</p>",
        "<ul class='nav navbar-nav'><li><a href=a>One page</a><li>Text <a href=b>two</a></ul>",
        "<a href=start.html><div>All of it is a link.</div></a>",
    ],
)
def test_text_is_kept_whatever_its_container_is_called(page: str) -> None:
    kept = " ".join(texts(page)).split()
    assert kept == re.sub(r"<[^>]*>", " ", page).split()


def test_navigation_and_handles_are_left_out_and_counted() -> None:
    page = (
        "<body><header><a href=/>Home</a> <a href=/b>News</a></header>"
        "<main><h1>Mill<a class=headerlink href=#m>¶</a></h1><p>It grinds corn all day long.</p>"
        "<button>Share</button></main>"
        "<footer>Printed by the office. <a href=/terms>Terms of use</a></footer>"
        "<aside>Read on: <a href=/x>Ten mills that you must see</a></aside></body>"
    )
    assert texts(page) == ["Mill", "It grinds corn all day long."]
    assert count_skipped(blocks(page)) == {
        "buttons": 1,
        "page headers and footers": 3,
    }
    assert [link.target for block in blocks(page) for _, link in block.links] == [
        "/", "/b", "/terms", "/x"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "read"),
    [
        ("<h2>Mill<span><a class=mark href=#m id=m>#</a></span></h2>", ["Mill"]),
        ("<h2>Mill <a href=#m>&para;</a></h2>", ["Mill"]),
        ("<h2>The sign <a href=sharp.html>#</a></h2>", ["The sign #"]),
        ("<h2>The note <a href=#a>A</a></h2>", ["The note A"]),
        (
            "<div class=header><p>Next: <a href=b rel=next>The Saw Mill</a>, Previous: <a href=a"
            " rel=prev>Corn</a>, Up: <a href=. rel=up>Mills</a> [<a href=i>Index</a>]</p></div>"
            "<h2>Mill</h2>",
            ["Mill"],
        ),
        (
            "<p>Corn is ground first. After that read <a href=b rel=next>saws</a> or go back to"
            " <a href=a rel=prev>corn</a>.</p>",
            ["Corn is ground first. After that read saws or go back to corn."],
        ),
    ],
)
def test_links_of_a_heading_to_itself_and_to_other_pages_are_left_out(
    page: str, read: list[str]
) -> None:
    assert texts(page) == read


def test_values_are_read_as_a_browser_displays_them() -> None:
    page = (
        "<p>10<sup>6</sup> cells, H<sub>2</sub>O, the 3<sup>rd</sup>, 45<sup><a href=#f>1</a></sup>"
        " and 7<sup>[4]</sup><p>Fee <del>900</del><ins>950</ins><p>x<sup>n+1</sup>"
        "<p><math><msup><mi>a</mi><mn>2</mn></msup></math><ul><li><input type=checkbox checked>Tar"
        "<li><input type=checkbox>Sail</ul>"
    )
    assert texts(page) == [
        "10^6 cells, H_2O, the 3rd, 45[1] and 7[4]",
        "Fee 950",
        "x^(n+1)",
        "a^2",
        "[x] Tar",
        "[ ] Sail",
    ]


def test_ruby_is_read_as_its_base_and_the_readings_stand_below() -> None:
    page = (
        "<p>その<ruby>東京<rp>(</rp><rt>とうきょう</rt></ruby>の"
        "<ruby>図<rt>と</rt>書<rt>しょ</ruby>へ"
    )
    assert [(block.kind, block.text) for block in blocks(page)] == [
        ("paragraph", "その東京の図書へ"),
        ("note", "東京 (とうきょう); 図書 (としょ)"),
    ]


def test_figures_code_and_what_a_page_says_of_itself() -> None:
    page = (
        "<head><title>Mill</title><meta name=author content='Ada Byron'>"
        "<meta property=article:published_time content=2024-05-01></head>"
        "<figure><img src=a.png alt='A mill'><figcaption>The mill in May</figcaption></figure>"
        "<p><img src=b.png alt='Two stones'></p><pre>a  b\n  c</pre>"
    )
    found = blocks(page)
    assert [(block.kind, block.text) for block in found] == [
        ("heading", "Mill"),
        ("figure", "The mill in May"),
        ("figure", "Two stones"),
        ("code", "a  b\n  c"),
    ]
    assert found[0].properties == (("author", "Ada Byron"), ("created", "2024-05-01"))


def test_lines_are_right_beyond_those_that_the_parser_counts() -> None:
    page = "<!-- a\nb -->\n" + "<p>x\n" * 70_000 + "<p>last\nline"
    found = blocks(page)
    assert (found[-1].first_line, found[-1].last_line) == (70_003, 70_004)
    assert (found[40_000].first_line, found[40_000].text) == (40_003, "x")


def test_deeply_nested_pages_keep_all_text() -> None:
    page = "<div><b>" * 5000 + "<p>deep" + "<i><p>deeper" * 3000 + "<p>last"
    found = texts(page)
    assert (found[0], found[1], found[-1], len(found)) == ("deep", "deeper", "last", 3002)


@pytest.mark.parametrize(
    "after", ["<p>Sent by the list.</p>", "Sent by the list.", "<br>Sent by <b>the list."]
)
def test_text_after_the_end_of_a_page_is_read(after: str) -> None:
    read = blocks(f"<html><body><table><tr><td>Rows</table></BODY ></html>\n{after}")
    assert [" ".join(block.text.split()) for block in read] == ["Rows", "Sent by the list."]
    two = "<html><body><p>One.</body></html><html><head><title>T</title></head><body><p>Two."
    assert [block.text for block in blocks(two)][-2:] == ["One.", "Two."]


def test_ticks_and_tags_of_notion_and_titles_of_word_are_read() -> None:
    text = (
        "<p class=MsoTitle>Boat jobs</p><table><tr><th>Tags<td><span class=selected-value>hull"
        "</span><span class=selected-value>spring</span></table><ul class=to-do-list><li><div"
        ' class="checkbox checkbox-on"></div> <span>Scrape</span></ul><ul><li><div'
        ' class="checkbox checkbox-off"></div> <span>Paint</span></ul>'
    )
    assert [(block.kind, block.text) for block in blocks(text)] == [
        ("heading", "Boat jobs"),
        ("table", "Tags | hull, spring"),
        ("list_item", "[x] Scrape"),
        ("list_item", "[ ] Paint"),
    ]


def test_an_article_for_browsers_without_scripts_is_read_and_a_notice_is_not() -> None:
    article = "<p>" + "The quay is closed for repairs until the ice is gone. " * 10 + "</p>"
    page = f"<script type='text/template'>{article}</script><noscript>{article}</noscript>"
    notice = "<p>Hello.</p><noscript><p>Please enable JavaScript to see the quay.</p></noscript>"
    assert any("quay is closed" in block.text for block in blocks(page))
    assert not any("quay" in block.text for block in blocks(notice))


def test_a_numbered_item_that_begins_with_a_heading_or_code_keeps_its_number() -> None:
    page = (
        "<h1>Guide</h1><ol><li><h3>Install</h3><p>Run setup.</p></li>"
        "<li><p><b>Start it</b></p><p>Twice.</p></li><li><h3>3. Stop</h3></li>"
        "<li><pre>ls</pre><p>Look.</p></li></ol>"
    )
    assert [block.text for block in blocks(page)] == [
        "Guide", "1. Install", "Run setup.", "2. Start it", "Twice.", "3. Stop", "ls", "4. Look.",
    ]  # fmt: skip


def test_a_page_that_says_only_its_title_is_read() -> None:
    page = "<title>Tide is low</title><body>Tide is low</body>"
    assert [(block.kind, block.text) for block in extract(page.encode(), "text/html")] == [
        ("heading", "Tide is low")
    ]


def test_a_page_of_confluence_has_its_author_and_no_frame() -> None:
    text = (
        "<html><head><title>Ops : Failover</title></head><body><div id='page'>"
        '<ol id="breadcrumbs"><li><a href="index.html">Ops</a></li></ol>'
        '<h1 id="title-heading"><span id="title-text">Ops : Failover</span></h1>'
        '<div class="page-metadata">Created by <span class="author"> Mina Sato</span>, last'
        " modified on Feb 11, 2026</div><div><p>Promote the replica first.</p></div>"
        '<div class="pageSection group"><div class="pageSectionHeader"><h2 id="attachments">'
        'Attachments:</h2></div><div><a href="a/1.png">1.png</a> (image/png)</div></div></div>'
        '<div id="footer"><p>Document generated by Confluence</p></div></body></html>'
    )
    found = extract(text.encode(), "text/html")
    assert [block.text for block in found if block.text] == [
        "Failover",
        "Created by Mina Sato, last modified on Feb 11, 2026",
        "Promote the replica first.",
    ]
    assert found[0].properties == (("author", "Mina Sato"), ("modified", "2026-02-11"))


def test_a_page_about_the_markup_of_confluence_is_read() -> None:
    text = '<p>Write &lt;h1 id="title-heading"&gt;&lt;span id="title-text"&gt;.</p>'
    (found,) = extract(text.encode(), "text/html")
    assert found.text == 'Write <h1 id="title-heading"><span id="title-text">.'


def test_the_list_of_files_in_an_export_of_notion_has_no_text() -> None:
    page = "Boats 1590080aa5a3802488c2e857dea7aa7d.html"
    text = (
        "<html><head><title>Export-950ad927-7171-4abf-9001-821e5310d286</title></head><body>"
        f'<h3>Workspace details:</h3><ul><li><a href="{page}">{page}</a></li></ul></body></html>'
    )
    found = extract(text.encode(), "text/html")
    assert not any(block.text for block in found)
    assert count_skipped(found) == {"records of a program": 1}
