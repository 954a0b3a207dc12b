"""Replays recorded LLM questions, and caches vectors between runs."""

import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.corpus import read_lines
from hopsyncd.models.encoder import Encoder, PromptedEncoder
from hopsyncd.models.language import Language
from hopsyncd.models.llm.budget import LlmContext
from hopsyncd.models.llm_maker import LlmQuestionMaker, LlmQuestions, Mode, Result
from store.records import Passage, PassageId


class RecordedAsker:
    """Returns the recorded questions of each passage, without calls to an LLM."""

    def __init__(self, name: str, questions: Mapping[PassageId, LlmQuestions]) -> None:
        self._name = name
        self._questions = questions

    @property
    def name(self) -> str:
        return self._name

    def ask_each(
        self, passages: Sequence[Passage], context: LlmContext
    ) -> Iterator[Sequence[Result]]:
        for passage in passages:
            yield [(passage, self._questions[passage.id])]


def make_recorded_maker(
    file: Path, corpus: Mapping[str, Passage], language: Language, encoder: Encoder, mode: Mode
) -> LlmQuestionMaker:
    """Create a question maker that reads the questions of a corpus from a file.

    Each line of the file is {id, incoming, outgoing}. Raises BadRequest if a passage of the corpus
    has no line.
    """
    lines = dict(_read_lines(file))
    missing = [id_ for id_ in corpus if id_ not in lines]
    if missing:
        raise BadRequest(
            f"Cannot use {file}",
            f"the file has no questions for {len(missing)} of {len(corpus)} passages, such as"
            f" {missing[0]}",
            "Each passage of the corpus needs a line {id, incoming: [...], outgoing: [...]}",
        )
    digest = hashlib.blake2b(file.read_bytes(), digest_size=8).hexdigest()
    lines_of = {passage.id: lines[id_] for id_, passage in corpus.items()}
    return LlmQuestionMaker(RecordedAsker(f"recorded@{digest}", lines_of), language, encoder, mode)


def _read_lines(file: Path) -> Iterator[tuple[str, LlmQuestions]]:
    for number, line in read_lines(file):
        texts = [line.get(direction) for direction in ("incoming", "outgoing")]
        if "id" not in line or not all(
            isinstance(questions, list) and all(isinstance(text, str) for text in questions)
            for questions in texts
        ):
            raise BadRequest(
                f"Cannot use {file}:{number}",
                "a key is missing or has the wrong type",
                "Lines are {id, incoming: [texts], outgoing: [texts]}",
            )
        yield str(line["id"]), LlmQuestions(tuple(texts[0] or ()), tuple(texts[1] or ()))


_KEY_BYTES = 16


class VectorCache(PromptedEncoder):
    """Caches the vectors of another encoder in a file in `folder`, which processes may share.

    The file is an append-only list of records (text digest, vector). A process sees the records
    that existed when it started and the records that it adds.
    """

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._encoder = encoder
        self._lock = threading.Lock()
        self._record = np.dtype(
            [("key", np.uint8, (_KEY_BYTES,)), ("vector", "<f4", (encoder.dimensions,))]
        )
        self._path = folder / f"{_digest(encoder.name).hex()}.vectors"
        records = self._read_records()
        self._vectors = dict(zip(map(bytes, records["key"]), records["vector"], strict=True))

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def dimensions(self) -> int:
        return self._encoder.dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._read([_digest(text) for text in texts], texts, self._encoder.encode)

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not isinstance(self._encoder, PromptedEncoder):
            return self.encode(texts)
        keys = [_digest(f"question\0{text}") for text in texts]
        return self._read(keys, texts, self._encoder.encode_questions)

    def _read(
        self,
        keys: Sequence[bytes],
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """Return the vectors of `texts`, whose digests are `keys`. `encode` computes missing
        vectors."""
        missing = [row for row, key in enumerate(keys) if key not in self._vectors]
        if missing:
            new_vectors = encode([texts[row] for row in missing])
            added = dict(zip([keys[row] for row in missing], new_vectors, strict=True))
            with self._lock:
                self._append(added)
                self._vectors |= added
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for row, key in enumerate(keys):
            vectors[row] = self._vectors[key]
        return vectors

    def _read_records(self) -> NDArray[np.void]:
        """Read all records. If a killed process left an incomplete last record, remove it."""
        with self._path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            count = os.fstat(file.fileno()).st_size // self._record.itemsize
            file.truncate(count * self._record.itemsize)
            file.seek(0)
            return np.frombuffer(file.read(), self._record)

    def _append(self, added: dict[bytes, NDArray[np.float32]]) -> None:
        records = np.empty(len(added), self._record)
        records["key"] = [np.frombuffer(key, np.uint8) for key in added]
        records["vector"] = list(added.values())
        with self._path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(records.tobytes())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
