"""Books."""

from dataclasses import replace
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from hopsyncd.formats.archive import opened, tree_of
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.decode import decode
from hopsyncd.formats.html import html_blocks

_CONTAINER = "META-INF/container.xml"


def epub_blocks(data: bytes) -> tuple[Block, ...]:
    """Read a book; the lines of its blocks number the files of its reading order, from 1."""
    archive = opened(data)
    root = tree_of(archive, _CONTAINER).find(".//{*}rootfile")
    package = "" if root is None else root.get("full-path", "")
    tree = tree_of(archive, package)
    files = {
        item.get("id"): normpath(join(dirname(package), unquote(item.get("href", ""))))
        for item in tree.iterfind(".//{*}manifest/{*}item")
    }
    blocks: list[Block] = []
    for number, entry in enumerate(tree.iterfind(".//{*}spine/{*}itemref"), 1):
        name = files.get(entry.get("idref"))
        if name in archive.namelist():
            # A chapter without a heading must not stand under the one before.
            blocks.append(Block("heading", "", number, number, level=1))
            blocks += (
                replace(block, first_line=number, last_line=number)
                for block in html_blocks(decode(archive.read(name), kind="text/html"))
            )
    return tuple(blocks)
