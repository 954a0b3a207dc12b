"""Writes superscripts and subscripts in plain text without changing the meaning."""

import re

_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|e|ème|o|a|º|ª)\Z", re.IGNORECASE)
_PLAIN = re.compile(r"[^\w\s]+\Z|(?:tm|sm|mc|mr)\Z", re.IGNORECASE)
_SIMPLE = re.compile(r"[+\-\u2212]?[\w.,]+\Z")
_NOTE = re.compile(r"[\[(](?:\d{1,3}|[a-z]|note \d+|citation needed)[\])]\Z", re.IGNORECASE)
_MAX_CHARACTERS = 40
_PART = re.compile(r"[\w.]+\Z")
_CLOSERS = ")]}'\u2019"


def write_superscript(text: str, before: str) -> str:
    """Write superscript text after the text `before` on the same line.

    Ordinals, trade marks, reference marks, and superscripts without a word before them stay
    unchanged.

    >>> write_superscript("6", "10"), write_superscript("-3", "m")
    ('^6', '^-3')
    >>> write_superscript("n + 1", "x"), write_superscript("rd", "3")
    ('^(n + 1)', 'rd')
    >>> write_superscript("1", "")
    '1'
    >>> write_superscript("[4]", "tonnes"), write_superscript("*", "price")
    ('[4]', '*')
    >>> write_superscript("note", "see ")
    'note'
    """
    return _add_mark(text, before, "^")


def write_subscript(text: str, before: str) -> str:
    """Write subscript text after the text `before` on the same line.

    >>> write_subscript("2", "H"), write_subscript("max", "v"), write_subscript("i+1", "x")
    ('_2', '_max', '_(i+1)')
    """
    return _add_mark(text, before, "_")


def add_brackets(text: str) -> str:
    """Put a part of a formula in parentheses if it has several characters.

    >>> add_brackets("12"), add_brackets("a+b")
    ('12', '(a+b)')
    """
    text = text.strip()
    return text if len(text) < 2 or _PART.match(text) else f"({text})"


def _add_mark(text: str, before: str, mark: str) -> str:
    bare = text.strip()
    last = before[-1:]
    stands_at_a_word = last.isalnum() or last in _CLOSERS
    if not bare or not last or not stands_at_a_word or len(bare) > _MAX_CHARACTERS:
        return text
    if _NOTE.match(bare) or _PLAIN.match(bare):
        return text
    if mark == "^" and bare.isalpha() and (len(bare) > 1 or last.isdigit()):
        return text if _ORDINAL.match(bare) or len(bare) > 3 else f"^{bare}"
    return f"{mark}{bare}" if _SIMPLE.match(bare) else f"{mark}({bare})"
