"""Recorded questions in place of an LLM: its indexing can be measured without asking one."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.corpus import read_lines
from hopsyncd.models.asked_questions import Asked, AskedMaker, Mode, Result
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.language import Language
from hopsyncd.models.llm.budget import LlmContext
from store.records import Passage, PassageId


class RecordedAsker:
    """Gives the recorded questions of each passage, and asks nobody."""

    def __init__(self, name: str, asked: Mapping[PassageId, Asked]) -> None:
        self._name = name
        self._asked = asked

    @property
    def name(self) -> str:
        return self._name

    def ask_each(
        self, passages: Sequence[Passage], context: LlmContext
    ) -> Iterator[Sequence[Result]]:
        for passage in passages:
            yield [(passage, self._asked[passage.id])]


def recorded_maker(
    file: Path, corpus: Mapping[str, Passage], language: Language, encoder: Encoder, mode: Mode
) -> AskedMaker:
    """A maker that takes the questions of a corpus from lines {id, incoming, outgoing}.

    Raises BadRequest if a passage of the corpus has no line.
    """
    lines = dict(_read(file))
    missing = [id_ for id_ in corpus if id_ not in lines]
    if missing:
        raise BadRequest(
            f"Cannot use {file}",
            f"it has no questions for {len(missing)} of {len(corpus)} passages, such as"
            f" {missing[0]}",
            "Each line of the corpus needs a line {id, incoming: [...], outgoing: [...]} of its id",
        )
    digest = hashlib.blake2b(file.read_bytes(), digest_size=8).hexdigest()
    asked = {passage.id: lines[id_] for id_, passage in corpus.items()}
    return AskedMaker(RecordedAsker(f"recorded@{digest}", asked), language, encoder, mode)


def _read(file: Path) -> Iterator[tuple[str, Asked]]:
    for number, line in read_lines(file):
        texts = [line.get(direction) for direction in ("incoming", "outgoing")]
        if "id" not in line or not all(
            isinstance(some, list) and all(isinstance(one, str) for one in some) for some in texts
        ):
            raise BadRequest(
                f"Cannot use {file}:{number}",
                "a key is missing or of another type",
                "Lines are {id, incoming: [texts], outgoing: [texts]}",
            )
        yield str(line["id"]), Asked(tuple(texts[0] or ()), tuple(texts[1] or ()))
