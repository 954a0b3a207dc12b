"""The models that a configuration names, loaded."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from hopsyncd.config.configuration import Config, LlmConfig
from hopsyncd.errors import ConfigError
from hopsyncd.models.asked_questions import AskedMaker
from hopsyncd.models.encoder import Encoder, SentenceEncoder
from hopsyncd.models.language import Language, SpacyLanguage
from hopsyncd.models.llm.call import Llm
from hopsyncd.models.llm.openai_llm import OpenAiLlm
from hopsyncd.models.llm_questions import LlmAsker
from hopsyncd.models.questions import BuiltinMaker, QuestionMaker
from hopsyncd.models.reranker import CrossReranker, Reranker
from store.sqlite.ledger import Ledger

LEDGER_NAME = "llm.db"
_FIRST_TEXT = "Nothing in particular."
_LANGUAGE_AFTER_S = 3.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Models:
    """`llm` is None where no endpoint is configured: then nothing ever leaves the machine.

    `endpoint` is the same object where it is a real one, which has a ledger, a status and an end.
    `reranker` is None where none is named.
    """

    encoder: Encoder
    language: Language
    maker: QuestionMaker
    llm: Llm | None = None
    endpoint: OpenAiLlm | None = None
    reranker: Reranker | None = None


def load_models(config: Config) -> Models:
    """Find and check them. Raises ModelUnavailable or ConfigError.

    The encoder is loaded at once, on a thread of its own, as every query needs it; the language
    model a moment later, for the two would hold up each other. Who wants one before waits for it.
    """
    endpoint = open_endpoint(config.llm, config.daemon.data_dir) if config.llm.base_url else None
    models = config.models
    encoder = SentenceEncoder(models.encoder, models.encoder_sha256, models.threads)
    language = SpacyLanguage(models.language_model)
    reranker = CrossReranker(models.reranker, models.threads) if models.reranker else None
    maker = maker_of(config.llm, language, encoder, endpoint)
    threading.Thread(target=_use, args=(encoder.encode, [_FIRST_TEXT])).start()
    later = threading.Timer(_LANGUAGE_AFTER_S, _use, (language.mentions, _FIRST_TEXT))
    later.daemon = True
    later.start()
    return Models(encoder, language, maker, endpoint, endpoint, reranker)


def _use(model: Callable[[Any], object], text: Any) -> None:
    """Have a model loaded, by what wants it."""
    try:
        model(text)
    except Exception as error:  # noqa: BLE001 - who wants the model is told again
        log.error("a model does not load", why=str(error))


def maker_of(
    config: LlmConfig, language: Language, encoder: Encoder, llm: Llm | None
) -> QuestionMaker:
    """Who asks the questions of passages: the built-in generator, with or without the LLM."""
    if llm is None or config.questions == "off":
        return BuiltinMaker(language, encoder)
    asker = LlmAsker(llm, config.passages_per_call, 2 * config.concurrency)
    return AskedMaker(asker, language, encoder, config.questions)


def open_endpoint(config: LlmConfig, data_dir: Path) -> OpenAiLlm:
    """The configured LLM, its ledger in `data_dir`; nothing is sent yet. Raises ConfigError."""
    from hopsyncd.models.llm.transport import HttpClient

    ledger = Ledger(data_dir / LEDGER_NAME, config.max_calls_per_day, config.max_tokens_per_day)
    return OpenAiLlm(config, ledger, HttpClient(config.base_url, _key(config.api_key_env)))


def _key(variable: str) -> str:
    """What the environment variable holds; empty where it is not set, as for local servers."""
    key = os.environ.get(variable, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"Cannot use the key in the environment variable {variable}",
            "it has characters that no key has",
            "Set it again, on one line and without quotes",
        )
    return key
