"""Ends a response if its token is revoked or expires while the response is being sent."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

_CHECKED_EVERY_S = 0.5


async def run_while_valid(answer: Coroutine[Any, Any, None], is_valid: Callable[[], bool]) -> bool:
    """Run `answer` to its end, or cancel it once `is_valid` is false.

    Returns True if `answer` ran to its end. Exceptions of `answer` are passed on.
    """
    task = asyncio.ensure_future(answer)
    try:
        while True:
            await asyncio.wait({task}, timeout=_CHECKED_EVERY_S)
            if task.done():
                task.result()
                return True
            if not is_valid():
                return False
    finally:
        if not task.done():
            task.cancel()
            # A thread may still run, but nothing more is sent.
            await asyncio.wait({task}, timeout=_CHECKED_EVERY_S)
