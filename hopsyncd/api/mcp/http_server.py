"""MCP over HTTP on a loopback address, for agents that hold the token."""

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from hopsyncd.api.access import AUDIT_NAME, Access, AuditLog, Guard
from hopsyncd.api.server import bound_address, loopback_server, token_in
from hopsyncd.config.configuration import Config

PATH = "/mcp"
TOKEN_NAME = "mcp_token"  # in the data_dir; the daemon's own would let an agent do everything
_MAX_SESSIONS = 100


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
        self._server = loopback_server(guard, config.limits, lifespan=True)

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        self._server.run(sockets=[self._listener])
