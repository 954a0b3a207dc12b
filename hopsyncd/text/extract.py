"""Bytes and a media type to blocks: which extractor reads what."""

from collections.abc import Callable

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.text.blocks import Block, tidy
from hopsyncd.text.decode import decode
from hopsyncd.text.html import html_blocks
from hopsyncd.text.markdown import markdown_blocks
from hopsyncd.text.plain import plain_blocks
from hopsyncd.text.rst import rst_blocks
from hopsyncd.text.source_code import python_blocks, source_blocks

_EXTRACTORS: dict[str, Callable[[str], tuple[Block, ...]]] = {
    "text/markdown": markdown_blocks,
    "text/plain": plain_blocks,
    "text/x-rst": rst_blocks,
    "text/html": html_blocks,
    "text/x-python": python_blocks,
    "text/x-source": source_blocks,
}


def extract(data: bytes, media_type: str) -> tuple[Block, ...]:
    """Read a document into blocks, in reading order.

    `media_type` may carry parameters; of these `charset` is honoured where the bytes are not
    UTF-8. An unknown `text/` type is read as plain text. An empty document has no blocks.
    The time is linear in the size, whatever the bytes are.

    Raises DocumentUnreadable for bytes that are no text, and for a type that no extractor reads.
    """
    kind, charset = _parsed(media_type)
    extractor = _EXTRACTORS.get(kind, plain_blocks if kind.startswith("text/") else None)
    if extractor is None:
        raise DocumentUnreadable(
            "the document",
            f"no extractor reads {kind or 'a document without a media type'}",
            f"Readable types: {', '.join(_EXTRACTORS)}",
        )
    return tidy(extractor(decode(data, charset)))


def _parsed(media_type: str) -> tuple[str, str | None]:
    kind, *parameters = (part.strip() for part in media_type.lower().split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return kind, value.strip(" \"'")
    return kind, None
