"""The Python client of a running daemon: `Client`, and `AsyncClient` for asyncio.

Answers are plain dictionaries whose types are in hopsyncd.responses. Failed requests are not
retried. Threads and tasks may share a client. docs/reference/client.md has examples.
"""

from hopsyncd.client.asynchronous import AsyncClient
from hopsyncd.client.blocking import Client
from hopsyncd.client.protocol import RequestFailed

__all__ = ["AsyncClient", "Client", "RequestFailed"]
