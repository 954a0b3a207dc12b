"""Reads source code by its definitions, and the cells of Jupyter notebooks without outputs."""

import ast
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, make_skipped_block
from hopsyncd.formats.markdown import read_markdown
from hopsyncd.formats.text_layout import split_into_runs

# A syntax tree takes about a hundred times the memory of its source.
_MAX_PARSED_CHARACTERS = 1_000_000
_MAX_GROUP_CHARACTERS = 1_000

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def read_source_code(text: str) -> tuple[Block, ...]:
    """Split source code of any language at blank lines, keeping indented groups together."""
    return tuple(_split_into_blocks(text.split("\n"), 0))


def read_python(text: str) -> tuple[Block, ...]:
    """Split Python source, with each top-level function or class below a heading with its name.

    `class Foo(Base): ...` gives the heading `class Foo` with its code below. Statements between
    definitions have no heading. A module of over a million characters, or a module that the running
    Python cannot parse, is split like other source code.
    """
    tree = _parse(text)
    if tree is None:
        return read_source_code(text)
    lines = text.split("\n")
    blocks: list[Block] = []
    done = 0
    for node in tree.body:
        if not isinstance(node, _Definition):
            continue
        first = min([node.lineno, *(item.lineno for item in node.decorator_list)]) - 1
        last = node.end_lineno or node.lineno
        # Several definitions on one line ("def a(): 0; x = 1") belong to the first.
        if first < done:
            continue
        first = _include_comments_above(lines, first, done)
        blocks += _read_between(lines, done, first)
        blocks += _read_definition(node, lines, first, last)
        done = last
    return (*blocks, *_read_between(lines, done, len(lines)))


def _parse(text: str) -> ast.Module | None:
    if len(text) > _MAX_PARSED_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _include_comments_above(lines: list[str], first: int, floor: int) -> int:
    while first > floor and lines[first - 1].startswith("#"):
        first -= 1
    return first


def _read_between(lines: list[str], start: int, end: int) -> Iterator[Block]:
    blocks = list(_split_into_blocks(lines[start:end], start))
    if blocks and start > 0:
        line = blocks[0].first_line
        yield Block("heading", "", line, line, level=1)
    yield from blocks


def _read_definition(node: _Definition, lines: list[str], first: int, last: int) -> Iterator[Block]:
    word = "class" if isinstance(node, ast.ClassDef) else "def"
    yield Block("heading", f"{word} {node.name}", first + 1, node.lineno, level=1)
    yield from _split_into_blocks(lines[first:last], first)


def _split_into_blocks(lines: list[str], offset: int) -> Iterator[Block]:
    """Yield groups of lines. `offset` is the number of lines before `lines` in the file.

    A blank line ends a group of over a thousand characters. It also ends a shorter group, unless
    the next line is indented deeper than the group's first line.
    """
    first, group, size = 0, list[str](), 0
    for start, run in split_into_runs(lines):
        end = first + len(group)
        deeper = bool(group) and _measure_indent(run[0]) > _measure_indent(group[0])
        if deeper and size < _MAX_GROUP_CHARACTERS:
            group += [""] * (start - end) + run
        else:
            yield from _group(first + offset, group)
            first, group, size = start, run, 0
        size += sum(map(len, run))
    yield from _group(first + offset, group)


def _group(first: int, lines: list[str]) -> Iterator[Block]:
    if lines:
        text = "\n".join(line.rstrip() for line in lines)
        yield Block("code", text, first, first + len(lines) - 1)


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def read_notebook(text: str) -> tuple[Block, ...]:
    """Read a notebook. Line numbers count cells, from 1. Outputs are counted as skipped.

    Raises DocumentUnreadable if the text is not a notebook.
    """
    if not text.strip():
        return ()
    try:
        notebook = json.loads(text)
        sheets = notebook.get("worksheets") or [notebook]  # in versions up to 3 of the format
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        blocks = [
            block for number, cell in enumerate(cells, 1) for block in _read_cell(cell, number)
        ]
        outputs = sum(len(cell.get("outputs") or ()) for cell in cells)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise _make_error(str(error)) from error
    except KeyError as error:
        raise _make_error("no cells") from error
    return (*blocks, make_skipped_block({"outputs": outputs})) if outputs else tuple(blocks)


def _make_error(reason: str) -> DocumentUnreadable:
    return DocumentUnreadable(
        "the notebook",
        f"not a Jupyter notebook ({reason})",
        "Save the notebook again in Jupyter, or add it to `ignore`",
    )


def _read_cell(cell: dict[str, Any], number: int) -> Iterator[Block]:
    source = cell.get("source", cell.get("input", ""))
    text = source if isinstance(source, str) else "".join(source)
    kind = cell.get("cell_type")
    if kind == "code":
        yield Block("code", text.strip("\n"), number, number)
    elif kind == "heading":  # up to version 3
        level = min(max(int(cell.get("level", 1)), 1), 6)
        yield Block("heading", " ".join(text.split()), number, number, level=level)
    else:
        for block in read_markdown(text):
            yield replace(block, first_line=number, last_line=number)
