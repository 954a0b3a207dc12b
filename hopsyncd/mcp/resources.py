"""Documents as resources: their addresses, a bounded list, and the text of one."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mcp.types import Resource

from hopsyncd.client import Client
from hopsyncd.mcp.budget import shortened

TEMPLATE = "hopsyncd://{source}/{+document}"
MIME_TYPE = "text/markdown"
_LISTED = 200
_MAX_TEXT_TOKENS = 100_000


def address(source: str, document: str) -> str:
    """The address of a document.

    >>> address("my notes", "people/ada?.md")
    'hopsyncd://my%20notes/people/ada%3F.md'
    """
    return f"hopsyncd://{quote(source, safe='')}/{quote(document)}"


def listed(client: Client) -> list[Resource]:
    """The first documents of the index, at most 200: `search` finds the others."""
    return [
        Resource(
            uri=address(one["source"], one["document"]),
            name=one["document"],
            title=one["title"] or one["document"],
            description=f"{one['passages']} passages of the source {one['source']}",
            mime_type=MIME_TYPE,
        )
        for one in client.documents(limit=_LISTED)["documents"]
    ]


def text_of(client: Client, source: str, document: str) -> str:
    """A document's text as it is indexed: its passages, each heading where it begins."""
    whole = "\n\n".join(_parts(client.document(source, document)["passages"]))
    text = shortened(whole, _MAX_TEXT_TOKENS)
    return text if text == whole else f"{text}\n\n[cut: the tool `get` reads on]"


def _parts(passages: Sequence[Mapping[str, Any]]) -> list[str]:
    parts: list[str] = []
    above: list[str] = []
    for passage in passages:
        heading = passage["heading"]
        same = 0
        while same < min(len(above), len(heading)) and above[same] == heading[same]:
            same += 1
        parts += [
            f"{'#' * level} {heading[level - 1]}" for level in range(same + 1, len(heading) + 1)
        ]
        parts.append(passage["text"])
        above = heading
    return parts
