"""What the daemon and its extraction worker say to each other, over two pipes.

A worker begins with READY. A request is a head (REQUEST), the media type and the bytes of a
document; a reply is its length (LENGTH) and JSON: the blocks, or why there are none. JSON, as
nothing that a worker says can then do more than be wrong.
"""

import json
from collections.abc import Sequence
from struct import Struct
from typing import Any

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.text.blocks import Block
from hopsyncd.text.link import Link

READY = b"ready\n"
REQUEST = Struct("!IIII")  # seconds of processor time, of any time; bytes of type, of document
LENGTH = Struct("!I")


def request_of(data: bytes, media_type: str, cpu_s: int, wall_s: int) -> bytes:
    """A request as bytes."""
    kind = media_type.encode()
    return REQUEST.pack(cpu_s, wall_s, len(kind), len(data)) + kind + data


def reply_of(result: Sequence[Block] | DocumentUnreadable | ReaderUnavailable) -> bytes:
    """A reply as bytes, without its length."""
    if isinstance(result, DocumentUnreadable | ReaderUnavailable):
        told = {"what": result.what, "why": result.why, "hint": result.hint}
        return json.dumps({"is_reader": isinstance(result, ReaderUnavailable), **told}).encode()
    return json.dumps({"blocks": [_row(block) for block in result]}).encode()


def result_of(reply: bytes | bytearray) -> tuple[Block, ...]:
    """The blocks of a reply.

    Raises the DocumentUnreadable or ReaderUnavailable that it reports, or ValueError.
    """
    said: dict[str, Any] = json.loads(reply)
    if "why" in said:
        kind = ReaderUnavailable if said.get("is_reader") else DocumentUnreadable
        raise kind(str(said["what"]), str(said["why"]), str(said["hint"]))
    try:
        return tuple(map(_block, said["blocks"]))
    except (KeyError, TypeError) as error:
        raise ValueError("a reply that is none") from error


def _row(block: Block) -> tuple[object, ...]:
    links = [(at, (link.target, link.shown)) for at, link in block.links]
    own = (block.kind, block.text, block.first_line, block.last_line, block.level)
    return (*own, links, block.names)


def _block(row: Sequence[Any]) -> Block:
    kind, text, first_line, last_line, level, links, names = row
    placed = tuple((at, Link(*link)) for at, link in links)
    return Block(kind, text, first_line, last_line, level, placed, tuple(names))
