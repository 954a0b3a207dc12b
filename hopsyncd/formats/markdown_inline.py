"""Leaves out inline text of Markdown that a page does not show as text: deletions and
pronunciations."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

_DELETED = re.compile(r"<(/?)(?:del|s|strike)\b", re.IGNORECASE)
_RUBY = re.compile(r"<(/?)(ruby|rb|rtc?|rp)\b", re.IGNORECASE)


def drop_hidden(tokens: Sequence[Token]) -> tuple[list[Token], int, list[str]]:
    """Drop deleted text and pronunciations.

    Return the remaining tokens, the number of deletions, and each pronunciation after its text, as
    in "東京 (とうきょう)".
    """
    if not any(token.type in ("s_open", "html_inline") for token in tokens):
        return [*tokens], 0, []
    remaining: list[Token] = []
    readings: list[str] = []
    # The texts in the open ruby element, by the name of the element around each text.
    ruby: defaultdict[str, list[str]] = defaultdict(list)
    part = ""  # the open element in the ruby element
    depth = deletions = 0
    for token in tokens:
        is_tag = token.type == "html_inline"
        deleted = _DELETED.match(token.content) if is_tag else None
        if token.type == "s_open" or (deleted and not deleted[1]):
            deletions += depth == 0
            depth += 1
        elif token.type == "s_close" or deleted:
            depth = max(depth - 1, 0)
        elif depth:
            continue
        elif is_tag and (tag := _RUBY.match(token.content)):
            name = tag[2].lower()
            part = "ruby" if bool(tag[1]) != (name == "ruby") else "" if tag[1] else name
            if name == "ruby":
                readings += _format_pronunciation(ruby)
                ruby.clear()
        else:
            if part and not is_tag:
                ruby[part].append(token.content)
            if part not in ("rt", "rtc", "rp"):
                remaining.append(token)
    return remaining, deletions, readings


def _format_pronunciation(ruby: Mapping[str, list[str]]) -> list[str]:
    base, reading = (
        "".join(text for name in names for text in ruby.get(name, ())).strip()
        for names in (("ruby", "rb"), ("rt", "rtc"))
    )
    return [f"{base} ({reading})"] if base and reading else []
