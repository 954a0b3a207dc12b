"""Marks inside a line whose loss would change what it says: raised and lowered text."""

import re

_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|e|ème|o|a|º|ª)\Z", re.IGNORECASE)
_PLAIN = re.compile(r"[^\w\s]+\Z|(?:tm|sm|mc|mr)\Z", re.IGNORECASE)
_SIMPLE = re.compile(r"[+\-\u2212]?[\w.,]+\Z")
_NOTE = re.compile(r"[\[(](?:\d{1,3}|[a-z]|note \d+|citation needed)[\])]\Z", re.IGNORECASE)
_MAX_CHARACTERS = 40
_CLOSERS = ")]}'\u2019"


def raised(text: str, before: str) -> str:
    """Superscript text as it stands in a line after `before`.

    Ordinals, trade marks, reference marks, and whatever does not stand at a word stay as they are.

    >>> raised("6", "10"), raised("-3", "m"), raised("n + 1", "x"), raised("rd", "3")
    ('^6', '^-3', '^(n + 1)', 'rd')
    >>> raised("1", "")
    '1'
    >>> raised("[4]", "tonnes"), raised("*", "price"), raised("note", "see ")
    ('[4]', '*', 'note')
    """
    return _marked(text, before, "^")


def lowered(text: str, before: str) -> str:
    """Subscript text as it stands in a line after `before`.

    >>> lowered("2", "H"), lowered("max", "v"), lowered("i+1", "x")
    ('_2', '_max', '_(i+1)')
    """
    return _marked(text, before, "_")


def _marked(text: str, before: str, mark: str) -> str:
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
