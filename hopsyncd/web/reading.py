"""Prepares a document for reading: converts its passages to HTML, and marks one passage."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from hopsyncd.display import choose_document_title

Passage = Mapping[str, Any]

_SHOWN = 60  # passages shown around the marked passage
_CELL = " | "
_LABEL = re.compile(r"([^:|\n]{1,80}): (.*)", re.DOTALL)
_ITEM = re.compile(r"(?:[-*•] |(?:\d{1,3}[.)]) )")
# Single line breaks in a passage separate list items or lines of code.
_CODE = re.compile(r"[{};=\\]|\(\)|^\s*[$#>/]", re.MULTILINE)
_SENTENCE = re.compile(r"(?: {2})*(?:\[[ xX]\] )?[^\W_a-z]|(?: {2})*[\"'(\u201c\u00ab\u201e]\w")
_TASK = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_MOST_HEADINGS, _MAX_DEPTH = 6, 10


@dataclass(frozen=True, slots=True)
class Part:
    """A passage of the document, with the headings that begin before it."""

    headings: Sequence[tuple[int, str]]
    html: Markup
    is_marked: bool


@dataclass(slots=True)
class Opened:
    """A document around a passage. `total` is the number of all its passages."""

    passage: Passage
    version: int
    title: str
    parts: Sequence[Part]
    before: Passage | None
    after: Passage | None
    total: int
    tab: str = "document"
    questions: Mapping[str, Any] | None = None
    modified: str | None = None
    written: Markup | None = None  # the whole Markdown file as HTML, if it is shown
    related: Sequence[Mapping[str, Any]] = ()
    history: Sequence[Mapping[str, Any]] = ()
    # Only for a PDF: the wanted page, and its pictures or the reason why there are none.
    page: int | None = None
    drawn: Sequence[Mapping[str, Any]] = ()
    problem: str = ""

    @property
    def is_pdf(self) -> bool:
        """Whether the document is a PDF, whose pages can be shown."""
        return str(self.passage["document"] or "").lower().endswith(".pdf")


def open_document(
    passage: Passage, passages_of_document: Sequence[Passage], version: int
) -> Opened:
    """Convert the passages of a document around a passage."""
    place = next(
        (index for index, shown in enumerate(passages_of_document) if shown["id"] == passage["id"]),
        0,
    )
    first = max(min(place - _SHOWN // 2, len(passages_of_document) - _SHOWN), 0)
    shown = passages_of_document[first : first + _SHOWN]
    parts = list[Part]()
    title = choose_document_title(passage) if passage["document"] else "A passage"
    # The page already shows the title above the document.
    above: Sequence[str] = passages_of_document[first - 1]["heading"] if first else [title]
    for part in shown:
        parts.append(
            Part(
                list(_select_new_headings(above, part["heading"])),
                render_passage(part["text"]),
                part["id"] == passage["id"],
            )
        )
        above = part["heading"]
    end = first + len(shown)
    return Opened(
        passage,
        version,
        title,
        parts,
        passages_of_document[first - 1] if first else None,
        passages_of_document[end] if end < len(passages_of_document) else None,
        len(passages_of_document),
    )


def _select_new_headings(above: Sequence[str], heading: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Return the headings of a passage that the previous passage lacks, with their levels.

    >>> list(_select_new_headings(["Ada", "Youth"], ["Ada", "Work", "Notes"]))
    [(3, 'Work'), (4, 'Notes')]
    """
    shared = 0
    while shared < min(len(above), len(heading)) and above[shared] == heading[shared]:
        shared += 1
    for level, text in enumerate(heading[shared:], shared + 2):
        yield min(level, _MOST_HEADINGS), text


def render_passage(text: str) -> Markup:
    """Convert the text of a passage to paragraphs, lists and tables in HTML."""
    return Markup("").join(map(_render_block, re.split(r"\n{2,}", text.strip("\n"))))


def _render_block(block: str) -> Markup:
    lines = block.split("\n")
    if len(lines) > 1 and all(_CELL in line for line in lines):
        return _render_table([line.split(_CELL) for line in lines])
    if all(map(_ITEM.match, lines)):
        items = (Markup("<li>{}</li>").format(_get_item_text(line)) for line in lines)
        return Markup("<ul>{}</ul>").format(Markup("").join(items))
    if len(lines) > 1 and not _CODE.search(block) and _CELL not in block:
        lead = lines[:1] if lines[0].endswith(":") else []
        below = lines[len(lead) :]
        if all(map(_SENTENCE.match, below)):
            shown = (Markup("<p>{}</p>").format(line) for line in lead)
            return Markup("").join([*shown, _list_html(below)])
    return Markup("<p>{}</p>").format(Markup("<br>").join(map(escape, lines)))


def _list_html(lines: Sequence[str], depth: int = 1) -> Markup:
    """Convert list items to a list. A more indented item is nested in the item above it, up to a
    depth of 10."""
    items = list[Markup]()
    start = 0
    indent = _indent_of(lines[0])
    while start < len(lines):
        end = start + 1
        while depth < _MAX_DEPTH and end < len(lines) and _indent_of(lines[end]) > indent:
            end += 1
        below = _list_html(lines[start + 1 : end], depth + 1) if end > start + 1 else Markup("")
        items.append(Markup("<li>{}{}</li>").format(show_box(lines[start].strip()), below))
        start = end
    return Markup("<ul>{}</ul>").format(Markup("").join(items))


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def _get_item_text(line: str) -> str:
    """Return the text of a list item. A numbered item keeps its number.

    >>> _get_item_text("- [x] Call Ann"), _get_item_text("2. Then rest")
    ('☑ Call Ann', '2. Then rest')
    """
    if line[0].isdigit():
        return line
    return show_box(line[2:])


def show_box(text: str) -> str:
    """Replace the mark of a task, such as [x], with a box."""
    boxes = (box + text[len(mark) :] for mark, box in _TASK.items() if text.startswith(mark))
    return next(boxes, text)


def _render_table(rows: Sequence[Sequence[str]]) -> Markup:
    """Convert rows to a table. If all cells begin with a label and a colon, the labels become
    headers."""
    labels = [[_LABEL.fullmatch(cell.strip()) for cell in row] for row in rows]
    if all(all(row) for row in labels):
        names = [[cell[1] for cell in row if cell] for row in labels]
        if any(len({*row}) < len(row) for row in names):
            return _render_side_by_side(
                names, [[cell[2] for cell in row if cell] for row in labels]
            )
        columns = dict.fromkeys(name for row in names for name in row)
        head = _render_row(columns, "th")
        labelled = [{cell[1]: cell[2] for cell in row if cell} for row in labels]
        body = [_render_row([row.get(name, "") for name in columns], "td") for row in labelled]
        return _wrap_table(Markup("<thead>{}</thead>").format(head), body)
    return _wrap_table(Markup(""), [_render_row(row, "td") for row in rows])


def _render_side_by_side(names: Sequence[Sequence[str]], values: Sequence[Sequence[str]]) -> Markup:
    """Convert rows in which names repeat, as in tables side by side. A change of the names begins
    with a row of the new names."""
    body = list[Markup]()
    for index, (row_names, row) in enumerate(zip(names, values, strict=True)):
        before = names[index - 1] if index else ()
        if tuple(row_names) != tuple(before[: len(row_names)]):
            body.append(_render_row(row_names, "th"))
        body.append(_render_row(row, "td"))
    return _wrap_table(Markup(""), body)


def _wrap_table(head: Markup, body: Sequence[Markup]) -> Markup:
    return Markup('<div class="table"><table>{}<tbody>{}</tbody></table></div>').format(
        head, Markup("").join(body)
    )


def _render_row(cells: Sequence[str] | Mapping[str, Any], kind: str) -> Markup:
    scope = ' scope="col"' if kind == "th" else ""
    html_cells = (Markup(f"<{kind}{scope}>{{}}</{kind}>").format(cell.strip()) for cell in cells)
    return Markup("<tr>{}</tr>").format(Markup("").join(html_cells))


def format_citation(quoted: str, passage: Passage, version: int) -> str:
    """Format a quotation with its location, in Markdown.

    >>> place = {"source": "notes", "document": "ada.md", "location": "line 3"}
    >>> passage = place | {"heading": ["Ada"]}
    >>> print(format_citation("She wrote it.", passage, 7))
    > She wrote it.
    >
    > — Ada, `notes/ada.md`, line 3 (version 7)
    """
    text = quoted.strip().replace("\n", "\n> ")
    place = f"`{passage['source']}/{passage['document']}`" if passage["document"] else ""
    parts = [
        choose_document_title(passage) if passage["document"] else "",
        place,
        passage["location"],
    ]
    return f"> {text}\n>\n> — {', '.join(filter(None, parts))} (version {version})"
