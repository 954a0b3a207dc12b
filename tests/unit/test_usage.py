"""The cost of one piece of work: counted, and limited before a request is sent."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from hopsyncd.errors import BudgetSpent
from hopsyncd.models.llm.budget import Usage, estimate_tokens


def test_a_settled_request_counts_its_actual_tokens() -> None:
    usage = Usage(max_tokens=100)
    usage.reserve(90)
    usage.settle(90, prompt_tokens=30, completion_tokens=10)
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (1, 30, 10)
    usage.reserve(60)
    with pytest.raises(BudgetSpent, match="limit of 100 tokens"):
        usage.reserve(1)


def test_calls_are_limited_and_a_cancelled_one_is_given_back() -> None:
    usage = Usage(max_calls=2)
    usage.reserve(10)
    usage.reserve(10)
    with pytest.raises(BudgetSpent, match="used all of its 2 calls"):
        usage.reserve(10)
    usage.cancel(10)
    usage.reserve(10)
    assert usage.calls == 2


def test_without_limits_no_call_is_refused() -> None:
    usage = Usage()
    for _ in range(1000):
        usage.reserve(10**9)
    assert usage.calls == 1000


def test_a_limit_holds_against_many_threads() -> None:
    usage = Usage(max_calls=50)

    def reserve(_: int) -> bool:
        try:
            usage.reserve(1)
        except BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(reserve, range(400))) == 50


def test_failures_are_counted_by_kind() -> None:
    usage = Usage()
    for kind in ("refused", "nonsense", "nonsense"):
        usage.count_failure(kind)
    usage.count_cached()
    assert usage.failures == {"refused": 1, "nonsense": 2}
    assert usage.cached == 1


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 2), ("日本", 2)])
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_abandoned_work_stops_the_calls_under_way_and_all_later_ones() -> None:
    usage, before, during, after = Usage(), Event(), Event(), Event()
    with usage.stopping(before):
        pass
    with usage.stopping(during):
        usage.abandon()
        assert during.is_set()
    with usage.stopping(after):
        assert after.is_set()
    assert not before.is_set()
