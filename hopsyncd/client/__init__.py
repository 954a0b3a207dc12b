"""The Python client of a running daemon: `Client`, and `AsyncClient` for asyncio.

Answers are plain dictionaries, typed in the modules hopsyncd.answers.found*. Nothing is tried
twice, and each request has a connection of its own, so threads or tasks may share a client.
docs/client.md shows it at work.
"""

from hopsyncd.client.asynchronous import AsyncClient
from hopsyncd.client.blocking import Client
from hopsyncd.client.response import RequestFailed

__all__ = ["AsyncClient", "Client", "RequestFailed"]
