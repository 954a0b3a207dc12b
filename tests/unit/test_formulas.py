"""Formulas and notes that other programs write, in each format that can hold them."""

import io
import zipfile

from connectors.media_type import guess_media_type
from hopsyncd.formats.readers import extract

MATHML = (
    '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mrow><mfrac><mi>a</mi>'
    "<mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac><mo>=</mo><msqrt><mn>2</mn></msqrt>"
    "<msup><mi>c</mi><mn>2</mn></msup><munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover>"
    "</mrow><annotation>x</annotation></semantics></math>"
)
SHOWN = "a/(b+1)=√2c^2∑_i^n"


def texts(data: bytes, name: str) -> list[str]:
    return [block.text for block in extract(data, guess_media_type(name)) if block.text]


def test_fractions_and_roots_of_a_page_keep_their_values() -> None:
    page = f"<p>So {MATHML.replace(' xmlns=', ' x=')} holds.</p>"
    assert texts(page.encode(), "a.html") == [f"So {SHOWN} holds."]


def test_the_formulas_of_a_text_document_stand_in_their_lines() -> None:
    office = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
    content = (
        f'<o:document-content xmlns:o="{office}" xmlns:d="draw" xmlns:t="text" xmlns:x="xlink">'
        '<o:body><o:text><t:p>So <d:frame><d:object x:href="./Formula-0"/></d:frame> holds.</t:p>'
        "</o:text></o:body></o:document-content>"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("content.xml", content)
        archive.writestr("Formula-0/content.xml", MATHML)
    assert texts(file.getvalue(), "a.odt") == [f"So {SHOWN} holds."]


def test_starred_footnotes_of_rtf_are_read() -> None:
    note = rb"{\super\chftn}{\*\footnote\chftn\~\plain\pard {\pard Paid once.\par}}"
    assert texts(rb"{\rtf1 The fee" + note + rb" is 950.\par}", "a.rtf") == [
        "The fee is 950.",
        "Paid once.",
    ]


def test_raised_text_of_org_and_struck_text_of_latex_and_asciidoc() -> None:
    assert texts(b"10^{6} cells of H_{2}O", "a.org") == ["10^6 cells of H_2O"]
    for command in (rb"\sout", rb"\st"):
        assert texts(b"It costs " + command + b"{900} 950.", "a.tex") == ["It costs 950."]
    (text,) = texts(b"It costs [line-through]#900# 950.", "a.adoc")
    assert text.split() == ["It", "costs", "950."]
