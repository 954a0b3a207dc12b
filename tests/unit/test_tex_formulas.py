"""Formulas in TeX inside Markdown, rst, AsciiDoc, Org and HTML are read as signs."""

import pytest

from hopsyncd.formats.readers import extract

FORMULAS = {
    "Markdown, dollars": ("text/markdown", r"The area is $\pi r^2$ for $r > 0$."),
    "Markdown, brackets": ("text/markdown", r"The area is \(\pi r^2\) for \(r > 0\)."),
    "AsciiDoc": ("text/asciidoc", r"The area is latexmath:[\pi r^2] for $r > 0$."),
    "Org": ("text/org", r"The area is \(\pi r^2\) for $r > 0$."),
    "rst": ("text/x-rst", r"The area is :math:`\pi r^2` for :math:`r > 0`."),
    "HTML": ("text/html", r"<p>The area is \(\pi r^2\) for \(r &gt; 0\).</p>"),
}
DISPLAYED = {
    "Markdown, dollars": ("text/markdown", "Then\n\n$$\n\\frac{a}{b} \\leq c\n$$\n"),
    "Markdown, brackets": ("text/markdown", "Then\n\n\\[ \\frac{a}{b} \\leq c \\]\n"),
    "Markdown, fence": ("text/markdown", "Then\n\n```math\n\\frac{a}{b} \\leq c\n```\n"),
    "rst": ("text/x-rst", "Then\n\n.. math::\n\n   \\frac{a}{b} \\leq c\n"),
    "HTML": ("text/html", "<p>Then</p><p>$$\\frac{a}{b} \\leq c$$</p>"),
}
NO_FORMULAS = [
    "It costs $5 and $6 more.",
    "Set $HOME/bin and $PATH first.",
    "Pay $5, or $10 = twice that, or $20.",
    r"sed 's/\\(a\\|b\\)/x/'",
    "Between $A and B$ there is nothing.",
]


def texts(media_type: str, text: str) -> list[str]:
    return [block.text for block in extract(text.encode(), media_type)]


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_in_a_sentence_can_be_read(name: str) -> None:
    assert texts(*FORMULAS[name]) == ["The area is πr^2 for r > 0."]


@pytest.mark.parametrize("name", DISPLAYED)
def test_a_formula_of_its_own_can_be_read(name: str) -> None:
    assert texts(*DISPLAYED[name]) == ["Then", "a/b ≤ c"]


@pytest.mark.parametrize("sentence", NO_FORMULAS)
def test_prices_paths_and_patterns_stay_as_they_are(sentence: str) -> None:
    assert texts("text/markdown", sentence) == [sentence.replace("\\\\", "\\")]


def test_asterisks_in_formulas_are_not_emphasis() -> None:
    assert texts("text/markdown", "So $a*b^2$ and $c*d$ hold.") == ["So a*b^2 and $c*d$ hold."]


def test_code_that_looks_like_a_formula_stays_code() -> None:
    assert texts("text/markdown", r"Write `$x^2$` for it.") == [r"Write $x^2$ for it."]


def test_many_unclosed_formulas_take_no_long_time() -> None:
    for text in ("$x^" * 40_000, r"\(x^" * 40_000, r"$\frac{" * 20_000, "$$" * 40_000):
        assert texts("text/markdown", text)
        assert texts("text/html", f"<p>{text}</p>")
