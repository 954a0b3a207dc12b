"""Parses and checks the reply to a request for embeddings. The endpoint is not trusted."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from hopsyncd.models.llm.chat_completion import read_usage
from hopsyncd.models.llm.retry import UnusableReply, make_printable

MAX_DIMENSIONS = 4096  # the limit for exact dot products; see store.records.GRID
_SHOWN_BYTES = 60


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """The vectors in a reply.

    vectors: (m, d) float32 vectors of m texts, in their order, as the endpoint sent them.
    """

    vectors: NDArray[np.float32]
    usage: Any = None

    def count_tokens(self) -> tuple[int, int] | None:
        """The endpoint's count of prompt tokens, and 0 for completion tokens. None if the count is
        missing or implausible."""
        return read_usage(self.usage, has_completion=False)


def read_embeddings(body: bytes, texts: int, dimensions: int | None) -> Embeddings:
    """Read the vectors of `texts` texts from a reply. Raises UnusableReply.

    `dimensions` is the required length of a vector, or None if it is not known yet.
    """
    reply = _read_json(body)
    items = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(items, list):
        raise UnusableReply("the reply has no list `data` of embeddings")
    if len(items) != texts:
        raise UnusableReply(f"the reply has {len(items)} embeddings for {texts} texts")
    rows = [_read_vector(item) for item in _order_items(items)]
    width = len(rows[0]) if rows else 0
    if any(len(row) != width for row in rows):
        raise UnusableReply("the embeddings differ in length")
    if dimensions is not None and rows and width != dimensions:
        raise UnusableReply(f"the embeddings have {width} numbers, not {dimensions} as before")
    if rows and not 0 < width <= MAX_DIMENSIONS:
        raise UnusableReply(
            f"the embeddings have {width} numbers, but only 1 to {MAX_DIMENSIONS} are allowed"
        )
    vectors = np.array(rows, dtype=np.float32).reshape(texts, width)
    if not np.isfinite(vectors).all():
        raise UnusableReply("an embedding has a number that is not finite")
    if not vectors.any(axis=1).all():
        raise UnusableReply("an embedding has only zeros")
    return Embeddings(vectors, reply.get("usage"))


def _read_json(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError as error:
        begin = make_printable(body[:_SHOWN_BYTES].decode(errors="replace"))
        why = f'the reply is not JSON but begins with "{begin}"' if begin else "the reply is empty"
        raise UnusableReply(why) from error


def _order_items(items: Sequence[Any]) -> Sequence[Any]:
    """Sort the items by their field `index`. If no item has the field, the order does not change.
    Raises UnusableReply if the fields do not count from 0."""
    given = [item.get("index") if isinstance(item, dict) else None for item in items]
    if all(index is None for index in given):
        return items
    indices = [index for index in given if type(index) is int]
    if len(indices) < len(items):
        raise UnusableReply("some embeddings have no `index`")
    if sorted(indices) != list(range(len(items))):
        raise UnusableReply("the fields `index` of the embeddings do not count from 0")
    return sorted(items, key=lambda item: int(item["index"]))


def _read_vector(item: Any) -> NDArray[np.float32]:
    vector = item.get("embedding") if isinstance(item, dict) else None
    try:
        if isinstance(vector, str):
            return np.frombuffer(base64.b64decode(vector, validate=True), dtype="<f4")
        if isinstance(vector, list) and all(type(number) in (int, float) for number in vector):
            with np.errstate(over="ignore"):
                return np.array(vector, dtype=np.float64).astype(np.float32)
    except (ValueError, binascii.Error, OverflowError) as error:
        raise UnusableReply("an embedding is not a list of numbers") from error
    raise UnusableReply("an embedding is not a list of numbers")
