"""Checks the server in the configuration: its address, its certificate and the user's token."""

from collections.abc import Callable, Iterator
from http import HTTPStatus

from hopsyncd.client import Client, RequestFailed
from hopsyncd.doctor import Finding, report_ok
from hopsyncd.errors import ConfigError, DaemonUnavailable, DaemonUntrusted, SocketRefused

Connect = Callable[[], Client]


def check_server(address: str, connect: Connect) -> Iterator[Finding]:
    """Check that the server answers, has a valid certificate, and knows the user's token.

    `connect` makes a client with the user's token. One request for the status is sent.
    """
    try:
        client = connect()
    except (ConfigError, SocketRefused) as error:
        yield Finding("token", "fail", f"{error.what}: {error.why}", error.hint)
        return
    except DaemonUntrusted as error:
        yield Finding("server", "fail", f"{address}: {error.why}", error.hint)
        return
    try:
        with client:
            caller = client.status()["caller"]
    except (DaemonUntrusted, DaemonUnavailable) as error:
        yield Finding("server", "fail", f"{address}: {error.why}", error.hint)
    except RequestFailed as error:
        yield _report_reachable(address)
        if error.status == HTTPStatus.UNAUTHORIZED:
            remedy = "Ask the administrator of the server for a new token"
            yield Finding("token", "fail", "the token is unknown, revoked or expired", remedy)
        else:
            remedy = error.hint or "Ask the administrator of the server; its log has the details"
            yield Finding("token", "fail", error.why, remedy)
    else:
        yield _report_reachable(address)
        yield report_ok("token", f"you are {caller['user']}, with the role {caller['role']}")


def _report_reachable(address: str) -> Finding:
    tls = "; its certificate is valid" if address.lower().startswith("https") else ""
    return report_ok("server", f"{address} answers{tls}")
