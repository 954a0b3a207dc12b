"""A thin client of the daemon's socket."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from hopsyncd.errors import DaemonUnavailable, HopsyncdError

_CONNECT_S = 5.0


class RequestFailed(HopsyncdError):
    """The daemon answered with an error; `status` is the HTTP status, `code` the daemon's word."""

    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__("The daemon refused", message, hint)
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return f"{self.why}. {self.hint}" if self.hint else self.why


class Client:
    """Speaks to the daemon that serves at `socket`. Use as a context manager, or call close()."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._http = httpx.Client(
            # Without verify=False all root certificates are loaded, for a socket that needs none.
            transport=httpx.HTTPTransport(uds=str(socket), verify=False),
            base_url="http://hopsyncd",
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def get(self, path: str) -> dict[str, Any]:
        """GET a path such as /v1/status. Raises DaemonUnavailable or RequestFailed."""
        return self._send("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST a JSON object. Raises DaemonUnavailable or RequestFailed."""
        return self._send("POST", path, body)

    def delete(self, path: str) -> dict[str, Any]:
        """DELETE a path. Raises DaemonUnavailable or RequestFailed."""
        return self._send("DELETE", path, None)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise DaemonUnavailable(
                f"No daemon answers at {self._socket}",
                _reason(error),
                "Start one with `hopsyncd serve`",
            ) from error
        try:
            answer: dict[str, Any] = response.json()
        except ValueError as error:
            raise DaemonUnavailable(
                f"No whole answer came from {self._socket}",
                f"status {response.status_code}, and no JSON: the daemon may be stopping",
                "Ask again, or check that a hopsyncd daemon serves there",
            ) from error
        if response.is_success:
            return answer
        problem = answer.get("error", {})
        raise RequestFailed(
            response.status_code,
            str(problem.get("code", "unknown")),
            str(problem.get("message", response.reason_phrase)),
            str(problem.get("hint", "")),
        )


def _reason(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectError):
        return "nothing listens on that socket"
    return f"the connection broke ({type(error).__name__})"
