"""The cost of one piece of work: counted, and limited before a request is sent."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from hopsyncd.errors import BudgetSpent
from hopsyncd.models.llm.budget import Usage, estimated_tokens


def test_a_settled_request_leaves_what_it_took() -> None:
    meter = Usage(max_tokens=100)
    meter.reserve(90)
    meter.settle(90, prompt_tokens=30, completion_tokens=10)
    assert (meter.calls, meter.prompt_tokens, meter.completion_tokens) == (1, 30, 10)
    meter.reserve(60)
    with pytest.raises(BudgetSpent, match="go over its 100 tokens"):
        meter.reserve(1)


def test_calls_are_limited_and_a_cancelled_one_is_given_back() -> None:
    meter = Usage(max_calls=2)
    meter.reserve(10)
    meter.reserve(10)
    with pytest.raises(BudgetSpent, match="its 2 calls are used"):
        meter.reserve(10)
    meter.cancel(10)
    meter.reserve(10)
    assert meter.calls == 2


def test_without_limits_nothing_is_refused() -> None:
    meter = Usage()
    for _ in range(1000):
        meter.reserve(10**9)
    assert meter.calls == 1000


def test_a_limit_holds_against_many_threads() -> None:
    meter = Usage(max_calls=50)

    def reserve(_: int) -> bool:
        try:
            meter.reserve(1)
        except BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(reserve, range(400))) == 50


def test_failures_are_counted_by_kind() -> None:
    meter = Usage()
    for kind in ("refused", "nonsense", "nonsense"):
        meter.count_failure(kind)
    meter.count_cached()
    assert meter.failures == {"refused": 1, "nonsense": 2}
    assert meter.cached == 1


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 2), ("日本", 2)])
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_abandoned_work_stops_the_calls_under_way_and_all_later_ones() -> None:
    meter, before, during, after = Usage(), Event(), Event(), Event()
    with meter.stopping(before):
        pass
    with meter.stopping(during):
        meter.abandon()
        assert during.is_set()
    with meter.stopping(after):
        assert after.is_set()
    assert not before.is_set()
