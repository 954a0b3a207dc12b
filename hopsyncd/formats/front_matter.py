"""Reads front matter and page properties: the fields above the text of a note.

Titles and aliases name the document, and tags name its topics. Other fields that help to understand
the document become facts about it. Lists are read as note programs write them: `[a, b]`, `a, b`, or
lines that begin with `-`. The dates of creation and change become properties, not text.
"""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from html import unescape

from hopsyncd.formats.blocks import Block, WrittenLink, make_name_link
from hopsyncd.formats.fields import are_fields
from hopsyncd.text.dates import find_dates

WIKI_LINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\]")

_PROPERTIES = re.compile(r"\A((?:(?:- |  )?[A-Za-z][\w-]*::(?:[ \t].*)?(?:\n|\Z))+)")
_NAME = r"([^\W\d_][\w .\-/?]{0,60}?)"
_KEYS = {
    "---": re.compile(rf"[\"']?{_NAME}[\"']?[ \t]*:(?:[ \t]+(.*)|(?=[\"'\[])(.*))?"),
    "+++": re.compile(rf"[\"']?{_NAME}[\"']?[ \t]*=(?:[ \t]*(.*)|(\Z\A))"),
}
# A second block between rules must have only such lines: text after a rule can begin with a field.
_PLAIN_KEY = re.compile(r"[a-z][a-z0-9_-]*:(?: |\Z)|[ \t]+\S")
_RULE = re.compile(r"(---|\+\+\+)[ \t]*\Z")
_ENDS = {"---": ("---", "..."), "+++": ("+++",)}
_MAX_LINES = 1000
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,31});")
_PROPERTY = re.compile(r"(?:- |  )?([A-Za-z][\w-]{0,60})(::)(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,]+)""")
_COMMENT = re.compile(r"(?<![ \t])[ \t]+#.*$")
_FOLDED = re.compile(r"[|>][+-]?\d?\Z")
_UNTOLD_VALUE = re.compile(r"(?:true|false|yes|no|null|~|/\S*|)\Z", re.IGNORECASE)
_MAX_NAMES = 100
_MAX_FIELD_CHARACTERS = 1000

# Readers never see these fields; they tell a program how to show the page.
_UNTOLD_NAMES = """
    title layout permalink slug weight draft toc icon id collapsed cssclass cssclasses banner cover
    image nav_order sidenav sidebar template publish published public cspell
    redirect_from heading filters lang eleventynavigation excalidraw-plugin kanban-plugin
    latitude longitude altitude
"""
_UNTOLD = frozenset(_UNTOLD_NAMES.split())

# Dates of creation and change that programs write.
_MADE = frozenset("created created-at created_at createdat ctime datecreated date-created".split())
_CHANGED = frozenset(
    "updated updated-at updated_at updatedat modified last_modified last-modified lastmodified"
    " lastmod mtime datemodified date-modified".split()
)
_ONE_NAME = (
    {"tags": "tag", "authors": "author", "date": "created"}
    | dict.fromkeys(_MADE, "created")
    | dict.fromkeys(_CHANGED, "modified")
)
_EPOCH = re.compile(r"(\d{9,10})(\d{3})?(?:\.\d+)?\Z")
_ISO = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d(?::\d\d(?:\.\d+)?)?\s*(?:Z|UTC|[+-]\d\d:?\d\d)?)?\Z"
)
_DENDRON = frozenset(("id", "title", "created", "updated"))


@dataclass(frozen=True, slots=True)
class Field:
    """A fact about the document as written in the front matter, and its 1-based line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The parsed front matter. `title_line` is 1-based. `links` are the tags and wiki-links in it.

    `properties` has a (name, value) pair for each tag, author and other property; names are in
    lower case. `label_first` is true for a note from Dendron, which writes links as
    `[[label|target]]`.
    """

    title: str = ""
    title_line: int = 1
    aliases: tuple[str, ...] = ()
    links: tuple[WrittenLink, ...] = ()
    fields: tuple[Field, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    label_first: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The title and the aliases."""
        return tuple(filter(None, (self.title, *self.aliases)))


@dataclass(slots=True)
class _Property:
    """A key, its text, and its continuation lines. `mark` is the character after the key."""

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
            return _strip_quotes(WIKI_LINK.sub(lambda link: link[2] or link[1], beside))
        joint = " " if _FOLDED.match(self.beside) else ", "
        return joint.join([*_list(beside), *self.below])


def remove_front_matter(text: str) -> tuple[str, FrontMatter]:
    """Separate front matter from the text. In the text, blank lines replace the front matter. Line
    numbers stay the same.

    Front matter begins in the first line. It is YAML between two lines of `---` (the second may be
    `...`), TOML between two lines of `+++`, or lines such as `tags:: a, b`, as in Logseq. A `---`
    with ordinary text below it is a horizontal rule.
    """
    fenced = _find_fence(text)
    if fenced:
        mark, lines = fenced
        properties = [*_parse_properties(lines, _KEYS[mark], 2)]
        end, rest = _drop_lines(text, len(lines) + 2)
        if mark == "---" and (second := _find_second_block(rest)):
            skipped, more = second
            properties += _parse_properties(more, _KEYS[mark], end + skipped + 2)
            lines = [*lines, *more]
            count, rest = _drop_lines(rest, skipped + len(more) + 2)
            end += count
        return "\n" * end + rest, _build_front_matter("\n".join(lines), properties)
    found = _PROPERTIES.match(text)
    if not found:
        return text, FrontMatter()
    blanked = "\n" * found[0].count("\n") + text[found.end() :]
    return blanked, _build_front_matter(
        found[0], [*_parse_properties(found[1].split("\n"), _PROPERTY, 1)]
    )


_PLACEHOLDER = re.compile(
    r"<%[-_*+~]?\s*(?:await\s+)?tp\.[^%\n]{0,300}(?:%>)?"
    r"|\{\{(?:title|date|time)(?::[^{}\n]{0,60})?\}\}"
)
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_MAX_WORDS_BESIDE = 3


def is_template(front_matter: FrontMatter, blocks: Sequence[Block], text: str) -> bool:
    """Whether a note is a template of Obsidian: its title or a field waits for a value, such as
    `{{title}}`, `{{date:YYYY-MM-DD}}` or `<% tp.date.now() %>`. `text` is the text of the note."""
    heading = ""
    if blocks and blocks[0].level and blocks[0].text:
        number = blocks[0].first_line
        heading = text.split("\n", number)[number - 1]
    values = (value for _, value in front_matter.properties)
    return any(map(_waits_for_value, (heading, front_matter.title, *values)))


def _waits_for_value(text: str) -> bool:
    """Whether a text begins or ends with a placeholder, and has few words beside it.

    >>> _waits_for_value("# Meeting {{date}}"), _waits_for_value("How {{title}} works")
    (True, False)
    """
    marked, count = _PLACEHOLDER.subn(" \0 ", _CODE_SPAN.sub(" code ", text))
    if not count:
        return False
    words = [word for word in marked.split() if word == "\0" or any(map(str.isalnum, word))]
    return "\0" in (words[0], words[-1]) and len(words) - count <= _MAX_WORDS_BESIDE


# The properties that Notion writes below the title of a page, if they have another name here.
_OF_NOTION = {
    "created time": "created",
    "date created": "created",
    "last edited time": "modified",
    "last updated": "modified",
    "created by": "author",
    "last edited by": "editor",
}


def read_page_fields(
    blocks: tuple[Block, ...],
) -> tuple[tuple[Block, ...], tuple[tuple[str, str], ...]]:
    """Split the paragraph below a title in the first line into fields, if all of its lines are
    fields, as in pages from Notion. Returns the blocks and the properties."""
    if len(blocks) < 2 or blocks[0].level != 1 or blocks[0].first_line != 1:
        return blocks, ()
    paragraph = blocks[1]
    lines = paragraph.text.split("\n")
    if paragraph.kind != "paragraph" or not are_fields(lines):
        return blocks, ()
    items: list[Block] = []
    properties: list[tuple[str, str]] = []
    offset = 0
    starts = [at for at, _ in paragraph.links]
    for number, line in enumerate(lines, paragraph.first_line):
        end = offset + len(line)
        inside = slice(bisect_left(starts, offset), bisect_left(starts, end))
        links = tuple((at - offset, link) for at, link in paragraph.links[inside])
        items.append(Block("list_item", line, number, number, links=links))
        offset = end + 1
        name, _, value = line.partition(":")
        key = name.strip().lower()
        key = _OF_NOTION.get(key) or _ONE_NAME.get(key.replace(" ", ""), key)
        for text in value.split(",") if key in ("tag", "author") else [value]:
            is_date = key in ("created", "modified")
            days = (found.day for found in find_dates(text))
            if shown := next(days, "") if is_date else text.strip():
                properties.append((key, shown[:_MAX_FIELD_CHARACTERS]))
    return (blocks[0], *items, *blocks[2:]), tuple(properties)


def _drop_lines(text: str, count: int) -> tuple[int, str]:
    """Return `count` and the text below its first `count` lines."""
    return count, "".join(text.split("\n", count)[count:])


def _find_second_block(text: str) -> tuple[int, list[str]] | None:
    """Find a second block of front matter at the beginning of `text`, which is the text below a
    first block that a program added.

    Returns the number of empty lines before the second block, and the lines in that block. Returns
    None if there is no second block.
    """
    bare = text.lstrip("\n")
    fenced = _find_fence(bare) if bare.startswith("---") else None
    if fenced is None or not all(map(_PLAIN_KEY.match, fenced[1])):
        return None
    return len(text) - len(bare), fenced[1]


def _find_fence(text: str) -> tuple[str, list[str]] | None:
    """Return the delimiter of the front matter and the lines in it, or None if the text has no
    front matter."""
    if text[:3] not in _KEYS:
        return None
    lines = text.split("\n", _MAX_LINES)[:_MAX_LINES]
    found = _RULE.match(lines[0])
    if not found:
        return None
    mark = found[1]
    end = next(
        (index for index, line in enumerate(lines) if index and line.rstrip() in _ENDS[mark]), None
    )
    if end is None:
        return None
    inner = lines[1:end]
    is_sound = _is_toml(inner) if mark == "+++" else _is_yaml(inner)
    return (mark, inner) if is_sound else None


def _is_toml(lines: Sequence[str]) -> bool:
    try:
        return bool(tomllib.loads("\n".join(lines)))
    except (ValueError, RecursionError):
        return False


def _is_yaml(lines: Sequence[str]) -> bool:
    """Whether the lines are names with values, as in notes. The lines need not be strict YAML.

    Each line is a name with a value, continues the value above it, or is a comment.
    """
    named = False
    opened = 0  # open brackets of a multi-line list
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if found := _KEYS["---"].fullmatch(line):
            named, opened = True, 0
            value = found[2] or found[3] or ""
            if value[:1] in ("[", "{"):
                opened = value.count(value[0]) - value.count("]" if value[0] == "[" else "}")
        elif (
            not named
            or not (opened > 0 or line[0] in " \t-]}")
            or (line[0] == "-" and not _ITEM.fullmatch(line) and line.strip() != "-")
        ):
            return False
        else:
            opened -= line.count("]") + line.count("}")
    return named


def _build_front_matter(properties: str, declared: Sequence[_Property]) -> FrontMatter:
    title, title_line = "", 1
    aliases: list[str] = []
    tags: list[str] = []
    for entry in declared:
        key = entry.key.lower()
        if key == "title" and not title and entry.text:
            title = _ENTITY.sub(lambda found: unescape(found[0]), entry.text)
            title_line = entry.line
        elif key in ("alias", "aliases"):
            aliases += entry.values
        elif key in ("tag", "tags"):
            tags += (value.removeprefix("#") for value in entry.values)
    keys = {entry.key.lower() for entry in declared}
    label_first = keys >= _DENDRON and any(
        _EPOCH.match(entry.text) for entry in declared if entry.key == "created"
    )
    links = [make_name_link(tag) for tag in tags]
    links += [make_name_link(found[1], found[2] or "") for found in WIKI_LINK.finditer(properties)]
    distinct = tuple(dict.fromkeys(link for link in links if link))
    return FrontMatter(
        title,
        title_line,
        tuple(aliases[:_MAX_NAMES]),
        distinct[:_MAX_NAMES],
        tuple(_list_fields(declared)),
        tuple(_list_properties(declared))[:_MAX_NAMES],
        label_first,
    )


def _list_properties(properties: Iterable[_Property]) -> Iterator[tuple[str, str]]:
    for entry in properties:
        key = entry.key.lower()
        name = _ONE_NAME.get(key.replace(" ", ""), key)
        if name in ("title", "alias", "aliases"):
            continue
        for value in entry.values:
            text = value.removeprefix("#") if name == "tag" else value
            if name in ("created", "modified"):
                text = _format_date(text) or text
            if text:
                yield name, text[:_MAX_FIELD_CHARACTERS]


def _list_fields(properties: Iterable[_Property]) -> Iterator[Field]:
    for entry in properties:
        key, text = entry.key.lower(), entry.text[:_MAX_FIELD_CHARACTERS]
        if key in _UNTOLD or _UNTOLD_VALUE.match(text):
            continue
        date = _format_date(text)
        if date and key.replace(" ", "") in _MADE | _CHANGED:
            continue
        if date and key == "date":
            text = date
        yield Field(f"{entry.key}{entry.mark} {text}", entry.line)


def _format_date(text: str) -> str:
    """Convert an ISO 8601 date or a Unix time to an ISO 8601 date. Returns "" for other text.

    >>> _format_date("1642032000000"), _format_date("2026-05-03"), _format_date("3 May")
    ('2022-01-13', '2026-05-03', '')
    """
    if _ISO.match(text):
        return text
    found = _EPOCH.match(text)
    if not found:
        return ""
    moment = datetime.fromtimestamp(int(found[1]), UTC)
    return moment.strftime("%Y-%m-%d") if moment.time() == time() else moment.isoformat()


def _parse_properties(
    lines: Iterable[str], keys: re.Pattern[str], first_line: int
) -> Iterator[_Property]:
    """Yield each unindented key with its text and its continuation lines. `keys` matches a line
    that begins with a key. `first_line` is the number of the first of `lines`."""
    last: _Property | None = None
    for number, line in enumerate(lines, first_line):
        found = keys.fullmatch(line)
        if found:
            if last:
                yield last
            mark, beside = ("::", found[3]) if found[2] == "::" else (":", found[2] or found[3])
            last = _Property(found[1].strip(), mark, number, (beside or "").strip(), [])
        elif not last or not line.strip() or line.startswith("#"):
            continue
        elif last.beside[:1] in ("[", "{") and not last.beside.endswith(("]", "}")):
            last.beside += f" {line.strip()}"
        elif item := _ITEM.fullmatch(line):
            last.below.append(_strip_quotes(item[1]))
        elif _FOLDED.match(last.beside):
            last.below.append(line.strip())
        elif last.beside and line[0] in " \t":
            last.beside += f" {line.strip()}"
    if last:
        yield last


def _list(text: str) -> list[str]:
    inner = _COMMENT.sub("", text).strip()
    if inner.startswith("[") and inner.endswith("]") and not inner.startswith("[["):
        inner = inner[1:-1]
    return [bare for part in _VALUE.findall(inner) if (bare := _strip_quotes(part))]


def _strip_quotes(text: str) -> str:
    """Remove the quotes and link brackets around a value.

    >>> _strip_quotes(' "[[Ada Lovelace]]" ')
    'Ada Lovelace'
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    link = WIKI_LINK.fullmatch(text.removeprefix("#"))
    return link[1].strip() if link else text.strip()
