"""Estimates the work of switching the database to the configured models."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hopsyncd.config.configuration import Config
from hopsyncd.models.generations import load_for_estimate
from hopsyncd.models.llm.budget import estimate_tokens
from hopsyncd.models.llm_questions import Estimate, estimate
from hopsyncd.models.llm_statements import make_prompt_spec
from hopsyncd.models.questions import QuestionMaker, draft_questions
from store.content import find_best_sets, find_generation_row, find_stored_sets, read_passages
from store.contract import Connection
from store.reads import list_passages
from store.records import Passage, PassageId, compute_set_id
from store.versions import read_head

_SAMPLE = 24  # the passages whose questions are made for the estimate, without storing them
_AT_ONCE = 2000  # passages loaded per batch


@dataclass(frozen=True, slots=True)
class RebuildEstimate:
    """The estimated work of a switch to the configured models.

    `passages` is the number of passages at the head, and `lacking` the number of passages without
    vectors of these models. `texts` is the number of texts to embed. If an endpoint computes the
    vectors, `encoder_tokens` is the number of tokens to send and `seconds` is None. Otherwise
    `seconds` is the time on this machine and `encoder_tokens` is 0. All values except `passages`
    and `lacking` are approximate.
    """

    generation: str
    encoder: str
    passages: int
    lacking: int
    texts: int
    seconds: float | None
    encoder_tokens: int
    llm_calls: int
    llm_tokens: int


def estimate_rebuild(connection: Connection, config: Config) -> RebuildEstimate:
    """Estimate the work of a switch to the configured models from a sample of up to 24 passages.
    Uses no endpoint, and stores nothing.

    Raises ModelUnavailable or ConfigError.
    """
    models, name = load_for_estimate(config)
    newest = read_head(connection)
    passages = list_passages(connection, newest.id) if newest else []
    row = find_generation_row(connection, name)
    with_questions = find_best_sets(connection, row, passages).keys() if row is not None else set()
    lacking = [passage for passage in passages if passage not in with_questions]
    sample = _read(connection, lacking[:: max(1, len(lacking) // _SAMPLE)][:_SAMPLE])
    texts = [draft_questions(passage, ()).contexts for passage in sample]
    scale = len(lacking) / max(len(sample), 1)
    is_remote = config.models.encoder_address is not None
    tokens = sum(estimate_tokens(text) for of_passage in texts for text in of_passage)
    llm_usage = _estimate_llm(connection, config, name, passages)
    return RebuildEstimate(
        generation=name,
        encoder=models.encoder.name,
        passages=len(passages),
        lacking=len(lacking),
        texts=round(scale * sum(map(len, texts))),
        seconds=None if is_remote else round(scale * _measure_time(models.maker, sample), 1),
        encoder_tokens=round(scale * tokens) if is_remote else 0,
        llm_calls=llm_usage.calls,
        llm_tokens=llm_usage.tokens,
    )


def _measure_time(maker: QuestionMaker, sample: Sequence[Passage]) -> float:
    """Measure how many seconds it takes to generate questions for the sample, without the time for
    loading models."""
    if not sample:
        return 0.0
    maker.make_provisional(sample[0])
    began_s = time.perf_counter()
    for _ in maker.make_each(sample, None):
        pass
    return time.perf_counter() - began_s


def _estimate_llm(
    connection: Connection, config: Config, name: str, passages: Sequence[PassageId]
) -> Estimate:
    """Estimate the LLM calls and tokens for the passages that have no questions from the configured
    LLM."""
    llm = config.llm
    if not llm.base_url or llm.questions == "off":
        return Estimate(0, 0)
    ids = {compute_set_id(passage, name): passage for passage in passages}
    done = find_stored_sets(connection, ids)
    left = [passage for id_, passage in ids.items() if id_ not in done]
    calls = tokens = 0
    for start in range(0, len(left), _AT_ONCE):
        group = _read(connection, left[start : start + _AT_ONCE])
        part = estimate(group, llm.passages_per_call, make_prompt_spec(llm.questions))
        calls, tokens = calls + part.calls, tokens + part.tokens
    return Estimate(calls, tokens)


def _read(connection: Connection, passages: Sequence[PassageId]) -> list[Passage]:
    texts = read_passages(connection, passages)
    return [texts[passage] for passage in passages if passage in texts]
