"""Prompts: fixed texts that some encoders need before a question or a passage.

They come from the configuration or, if it has none, from the model's files or from a table of model
families. Document text gets the passage prompt. Questions get the query prompt, whether a user asks
them or an LLM writes them for the graph.
"""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config.configuration import ModelsConfig
from hopsyncd.config.values import AUTO_PROMPT
from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.centring import CENTRE_TEXTS, VERSION, compute_centre, subtract_centre
from hopsyncd.models.encoder import Encoder, PromptedEncoder
from store.records import Vectors, compact_json

CONFIG_NAME = "config_sentence_transformers.json"
_MAX_CONFIG_BYTES = 1 << 20
_QUERY_NAMES = ("query", "search_query", "retrieval.query", "Retrieval-query", "s2p_query")
_PASSAGE_NAMES = (
    "document",
    "passage",
    "search_document",
    "retrieval.passage",
    "Retrieval-document",
    "corpus",
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts to put before each question and each passage. Both may be empty."""

    query: str = ""
    passage: str = ""

    @property
    def is_any(self) -> bool:
        return bool(self.query or self.passage)

    @property
    def suffix(self) -> str:
        """The part of an encoder's name that identifies the prompts, which change the vectors."""
        if not self.is_any:
            return ""
        parts = compact_json([self.query, self.passage])
        return f"+prompts-{blake2b(parts, digest_size=4).hexdigest()}"


_SEARCH = "Represent this sentence for searching relevant passages: "
_TASK = "Given a web search query, retrieve relevant passages that answer the query"
_INSTRUCT = f"Instruct: {_TASK}\nQuery: "
# From the model cards. The first pattern that matches the name without owner and tag is used.
_FAMILIES: Sequence[tuple[str, Prompts]] = (
    (r"(multilingual-)?e5-.*instruct", Prompts(_INSTRUCT)),
    (r"(multilingual-)?e5\b", Prompts("query: ", "passage: ")),
    (r"bge-m3", Prompts()),
    (r"bge-multilingual|bge-en-icl", Prompts(f"<instruct>{_TASK}.\n<query>")),
    (r"bge-.*-zh", Prompts("为这个句子生成表示以用于检索相关文章：")),  # noqa: RUF001
    (r"bge-", Prompts(_SEARCH)),
    (r"gte-qwen", Prompts(_INSTRUCT)),
    (r"gte-", Prompts()),
    (r"nomic-embed-code", Prompts("Represent this query for searching relevant code: ")),
    (r"nomic-embed", Prompts("search_query: ", "search_document: ")),
    (r"(snowflake-)?arctic-embed(2|-[ml]-v2)", Prompts("query: ")),
    (r"(snowflake-)?arctic-embed", Prompts(_SEARCH)),
    (r"qwen3-embedding", Prompts(_INSTRUCT.rstrip())),
    (r"embedding-?gemma", Prompts("task: search result | query: ", "title: none | text: ")),
    (
        r"jina-embeddings-v3",
        Prompts(
            "Represent the query for retrieving evidence documents: ",
            "Represent the document for retrieval: ",
        ),
    ),
    (r"jina-embeddings-v4", Prompts("Query: ", "Passage: ")),
    (r"jina-embeddings-v5", Prompts("Query: ", "Document: ")),
    (r"mxbai-embed", Prompts(_SEARCH)),
)


def find_prompts(model: str) -> Prompts:
    """Return the prompts of the model's family, or empty prompts if the family is not known.

    >>> find_prompts("intfloat/multilingual-e5-small")
    Prompts(query='query: ', passage='passage: ')
    >>> find_prompts("bge-m3:latest"), find_prompts("text-embedding-3-small")
    (Prompts(query='', passage=''), Prompts(query='', passage=''))
    """
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    for pattern, prompts in _FAMILIES:
        if re.match(rf"(text-embedding-)?({pattern})", name):
            return prompts
    return Prompts()


def read_prompts(folder: Path) -> Prompts | None:
    """Read the prompts in a sentence-transformers folder. Returns None if the folder has no
    prompts.

    Raises ModelUnavailable if the file with the prompts cannot be used.
    """
    file = folder / CONFIG_NAME
    try:
        with file.open("rb") as opened:
            settings = json.loads(opened.read(_MAX_CONFIG_BYTES))
        texts = settings.get("prompts") or {}
        default = str(settings.get("default_prompt_name"))
        named = {str(name): text for name, text in texts.items() if isinstance(text, str)}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ModelUnavailable(
            f"Cannot use the prompts in {file}",
            str(error) or type(error).__name__,
            "Correct the file, or set models.query_prompt and models.passage_prompt",
        ) from error
    prompts = Prompts(
        _pick(named, (*_QUERY_NAMES, default)), _pick(named, (*_PASSAGE_NAMES, default))
    )
    return prompts if prompts.is_any else None


def _pick(named: Mapping[str, str], names: Sequence[str]) -> str:
    return next((named[name] for name in names if name in named), "")


def choose_prompts(config: ModelsConfig, model: str, folder: Path | None = None) -> Prompts:
    """Choose the prompts of the configured encoder: prompts from the configuration, from the
    encoder's folder, or from the table of model families.

    `folder` is None if the encoder is not on this machine. `model` is the encoder's name, from
    which the table derives the family. If requests have fields for the role of a text, the table is
    not used.
    """
    prompts = read_prompts(folder) if folder else None
    if prompts is None:
        prompts = Prompts() if config.tells_roles else find_prompts(model)
    query, passage = config.query_prompt, config.passage_prompt
    return Prompts(
        prompts.query if query == AUTO_PROMPT else query,
        prompts.passage if passage == AUTO_PROMPT else passage,
    )


class AdaptedEncoder(PromptedEncoder):
    """Wraps an encoder on this machine: adds prompts, and subtracts the centre."""

    def __init__(self, encoder: Encoder, prompts: Prompts) -> None:
        self._encoder = encoder
        self._prompts = prompts
        self._lock = threading.Lock()
        self._centre: Vectors | None = None

    @property
    def name(self) -> str:
        return self._format_adapted_name(self._encoder.name)

    @property
    def predecessor(self) -> str:
        """The name that this encoder would have with its predecessor, or "" if it has no
        predecessor."""
        name = find_predecessor(self._encoder)
        return self._format_adapted_name(name) if name else ""

    def _format_adapted_name(self, name: str) -> str:
        return f"{name}+{VERSION}{self._prompts.suffix}"

    @property
    def dimensions(self) -> int:
        return self._encoder.dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(self._prompts.passage, texts)

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(self._prompts.query, texts)

    def _encode(self, prompt: str, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._lock:
            if self._centre is None:
                fixed = [self._prompts.passage + text for text in CENTRE_TEXTS]
                self._centre = compute_centre(self._encoder.encode(fixed))
        vectors = self._encoder.encode([prompt + text for text in texts])
        return subtract_centre(vectors, self._centre)


def find_predecessor(encoder: Encoder) -> str:
    """Return the name of the encoder whose vectors stay in use until a rebuild, or ""."""
    return str(getattr(encoder, "predecessor", ""))
