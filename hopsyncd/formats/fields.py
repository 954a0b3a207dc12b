"""Fields, leads and rows: front matter, `name: value` lines, what leads in a list, table cells.

Title, aliases and tags name the document or what it belongs to; whatever else tells a reader
something is a fact about the document. Lists are read as note programs write them: `[a, b]`,
`a, b`, or lines that begin with `-`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hopsyncd.formats.blocks import Block, WrittenLink, link_to_name
from hopsyncd.formats.units import flowed, sentences

_MAX_CHARACTERS = 160


def lead_of(text: str) -> str:
    """What an item tells the items nested in it: its first sentence, in one line.

    >>> lead_of("Keep a backup. It is\\nneeded.")
    'Keep a backup.'
    """
    return _cut(next(sentences(flowed(text[: 4 * _MAX_CHARACTERS])), "").strip())


def lead_in_of(text: str) -> str:
    """The last sentence of a paragraph that introduces what follows; empty if it does not.

    >>> lead_in_of("There are two. These are read:"), lead_in_of("There are two.")
    ('These are read:', '')
    """
    if not text.rstrip().endswith(":"):
        return ""
    *_, last = sentences(flowed(text[-4 * _MAX_CHARACTERS :]))
    return _cut(last.strip())


def _cut(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    return text[:_MAX_CHARACTERS].rsplit(" ", 1)[0] + " …"


_FIELD = re.compile(r"(:?)([A-Z][\w-]*(?: [\w-]+){0,3}):(?:[ \t]+(\S.*))?\Z")
_NUMBER = re.compile(r"[\w.-]{1,12}\Z")
_TITLES = ("title", "subject")


@dataclass(frozen=True, slots=True)
class Head:
    """The title, what else the document is called, and the other fields, a block each."""

    title: str = ""
    title_line: int = 1
    names: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


def are_fields(run: Sequence[str]) -> bool:
    """Whether the lines are at least two fields; an indented line continues the field above."""
    if not run or run[0][0].isspace():
        return False
    begun = [line for line in run if not line[0].isspace()]
    return len(begun) > 1 and all(_FIELD.match(line.rstrip()) for line in begun)


def head_of(number: int, run: Sequence[str], *, with_title: bool = True) -> Head:
    """Read the fields of a run of lines; `number` is the number of the first.

    A number above the title belongs to it and is a name: a document that begins with "PEP: 8" and
    "Title: Style" has the title "PEP 8: Style" and is called "PEP 8" too.
    """
    title, title_line, names = "", 1, tuple[str, ...]()
    blocks: list[Block] = []
    below: list[str] = []  # lines that go on with the last field
    for line_number, line in enumerate([*run, ""], number):
        found = _FIELD.match(line.rstrip()) if not line[:1].isspace() else None
        if not found and line:
            below.append(line.strip())
            continue
        if blocks and below:
            text = "\n".join([blocks[-1].text, *below])
            blocks[-1] = replace(blocks[-1], text=text, last_line=line_number - 1)
        below = []
        if not found:
            break
        name, value = found[2], (found[3] or "").strip()
        if with_title and name.lower() in _TITLES and value and not title:
            title, title_line = value, line_number
            continue
        if not blocks and _NUMBER.match(value) and any(map(str.isdigit, value)):
            names = (f"{name} {value}",)
        blocks.append(Block("list_item", f"{name}: {value}".rstrip(), line_number, line_number))
    if title and names:
        title = f"{names[0]}: {title}"
    return Head(title, title_line, names, tuple(blocks))


_MAX_LABEL_CHARACTERS = 60


def labels_of(row: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns, if a table's first row looks like names; else empty.

    There are at least two names, all short, different, and not numbers.

    >>> labels_of(["Name", "Age"]), labels_of(["Tove", "44"])
    (('Name', 'Age'), ())
    """
    distinct = {cell.casefold() for cell in row}
    if len(row) < 2 or len(distinct) < len(row):
        return ()
    named = all(
        cell
        and len(cell) <= _MAX_LABEL_CHARACTERS
        and not cell[0].isdigit()
        and cell[0] not in "-+"
        for cell in row
    )
    return tuple(row) if named else ()


def row_text(row: Sequence[str], labels: Sequence[str]) -> str:
    """A row's cells, each with the name of its column where that is known.

    >>> row_text(["Tove", "", "Oslo"], ["Name", "Age", "City"])
    'Name: Tove | City: Oslo'
    """
    return " | ".join(filter(None, cell_texts(row, labels)))


def cell_texts(row: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The texts of a row's cells, in order; that of an empty cell is empty."""
    names = [*labels, *[""] * (len(row) - len(labels))]
    return [
        f"{name}: {cell}" if name and cell else cell for name, cell in zip(names, row, strict=False)
    ]


def table_texts(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The text of each row, its cells named by the first if that has the columns' names.

    The text of a row that only names columns is empty. A row with joined cells has no names.

    >>> [*table_texts([["Name", "Age"], ["Tove", "44"], ["both"]])]
    ['', 'Name: Tove | Age: 44', 'both']
    """
    labels = labels_of(rows[0]) if len(rows) > 1 else ()
    if labels and labels[0].endswith(":"):  # names rows, as a form does
        labels = ()
    for at, row in enumerate(rows):
        names = labels if len(row) == len(labels) else ()
        yield "" if labels and at == 0 else row_text(row, names)


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

# Readers of the page never see these: they tell a program how to show it.
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
    """What the front matter says. `title_line` is 1-based; tags and properties have `links`.

    properties: (name, value) of each, names in lower case, a tag or author each on its own.
    """

    title: str = ""
    title_line: int = 1
    aliases: tuple[str, ...] = ()
    links: tuple[WrittenLink, ...] = ()
    fields: tuple[Field, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The title and the aliases."""
        return tuple(filter(None, (self.title, *self.aliases)))


@dataclass(slots=True)
class _Property:
    """A key with the text beside it and in the lines below it; `mark` follows the key."""

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
    """The text with its front matter blanked, so that lines keep their place, and what it said."""
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
        title,
        title_line,
        tuple(aliases[:_MAX_NAMES]),
        distinct[:_MAX_NAMES],
        tuple(_fields(told)),
        tuple(_properties(told))[:_MAX_NAMES],
    )


_ONE_NAME = {"tags": "tag", "authors": "author", "date": "created", "updated": "modified"}


def _properties(told: Iterable[_Property]) -> Iterator[tuple[str, str]]:
    for one in told:
        key = one.key.lower()
        name = _ONE_NAME.get(key, key)
        if name in ("title", "alias", "aliases"):
            continue
        for value in one.values:
            if said := value.removeprefix("#") if name == "tag" else value:
                yield name, said[:_MAX_FIELD_CHARACTERS]


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
    """A value without quotes or the brackets of a link.

    >>> _bare(' "[[Ada Lovelace]]" ')
    'Ada Lovelace'
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    link = WIKI_LINK.fullmatch(text.removeprefix("#"))
    return link[1].strip() if link else text.strip()
