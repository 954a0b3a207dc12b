"""A reranker behind an endpoint with `POST /rerank`, in the format of Jina, Cohere, vLLM and
llama.cpp.

The endpoint is not trusted. A reply must have one finite score for each text that was sent.
Requests are counted and retried like requests to the other endpoints.
"""

import threading
from collections.abc import Sequence
from typing import Any

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from hopsyncd.config.configuration import ModelsConfig
from hopsyncd.errors import LlmError, ModelUnavailable
from hopsyncd.models.llm.attempts import (
    Abandoned,
    Attempts,
    Patience,
    Poster,
    Spending,
    Timing,
    find_endpoint_host,
    read_spent_today,
)
from hopsyncd.models.llm.budget import Usage, estimate_tokens
from hopsyncd.models.llm.chat_completion import is_count
from hopsyncd.models.llm.retry import EndpointTexts, UnusableReply
from hopsyncd.responses.daemon_state import RerankerStatus
from store.ledger import Ledger

TIMEOUT_S = 10.0  # in seconds, while a search waits
_ATTEMPTS = 2
_MAX_CHARACTERS = 4000  # the characters of a text that are sent
_NO_SCORES = "the response has no list of scores"
_REAL_TIME = Timing()


class _Score(BaseModel):
    index: int = Field(strict=True, ge=0)
    score: float = Field(
        allow_inf_nan=False, validation_alias=AliasChoices("relevance_score", "score")
    )


class _Scores(BaseModel):
    results: list[_Score]


_BARE_SCORES = TypeAdapter(list[_Score])


class Scores:
    """The scores in a reply, in the order of the texts."""

    def __init__(self, scores: list[float], usage: object) -> None:
        self.scores = scores
        self._usage = usage

    def count_tokens(self) -> tuple[int, int] | None:
        """The endpoint's count of tokens, and 0 for completion tokens. None if the count is missing
        or implausible."""
        used = self._usage.get("total_tokens") if isinstance(self._usage, dict) else None
        return (used, 0) if is_count(used) else None


def read_scores(body: bytes, count: int) -> Scores:
    """Read the scores of `count` texts from a reply. Raises UnusableReply.

    >>> read_scores(b'{"results": [{"index": 1, "score": 2}, {"index": 0, "score": 1}]}', 2).scores
    [1.0, 2.0]
    """
    try:
        reply = from_json(body, allow_inf_nan=False)
        if isinstance(reply, list):
            scores = _BARE_SCORES.validate_python(reply)
        else:
            scores = _Scores.model_validate(reply).results
    except (ValidationError, ValueError, RecursionError) as error:
        raise UnusableReply(_NO_SCORES) from error
    by_index = {score.index: score.score for score in scores}
    if len(scores) != len(by_index) or by_index.keys() != {*range(count)}:
        raise UnusableReply(
            f"the reply has {len(scores)} scores, but must have one for each of {count} texts"
        )
    usage = reply.get("usage") if isinstance(reply, dict) else None
    return Scores([by_index[index] for index in range(count)], usage)


class HttpReranker:
    """Scores texts with a reranker behind an endpoint. Sends nothing before it is used.
    Thread-safe."""

    def __init__(
        self,
        config: ModelsConfig,
        ledger: Ledger,
        sender: Poster,
        timing: Timing = _REAL_TIME,
    ) -> None:
        self.host = find_endpoint_host(config.reranker_url)
        self.model = config.reranker
        self.ledger = ledger
        self._max_tokens_per_day = config.reranker_max_tokens_per_day
        self._sender = sender
        self._timing = timing
        texts = EndpointTexts.of_model(
            self.host,
            config.reranker_api_key_env,
            "The reranker",
            "reranker",
            "Until the reranker responds, searches use the order without reranking",
        )
        self._attempts = Attempts(texts, ledger, timing)
        self._usage = Usage()
        self._stop = threading.Event()
        self._failure: ModelUnavailable | None = None

    def score_texts(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text, in order, higher for a better answer. Raises
        ModelUnavailable."""
        if not texts:
            return []
        try:
            reply = self._ask(
                question[:_MAX_CHARACTERS], [text[:_MAX_CHARACTERS] for text in texts]
            )
        except LlmError as error:
            failure = ModelUnavailable(error.what, error.why, error.hint)
            if not isinstance(error, Abandoned):
                self._failure = failure
            raise failure from error
        self._failure = None
        return reply.scores

    def close(self) -> None:
        """Cancel the requests in progress, and refuse further requests."""
        self._stop.set()
        self.ledger.close()

    def describe_status(self) -> RerankerStatus:
        """Return the part of /v1/status about this endpoint. Reads the ledger once."""
        spent, problem = read_spent_today(self.ledger, self._timing)
        return {
            "endpoint": self.host,
            "model": self.model,
            "calls_today": sum(row.calls for row in spent),
            "tokens_today": sum(row.tokens for row in spent),
            "max_tokens_per_day": self._max_tokens_per_day,
            "ledger_problem": problem,
            "failure": str(self._failure) if self._failure else None,
        }

    def _ask(self, question: str, texts: list[str]) -> Scores:
        """Send the request, with at most one retry. Raises LlmError."""
        deadline_s = self._timing.monotonic_s() + TIMEOUT_S
        body: dict[str, Any] = {"query": question, "documents": texts, "top_n": len(texts)}
        if self.model:
            body["model"] = self.model
        estimate = sum(map(estimate_tokens, texts)) + estimate_tokens(question) * len(texts)
        spending = Spending("reranking", "", self._usage, estimate)

        def request() -> Scores:
            left_s = deadline_s - self._timing.monotonic_s()
            reply = self._sender.post("/rerank", body, left_s, self._stop)
            return read_scores(reply, len(texts))

        patience = Patience(deadline_s, _ATTEMPTS, self._stop)
        return self._attempts.send_with_retries(spending, request, patience)
