"""Accepts requests through a reverse proxy, which handles TLS for the daemon.

Only the addresses in access.behind_proxy may connect over TCP. Their headers name the client.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from hopsyncd.api.failures import make_failure_body


class BehindProxy:
    """Passes on TCP requests of trusted proxies whose clients used TLS. Refuses other TCP requests.

    Replaces the proxy's address with the client's address in the scope of a request.
    """

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        self._app = app
        self._by_proxy = ProxyHeadersMiddleware(app, [*proxies])  # type: ignore[arg-type]
        self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client is None:  # a connection over the Unix socket has no address
            await self._app(scope, receive, send)
            return
        address = ipaddress.ip_address(client[0].partition("%")[0])
        schemes = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
        names_client = any(name == b"x-forwarded-for" for name, _ in scope["headers"])
        if not any(address in network for network in self._proxies):
            why = "the request did not come through the proxy"
            hint = "Connect through the proxy. access.behind_proxy must list all proxies"
        elif schemes != [b"https"]:
            why = "the proxy does not say that its client uses https"
            hint = "Configure the proxy to set X-Forwarded-Proto and X-Forwarded-For, and use https"
        elif not names_client:
            why = "the proxy does not say who its client is"
            hint = "Configure the proxy to set X-Forwarded-For"
        else:
            await self._by_proxy(scope, receive, send)  # type: ignore[arg-type]
            return
        body = make_failure_body("forbidden", f"The request was refused: {why}", hint)
        await JSONResponse(body, 403)(scope, receive, send)
