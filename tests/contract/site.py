"""A web site on a loopback port, and its harness for the contract suite."""

import gzip
import hashlib
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from connectors.protocol import Connector, Cursor, Item, Problem
from connectors.settings import WebSettings
from connectors.web.site import WebConnector
from tests.contract.harness import Trouble
from tests.fakes.port import free_port

MAX_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path answers. An ETag is made of the body unless `etag` says otherwise."""

    body: bytes = b""
    status: int = 200
    media_type: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    etag: str | None = None


def page(text: str, title: str = "A page", links: str = "") -> Answer:
    html = f"<html><head><title>{title}</title></head><body><p>{text}</p>{links}</body></html>"
    return Answer(html.encode())


def certificate_of(name: str, folder: Path) -> tuple[Path, Path]:
    """A certificate of that name, signed by itself, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", key,
         "-out", certificate],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return certificate, key


class Site:
    """Serves `answers` by path, honours ETags, and keeps the requests: path and status."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.answers: dict[str, Answer | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.all: Answer | Callable[[BaseHTTPRequestHandler], None] | None = None
        self.requests: list[tuple[str, int]] = []
        self._host = host
        self.port = free_port()  # it may be stopped, and started again
        self.start()

    def start(self) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Tests read the requests."""

        self._server = ThreadingHTTPServer((self._host, self.port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve_tls(self, certificate: Path, key: Path) -> None:
        """From now on over TLS only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def url(self, path: str = "/") -> str:
        return f"http://{self._host}:{self.port}{path}"

    def asked(self, status: int | None = None) -> list[str]:
        """The paths asked for, but for robots.txt; with a status, those that got it."""
        return [p for p, s in self.requests if p != "/robots.txt" and status in (None, s)]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        found = self.all or self.answers.get(handler.path, Answer(status=404))
        if not isinstance(found, Answer):
            self.requests.append((handler.path, 0))
            with suppress(OSError):
                found(handler)
            handler.close_connection = True
            return
        etag = found.etag
        if etag is None:
            etag = f'"{hashlib.sha256(found.body).hexdigest()[:12]}"'
        unchanged = found.status == 200 and etag and handler.headers["If-None-Match"] == etag
        status = 304 if unchanged else found.status
        self.requests.append((handler.path, status))
        with suppress(OSError):
            handler.send_response(status)
            if etag:
                handler.send_header("ETag", etag)
            handler.send_header("Content-Type", found.media_type)
            for name, value in found.headers.items():
                handler.send_header(name, value)
            body = b"" if status == 304 else found.body
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)


def sitemap(*urls: str) -> Answer:
    rows = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return Answer(f'<urlset xmlns="{space}">{rows}</urlset>'.encode(), media_type="text/xml")


def zipped(answer: Answer) -> Answer:
    return Answer(gzip.compress(answer.body), media_type="application/gzip")


@contextmanager
def serving() -> Iterator[Site]:
    site = Site()
    try:
        yield site
    finally:
        site.stop()


def web(site: Site, *starts: str, **settings: object) -> WebConnector:
    usual: dict[str, object] = {
        "start": tuple(site.url(start) for start in starts or ("/",)), "delay_s": 0.0,
        "timeout_s": 60.0, "allow_private": True, "max_bytes": MAX_BYTES,
    }  # fmt: skip
    return WebConnector(WebSettings(**{**usual, **settings}))  # type: ignore[arg-type]


def ids(connector: WebConnector, site: Site, since: str | None = None) -> list[str]:
    """The paths of the items of a listing."""
    found = connector.discover(since)
    return [f.id.removeprefix(site.url("")) for f in found if isinstance(f, Item)]


def problems(connector: WebConnector) -> list[str]:
    return [f.why for f in connector.discover(None) if isinstance(f, Problem)]


def cursor_of(connector: WebConnector) -> str:
    *_, last = connector.discover(None)
    assert isinstance(last, Cursor)
    return last.value


def link(*paths: str) -> str:
    return " ".join(f'<a href="{path}">see</a>' for path in paths)


class WebHarness:
    """Pages that a sitemap names."""

    troubles = frozenset(Trouble)
    max_bytes = MAX_BYTES
    deletes = True

    def __init__(self, _: Path) -> None:
        self._site = Site()
        self._is_stopped = False
        self._over = threading.Event()
        self._name_all()

    def connector(self) -> Connector:
        start = (self._site.url("/sitemap.xml"),)
        return WebConnector(
            WebSettings(start, max_bytes=MAX_BYTES, delay_s=0, timeout_s=5.0, allow_private=True)
        )

    def put(self, key: str, text: str) -> str:
        self._site.answers[f"/{key}"] = page(text)
        self._name_all()
        return self._site.url(f"/{key}")

    def delete(self, key: str) -> None:
        del self._site.answers[f"/{key}"]
        self._name_all()

    def begin(self, trouble: Trouble) -> None:
        self._over.clear()
        if trouble is Trouble.AWAY:
            self._is_stopped = True
            self._site.stop()
        elif trouble is Trouble.LOCKED:
            self._site.all = Answer(b"Who are you?", status=403)
        elif trouble is Trouble.GARBAGE:
            self._site.all = _talk_nonsense
        else:
            self._site.all = self._keep_waiting

    def end(self) -> None:
        self._site.all = None
        self._over.set()
        if self._is_stopped:
            self._is_stopped = False
            self._site.start()

    def close(self) -> None:
        self.end()
        self._site.stop()

    def _keep_waiting(self, _: BaseHTTPRequestHandler) -> None:
        self._over.wait(120)

    def _name_all(self) -> None:
        pages = [self._site.url(path) for path in self._site.answers if path != "/sitemap.xml"]
        self._site.answers["/sitemap.xml"] = sitemap(*pages)


def _talk_nonsense(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\xff\x00 no HTTP\r\n" * 100)
