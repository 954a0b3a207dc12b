"""Reads BibTeX and BibLaTeX. Each entry becomes a section below its title."""

import re
from collections.abc import Iterator
from textwrap import shorten

from hopsyncd.formats.blocks import Block, WrittenLink, make_address_link
from hopsyncd.formats.latex_text import InlineReader, Source

_MAX_TITLE_CHARACTERS = 200
_ENTRY = re.compile(r"^[ \t]*@(\w+)[ \t]*[{(][ \t]*([^\s,{}()=]*)[ \t]*,", re.MULTILINE)
_STRING = re.compile(r"^[ \t]*@string[ \t]*[{(][ \t]*", re.MULTILINE | re.IGNORECASE)
_FIELD = re.compile(r"[\s,]*([\w-]+)\s*=\s*")
_JOINT = re.compile(r"\s*#\s*")
_MARK = re.compile(r'\\.|[{}"]', re.DOTALL)
_BARE = re.compile(r"[\w.:/+-]+")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_PLACES = ("journal", "journaltitle", "booktitle", "school", "institution", "organization",
           "publisher", "howpublished", "eprint")  # fmt: skip
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def read_bibliography(text: str) -> tuple[Block, ...]:
    """Read a file. Each entry becomes a heading with its title, and a list item with its key,
    authors, year, title, place and abstract."""
    strings: dict[str, str] = {}
    ends = _find_ends(text)
    for found in _STRING.finditer(text):
        if named := _FIELD.match(text, found.end()):
            end = text.find("\n", named.end())
            end = len(text) if end < 0 else end
            strings[named[1].lower()] = _read_value(text, named.end(), end, strings, ends)[0]
    return tuple(_read_entries(text, strings, ends))


def _read_entries(text: str, strings: dict[str, str], ends: dict[int, int]) -> Iterator[Block]:
    line, counted = 1, 0
    entries = [*_ENTRY.finditer(text)]
    bounds = [*(found.start() for found in entries[1:]), len(text)]
    for found, end in zip(entries, bounds, strict=False):
        if found[1].lower() in ("comment", "preamble", "string"):
            continue
        fields: dict[str, str] = {}
        offset = found.end()
        while named := _FIELD.match(text, offset, end):
            value, offset = _read_value(text, named.end(), end, strings, ends)
            fields.setdefault(named[1].lower(), value)
        first = line + text.count("\n", counted, found.start())
        last = first + text.count("\n", found.start(), offset)
        line, counted = first, found.start()
        shown = _format_entry(found[2], found[1].lower(), fields)
        links = tuple((0, link) for link in _list_links(fields))
        title = shorten(fields.get("title", ""), _MAX_TITLE_CHARACTERS, placeholder=" …")
        yield Block("heading", title, first, first, level=2)
        yield Block("list_item", shown, first, last, links=links)


def _read_value(
    text: str, offset: int, end: int, strings: dict[str, str], ends: dict[int, int]
) -> tuple[str, int]:
    """Return the value that begins at `offset`, and the position after the value. `#` joins several
    parts.

    A part is in braces, in quotes or bare. An unclosed part ends at the end of its line. `strings`
    are the abbreviations that the file defines, and `ends` is the result of `_find_ends`.
    """
    parts: list[str] = []
    while offset < end:
        begin = offset
        if text[offset] in '{"':
            offset = ends.get(offset, len(text) + 1)
            if offset > end:
                line_end = text.find("\n", begin, end)
                offset = end if line_end < 0 else line_end
                parts.append(text[begin + 1 : offset].rstrip().removesuffix(","))
            else:
                parts.append(text[begin + 1 : offset - 1])
        elif bare := _BARE.match(text, offset, end):
            offset = bare.end()
            parts.append(strings.get(bare[0].lower(), bare[0]))
        joint = _JOINT.match(text, offset, end)
        if offset == begin or not joint:
            break
        offset = joint.end()
    return _strip_markup("".join(parts)), offset


def _find_ends(text: str) -> dict[int, int]:
    """Return the end position of each closed part in braces or quotes, by its start position.

    A quoted part ends at the next quotation mark at the same depth of braces.
    """
    ends: dict[int, int] = {}
    braces: list[int] = []
    quotes: dict[int, int] = {}  # the start of the last quote, by the number of open braces
    depth = 0
    for found in _MARK.finditer(text):
        mark, offset = found[0], found.start()
        if mark == "{":
            braces.append(offset)
            depth += 1
        elif mark == "}":
            if braces:
                ends[braces.pop()] = offset + 1
            depth -= 1
        elif mark == '"':
            if depth in quotes:
                ends[quotes[depth]] = offset + 1
            quotes[depth] = offset
    return ends


def _strip_markup(text: str) -> str:
    if not any(mark in text for mark in "\\{}$~`'-"):
        return " ".join(text.split())
    source = Source.tokenize(text.replace("%", "\\%").replace("\\\\%", "\\%"))
    return InlineReader(source).read_text(0, len(source.tokens))[0]


def _format_entry(key: str, kind: str, fields: dict[str, str]) -> str:
    people = _format_people(fields.get("author") or "")
    if not people and fields.get("editor"):
        people = f"{_format_people(fields['editor'])} (eds.)"
    year = fields.get("year") or fields.get("date", "")
    month = fields.get("month", "")
    if month[:3].lower() in _MONTHS and fields.get("year"):
        year = f"{month.capitalize()} {year}"
    place = next((fields[name] for name in _PLACES if fields.get(name)), "")
    volume = fields.get("volume", "")
    number = f"({fields['number']})" if volume and fields.get("number") else ""
    pages = f"pages {fields['pages']}" if fields.get("pages") else ""
    about = ", ".join(filter(None, [place, f"{volume}{number}", pages]))
    head = f"{people} ({year})" if people and year else people or year
    title = ": ".join(filter(None, [fields.get("title", ""), fields.get("subtitle", "")]))
    doi = f"doi:{fields['doi']}" if fields.get("doi") else fields.get("url", "")
    keywords = f"Keywords: {fields['keywords']}" if fields.get("keywords") else ""
    # One sentence, because an answer may quote a single sentence.
    source = ", ".join(part.rstrip(".") for part in (title, about, doi) if part)
    reference = ": ".join(filter(None, [head, source]))
    parts = [reference, fields.get("abstract", ""), keywords, fields.get("note", "")]
    text = ". ".join(part.rstrip(".") for part in parts if part)
    return f"[{key}] {text}." if text else f"[{key}] {kind}"


def _format_people(text: str) -> str:
    """Format a list of names for reading.

    >>> _format_people("Lovelace, Ada and Grace Hopper and others")
    'Ada Lovelace, Grace Hopper et al.'
    """
    names = []
    for name in _AND.split(text.strip()):
        family, comma, first_name = name.partition(",")
        names.append(f"{first_name.strip()} {family.strip()}" if comma else name.strip())
    if names[-1:] == ["others"]:
        return f"{', '.join(names[:-1])} et al."
    return ", ".join(filter(None, names))


def _list_links(fields: dict[str, str]) -> Iterator[WrittenLink]:
    doi = fields.get("doi", "")
    address = fields.get("url") or (f"https://doi.org/{doi}" if doi else "")
    if link := make_address_link(address, fields.get("title", "")) if address else None:
        yield link
