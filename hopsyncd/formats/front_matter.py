"""What a note says of itself above its text: YAML or TOML front matter, Logseq's page properties.

The title, the aliases and the tags name the document or what it belongs to; all that says something
to a reader is a fact about the document. Lists are read as note programs write them: `[a, b]`,
`a, b`, or lines that begin with `-`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hopsyncd.formats.blocks import WrittenLink, link_to_name

WIKI_LINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\]")

_FENCED = re.compile(r"\A(---|\+\+\+)[ \t]*\n(?=[\w\"'#-])(.*?)^\1[ \t]*$", re.S | re.M)
_PROPERTIES = re.compile(r"\A((?:(?:- |  )?[A-Za-z][\w-]*::(?:[ \t].*)?(?:\n|\Z))+)")
_KEY = re.compile(r"([A-Za-z][\w .-]{0,60}?)[ \t]*[:=](?:[ \t]+(.*)|(?=[\"'\[])(.*))?")
_PROPERTY = re.compile(r"(?:- |  )?([A-Za-z][\w-]{0,60})(::)(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,]+)""")
_COMMENT = re.compile(r"(?<![ \t])[ \t]+#.*$")
_FOLDED = re.compile(r"[|>][+-]?\d?\Z")
_UNTOLD_VALUE = re.compile(r"(?:true|false|yes|no|null|~|/\S*|)\Z", re.IGNORECASE)
_MAX_NAMES = 100
_MAX_FIELD_CHARACTERS = 1000

# Of these a reader of the page sees nothing: they tell a program how to show it.
_UNTOLD_NAMES = """
    title layout permalink slug weight draft toc icon id collapsed cssclass cssclasses banner cover
    image nav_order sidenav sidebar template publish published public created-at updated-at cspell
    redirect_from heading filters lang eleventynavigation
"""
_UNTOLD = frozenset(_UNTOLD_NAMES.split())


@dataclass(frozen=True, slots=True)
class Field:
    """A fact about the document, as it is written, at a 1-based line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What was said: `title_line` is 1-based. `links` are those of tags and of all properties."""

    title: str = ""
    title_line: int = 1
    aliases: tuple[str, ...] = ()
    links: tuple[WrittenLink, ...] = ()
    fields: tuple[Field, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The title and the aliases."""
        return tuple(filter(None, (self.title, *self.aliases)))


@dataclass(slots=True)
class _Property:
    """A key with what stands beside it and in the lines below it; `mark` follows the key."""

    key: str
    mark: str
    line: int
    beside: str
    below: list[str]

    @property
    def values(self) -> list[str]:
        return _list(self.beside) + self.below

    @property
    def text(self) -> str:
        beside = "" if _FOLDED.match(self.beside) else self.beside
        is_list = beside.startswith("[") and not beside.startswith("[[")
        if not self.below and not is_list:
            return _bare(WIKI_LINK.sub(lambda link: link[2] or link[1], beside))
        joint = " " if _FOLDED.match(self.beside) else ", "
        return joint.join([*_list(beside), *self.below])


def without_front_matter(text: str) -> tuple[str, FrontMatter]:
    """Return the text with its front matter blanked, so that lines stay, and what that said."""
    fenced = _FENCED.match(text)
    found = fenced or _PROPERTIES.match(text)
    if not found:
        return text, FrontMatter()
    blanked = "\n" * found[0].count("\n") + text[found.end() :]
    told = _told(found[2], _KEY, 2) if fenced else _told(found[1], _PROPERTY, 1)
    return blanked, _said(found[0], list(told))


def _said(properties: str, told: Sequence[_Property]) -> FrontMatter:
    title, title_line = "", 1
    aliases: list[str] = []
    tags: list[str] = []
    for one in told:
        key = one.key.lower()
        if key == "title" and not title and one.text:
            title, title_line = one.text, one.line
        elif key in ("alias", "aliases"):
            aliases += one.values
        elif key in ("tag", "tags"):
            tags += (value.removeprefix("#") for value in one.values)
    links = [link_to_name(tag) for tag in tags]
    links += [link_to_name(one[1], one[2] or "") for one in WIKI_LINK.finditer(properties)]
    distinct = tuple(dict.fromkeys(link for link in links if link))
    return FrontMatter(
        title, title_line, tuple(aliases[:_MAX_NAMES]), distinct[:_MAX_NAMES], tuple(_fields(told))
    )


def _fields(told: Iterable[_Property]) -> Iterator[Field]:
    for one in told:
        text = one.text[:_MAX_FIELD_CHARACTERS]
        if one.key.lower() not in _UNTOLD and not _UNTOLD_VALUE.match(text):
            yield Field(f"{one.key}{one.mark} {text}", one.line)


def _told(properties: str, keys: re.Pattern[str], first_line: int) -> Iterator[_Property]:
    """Each key at the margin, with the items and the folded lines below it."""
    last: _Property | None = None
    for number, line in enumerate(properties.split("\n"), first_line):
        found = keys.fullmatch(line)
        if found:
            if last:
                yield last
            mark, beside = ("::", found[3]) if found[2] == "::" else (":", found[2] or found[3])
            last = _Property(found[1].strip(), mark, number, (beside or "").strip(), [])
        elif last and (item := _ITEM.fullmatch(line)):
            last.below.append(_bare(item[1]))
        elif last and line.strip() and _FOLDED.match(last.beside):
            last.below.append(line.strip())
    if last:
        yield last


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
