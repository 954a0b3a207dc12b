"""Numbers of lists, which documents do not always contain as text."""

import pytest

from hopsyncd.formats.readers import extract
from tests.unit.test_odt import blocks_of as odt_blocks_of
from tests.unit.test_odt import said
from tests.unit.test_pptx import blocks_of as pptx_blocks_of
from tests.unit.test_pptx import said as pptx_said
from tests.unit.test_pptx import shape


def texts_of(text: str, media_type: str) -> list[str]:
    return [block.text for block in extract(text.encode(), media_type) if block.text]


@pytest.mark.parametrize(
    ("media_type", "text", "expected"),
    [
        ("text/markdown", "3. Fill\n3. Stir\n   - slow\n4. Mix", "3. Fill|4. Stir|slow|5. Mix"),
        ("text/markdown", "1. \n\n   ```\n   code\n   ```\n2. After", "code|2. After"),
        ("text/html", "<ol><li>Fill<ul><li>slowly</ul><li>Stir</ol>", "1. Fill|slowly|2. Stir"),
        ("text/html", '<ol type="a" start="3"><li>Fill<li value="9">Stir</ol>', "c. Fill|i. Stir"),
        ("text/html", "<ol reversed><li>Two<li>One</ol>", "2. Two|1. One"),
        ("text/html", '<ol style="list-style: none"><li>Fill</ol>', "Fill"),
        ("text/html", "<ol><li><p>Fill</p><p>to the brim</p></li></ol>", "1. Fill|to the brim"),
        ("text/html", "<ol><li>Fill<li><pre>fill()</pre><li>Stir</ol>", "1. Fill|fill()|3. Stir"),
        ("text/x-rst", "c) Fill\nd) Stir\n\n   i. slowly\n", "c. Fill|d. Stir|i. slowly"),
        ("text/asciidoc", ". Fill\n. Stir", "1. Fill|2. Stir"),
        ("text/org", "1. Fill\n2. Stir", "1. Fill|2. Stir"),
        (
            "text/x-tex",
            r"\begin{enumerate}\item Fill \begin{enumerate}\item[*] up\item Stir\end{enumerate}"
            r"\item Serve\end{enumerate}",
            "1. Fill|* up|a. Stir|2. Serve",
        ),
    ],
)  # fmt: skip
def test_items_of_numbered_lists_keep_their_numbers(
    media_type: str, text: str, expected: str
) -> None:
    assert texts_of(text, media_type) == expected.split("|")


def test_links_move_with_the_text_of_a_numbered_item() -> None:
    (block,) = extract(b"7. See [the plan](plan.md).", "text/markdown")
    assert block.text == "7. See the plan."
    assert [(at, link.target) for at, link in block.links] == [(7, "plan.md")]


def test_slides_number_items_with_letters_and_parentheses() -> None:
    letter = '<a:pPr><a:buAutoNum type="alphaUcParenR" startAt="2"/></a:pPr>'
    both = '<a:pPr lvl="1"><a:buAutoNum type="romanLcParenBoth"/></a:pPr>'
    blocks = pptx_blocks_of(shape(pptx_said("Hull", letter), pptx_said("Keel", both)))
    assert blocks == [("list_item", "B) Hull"), ("list_item", "(i) Keel")]


_STYLES = (
    '<style:automatic-styles><text:list-style style:name="L">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-prefix="("'
    ' style:num-suffix=")" text:start-value="2"/>'
    '<text:list-level-style-number text:level="3" style:num-format="1" text:display-levels="2"/>'
    '</text:list-style><text:list-style style:name="B">'
    '<text:list-level-style-bullet text:level="1" text:bullet-char="*"/></text:list-style>'
    "</style:automatic-styles>"
)


def _list(*items: str, attributes: str = "") -> str:
    inner = "".join(f"<text:list-item>{item}</text:list-item>" for item in items)
    return f"<text:list {attributes}>{inner}</text:list>"


def test_opendocument_lists_are_numbered_by_their_styles() -> None:
    deepest = _list(said("Spoon"))
    body = (
        _list(said("Fill"), said("Stir") + _list(said("slowly") + deepest),
              attributes='text:style-name="L"')
        + _list(said("Salt"), attributes='text:style-name="B"')
        + _list(said("Serve", "hot"),
                attributes='text:style-name="L" text:continue-numbering="true"')
        + _list(said("Again"), attributes='text:style-name="L"')
    )  # fmt: skip
    assert [block.text for block in odt_blocks_of(body, automatic=_STYLES)] == [
        "1. Fill", "2. Stir", "(b) slowly", "b.1 Spoon", "Salt", "3. Serve", "hot", "1. Again",
    ]  # fmt: skip


def test_a_long_prefix_of_a_list_is_cut() -> None:
    styles = _STYLES.replace('style:num-prefix="("', f'style:num-prefix="{"(" * 1000}"')
    inner = _list(said("slowly"))
    blocks = odt_blocks_of(_list(inner, attributes='text:style-name="L"'), automatic=styles)
    assert len(blocks[0].text) < 100
