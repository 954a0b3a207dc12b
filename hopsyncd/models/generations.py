"""Loads the models of the stored vectors if the configuration names other models.

A file in the data folder stores the settings of each generation by its name. So after a change of
the configuration, the daemon can load the models of the stored vectors. The daemon uses these
models for answers and edits until the passages are embedded again.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray
from pydantic import ValidationError

from hopsyncd.config.configuration import Config, LlmConfig, ModelsConfig
from hopsyncd.errors import ConfigError, LlmError, ModelUnavailable, NotAsked
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.language import Language, SpacyLanguage
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import Llm, LlmCall, Reply, TokenSink
from hopsyncd.models.llm.openai_llm import get_model_name
from hopsyncd.models.loading import (
    Models,
    load_encoder,
    load_models,
    make_question_maker,
    warm_up_encoder,
)
from hopsyncd.models.questions import BuiltinMaker

FILE_NAME = "generations.json"
_UNUSED_BY_FORMER = ("language_model", "reranker", "threads", "workers")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Settings:
    models: ModelsConfig
    llm: LlmConfig


def load_serving_models(config: Config, in_use: str = "") -> Models:
    """Load the models of the stored vectors. If the configuration names other models, they are
    loaded too and returned in `next`.

    `in_use` is the name of the newest version's generation. Raises ModelUnavailable or ConfigError
    if the configured models cannot be loaded. If only the models of the stored vectors cannot be
    loaded, a warning is logged, and the configured models are returned.
    """
    models = load_models(config, in_use)
    name = _name_generation(config.llm, models.language, models.encoder, models.llm)
    file = config.daemon.data_dir / FILE_NAME
    former = None
    if in_use and name != in_use:
        former = _load_former(config, models, in_use, _recall(file, in_use))
    _remember(file, name, _Settings(config.models, config.llm))
    if former is None:
        return models
    if former.encoder is not models.encoder:
        threading.Thread(target=warm_up_encoder, args=(former.encoder,)).start()
    return replace(former, next=models)


def load_for_estimate(config: Config) -> tuple[Models, str]:
    """Load the configured models with the built-in question maker. Contacts no endpoint.

    Also returns the name of the generation. Raises ModelUnavailable or ConfigError.
    """
    language, encoder = SpacyLanguage(config.models.language_model), load_encoder(config)
    maker = BuiltinMaker(language, encoder, config.models.workers)
    unasked = _Unasked(config.llm) if config.llm.base_url else None
    name = _name_generation(config.llm, language, encoder, unasked)
    return Models(encoder, language, maker), name


def _load_former(
    config: Config, wanted: Models, in_use: str, settings: _Settings | None
) -> Models | None:
    """Load the models of the generation `in_use`. `wanted` are the configured models, and
    `settings` are the stored settings of the generation. Returns None if the models can no longer
    be used."""
    models = settings.models if settings else ModelsConfig()
    llm = settings.llm if settings else LlmConfig()
    address, configured = models.encoder_address, config.models.encoder_address
    if address and not (configured and configured.base_url == address.base_url):
        log.warning("the endpoint of the stored vectors is no longer configured, so it is not used")
        return None
    try:
        language: Language = wanted.language
        if models.language_model != config.models.language_model:
            language = SpacyLanguage(models.language_model)
        fields = {field: getattr(config.models, field) for field in _UNUSED_BY_FORMER}
        encoder = wanted.encoder
        if models.model_copy(update=fields) != config.models:
            encoder = load_encoder(config.model_copy(update={"models": models}), in_use)
        unasked = _Unasked(llm) if llm.base_url else None
        if _name_generation(llm, language, encoder, unasked) != in_use:
            return None
    except (ModelUnavailable, ConfigError) as error:
        log.warning("the models of the stored vectors cannot be loaded", why=str(error))
        return None
    maker = make_question_maker(llm, language, encoder, unasked, models.workers)
    return replace(wanted, encoder=encoder, language=language, maker=maker, newer=None)


def _name_generation(
    config: LlmConfig, language: Language, encoder: Encoder, llm: Llm | None
) -> str:
    """Return the name of the generation with these models. Contacts no endpoint."""
    return make_question_maker(config, language, _Named(encoder.name), llm).generation.name


class _Named:
    """An encoder that only has a name, for computing the name of a generation."""

    dimensions = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise NotImplementedError

    encode_questions = encode


class _Unasked:
    """An LLM that sends nothing. Every call gets the error NotAsked.

    Stands in for the LLM of a generation whose questions will soon be replaced.
    """

    def __init__(self, config: LlmConfig) -> None:
        self.name = get_model_name(config)

    def ask_each(
        self,
        calls: Sequence[LlmCall],
        shape: type[Reply],
        usage: Usage,
        yield_to_edits: Callable[[], None] = lambda: None,
        sink: TokenSink | None = None,
    ) -> Iterator[tuple[int, Reply | LlmError]]:
        for number in range(len(calls)):
            yield number, _make_unasked_error()


def _make_unasked_error() -> NotAsked:
    return NotAsked(
        "The LLM was not asked",
        "the passages' questions are being made again with the new settings",
        "`hopsyncd status` shows the progress",
    )


def _recall(file: Path, name: str) -> _Settings | None:
    """Read the stored settings of a generation. Returns None if nothing is stored, or on an
    error.
    """
    try:
        recorded = json.loads(file.read_text(encoding="utf-8"))[name]
        return _Settings(
            ModelsConfig.model_validate(recorded["models"]),
            LlmConfig.model_validate(recorded["llm"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        log.warning("the settings of the stored vectors cannot be read", why=str(error))
        return None


def _remember(file: Path, name: str, settings: _Settings) -> None:
    """Store the settings of a generation. A failure is logged."""
    try:
        recorded = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        recorded = {}
    llm = settings.llm.model_dump(mode="json")
    entry = {"models": settings.models.model_dump(mode="json"), "llm": llm}
    if not isinstance(recorded, dict) or recorded.get(name) == entry:
        return
    new = file.with_suffix(f".{os.getpid()}")
    try:
        new.write_text(json.dumps({**recorded, name: entry}, indent=1), encoding="utf-8")
        new.replace(file)
    except OSError as error:
        log.warning(
            "the settings of the models could not be stored", file=str(file), why=str(error)
        )
