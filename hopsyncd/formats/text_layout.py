"""Analyses the layout of plain text: pages, numbered headings, tables of contents, terms in
columns."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hopsyncd.formats.blocks import Block

Run = tuple[int, list[str]]
"""The number of the first line, counted from 1, and consecutive lines that are not blank."""

TAB = 8
_PAGE_FOOT = re.compile(r"\S.*\[Page [0-9ivxlc]+\][ \t]*\Z")
_PAGE_HEAD = re.compile(r"\f?(?:RFC|Internet-Draft)[ \t].*[ \t](?:19|20)\d\d[ \t]*\Z")
_LEAST_PAGES = 3  # a running head must be on this many pages
_DIGITS = re.compile(r"\d+")

NUMBERED = re.compile(r"(?P<number>(?:\d{1,3}|[A-Z](?=\.))(?:\.\d{1,3})*)(?P<dot>\.?)[ \t]{1,4}")
WRAPPED = 58  # the minimum length of a full line of wrapped text
COLUMNS = re.compile(r"\S(?:[ ]{3,}|\t+)\S")
_MAX_HEADING_CHARACTERS = 80
_MAX_INDENT = 9
_MAX_GAP = 3  # the most missing numbers between two headings, which may not be recognized
_LOOK_BACK = 12  # earlier headings to compare


def measure_indent(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip())].expandtabs(TAB))


def split_into_runs(lines: Iterable[str]) -> Iterator[Run]:
    start, run = 0, list[str]()
    for number, line in enumerate(lines, 1):
        if line and not line.isspace():
            start = start if run else number
            run.append(line)
        elif run:
            yield start, run
            run = []
    if run:
        yield start, run


@dataclass(frozen=True, slots=True)
class TextPages:
    """The lines of a document without its running heads and feet, and the positions at which its
    pages end."""

    lines: list[str]
    breaks: list[int]  # line numbers, ascending


def blank_page_lines(lines: Sequence[str], name: str = "") -> TextPages:
    """Blank the lines that repeat on each page; `name` is a manual page's name, such as `mill(1)`.

    Running heads and feet are recognized in RFCs and manual pages. In other documents they are
    first or last lines that occur on three or more pages between form feeds, ignoring page numbers.
    """
    recurring = _find_recurring(lines)
    shown_lines, breaks = [], []
    for index, line in enumerate(lines):
        is_foot = name and line[:1] != " " and line.rstrip().endswith(f" {name}")
        if index in recurring or is_foot or _PAGE_FOOT.match(line) or _PAGE_HEAD.match(line):
            breaks.append(index + 1)
            shown_lines.append("")
        else:
            if line[:1] == "\f":
                breaks.append(index + 1)
            shown_lines.append(line.lstrip("\f"))
    return TextPages(shown_lines, breaks)


def _find_recurring(lines: Sequence[str]) -> set[int]:
    """Return the positions of the running heads and feet among the first and last lines of
    pages."""
    edges: list[int] = []
    page: list[int] = []
    for index, line in enumerate(lines):
        if line[:1] == "\f":
            edges += {*page[:1], *page[-1:]}
            page = []
        if line.strip():
            page.append(index)
    if not edges:
        return set()
    edges += {*page[:1], *page[-1:]}
    shown = {index: _DIGITS.sub("0", " ".join(lines[index].split())) for index in edges}
    counts = Counter(shown.values())
    return {index for index, text in shown.items() if counts[text] >= _LEAST_PAGES}


def join_over_pages(blocks: Iterable[Block], breaks: Sequence[int]) -> Iterator[Block]:
    """Yield the blocks, and join blocks that a page break splits.

    Such a block has no full stop before the break and continues in lower case.
    """
    waiting = list(reversed(breaks))
    before: Block | None = None
    for block in blocks:
        while waiting and before and waiting[-1] <= before.last_line:
            waiting.pop()
        is_parted = bool(waiting) and before is not None and waiting[-1] < block.first_line
        if before and is_parted and _goes_on(before, block):
            text = f"{before.text}\n{block.text}"
            before = replace(before, text=text, last_line=block.last_line)
            continue
        if before:
            yield before
        before = block
    if before:
        yield before


def _goes_on(before: Block, block: Block) -> bool:
    of_text = before.kind in ("paragraph", "list_item") and block.kind == "paragraph"
    return of_text and before.text[-1] not in ".:;!?" and block.text[0].islower()


@dataclass(frozen=True, slots=True)
class NumberedHeading:
    """A heading such as `2.1. Terms`. `lines` is the number of its lines."""

    text: str
    level: int
    lines: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    run_index: int
    number: tuple[int, ...]
    indent: int
    text: str
    is_plain: bool  # whether it begins with a letter and is not a question
    is_above_text: bool  # whether the next text is indented deeper

    @property
    def is_lettered(self) -> bool:
        return self.text[0].isalpha()

    @property
    def stands_alone(self) -> bool:
        """Whether the line's form alone shows that the line is a heading."""
        return self.is_plain and not self.indent and (self.is_above_text or len(self.number) > 1)


def find_numbered_headings(runs: Sequence[Run]) -> Mapping[int, NumberedHeading]:
    """Return the runs that are numbered headings, by their position.

    A numbered heading is short, is not a sentence, and has blank lines around it. An unindented
    line with several numbers, or above indented text, is a heading. Any other line is a heading
    only if it continues the numbering of an earlier heading or a later heading continues its
    numbering, with text between the two; consecutive lines are list items. Indented headings have
    several numbers.
    """
    seen = {
        index: candidate
        for index in range(len(runs))
        if (candidate := _make_candidate(runs, index))
    }
    last = {candidate.text: index for index, candidate in seen.items()}
    candidates = {
        index: candidate
        for index, candidate in seen.items()
        if last[candidate.text] == index
        or not (index + 1 in seen or is_of_contents(runs[index + 1][1], last))
    }
    taken = {candidate.run_index for candidate in candidates.values() if candidate.stands_alone}
    found = [
        candidate
        for index, candidate in candidates.items()
        if index in taken or not _is_item(candidate, candidates)
    ]
    for is_indented in (False, True):
        for place, candidate in enumerate(found):
            for before in found[max(0, place - _LOOK_BACK) : place]:
                if bool(candidate.indent) is not is_indented or not _leads_to(before, candidate):
                    continue
                if not candidate.indent and not before.indent:
                    taken |= {before.run_index, candidate.run_index}
                elif before.run_index in taken and len(candidate.number) > 1:
                    taken.add(candidate.run_index)
    headings = [candidates[index] for index in sorted(taken)]
    return {
        heading.run_index: NumberedHeading(
            heading.text, min(level, 6), len(runs[heading.run_index][1])
        )
        for heading, level in zip(headings, _find_levels(headings), strict=True)
    }


def _find_levels(headings: Sequence[_Candidate]) -> Iterator[int]:
    """Yield the level of each heading: 2 for "1.", 3 for "1.1." and so on. A lettered heading is
    nested below the numbered heading before it, unless no numbered heading follows."""
    last = max(
        (index for index, heading in enumerate(headings) if not heading.is_lettered), default=-1
    )
    level = 1
    for index, heading in enumerate(headings):
        if heading.is_lettered:
            yield (level if index < last else 1) + len(heading.number)
        else:
            level = 1 + len(heading.number)
            yield level


def _make_candidate(runs: Sequence[Run], index: int) -> _Candidate | None:
    run = runs[index][1]
    line, indent = run[0].strip(), measure_indent(run[0])
    found = NUMBERED.match(line)
    if not found or indent > _MAX_INDENT or found.end() == len(line):
        return None
    if len(run) > 1 and not (
        len(run) == 2
        and "." in found["number"]
        and len(run[0].rstrip()) >= WRAPPED
        and measure_indent(run[1]) == indent + found.end()
    ):
        return None
    title = " ".join(" ".join([line[found.end() :], *run[1:]]).split())
    of_letters = title[0].isalpha()
    if len(title) > _MAX_HEADING_CHARACTERS * len(run) or title[-1] in ".,;:!":
        return None
    if COLUMNS.search(line, found.end()) or not any(map(str.isalpha, title)):
        return None
    if not of_letters and not (found["dot"] and title[0].isalnum()):
        return None
    is_above_text = index + 1 < len(runs) and measure_indent(runs[index + 1][1][0]) > indent
    if not (is_above_text or found["dot"] or "." in found["number"]):
        return None  # such as `12 Main Street`
    number = tuple(
        int(part) if part.isdecimal() else ord(part) for part in found["number"].split(".")
    )
    return _Candidate(
        index,
        number,
        indent,
        f"{line[: found.end()].strip()} {title}",
        of_letters and title[-1] != "?",
        is_above_text,
    )


def _is_item(candidate: _Candidate, candidates: Mapping[int, _Candidate]) -> bool:
    """Whether the candidate in the run before or after has the same form, as in a list."""
    beside = (candidates.get(candidate.run_index + step) for step in (-1, 1))
    return any(
        other.indent == candidate.indent
        and len(other.number) == len(candidate.number)
        and not other.stands_alone
        for other in beside
        if other
    )


def _leads_to(before: _Candidate, candidate: _Candidate) -> bool:
    """Whether the number of `candidate` can follow the number of `before` in a document with
    numbered sections."""
    if candidate.number[:-1] == before.number:
        return candidate.number[-1] <= 1
    depth = len(candidate.number)
    if depth > len(before.number) or candidate.number[:-1] != before.number[: depth - 1]:
        return False
    return 0 < candidate.number[-1] - before.number[depth - 1] <= _MAX_GAP


def is_of_contents(run: Sequence[str], titles: Container[str]) -> bool:
    """Whether most lines belong to a table of contents: dots lead to a page number, or the line is
    one of `titles`."""
    named = (_is_dotted(line) or " ".join(line.split()) in titles for line in run)
    return sum(named) * 2 > len(run)


def _is_dotted(line: str) -> bool:
    """Whether dots lead from a title to a page number."""
    bare = line[-100:].rstrip()
    title = bare.rstrip("0123456789ivxlc")
    return title != bare and "".join(title.split()).endswith("....")


ITEM = re.compile(r"(?:[-*+o\u2022]|\(?\d{1,3}[.)]|\(?[a-z][.)])[ \t]+(?=\S)")
_COMMENT = re.compile(r"#\s|//|/\*|--\s")
_MAX_TAG_CHARACTERS = 40
_MOST = 8  # columns to try in a run


@dataclass(frozen=True, slots=True)
class Tag:
    """A term and its text on one line. The text begins at `column`. `is_apart` is true if at least
    two spaces separate the term from the text."""

    term: str
    text: str
    column: int
    is_apart: bool


def find_tags(run: list[str]) -> dict[int, Tag]:
    """Return the lines of a run that have a term followed by text, by their position.

    The text continues below in the same column. A term with two spaces before its text counts
    unless it is inside other text. A term that fills its column counts only next to terms with two
    spaces.
    """
    indents = [measure_indent(line) for line in run]
    found: dict[int, Tag] = {}
    for column in sorted({*indents})[1 : _MOST + 1]:
        tags = {index: tag for index, line in enumerate(run) if (tag := _find_tag(line, column))}
        edges = [indents[index] for index, tag in tags.items() if tag.is_apart]
        if not edges:
            continue
        of_edge = {index: tag for index, tag in tags.items() if indents[index] == min(edges)}
        among = {
            index: tag
            for index, tag in of_edge.items()
            if sum(_is_text_at(indents, index + step, of_edge) for step in (-1, 1)) <= tag.is_apart
        }
        below = [line for line, indent in zip(run, indents, strict=True) if indent == column]
        if _is_prose([*(tag.text for tag in among.values()), *(line.strip() for line in below)]):
            found = among | found
    return found


def _is_text_at(indents: Sequence[int], index: int, tags: Mapping[int, Tag]) -> bool:
    """Whether the line `index` has no tag, but is indented like the tags."""
    return (
        0 <= index < len(indents)
        and index not in tags
        and indents[index] == indents[next(iter(tags))]
    )


def _find_tag(line: str, column: int) -> Tag | None:
    """Return the term before the text that begins at `column`, or None if there is no such term.

    A term that fills its column must be a single word.
    """
    line = line.expandtabs(TAB)
    term, text = line[:column].strip(), line[column:].rstrip()
    is_apart = column > 1 and not line[column - 2 : column].strip()
    if not term or not text or text[0] == " " or line[column - 1] != " ":
        return None
    if len(term) > _MAX_TAG_CHARACTERS or ("  " if is_apart else " ") in term:
        return None
    if ITEM.match(line.strip()) or _COMMENT.match(text) or term[-1] in ".!?":
        return None
    term = term.rstrip(" :=-\u2013")
    return Tag(term, text, column, is_apart) if any(map(str.isalnum, term)) else None


def _is_prose(lines: Sequence[str]) -> bool:
    """Whether the lines consist mostly of letters, and few lines have gaps as in table rows."""
    text = "".join("".join(lines).split())
    gaps = sum(map(bool, map(COLUMNS.search, lines)))
    return 4 * gaps <= len(lines) and sum(map(str.isalpha, text)) >= 0.7 * len(text)
