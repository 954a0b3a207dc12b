r"""Converts TeX formulas within text of other formats: `$x^2$`, `\(x^2\)`, `$$…$$` and `\[…\]`."""

import re

from hopsyncd.formats.latex_text import InlineReader, Source

_INLINE = r"[^$\n]{1,300}?"
_DISPLAYED = r".{1,2000}?"
# A formula in brackets of TeX, at any place in a text.
_BRACKETED = re.compile(rf"\\\(({_DISPLAYED})\\\)|\\\[({_DISPLAYED})\\\]", re.DOTALL)
_DOLLARS = re.compile(
    rf"\$\$({_DISPLAYED})\$\$|\$(?![\s$])({_INLINE})(?<![\s\\])\$(?!\d)", re.DOTALL
)
_COMMAND = re.compile(r"\\(?:[A-Za-z]{2,}|[,;:!])")
_RAISED = re.compile(
    r"(?:\b[A-Za-z0-9]|[)\]}|])['*]?[\^_](?:[A-Za-z0-9]\b|[A-Za-z0-9][\^_]|[{\\(+*-])"
)
_PLAIN = re.compile(r"[A-Za-z]|[\w\s+*/=<>().,|!:-]*[\w)]\s*(?:[=<>]|[+*/-](?=\s))\s*[\w(-][^;&@]*")
_WORD = re.compile(r"[^\W\d_]{4,}")
_FORMULA_START = re.compile(r"\\[(\[]|\$\$")


def format_formula(tex: str) -> str:
    r"""Write a formula in one line of characters.

    >>> format_formula(r"\frac{a+b}{2} \leq \sqrt{x^2}")
    '(a+b)/2 ≤ √(x^2)'
    """
    source = Source.tokenize(tex)
    return InlineReader(source).format_formula(0, len(source.tokens))


def is_formula(tex: str) -> bool:
    r"""Whether `tex`, found between dollar signs, is TeX rather than a price, path or shell
    variable.

    >>> [is_formula(text) for text in (r"\alpha", "x^2", "x_i", "n", "a = b", "5 and", "HOME/bin")]
    [True, True, True, True, True, False, False]
    """
    if _COMMAND.search(tex) or _RAISED.search(tex):
        return True
    return bool(_PLAIN.fullmatch(tex.strip())) and not _WORD.search(tex)


def match_formula(text: str, start: int, end: int) -> tuple[str, int] | None:
    """Return the formula that begins at `start` as readable text, and its end. Returns None if no
    formula begins at `start`."""
    pattern = _DOLLARS if text[start] == "$" else _BRACKETED
    found = pattern.match(text, start, end)
    if found is None:
        return None
    tex = found[1] or found[2]
    after = text[found.end() : found.end() + 1]
    is_name = text[start] == "$" and found[1] is None and (after.isalnum() or after == "_")
    if is_name or not is_formula(tex):
        return None
    written = format_formula(tex)
    return (written, found.end()) if written else None


def read_formulas(text: str) -> str:
    r"""Replace formulas in TeX brackets or double dollar signs with readable text.

    >>> read_formulas(r"The area \(\pi r^2\) costs $5.")
    'The area πr^2 costs $5.'
    """
    if "\\" not in text and "$$" not in text:
        return text
    parts, end = [], 0
    for found in _FORMULA_START.finditer(text):
        if found.start() < end:
            continue
        formula = match_formula(text, found.start(), len(text))
        if formula:
            parts += [text[end : found.start()], formula[0]]
            end = formula[1]
    return "".join((*parts, text[end:]))
