"""Writes formulas of Office documents (OMML, MathML) in one line, such as
`x=(-b±√(b^2-4ac))/(2a)`."""

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import get_attribute, get_local_name
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


def format_math(formula: Element) -> str:
    """Write a formula in one line. Fractions, roots and exponents of several characters get
    parentheses."""
    line = ""
    is_built = False  # whether the line ends with a fraction, an index or a similar part
    for part in formula:
        text = _format_part(part)
        is_next_built = get_local_name(part) not in ("r", "t", "e")
        if (
            (is_built or get_local_name(part) == "func")
            and line[-1:].isalnum()
            and text[:1].isalnum()
        ):
            line += " "
        line += text
        is_built = is_next_built if text else is_built
    return line


def format_mathml(part: Element) -> str:
    name = get_local_name(part)
    if name in ("annotation", "annotation-xml"):
        return ""
    parts = [format_mathml(child) for child in part]
    marks = _MATHML_MARKS.get(name, ())
    if marks and len(parts) > len(marks):
        marked = zip(marks, parts[1:], strict=False)
        base = add_brackets(parts[0]) if name == "mfrac" else parts[0]
        return base + "".join(mark + add_brackets(text) for mark, text in marked)
    text = "".join([(part.text or "").strip(), *parts])
    if name == "mtr":
        return ", ".join(parts) + "; "
    return f"√{add_brackets(text)}" if name == "msqrt" else text


def _format_part(part: Element) -> str:
    name = get_local_name(part)
    match name:
        case "t":
            return part.text or ""
        case "f":
            sign = "¦" if _read_property(part, "type") == "noBar" else "/"
            numerator, denominator = _format_child(part, "num"), _format_child(part, "den")
            return f"{_add_brackets(numerator)}{sign}{_add_brackets(denominator)}"
        case "sSup" | "sSub" | "sSubSup" | "sPre":
            return _format_child(part, "e") + _format_scripts(part)
        case "nary":
            operator = _read_property(part, "chr") or "∫"
            return f"{operator}{_format_scripts(part)} {_format_child(part, 'e')}"
        case "rad":
            degree = _format_child(part, "deg")
            return f"{degree}√{_add_brackets(_format_child(part, 'e'))}"
        case "d":
            begin, end = _read_property(part, "begChr", "("), _read_property(part, "endChr", ")")
            parts = [format_math(child) for child in part if get_local_name(child) == "e"]
            return begin + _read_property(part, "sepChr", "|").join(parts) + end
        case "func":
            return f"{_format_child(part, 'fName')} {_format_child(part, 'e')}"
        case "limLow" | "limUpp":
            mark = "_" if name == "limLow" else "^"
            return f"{_format_child(part, 'e')}{mark}{_add_brackets(_format_child(part, 'lim'))}"
        case "m" | "eqArr":
            return "; ".join(_format_row(row) for row in part if get_local_name(row) in ("mr", "e"))
        case _ if name.endswith(_PROPERTIES_END):
            return ""
        case _:
            return format_math(part)


def _format_row(row: Element) -> str:
    if get_local_name(row) == "e":
        return format_math(row)
    return ", ".join(map(format_math, row))


def _format_scripts(part: Element) -> str:
    texts: Iterable[tuple[str, str]] = (
        ("_", _format_child(part, "sub")),
        ("^", _format_child(part, "sup")),
    )
    return "".join(mark + _add_brackets(text) for mark, text in texts if text)


def _format_child(part: Element, name: str) -> str:
    return next((format_math(child) for child in part if get_local_name(child) == name), "").strip()


def _read_property(part: Element, name: str, default: str = "") -> str:
    """Return the value of the property `name` of a formula part, which may be empty, or `default`
    if the property is missing."""
    for properties in part:
        if get_local_name(properties).endswith(_PROPERTIES_END):
            for child in properties:
                if get_local_name(child) == name:
                    return get_attribute(child, "val")
    return default


def _add_brackets(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"
