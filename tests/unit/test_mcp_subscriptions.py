"""Subscriptions of agents to watched questions: a connection holds one for each, and none after."""

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

from mcp.types import SubscribeRequestParams, UnsubscribeRequestParams

from hopsyncd.api.mcp.document_server import WATCHES, DocumentServer

URI = f"{WATCHES}1"


class Watches:
    """A client that knows of one watched question."""

    def watches(self) -> dict[str, Any]:
        return {"watches": [{"id": 1, "action": {"mcp": True}, "changes": 0, "changed": None}]}


def test_repeated_subscriptions_of_a_connection_are_kept_once_and_end_with_it() -> None:
    async def act() -> tuple[int, int, int]:
        server = DocumentServer(Watches())  # type: ignore[arg-type]
        stack: Any = AsyncExitStack()
        connection = SimpleNamespace(state={}, exit_stack=stack)
        context: Any = SimpleNamespace(session=SimpleNamespace(_connection=connection))
        for _ in range(20):
            await server._subscribe(context, SubscribeRequestParams(uri=URI))
            await server._subscribe(context, SubscribeRequestParams(uri=URI))
            await server._unsubscribe(context, UnsubscribeRequestParams(uri=URI))
        await server._subscribe(context, SubscribeRequestParams(uri=URI))
        held = len(stack._exit_callbacks), len(server._bus._listeners)
        await stack.aclose()
        return *held, len(server._bus._listeners)

    assert asyncio.run(act()) == (1, 1, 0)
