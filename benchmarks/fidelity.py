"""Compares the text read from a document with a reference: words, word order, cells of tables."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Judgement = Literal[
    "right", "wrong", "invented", "shifted", "unnamed", "plain", "apart", "reformed", "missing"
]
JUDGEMENTS: tuple[Judgement, ...] = (
    "right", "wrong", "invented", "shifted", "unnamed", "plain", "apart", "reformed", "missing"
)  # fmt: skip
"""The judgements of a cell: under its header, under another's, under what is no header, bare and
out of its place,
in its row without its header, in a table without headers, not with its row, the same number in
another form, and not there."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_NUMBER = re.compile(r"[-\u2212($€£ ]*(\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?) ?(%?)\)?")
_BROKEN_ROW = re.compile(r"\s*\n\s*\|(?!\S)\s*")
_FEW_WORDS = 3  # references of fewer words say nothing about recall
_ROUNDED = 0.006  # how far a rounded number may be from the one in the reference
_TABLE_TEXT = "\x01"  # begins a text of the reference that stands in a table

Reading = set[tuple[str | None, str]]
"""The ways to read a cell of a line: (label, value), the label None without one."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How much of a document was read. A share is None if the reference has too few words.

    `recall` is the share of the reference's words that were read, `order` the share of its runs of
    three words, and `extra` the share of the words read that the reference lacks.
    """

    words: int
    recall: float | None
    order: float | None
    extra: float
    cells: Mapping[Judgement, int] = field(default_factory=dict)
    has_headers: bool = False

    @property
    def is_well_labelled(self) -> bool:
        """Whether nine of ten cells in the document's tables are under their header."""
        judged = sum(count for kind, count in self.cells.items() if kind != "plain")
        return judged > 0 and self.cells.get("right", 0) >= 0.9 * judged


def judge(
    reference: Mapping[str, Any], passages: Sequence[tuple[tuple[str, ...], str]]
) -> Fidelity:
    """Compare passages (heading path and text) with the `text` and `tables` of a reference."""
    lines = _lines(passages)
    ours, theirs = _words("\n".join(lines)), _words("\n".join(reference["text"]))
    prose = _words("\n".join(t for t in reference["text"] if not t.startswith(_TABLE_TEXT)))
    known = set(theirs)
    return Fidelity(
        len(theirs),
        _share(Counter(ours), Counter(theirs)) if len(theirs) >= _FEW_WORDS else None,
        _share(_runs(ours), _runs(prose)) if len(prose) >= _FEW_WORDS + 2 else None,
        sum(word not in known for word in ours) / len(ours) if ours else 0.0,
        _judge_tables(reference["tables"], lines),
        any(table["header"] for table in reference["tables"]),
    )


def _words(text: str) -> list[str]:
    text = unicodedata.normalize("NFKC", text).replace("\u00ad", "").lower()
    return _WORD.findall(text)


def _normal(text: str) -> str:
    return " ".join(_words(text))


def _lines(passages: Sequence[tuple[tuple[str, ...], str]]) -> list[str]:
    """The lines of all passages, each heading once."""
    lines: list[str] = []
    before: tuple[str, ...] = ()
    for path, text in passages:
        same = 0
        while same < min(len(path), len(before)) and path[same] == before[same]:
            same += 1
        lines += path[same:]
        lines += _BROKEN_ROW.sub(" | ", text).split("\n")
        before = path
    return lines


def _runs(words: Sequence[str]) -> Counter[str]:
    return Counter(map(" ".join, zip(words, words[1:], words[2:], strict=False)))


def _share(part: Counter[str], whole: Counter[str]) -> float | None:
    return (part & whole).total() / whole.total() if whole else None


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    cells: list[Reading]

    @property
    def places(self) -> dict[str, int]:
        """The position at which each whole cell first occurs."""
        places: dict[str, int] = {}
        for index, cell in enumerate(self.cells):
            for label, value in cell:
                if label is None:
                    places.setdefault(value, index)
        return places


def _line(text: str) -> _Line:
    cells = []
    for cell in text.split(" | "):
        ways: Reading = {(None, _normal(cell))}
        for colon in re.finditer(": ", cell):
            ways.add((_normal(cell[: colon.start()]), _normal(cell[colon.end() :])))
        cells.append(ways)
    return _Line(text, cells)


def _judge_tables(
    tables: Sequence[Mapping[str, Any]], lines: Sequence[str]
) -> dict[Judgement, int]:
    parsed = [_line(line) for line in lines if line.strip()]
    whole = f" {_normal(' '.join(lines))} "
    used: Counter[int] = Counter()  # so that equal rows are taken one after the other
    counts: Counter[Judgement] = Counter()
    for table in tables:
        header = [[text for text in map(_normal, path) if text] for path in table["header"]]
        known = {one for path in header for one in path}
        named = (line.places for line in parsed) if len(known) > 1 else iter(())
        head = max(named, key=lambda places: sum(h in places for h in known), default={})
        for row in table["rows"]:
            cells = [
                (index, value, cell)
                for index, cell in enumerate(row)
                if isinstance(cell, str) and (value := _normal(cell))
            ]
            best = _best_line(parsed, [value for _, value, _ in cells], used)
            line = _Line("", []) if best is None else parsed[best]
            used.update([] if best is None else [best])
            for at, value, shown in cells:
                own = header[at] if at < len(header) else []
                kind = _judge_cell(line, value, own, known, head)
                counts[kind or _lost(shown, line, f" {value} " in whole)] += 1
    return dict(counts)


def _best_line(parsed: Sequence[_Line], values: Sequence[str], used: Counter[int]) -> int | None:
    """Return the line with most of a row's cells, or None if no line has a cell of the row."""
    best, highest = None, 0.0
    for index, line in enumerate(parsed):
        there = {value for cell in line.cells for _, value in cell}
        score = float(sum(value in there for value in values))
        score -= 0.01 * used[index] + 0.001 * abs(len(line.cells) - len(values))
        if score > highest:
            best, highest = index, score
    return best


def _judge_cell(
    line: _Line, value: str, own: Sequence[str], known: set[str], head: Mapping[str, int]
) -> Judgement | None:
    """Judge a cell in the line of its row; None if the cell is missing."""
    found = [
        (label, index) for index, cell in enumerate(line.cells) for label, v in cell if v == value
    ]
    names = [label for label, _ in found if label is not None]
    if own and any(_is_named(name, own) for name in names):
        return "right"
    if known.intersection(names):
        return "wrong"
    is_bare = any(label is None for label, _ in found)
    if names and not known and not is_bare:
        return "invented"
    if not found and not (line.text and f" {value} " in f" {_normal(line.text)} "):
        return None
    place = next((head[one] for one in own if one in head), None)
    if place is not None and found and all(at != place for _, at in found):
        return "shifted"
    return "unnamed" if own else "plain"


def _is_named(name: str, own: Sequence[str]) -> bool:
    begins = bool(name) and own[0].startswith(name)  # a label that is cut short
    return name == " ".join(own) or name.endswith(tuple(own)) or begins


def _lost(cell: str, line: _Line, is_elsewhere: bool) -> Judgement:
    said = _number(cell)
    parts = (part for text in line.text.split(" | ") for part in (text, text.rpartition(": ")[2]))
    there = (_number(part) for part in parts)
    if said is not None and any(n is not None and abs(n - said) <= _ROUNDED * said for n in there):
        return "reformed"
    return "apart" if is_elsewhere else "missing"


def _number(text: str) -> float | None:
    """The number in "(1,164)", "2.5%" or "$7", without its sign."""
    found = _NUMBER.fullmatch(text.strip())
    return float(found[1].replace(",", "")) / (100 if found[2] else 1) if found else None
