"""What a note says of itself above its text: YAML or TOML front matter, Logseq's page properties.

Of these only the title, the aliases and the tags are read, and links wherever they stand. Lists are
read as note programs write them: `[a, b]`, `a, b`, or lines that begin with `-`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hopsyncd.formats.blocks import WrittenLink, link_to_name

WIKI_LINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\]")

_FENCED = re.compile(r"\A(---|\+\+\+)[ \t]*\n(?=[\w\"'#-])(.*?)^\1[ \t]*$", re.S | re.M)
_PROPERTIES = re.compile(r"\A((?:(?:- |  )?[A-Za-z][\w-]*::(?:[ \t].*)?(?:\n|\Z))+)")
_KEY = re.compile(r"(title|alias(?:es)?|tags?)[ \t]*[:=](.*)", re.I)
_PROPERTY = re.compile(r"(?:- |  )?(title|alias(?:es)?|tags?)::(.*)", re.I)
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,]+)""")
_COMMENT = re.compile(r"(?<![ \t])[ \t]+#.*$")
_MAX_NAMES = 100


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What was said: `title_line` is 1-based. `links` are those of tags and of all properties."""

    title: str = ""
    title_line: int = 1
    aliases: tuple[str, ...] = ()
    links: tuple[WrittenLink, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The title and the aliases."""
        return tuple(filter(None, (self.title, *self.aliases)))


def without_front_matter(text: str) -> tuple[str, FrontMatter]:
    """Return the text with its front matter blanked, so that lines stay, and what that said."""
    fenced = _FENCED.match(text)
    found = fenced or _PROPERTIES.match(text)
    if not found:
        return text, FrontMatter()
    blanked = "\n" * found[0].count("\n") + text[found.end() :]
    values = _values(found[2], _KEY, 2) if fenced else _values(found[1], _PROPERTY, 1)
    return blanked, _said(found[0], values)


def _said(properties: str, told: Iterable[tuple[str, int, list[str]]]) -> FrontMatter:
    title, title_line = "", 1
    aliases: list[str] = []
    tags: list[str] = []
    for key, line, values in told:
        if key == "title" and values and not title:
            title, title_line = values[0], line
        elif key.startswith("alias"):
            aliases += values
        elif key.startswith("tag"):
            tags += (value.removeprefix("#") for value in values)
    links = [link_to_name(tag) for tag in tags]
    links += [link_to_name(one[1], one[2] or "") for one in WIKI_LINK.finditer(properties)]
    distinct = tuple(dict.fromkeys(link for link in links if link))
    return FrontMatter(title, title_line, tuple(aliases[:_MAX_NAMES]), distinct[:_MAX_NAMES])


def _values(
    properties: str, keys: re.Pattern[str], first_line: int
) -> Iterator[tuple[str, int, list[str]]]:
    """Each known key in lower case, with its line and its values."""
    key, at, values = "", 0, list[str]()
    for number, line in enumerate(properties.split("\n"), first_line):
        found = keys.fullmatch(line)
        item = _ITEM.fullmatch(line) if key and not found else None
        if found:
            yield key, at, values
            key, at = found[1].lower(), number
            values = list(filter(None, [_bare(found[2])])) if key == "title" else _list(found[2])
        elif item:
            values.append(_bare(item[1]))
        elif line.strip():
            yield key, at, values
            key, values = "", []
    yield key, at, values


def _list(text: str) -> list[str]:
    inner = _COMMENT.sub("", text).strip()
    if inner.startswith("[") and inner.endswith("]") and not inner.startswith("[["):
        inner = inner[1:-1]
    return [bare for part in _VALUE.findall(inner) if (bare := _bare(part))]


def _bare(text: str) -> str:
    """A value without quotes and the brackets of a link.

    >>> _bare(' "[[Ada Lovelace]]" ')
    'Ada Lovelace'
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    link = WIKI_LINK.fullmatch(text.removeprefix("#"))
    return link[1].strip() if link else text.strip()
