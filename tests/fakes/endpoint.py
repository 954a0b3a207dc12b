"""A small HTTP server that plays an OpenAI-compatible endpoint as a test scripts it.

    def play(request: dict[str, Any]) -> Response:
        return say(f"you asked: {user_text(request)}")

    with Endpoint(play) as endpoint:
        config = LlmConfig(base_url=endpoint.base_url, model="fake")
        ...
        assert len(endpoint.requests) == 1

`play` gets the body of each POST to /v1/chat/completions or /v1/embeddings, from several threads at
a time. For a fixed sequence: `Endpoint(in_turn(error(503), say_json({"questions": []})))`.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

PATHS = ("/v1/chat/completions", "/v1/embeddings", "/v1/rerank")
Play = Callable[[dict[str, Any]], "Response"]


@dataclass(frozen=True, slots=True)
class Response:
    """What the server sends.

    delay_s: before anything is sent. send_bytes: only so much of the body is sent, then the
    connection ends. drip_s: between single bytes of the body. whole: the bytes of the whole HTTP
    response, in place of all else; empty bytes drop the connection. parts: in place of the body,
    sent one after the other as they are made.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    send_bytes: int | None = None
    drip_s: float = 0.0
    whole: bytes | None = None
    parts: Iterable[bytes] | None = None


def say(
    text: str | None,
    *,
    finish_reason: str = "stop",
    refusal: str | None = None,
    prompt_tokens: int = 100,
    completion_tokens: int = 20,
    delay_s: float = 0.0,
) -> Response:
    """A completion with that text."""
    completion = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": text, "refusal": refusal},
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }
    return Response(json.dumps(completion).encode(), delay_s=delay_s)


def say_json(reply: object) -> Response:
    """A completion whose text is that object as JSON."""
    return say(json.dumps(reply))


def stream(
    texts: Iterable[str], *, finish_reason: str | None = "stop", usage: bool = True
) -> Response:
    """A completion that is sent text by text, as they come; once, if they are an iterator.

    Without a `finish_reason` it breaks off.
    """

    def parts() -> Iterator[bytes]:
        for text in texts:
            yield event({"choices": [{"index": 0, "delta": {"content": text}}]})
        if finish_reason:
            yield event({"choices": [{"delta": {}, "finish_reason": finish_reason}]})
            if usage:
                counted = {"prompt_tokens": 100, "completion_tokens": 20}
                yield event({"choices": [], "usage": counted})
            yield b"data: [DONE]\n\n"

    return Response(parts=parts())


def event(chunk: object) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def error(status: int, message: str = "no", **headers: str) -> Response:
    """An error as OpenAI words it; `retry_after="3"` becomes the header retry-after."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": None}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body.encode(), status, named)


def drop() -> Response:
    """The connection ends without a byte."""
    return Response(whole=b"")


def in_turn(*responses: Response) -> Play:
    """One after the other, whatever is asked; the last one again and again."""
    lock = threading.Lock()
    left = list(responses)

    def play(_: dict[str, Any]) -> Response:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return play


def user_text(request: dict[str, Any]) -> str:
    """The text of the last user message."""
    texts = [m["content"] for m in request["messages"] if m["role"] == "user"]
    return str(texts[-1])


class Endpoint:
    """Serves between `with` and its end; remembers the body and the headers of each request.

    `left` counts the clients that went away before they had the whole response.
    `play` may be replaced while it serves. port: 0 takes any that is free.
    """

    def __init__(self, play: Play, port: int = 0) -> None:
        self.play = play
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self.left = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="endpoint", daemon=True
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, body: bytes, headers: Iterable[tuple[str, str]]) -> Response:
        """Record a request and play the response to it."""
        request = json.loads(body)
        with self._lock:
            self.requests.append(request)
            self.headers.append({name.lower(): value for name, value in headers})
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            response = self.play(request)
            time.sleep(response.delay_s)
        finally:
            with self._lock:
                self._at_once -= 1
        return response

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle is no news."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    block_on_close = False
    request_queue_size = 128


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path not in PATHS:
                self._send(error(404, f"no such path: {self.path}"))
                return
            try:
                self._send(endpoint.answer(body, self.headers.items()))
            except (BrokenPipeError, ConnectionResetError):
                endpoint.left += 1
                self.close_connection = True

        def _send(self, response: Response) -> None:
            if response.whole is not None:
                self.wfile.write(response.whole)
                self.close_connection = True
                return
            self.send_response(response.status)
            kind = "text/event-stream" if response.parts is not None else "application/json"
            for name, value in {"content-type": kind, **response.headers}.items():
                self.send_header(name, value)
            if response.parts is not None:
                self._send_parts(response.parts)
                return
            if "transfer-encoding" not in response.headers:
                self.send_header("content-length", str(len(response.body)))
            self.end_headers()
            sent = response.body[: response.send_bytes]
            if response.drip_s:
                for byte in sent:
                    self.wfile.write(bytes([byte]))
                    time.sleep(response.drip_s)
            else:
                self.wfile.write(sent)
            if response.send_bytes is not None:
                self.close_connection = True

        def _send_parts(self, parts: Iterable[bytes]) -> None:
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for part in parts:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            """Requests are recorded, not printed."""

    return Handler
