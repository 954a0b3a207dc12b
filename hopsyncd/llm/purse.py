"""Room for a request, in the work it is made for and in the day: both, or none."""

from collections.abc import Callable

import structlog

from hopsyncd.errors import BudgetSpent
from hopsyncd.llm.call import Call
from hopsyncd.llm.meter import Meter
from store.errors import StoreError
from store.ledger import Ledger, Reservation

log = structlog.get_logger(__name__)

DAY_S = 86_400
_WHAT = "The LLM was not asked"


def reserve(
    ledger: Ledger, meter: Meter, call: Call, tokens: int, unix_s: Callable[[], float]
) -> Reservation:
    """Raises BudgetSpent, also where the ledger does not say what is left."""
    meter.reserve(tokens)
    try:
        day = int(unix_s() // DAY_S)
        reserved = ledger.reserve(day, call.purpose, call.source, tokens)
    except StoreError as error:
        meter.cancel(tokens)
        raise BudgetSpent(_WHAT, f"{error.what}: {error.why}", error.hint) from error
    if reserved is None:
        meter.cancel(tokens)
        raise BudgetSpent(
            _WHAT,
            "the calls or tokens of today (UTC) are used up",
            "Raise max_calls_per_day or max_tokens_per_day in [llm], or wait for tomorrow",
        )
    return reserved


def settle(
    ledger: Ledger, meter: Meter, reserved: Reservation, prompt_tokens: int, completion_tokens: int
) -> None:
    """What the request took; where the ledger fails, it keeps counting what was reserved."""
    meter.settle(reserved.tokens, prompt_tokens, completion_tokens)
    try:
        ledger.settle(reserved, prompt_tokens, completion_tokens)
    except StoreError as error:
        log.warning("the ledger of LLM calls was not brought up to date", why=error.why)
