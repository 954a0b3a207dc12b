"""MCP over HTTP on a loopback address, for agents that hold the token."""

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from hopsyncd.api.access import AUDIT_NAME, Access, AuditLog, Guard
from hopsyncd.api.server import bound_address, end_at_signals, token_in
from hopsyncd.client.trust import UNKNOWN
from hopsyncd.config.configuration import Config

PATH = "/mcp"
TOKEN_NAME = "mcp_token"  # in the data_dir; the daemon's own would let an agent do everything
_MAX_CONNECTIONS = 64
_MAX_SESSIONS = 100
_STOP_REQUESTS_S = 2


class HttpServer:
    """An MCP server bound to an address; every request passes the guard of the daemon's API.

    So a browser, another host name and whoever lacks the token are refused before MCP sees them.
    """

    def __init__(self, server: MCPServer[object], config: Config, address: str) -> None:
        token = token_in(config.daemon.data_dir / TOKEN_NAME)
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_sessions=_MAX_SESSIONS,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        audit = AuditLog(config.daemon.data_dir / AUDIT_NAME)
        guard = Guard(app, Access(lambda: config, ()), audit, token)
        self._listener = bound_address(address, "Give --http another port")
        self.address = f"http://{address}{PATH}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                _by_token(app, guard),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=_STOP_REQUESTS_S,
            )
        )
        end_at_signals(self._server)

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        self._server.run(sockets=[self._listener])


def _by_token(app: ASGIApp, guard: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["type"] == "http":
            # Over TCP nobody knows whose process asks: the token says it.
            scope.setdefault("state", {})["credentials"] = UNKNOWN
            await guard(scope, receive, send)

    return answer
