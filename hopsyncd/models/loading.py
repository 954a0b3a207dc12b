"""Loads the models that a configuration names."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from hopsyncd.config.configuration import Config, LlmConfig, ModelsConfig
from hopsyncd.errors import BadRequest, ConfigError, ModelUnavailable
from hopsyncd.models.cluster import ClusterMaker
from hopsyncd.models.embedding.folder_encoder import open_folder_encoder
from hopsyncd.models.embedding.http_encoder import HttpEncoder
from hopsyncd.models.encoder import (
    CrossReranker,
    Encoder,
    Reranker,
    SentenceEncoder,
    locate,
)
from hopsyncd.models.language import Language, SpacyLanguage
from hopsyncd.models.llm.call import Llm
from hopsyncd.models.llm.openai_llm import OpenAiLlm
from hopsyncd.models.llm_maker import LlmQuestionMaker
from hopsyncd.models.llm_questions import LlmExtractor
from hopsyncd.models.llm_statements import make_prompt_spec
from hopsyncd.models.minilm_onnx import OnnxEncoder
from hopsyncd.models.prompts import AdaptedEncoder, choose_prompts, find_predecessor
from hopsyncd.models.questions import BuiltinMaker, QuestionMaker
from hopsyncd.models.rerank_endpoint import HttpReranker
from store.ledger import Ledger

LEDGER_NAME = "llm.db"
ENCODER_LEDGER_NAME = "embeddings.db"
RERANKER_LEDGER_NAME = "reranker.db"
_LEDGER_TABLES = {
    LEDGER_NAME: "llm_spent",
    ENCODER_LEDGER_NAME: "embedding_spent",
    RERANKER_LEDGER_NAME: "reranker_spent",
}
MAX_EMBEDDINGS_BYTES = 32 << 20  # A reply has up to 65 vectors of 4,096 numbers as text.
CACHE_NAME = "cache"
_WARM_UP_TEXT = "Nothing in particular."
_LANGUAGE_AFTER_S = 3.0
_WAITING_WORKERS = 16
_EMBEDDED_TOGETHER = 4  # Of this many passages, sentences of the same length are encoded together.

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Models:
    """The models in use. If there is no `llm`, `cluster` or endpoint, no data leaves the machine.

    endpoint: the same object as `llm`, which `close` closes; None if `llm` sends no requests.
    newer: the same models with a newer encoder, if the stored vectors come from an older encoder.
    next: the configured models, if the daemon is preparing to switch to them.
    """

    encoder: Encoder
    language: Language
    maker: QuestionMaker
    llm: Llm | None = None
    endpoint: OpenAiLlm | None = None
    reranker: Reranker | None = None
    newer: "Models | None" = None
    next: "Models | None" = None

    def with_newer_encoder(self) -> "Models":
        """Return the models with the newer encoder. Raises BadRequest if no newer encoder
        exists.
        """
        if self.newer is None:
            raise BadRequest(
                "Cannot switch to a newer encoder",
                "the newest encoder for this configuration is already in use",
                "`hopsyncd status` says when there is a newer encoder",
            )
        return self.newer

    def choose_generation(self, name: str) -> "Models":
        """Return `next` or `newer`, whichever has the generation `name`, or else these models."""
        for candidate in filter(None, (self.next, self.newer)):
            endpoint = candidate.encoder_endpoint
            if endpoint and not endpoint.is_known:
                continue
            if candidate.maker.generation.name == name:
                return candidate
        return self

    @property
    def cluster(self) -> str | None:
        """The address and state of the Ray cluster, or None if no cluster is configured."""
        return self.maker.description if isinstance(self.maker, ClusterMaker) else None

    @property
    def encoder_endpoint(self) -> HttpEncoder | None:
        """The encoder, or None if it is not behind an endpoint."""
        return self.encoder if isinstance(self.encoder, HttpEncoder) else None

    @property
    def reranker_endpoint(self) -> HttpReranker | None:
        """The reranker, or None if it is not behind an endpoint."""
        return self.reranker if isinstance(self.reranker, HttpReranker) else None

    def require_encoder(self) -> None:
        """Raise EncoderUnavailable if the encoder's endpoint is unavailable."""
        if self.encoder_endpoint:
            self.encoder_endpoint.verify()

    def wake(self) -> None:
        """Start the models that ended while idle, because they will be needed soon."""
        if isinstance(self.language, SpacyLanguage):
            self.language.wake()

    def close(self) -> None:
        """Cancel the requests to endpoints, and refuse further requests."""
        for endpoint in (self.endpoint, self.encoder_endpoint, self.reranker_endpoint):
            if endpoint:
                endpoint.close()
        if self.next and self.next.encoder_endpoint:
            self.next.encoder_endpoint.close()

    @property
    def preparing(self) -> str | None:
        """The name of the model file that is being written, or None. A model file is written once
        on each machine.
        """
        making = isinstance(self.encoder, OnnxEncoder) and self.encoder.preparing
        return "the encoder's model file" if making else None


def load_encoder(config: Config, in_use: str = "") -> Encoder:
    """Load the configured encoder. Raises ModelUnavailable.

    `in_use` is the name of a generation. If its vectors come from this model in PyTorch, the
    PyTorch model is loaded. The model of a folder is prepared the first time, which takes seconds
    to minutes.
    """
    models = config.models
    if models.encoder_address:
        return open_http_encoder(config)
    cache = config.daemon.data_dir / CACHE_NAME
    if models.encoder == "default":
        encoder: Encoder = OnnxEncoder(cache)
    else:
        encoder = _adapt(
            models,
            open_folder_encoder(models.encoder, models.encoder_sha256, models.threads, cache),
        )
    return _load_predecessor(models, encoder, in_use) or encoder


def _adapt(models: ModelsConfig, encoder: Encoder) -> Encoder:
    folder = Path(locate(models.encoder, "")[0])
    return AdaptedEncoder(encoder, choose_prompts(models, models.encoder, folder))


def _load_predecessor(models: ModelsConfig, encoder: Encoder, in_use: str) -> Encoder | None:
    """Load the configured model in PyTorch if the vectors in use were computed in PyTorch.

    Returns None if the vectors come from another model, or if PyTorch is not installed.
    """
    name = find_predecessor(encoder)
    if not name or not in_use.endswith(name):
        return None
    try:
        former: Encoder = SentenceEncoder(models.encoder, models.encoder_sha256, models.threads)
    except ModelUnavailable as error:
        log.warning(
            "stored vectors cannot be used without PyTorch, so all passages are embedded again",
            why=str(error),
        )
        return None
    return former if models.encoder == "default" else _adapt(models, former)


def load_reranker(config: Config) -> Reranker | None:
    """Return the configured reranker, or None. The reranker sends and loads nothing before it is
    used.

    Raises ModelUnavailable or ConfigError.
    """
    models = config.models
    if models.reranker_url:
        from hopsyncd.models.llm.transport import HttpClient

        limit = models.reranker_max_tokens_per_day
        ledger = _open_ledger(
            RERANKER_LEDGER_NAME, config.daemon.data_dir, config.store.url, max_tokens=limit
        )
        client = HttpClient(models.reranker_url, _read_key(models.reranker_api_key_env))
        return HttpReranker(models, ledger, client)
    return CrossReranker(models.reranker, models.threads) if models.reranker else None


def load_models(config: Config, in_use: str = "") -> Models:
    """Find and check the models. Raises ModelUnavailable or ConfigError.

    `in_use` is the name of the newest version's generation settings. Vectors of the former default
    encoder stay in use until a rebuild.

    A thread loads the encoder at once, because every query needs it. The spaCy model is loaded 3
    s later, because loading both at once is slower. A caller that needs a model waits for it.
    """
    endpoint = None
    if config.llm.base_url:
        endpoint = open_endpoint(config.llm, config.daemon.data_dir, config.store.url)
    models = config.models
    language = SpacyLanguage(models.language_model)
    reranker = load_reranker(config)

    def with_encoder(encoder: Encoder) -> Models:
        maker = make_question_maker(config.llm, language, encoder, endpoint, models.workers)
        return Models(encoder, language, maker, endpoint, endpoint, reranker)

    encoder: Encoder = load_encoder(config)
    former = _load_predecessor(models, encoder, in_use)
    loaded = with_encoder(encoder)
    if isinstance(encoder, HttpEncoder):
        threading.Thread(target=_verify, args=(encoder,), daemon=True).start()
        if config.workers.ray:
            log.warning("workers.ray is not used, because the encoder is behind an endpoint")
    elif config.workers.ray and isinstance(loaded.maker, BuiltinMaker):
        cluster_maker = ClusterMaker(
            language, encoder, models, config.workers.ray, load_maker_on_worker
        )
        loaded = replace(loaded, maker=cluster_maker)
    if former:
        earlier = with_encoder(former)
        if earlier.maker.generation.name == in_use:
            encoder, loaded = former, replace(earlier, newer=loaded)
    if not isinstance(encoder, HttpEncoder):
        threading.Thread(target=warm_up_encoder, args=(encoder,)).start()
    later = threading.Timer(_LANGUAGE_AFTER_S, _warm_up, (language.find_mentions, [_WARM_UP_TEXT]))
    later.daemon = True
    later.start()
    return loaded


def load_maker_on_worker(config: ModelsConfig) -> BuiltinMaker:
    language = SpacyLanguage(config.language_model)
    return BuiltinMaker(language, load_encoder(Config(models=config)))


def warm_up_encoder(encoder: Encoder) -> None:
    """Encode a text once, so that the encoder is loaded before a query needs it."""
    _warm_up(encoder.encode, [_WARM_UP_TEXT])


def _warm_up(model: Callable[[Any], object], text: Any) -> None:
    """Use a model once, so that it is loaded before it is needed."""
    try:
        model(text)
    except Exception as error:  # noqa: BLE001 - the first real use raises it again
        log.error("a model cannot be loaded", why=str(error))


def _verify(encoder: HttpEncoder) -> None:
    """Request one vector from the endpoint, so that problems are logged at startup."""
    try:
        encoder.verify()
    except ModelUnavailable as error:
        log.warning("the encoder's endpoint returns no vectors", why=str(error))


def make_question_maker(
    config: LlmConfig, language: Language, encoder: Encoder, llm: Llm | None, workers: int = 1
) -> QuestionMaker:
    """Create the configured question maker: the built-in generator, the LLM, or both."""
    if llm is None or config.questions == "off":
        if isinstance(encoder, HttpEncoder):
            # These workers only wait for the endpoint, and fill its batches.
            workers = _WAITING_WORKERS
        together = _EMBEDDED_TOGETHER if isinstance(encoder, AdaptedEncoder) else 1
        return BuiltinMaker(language, encoder, workers, together)
    form = make_prompt_spec(config.questions)
    asker = LlmExtractor(llm, config.passages_per_call, 2 * config.concurrency, form)
    return LlmQuestionMaker(asker, language, encoder, config.questions)


def open_endpoint(config: LlmConfig, data_dir: Path, url: str = "") -> OpenAiLlm:
    """Open the configured LLM. Sends nothing yet. Raises ConfigError.

    The ledger is in the server's database at `url`. Without a `url`, it is in `data_dir`.
    """
    from hopsyncd.models.llm.transport import HttpClient

    limits = config.max_calls_per_day, config.max_tokens_per_day
    ledger = _open_ledger(LEDGER_NAME, data_dir, url, *limits)
    return OpenAiLlm(config, ledger, HttpClient(config.base_url, _read_key(config.api_key_env)))


def open_http_encoder(config: Config) -> HttpEncoder:
    """Open the configured embedding endpoint with its ledger. Sends nothing yet. Raises
    ConfigError."""
    from hopsyncd.models.llm.transport import HttpClient

    models, address = config.models, config.models.encoder_address
    assert address is not None, "the encoder runs on this machine"
    limit = models.encoder_max_tokens_per_day
    ledger = _open_ledger(
        ENCODER_LEDGER_NAME, config.daemon.data_dir, config.store.url, max_tokens=limit
    )
    client = HttpClient(address.base_url, _read_key(address.key_env), MAX_EMBEDDINGS_BYTES)
    prompts = choose_prompts(models, address.model)
    return HttpEncoder(models, address, prompts, ledger, client)


def _open_ledger(
    name: str, data_dir: Path, url: str, max_calls: int = 0, max_tokens: int = 0
) -> Ledger:
    """Open the ledger in the file `name` of `data_dir`. With a `url`, open it in the table of the
    server's database that all daemons share."""
    if url:
        return Ledger(url, max_calls, max_tokens, _LEDGER_TABLES[name])
    return Ledger(data_dir / name, max_calls, max_tokens)


def _read_key(variable: str) -> str:
    """Return the API key in the environment variable, or "" if the variable is not set, because
    local servers need no key.

    Raises ConfigError if the key has characters that are not allowed.
    """
    key = os.environ.get(variable, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"Cannot use the key in the environment variable {variable}",
            "the key contains a control character, such as a line break, or is not ASCII",
            "Set the variable to the key alone, on one line and without quotes",
        )
    return key
