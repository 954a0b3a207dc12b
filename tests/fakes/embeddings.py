"""What an embeddings endpoint replies, for `tests.fakes.endpoint.Endpoint`.

with Endpoint(embed()) as endpoint:
    ...
    assert inputs(endpoint) == [...]
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopsyncd.models.centring import CENTRE_TEXTS, compute_centre, subtract_centre
from hopsyncd.models.embedding.http_encoder import PROBE
from tests.fakes.endpoint import Endpoint, Play, Response
from tests.fakes.models import FakeEncoder

Item = dict[str, Any]


def embed(
    dimensions: int = 64,
    change: Callable[[list[Item]], list[Item]] = lambda items: items,
    scale: float = 1.0,
) -> Play:
    """Reply with bags of words, after a change to the list of embeddings."""
    encoder = FakeEncoder(dimensions)

    def play(request: dict[str, Any]) -> Response:
        vectors = scale * encoder.encode(request["input"])
        items = [
            {"object": "embedding", "index": index, "embedding": vector.tolist()}
            for index, vector in enumerate(vectors)
        ]
        return reply(change(items), sum(len(text) // 4 for text in request["input"]))

    return play


def reply(items: Sequence[Item], prompt_tokens: int = 1) -> Response:
    """A reply with these embeddings; NaN and infinity are written as Python writes them."""
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    body = {"object": "list", "data": items, "model": "fake", "usage": usage}
    return Response(json.dumps(body).encode())


def inputs(endpoint: Endpoint) -> list[str]:
    """All texts that the endpoint received, without the fixed ones."""
    texts = [text for request in endpoint.requests for text in request["input"]]
    return [text for text in texts if not text.endswith((PROBE, *CENTRE_TEXTS))]


def expected(texts: Sequence[str], dimensions: int = 64, prompt: str = "") -> NDArray[np.float32]:
    """The vectors that an encoder makes of what `embed` replies."""
    encoder = FakeEncoder(dimensions)
    centre = compute_centre(encoder.encode([prompt + text for text in CENTRE_TEXTS]))
    return subtract_centre(encoder.encode(texts), centre)
