"""Writes formulas of Office documents (OMML, MathML) in one line, such as
`x=(-b±√(b^2-4ac))/(2a)`."""

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import attribute, local_name
from hopsyncd.formats.inline import add_brackets

_PROPERTIES_END = "Pr"
_MATHML_MARKS = {
    "msup": ("^",),
    "msub": ("_",),
    "munder": ("_",),
    "msubsup": ("_", "^"),
    "munderover": ("_", "^"),
    "mfrac": ("/",),
}


def math_text(formula: Element) -> str:
    """Write a formula in one line. Fractions, roots and exponents of several characters get
    parentheses."""
    line = ""
    is_built = False  # whether the line ends with a fraction, an index or a similar part
    for part in formula:
        text = _part(part)
        is_next_built = local_name(part) not in ("r", "t", "e")
        if (is_built or local_name(part) == "func") and line[-1:].isalnum() and text[:1].isalnum():
            line += " "
        line += text
        is_built = is_next_built if text else is_built
    return line


def mathml_text(part: Element) -> str:
    """Write a MathML formula in one line."""
    name = local_name(part)
    if name in ("annotation", "annotation-xml"):
        return ""
    parts = [mathml_text(child) for child in part]
    marks = _MATHML_MARKS.get(name, ())
    if marks and len(parts) > len(marks):
        marked = zip(marks, parts[1:], strict=False)
        base = add_brackets(parts[0]) if name == "mfrac" else parts[0]
        return base + "".join(mark + add_brackets(text) for mark, text in marked)
    text = "".join([(part.text or "").strip(), *parts])
    if name == "mtr":
        return ", ".join(parts) + "; "
    return f"√{add_brackets(text)}" if name == "msqrt" else text


def _part(part: Element) -> str:
    name = local_name(part)
    match name:
        case "t":
            return part.text or ""
        case "f":
            sign = "¦" if _read_property(part, "type") == "noBar" else "/"
            return f"{_add_brackets(_child(part, 'num'))}{sign}{_add_brackets(_child(part, 'den'))}"
        case "sSup" | "sSub" | "sSubSup" | "sPre":
            return _child(part, "e") + _scripts(part)
        case "nary":
            return f"{_read_property(part, 'chr') or '∫'}{_scripts(part)} {_child(part, 'e')}"
        case "rad":
            degree = _child(part, "deg")
            return f"{degree}√{_add_brackets(_child(part, 'e'))}"
        case "d":
            begin, end = _read_property(part, "begChr", "("), _read_property(part, "endChr", ")")
            parts = [math_text(child) for child in part if local_name(child) == "e"]
            return begin + _read_property(part, "sepChr", "|").join(parts) + end
        case "func":
            return f"{_child(part, 'fName')} {_child(part, 'e')}"
        case "limLow" | "limUpp":
            mark = "_" if name == "limLow" else "^"
            return f"{_child(part, 'e')}{mark}{_add_brackets(_child(part, 'lim'))}"
        case "m" | "eqArr":
            return "; ".join(_row(row) for row in part if local_name(row) in ("mr", "e"))
        case _ if name.endswith(_PROPERTIES_END):
            return ""
        case _:
            return math_text(part)


def _row(row: Element) -> str:
    if local_name(row) == "e":
        return math_text(row)
    return ", ".join(map(math_text, row))


def _scripts(part: Element) -> str:
    texts: Iterable[tuple[str, str]] = (
        ("_", _child(part, "sub")),
        ("^", _child(part, "sup")),
    )
    return "".join(mark + _add_brackets(text) for mark, text in texts if text)


def _child(part: Element, name: str) -> str:
    return next((math_text(child) for child in part if local_name(child) == name), "").strip()


def _read_property(part: Element, name: str, default: str = "") -> str:
    """Return the value of the property `name` of a formula part, which may be empty, or `default`
    if the property is missing."""
    for properties in part:
        if local_name(properties).endswith(_PROPERTIES_END):
            for child in properties:
                if local_name(child) == name:
                    return attribute(child, "val")
    return default


def _add_brackets(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"
