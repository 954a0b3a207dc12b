"""Runs an encoder that was exported for ONNX Runtime, as the stored `Choice` says."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hopsyncd.models.encoder import MAX_CHARACTERS, create_session, digest_file, load_tokenizer

# The version of the export. A change that can alter vectors changes it.
EXPORT = "e1"
CHOICE_NAME = "choice.json"
BODY_NAME, TAIL_NAME = "body.onnx", "tail.onnx"
# A run with more tokens is slower per token: its activations exceed the processor's cache.
_BATCH_TOKENS = 512
# Texts are padded to a multiple of this number of tokens. ONNX Runtime computes rows in blocks, and
# computes the rows of an incomplete block with other rounding.
_TOKEN_STEP = 4

Runtime = Literal["int8", "fp32", "torch"]


@dataclass(frozen=True, slots=True)
class Choice:
    """How to run an exported model. The choice is made once, and again if a file of the model
    changes.

    graph: the start of a digest of all stored files; empty for torch. batched: whether texts of the
    same length run together, which is allowed only if the results are equal bit for bit.
    lowest_cosine, mean_cosine: cosines to the vectors of the original model, with the centre
    subtracted. why: the reason why ONNX Runtime is not used.
    """

    runtime: Runtime
    graph: str = ""
    dimensions: int = 0
    max_tokens: int = 0
    padding: int = 0  # the token that fills up short texts
    batched: bool = False
    lowest_cosine: float = 1.0
    mean_cosine: float = 1.0
    why: str = ""
    files: dict[str, str] = field(default_factory=dict)  # the SHA-256 of each stored file, by name

    def write(self, folder: Path) -> None:
        text = json.dumps(asdict(self), indent=1)
        (folder / CHOICE_NAME).write_text(text, encoding="utf-8")


def read_choice(folder: Path) -> Choice | None:
    """Read the choice in a folder. Returns None if the folder has no choice or a stored file was
    changed.
    """
    try:
        choice = Choice(**json.loads((folder / CHOICE_NAME).read_text(encoding="utf-8")))
        intact = all(digest_file(folder / name) == sha for name, sha in choice.files.items())
    except (OSError, ValueError, TypeError):
        return None
    return choice if intact else None


class FolderModel:
    """Runs an exported model: a graph from tokens to token vectors, and a graph that pools them.

    Several threads can encode at once. Only texts of the same padded length run together, so that a
    vector depends only on its text. Texts are pooled one by one, because the sums depend on the
    number of texts.
    """

    def __init__(self, folder: Path, choice: Choice, threads: int) -> None:
        """Load the files. Raises OSError or ValueError."""
        self._choice = choice
        self._body = create_session(folder / BODY_NAME, threads)
        self._tail = create_session(folder / TAIL_NAME, threads)
        self._inputs = [entry.name for entry in self._body.get_inputs()]
        self._output = _find_states_output(self._body)
        (self._states,) = (entry.name for entry in self._tail.get_inputs())
        self._tokenizer = load_tokenizer(folder, choice.max_tokens)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (m, d) float32 vectors of m texts."""
        tokens = [self.tokenize(text) for text in texts]
        vectors = np.empty((len(texts), self._choice.dimensions), dtype=np.float32)
        lengths = [_compute_padded_length(text) for text in tokens]
        for rows in group_by_length(lengths, self._choice.batched):
            vectors[rows] = self.encode_tokens([tokens[row] for row in rows])
        return vectors

    def tokenize(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text[:MAX_CHARACTERS]).ids
        return ids

    def encode_tokens(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return (m, d) float32 vectors of m >= 1 texts, each a list of token ids.

        The texts must have the same length after padding. This method pads them.
        """
        length = _compute_padded_length(texts[0])
        tokens = np.full((len(texts), length), self._choice.padding, dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, text in enumerate(texts):
            tokens[row, : len(text)] = text
            mask[row, : len(text)] = 1
        inputs = {
            "input_ids": tokens,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(tokens),
        }
        (states,) = self._body.run([self._output], {name: inputs[name] for name in self._inputs})
        pooled = [
            self._tail.run(None, {self._states: all_states[None, : len(text)]})[0]
            for all_states, text in zip(states, texts, strict=True)
        ]
        return np.concatenate(pooled)


def _compute_padded_length(tokens: Sequence[int]) -> int:
    return -(-len(tokens) // _TOKEN_STEP) * _TOKEN_STEP


def group_by_length(lengths: Sequence[int], together: bool) -> Iterator[list[int]]:
    """Group the rows of texts of the same length, which run together, up to a limit of tokens.
    Short texts come first. If `together` is false, each group has one row.

    >>> list(group_by_length([3, 5, 3], True))
    [[0, 2], [1]]
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: (lengths[row], row)):
        length = lengths[row]
        full = not together or (len(batch) + 1) * length > _BATCH_TOKENS
        if batch and (full or lengths[batch[0]] != length):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _find_states_output(session: Any) -> str:
    """Return the name of the output with the token vectors. Raises ValueError without such an
    output.
    """
    for entry in session.get_outputs():
        if entry.name in ("token_embeddings", "last_hidden_state") and len(entry.shape) == 3:
            return str(entry.name)
    raise ValueError("the graph has no output with a vector for each token")
