"""Redacts text: keeps only words that are in hopsyncd's own source.

A message such as "Cannot read /home/ann/will.md: permission denied" is made from templates in the
source. If a string matches a template, the template is kept, with `…` for each value. Other strings
are replaced with `text-1`, `text-2` and so on; equal strings get the same number. So the result
contains no text of a user, a document or a server.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

VALUE = "…"
_PACKAGES = ("hopsyncd", "store", "connectors")
_PRIVATE = frozenset(
    "name source document location path paths folder dir file socket database question url base_url"
    " start host user table query title reason text body".split()
)
"""The values of these keys are always redacted, even if hopsyncd's code has the same text."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
_SEGMENTS = re.compile(r"(?<=[.:]) +|\n")
_CODE_LINE = re.compile(
    r'\s*File ".*?/((?:site-packages/|python3\.\d+/)?[\w/.]+\.py)", line (\d+), in ([\w<>]+)'
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_CONVERSION = re.compile(r"%(?:\(\w+\))?[-\d.]*[sdr]")


Template = tuple[str, re.Pattern[str], str]
"""The longest literal part, the pattern, and the text with VALUE in place of the values."""


class Redactor:
    """Redacts strings and JSON values.

    Text from hopsyncd's own source code is kept, with `…` in place of each inserted value. Other
    strings are replaced with "text-1", "text-2" and so on; equal strings get the same number.
    """

    def __init__(self) -> None:
        self._literals, self._fields, self._templates = _collect_own_texts()
        self._numbers: dict[str, int] = {}
        self._redacted: dict[str, str] = {}

    def redact_value(self, value: Any, key: str = "") -> Any:
        """Redact a JSON value. `key` is the name of the field that has the value. Values of fields
        such as `path` and `question` are always redacted."""
        if isinstance(value, Mapping):
            return {
                self._redact_key(name): self.redact_value(below, str(name))
                for name, below in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.redact_value(below, key) for below in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        text = str(value)
        return self._number_text(text) if key in _PRIVATE and text else self.redact_text(text)

    def redact_text(self, text: str) -> str:
        if text not in self._redacted:
            self._redacted[text] = self._redact(text)
        return self._redacted[text]

    def redact_traceback(self, text: str) -> str:
        """Return the code locations of a traceback, without the messages."""
        places = [_CODE_LINE.match(line) for line in text.splitlines()]
        return "\n".join(f"{place[1]}:{place[2]} {place[3]}" for place in places if place)

    def _redact_key(self, key: object) -> str:
        text = str(key)
        return text if text in self._literals or text in self._fields else self._number_text(text)

    def _redact(self, text: str) -> str:
        if not text or text in self._literals or _TIME.fullmatch(text):
            return text
        parts = " ".join(self._match_template(part) or VALUE for part in _SEGMENTS.split(text))
        longest = max(
            self._match_template(text) or "", parts, key=lambda part: len(part.replace(VALUE, ""))
        )
        return longest if _WORD.search(longest) else self._number_text(text)

    def _match_template(self, text: str) -> str | None:
        """Return the template that the text matches, with VALUE for each value, or None if it
        matches no template."""
        bare = text.rstrip(".:,;")
        if bare in self._literals:
            return text
        for longest, pattern, shown in self._templates:
            if longest in bare and pattern.fullmatch(bare):
                return shown + text[len(bare) :]
        return None

    def _number_text(self, text: str) -> str:
        return f"text-{self._numbers.setdefault(text, len(self._numbers) + 1)}"


@cache
def _collect_own_texts() -> tuple[frozenset[str], frozenset[str], tuple[Template, ...]]:
    """Return the literal texts and the field names in hopsyncd's source code, and the templates of
    its messages, longest first."""
    literals: set[str] = set()
    fields = {"timestamp", "level"}  # fields that structlog adds
    templates: dict[str, Template] = {}
    for tree in _parse_modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                literals.add(node.value.rstrip(".:,; "))
                parts = _CONVERSION.split(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = list(_list_parts(node))
            else:
                fields |= _find_field_names(node)
                continue
            if len(parts) > 1 and (template := _make_template(parts)):
                templates.setdefault(template[2], template)
    ordered = sorted(templates.values(), key=lambda template: -len(template[2]))
    return frozenset(literals), frozenset(fields), tuple(ordered)


def _find_field_names(node: ast.AST) -> set[str]:
    """Return the name in an annotated assignment or a keyword argument, if `node` is one."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return {node.arg} if isinstance(node, ast.keyword) and node.arg else set()


def _parse_modules() -> Iterator[ast.Module]:
    root = Path(__file__).parents[2]
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            yield ast.parse(file.read_text(encoding="utf-8"))


def _list_parts(node: ast.JoinedStr) -> Iterator[str]:
    """Return the literal parts of an f-string. There is one more part than there are values."""
    part = ""
    for value in node.values:
        if isinstance(value, ast.Constant):
            part += str(value.value)
        else:
            yield part
            part = ""
    yield part


def _make_template(parts: list[str]) -> Template | None:
    """Create a template: the longest literal, the pattern, and the text with VALUE.

    Returns None if no literal part has a word.
    """
    parts = [*parts[:-1], parts[-1].rstrip(".:,;")]
    longest = max(parts, key=len)
    if not _WORD.search(longest):
        return None
    pattern = re.compile("(?s:.*)".join(re.escape(part) for part in parts))
    return longest, pattern, VALUE.join(parts)
