"""Exports a sentence-transformers folder for ONNX Runtime, in a separate process.

The process frees the memory of torch when it ends. The export is checked against the original model
on 200 texts. Weights are stored in 8 bits if all cosines are high enough, otherwise in full. If
ONNX Runtime cannot run the model, the model stays in torch.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hopsyncd.models.centring import CENTRE_TEXTS, compute_centre, subtract_centre
from hopsyncd.models.embedding.folder_model import (
    BODY_NAME,
    TAIL_NAME,
    Choice,
    FolderModel,
    Runtime,
)
from hopsyncd.models.embedding.onnx_weights import build_pooling_graph, quantise, write_model
from hopsyncd.models.encoder import (
    MAX_CHARACTERS,
    MAX_TOKENS,
    digest_file,
    has_sentence_transformers,
)

LOWEST_COSINE = {"int8": 0.99, "fp32": 0.999}
_TOKENIZER = "tokenizer.json"
_CHECKED = 200
# Texts of these numbers of tokens are compared in a batch and alone.
_CHECKED_LENGTHS = (3, 13, 60, 150)
_CHECKED_ROWS = (8, 3, 2)
_OPSET = 17
_NICE = 10

Vectors = NDArray[np.float32]


class CannotExport(Exception):
    """ONNX Runtime cannot run the model. The message says why."""


def check_texts() -> list[str]:
    """Make 200 texts in eleven languages, with one to twelve sentences, to check an export."""
    count = len(CENTRE_TEXTS)
    texts = ["  Leading and trailing spaces,\n\tand a LINE in capitals.  ", "a"]
    for row in range(_CHECKED - len(texts)):
        sentences = 1 + row % 5 if row % 20 else 12
        chosen = [CENTRE_TEXTS[(7 * row + offset) % count] for offset in range(sentences)]
        texts.append(f"{row}: {' '.join(chosen)}")
    return texts


def export(folder: Path, target: Path) -> Choice:
    """Export the model in `folder`, and write the export and the `Choice` to the empty folder
    `target`."""
    try:
        choice = _export_checked(folder, target)
    except (OSError, MemoryError):
        raise  # The next start tries again.
    except Exception as error:
        if not has_sentence_transformers():
            raise  # The package may be installed later.
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        choice = Choice("torch", why=why)
        for file in target.iterdir():
            file.unlink()
    choice.write(target)
    return choice


def _export_checked(folder: Path, target: Path) -> Choice:
    """Export the model, and choose how to run it after checking the export.

    Raises CannotExport, and the errors of torch and ONNX Runtime.
    """
    texts = [*check_texts(), *CENTRE_TEXTS]
    original = _Original(folder) if has_sentence_transformers() else None
    reference = original.encode(texts) if original else None
    if shipped := _find_shipped(folder):
        plain = shipped.write(target)
    elif original:
        plain = original.write(target)
    else:
        raise CannotExport(
            "the folder lacks onnx/model.onnx, and sentence-transformers is not installed"
        )
    exact = onnx.load(target / BODY_NAME)
    plain = replace(plain, dimensions=_get_dimensions(target, plain))
    if reference is None:
        reference = FolderModel(target, plain, 1).encode(texts)
    elif original:
        _compare_tokens(original, FolderModel(target, plain, 1), texts)
    for runtime in ("int8", "fp32"):
        quantised = onnx.ModelProto()
        quantised.CopyFrom(exact)
        if runtime == "int8":
            quantise(quantised)
        _remove_body(target)
        write_model(quantised, target / BODY_NAME)
        del quantised
        choice = _check(target, plain, reference, texts, runtime)
        if choice.lowest_cosine >= LOWEST_COSINE[runtime]:
            return choice
    raise CannotExport(f"the lowest cosine to the original is {choice.lowest_cosine:.4f}")


def _remove_body(target: Path) -> None:
    for file in target.glob(f"{BODY_NAME}*"):
        file.unlink()


def _check(
    target: Path, plain: Choice, reference: Vectors, texts: Sequence[str], runtime: Runtime
) -> Choice:
    """Compare an export with the original model. `reference` has the (m, d) vectors of m texts from
    the original model.

    Returns `plain` with the `runtime`, the cosines and the digests; the caller decides whether the
    cosines are high enough. Raises CannotExport if a vector has numbers that are not finite.
    """
    model = FolderModel(target, plain, 1)
    exported = model.encode(texts)
    if not np.isfinite(exported).all():
        raise CannotExport("the exported model gives numbers that are not finite")
    centred = [
        subtract_centre(vectors[:_CHECKED], compute_centre(vectors[_CHECKED:]))
        for vectors in (exported, reference)
    ]
    cosines = (centred[0] * centred[1]).sum(axis=1)
    files = {file.name: digest_file(file) for file in sorted(target.iterdir())}
    graph = "".join(files.values()).encode()
    return replace(
        plain,
        runtime=runtime,
        graph=blake2b(graph, digest_size=4).hexdigest(),
        batched=_is_batchable(model, texts),
        lowest_cosine=float(cosines.min()),
        mean_cosine=float(cosines.mean()),
        files=files,
    )


def _is_batchable(model: FolderModel, texts: Sequence[str]) -> bool:
    """Return whether the model gives a text the same vector in a batch as alone, bit for bit."""
    stream = [token for text in texts for token in model.tokenize(text)]
    for length in _CHECKED_LENGTHS:
        rows = [stream[row * length : (row + 1) * length] for row in range(max(_CHECKED_ROWS))]
        alone = np.concatenate([model.encode_tokens([row]) for row in rows])
        for count in _CHECKED_ROWS:
            if model.encode_tokens(rows[:count]).tobytes() != alone[:count].tobytes():
                return False
    return True


def _compare_tokens(original: "_Original", model: FolderModel, texts: Sequence[str]) -> None:
    for text in texts:
        if original.tokenize(text) != model.tokenize(text):
            raise CannotExport(
                "the exported tokenizer gives other tokens than sentence-transformers"
            )


def _get_dimensions(target: Path, plain: Choice) -> int:
    probe = FolderModel(target, plain, 1)
    return int(probe.encode_tokens([probe.tokenize("a")]).shape[1])


class _Original:
    """Runs the model with sentence-transformers, and exports its graphs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model = self._load()
        self._max_tokens = min(self._model.max_seq_length or MAX_TOKENS, MAX_TOKENS)
        self._model.max_seq_length = self._max_tokens

    def _load(self, **settings: Any) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(1)  # More threads would take cores that other work needs.
        model = SentenceTransformer(str(self._folder), device="cpu", **settings)
        return model.eval().requires_grad_(False)

    def tokenize(self, text: str) -> list[int]:
        ids: list[int] = self._model.preprocess([text[:MAX_CHARACTERS]])["input_ids"][0].tolist()
        return ids

    def encode(self, texts: Sequence[str]) -> Vectors:
        import torch

        with torch.inference_mode():
            batches = [
                self._model(self._model.preprocess([text]))["sentence_embedding"].numpy()
                for text in texts
            ]
        return np.concatenate(batches)

    def write(self, target: Path) -> Choice:
        """Write the graphs and the tokenizer to the folder. Returns how to run the model."""
        import torch

        # Other implementations of attention cannot be exported as plain operators.
        model = self._load(model_kwargs={"attn_implementation": "eager"})
        features = model.preprocess(["A text.", "Another one."])
        names = [name for name, value in features.items() if getattr(value, "ndim", 0) == 2]
        first, rest = model[0], list(model)[1:]
        tokens = tuple(features[name] for name in names)
        _trace(
            lambda *given: first(dict(zip(names, given, strict=True)))["token_embeddings"],
            [first],
            dict(zip(names, tokens, strict=True)),
            "token_embeddings",
            target / BODY_NAME,
        )

        def pool(states: Any) -> Any:
            outputs = {
                "token_embeddings": states,
                "attention_mask": torch.ones_like(states[:, :, 0], dtype=torch.int64),
            }
            for part in rest:
                outputs = part(outputs)
            return outputs["sentence_embedding"]

        with torch.inference_mode():
            states = first(features)["token_embeddings"][:1].clone()
        _trace(pool, rest, {"states": states}, "vector", target / TAIL_NAME)
        text = model.tokenizer.backend_tokenizer.to_str()
        (target / _TOKENIZER).write_text(text, encoding="utf-8")
        padding = model.tokenizer.pad_token_id or 0
        return Choice("fp32", max_tokens=self._max_tokens, padding=padding)


def _trace(
    function: Callable[..., Any],
    modules: Sequence[Any],
    inputs: Mapping[str, Any],
    output: str,
    file: Path,
) -> None:
    """Write a function as a graph whose inputs have any number of rows and tokens.

    `modules` are the modules whose weights the function uses.
    """
    import torch

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(modules)

        def forward(self, *values: Any) -> Any:
            return function(*values)

    with torch.no_grad():
        torch.onnx.export(
            Module().eval(),
            tuple(inputs.values()),
            str(file),
            input_names=[*inputs],
            output_names=[output],
            dynamic_axes={name: {0: "rows", 1: "tokens"} for name in inputs},
            opset_version=_OPSET,
            dynamo=False,
        )


class _Shipped:
    """Exports the ONNX graph in a model's folder (onnx/model.onnx).

    This graph lacks pooling, so a graph for mean or CLS pooling is added.
    """

    def __init__(self, folder: Path, mode: str, *, normalise: bool) -> None:
        self._folder = folder
        self._mode = mode
        self._normalise = normalise

    def write(self, target: Path) -> Choice:
        """Write the graphs and the tokenizer to the folder. Returns how to run the model."""
        model = onnx.load(self._folder / "onnx" / "model.onnx")
        write_model(model, target / BODY_NAME)
        config = _read_json(self._folder / "config.json")
        width = int(config["hidden_size"])
        tail = build_pooling_graph(self._mode, width, normalise=self._normalise)
        write_model(tail, target / TAIL_NAME)
        (target / _TOKENIZER).write_bytes((self._folder / _TOKENIZER).read_bytes())
        limits = (
            _read_json(self._folder / "sentence_bert_config.json").get("max_seq_length"),
            _read_json(self._folder / "tokenizer_config.json").get("model_max_length"),
        )
        max_tokens = int(min([MAX_TOKENS, *(limit for limit in limits if limit)]))
        return Choice("fp32", max_tokens=max_tokens, padding=config.get("pad_token_id") or 0)


def _find_shipped(folder: Path) -> _Shipped | None:
    """Find the ONNX graph in the folder.

    Returns None if the folder has no graph, or if the model has unusual modules.
    """
    if not (folder / "onnx" / "model.onnx").is_file() or not (folder / _TOKENIZER).is_file():
        return None
    try:
        modules = _read_json(folder / "modules.json")
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
            return None
        if modules[0]["path"] or _read_json(folder / "sentence_bert_config.json")["do_lower_case"]:
            return None
        pooling = _read_json(folder / modules[1]["path"] / "config.json")
        modes = {
            name for name, value in pooling.items() if "pooling_mode" in name and value is True
        }
        mode = pooling.get("pooling_mode") or {
            "pooling_mode_mean_tokens": "mean",
            "pooling_mode_cls_token": "cls",
        }.get(modes.pop() if len(modes) == 1 else "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if mode not in ("mean", "cls"):
        return None
    return _Shipped(folder, mode, normalise=len(kinds) == 3)


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _end_with_parent() -> None:
    """End this process when standard input is closed, which shows that the parent process has
    ended."""
    sys.stdin.buffer.read()
    os._exit(1)


def _main() -> None:
    os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    export(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    _main()
