"""Jupyter notebooks: the sources of their cells, without outputs."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hopsyncd.text.blocks import Block
from hopsyncd.text.markdown import markdown_blocks


def notebook_blocks(text: str) -> tuple[Block, ...]:
    """Read a notebook; the lines of its blocks number its cells, from 1.

    Raises ValueError for what is none.
    """
    notebook = json.loads(text) if text.strip() else {"cells": []}
    sheets = notebook.get("worksheets") or [notebook]  # up to version 3 of the format
    cells = [cell for sheet in sheets for cell in sheet["cells"]]
    return tuple(block for number, cell in enumerate(cells, 1) for block in _cell(cell, number))


def _cell(cell: dict[str, Any], number: int) -> Iterator[Block]:
    source = cell.get("source", cell.get("input", ""))
    text = source if isinstance(source, str) else "".join(source)
    if cell.get("cell_type") == "code":
        yield Block("code", text.strip("\n"), number, number)
        return
    for block in markdown_blocks(text):
        yield replace(block, first_line=number, last_line=number)
