"""Finds superscripts, subscripts and struck-through text that a page marks only by style sheets."""

import re
from collections.abc import Iterator
from typing import Any

_PROPERTIES = ("vertical-align", "line-through")
_CLASS = re.compile(r"[a-z]{0,10}\.([\w-]{1,100})\Z", re.IGNORECASE)
_DECLARATIONS = {
    "sup": re.compile(r"vertical-align\s*:\s*super\b", re.IGNORECASE),
    "sub": re.compile(r"vertical-align\s*:\s*sub\b", re.IGNORECASE),
    "s": re.compile(r"text-decoration[\w-]{0,20}\s*:[^:;]*\bline-through\b", re.IGNORECASE),
}
_INLINE = ("span", "font", "small", "b", "i", "em", "strong", "u")
_PARAGRAPHS = ("p", "div")


def apply_styles(root: Any, text: str) -> None:
    """Rename the elements of a page that its styles raise, lower or strike through to `sup`, `sub`
    and `s`. Programs such as Google Docs export these marks only as styles."""
    if not any(name in text for name in _PROPERTIES):
        return
    of_classes = dict(_list_marked_classes(root))
    for element in root.iter(*_INLINE, *_PARAGRAPHS):
        mark = _mark_of(element.get("style") or "")
        names = (element.get("class") or "").split() if of_classes and not mark else ()
        mark = mark or next(filter(None, map(of_classes.get, names)), None)
        if mark and (mark == "s" or element.tag in _INLINE):
            element.tag = mark


def _list_marked_classes(root: Any) -> Iterator[tuple[str, str]]:
    """Yield the classes whose style in the page's style sheets raises, lowers or strikes through
    text, each with the name of its mark."""
    for sheet in root.iter("style"):
        for rule in (sheet.text or "").split("}"):
            before, _, declarations = rule.rpartition("{")
            if mark := _mark_of(declarations):
                selectors = before.rpartition("{")[2].split(",")
                found = (_CLASS.match(selector.strip()) for selector in selectors)
                yield from ((name[1], mark) for name in found if name)


def _mark_of(declarations: str) -> str | None:
    return next((mark for mark, rule in _DECLARATIONS.items() if rule.search(declarations)), None)
