"""How long a health check waits during an attack with inputs that are made to be slow.

Each input gets a new daemon with small models. The health is asked every 20 ms, from before the
input is sent until it is processed. Then a note is edited, and the time until the edit is
searchable is measured.

python benchmarks/hostile.py              # all inputs
python benchmarks/hostile.py --only mail  # inputs whose name contains a word

To measure another state of hopsyncd, copy this file into its `benchmarks`.
"""

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from common import arguments, table

from tests.e2e.daemon import SMALL, Place, new_place
from tests.fakes.port import free_port

_POLL_S = 0.02
_LEAST_S = 3.0  # of polling, for the percentiles
_PATIENCE_S = 60.0
_KIB = 1024
_HEALTH = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
_OK_MAIL = (
    "From a@b Thu Jan  1 00:00:00 2026\nFrom: a@b\nSubject: fine\nMessage-ID: <o@y>\n\nTea.\n\n"
)
_ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"


@dataclass
class World:
    """A daemon with a source of each kind, and the port of its page."""

    place: Place
    port: int

    @property
    def box(self) -> Path:
        return self.place.base / "box.mbox"

    @property
    def rows(self) -> Path:
        return self.place.base / "rows.db"


@dataclass(frozen=True)
class Input:
    """An input. `act` sends the input and returns the outcome. Sizes are in bytes."""

    size: int
    act: Callable[[World], str]


@dataclass
class Health:
    """Requests the health on a separate thread, and records the duration of each answer."""

    path: Path
    took_s: list[float] = field(default_factory=list)
    failures: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Health":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(2 * _PATIENCE_S)

    def _run(self) -> None:
        while not self._ended.wait(_POLL_S):
            began_s = time.monotonic()
            try:
                self.failures += not exchanged(self.path, _HEALTH).startswith(b"HTTP/1.1 200")
            except OSError:
                self.failures += 1
            self.took_s.append(time.monotonic() - began_s)

    def share(self, part: float) -> float:
        ordered = sorted(self.took_s)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def exchanged(where: Path | int, request: bytes) -> bytes:
    """Send a request over the socket or to a local port, and return the answer."""
    family = socket.AF_UNIX if isinstance(where, Path) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(_PATIENCE_S)
        client.connect(str(where) if isinstance(where, Path) else ("127.0.0.1", where))
        got = bytearray()
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(request)
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 16):
                got += part
        return bytes(got)


def asked(request: Callable[[World], tuple[Path | int, bytes]]) -> Callable[[World], str]:
    """Make a function that repeats the request for a while and returns the statuses."""

    def act(world: World) -> str:
        end_s, statuses, count = time.monotonic() + _LEAST_S, set[str](), 0
        while time.monotonic() < end_s:
            statuses.add(exchanged(*request(world))[9:12].decode() or "closed")
            count += 1
        return f"{', '.join(sorted(statuses))}; {count / _LEAST_S:.0f} a second"

    return act


def cookie(unit: str) -> Input:
    value = unit * (15_500 // len(unit))

    def request(world: World) -> tuple[Path | int, bytes]:
        host = f"127.0.0.1:{world.port}"
        head = f'GET /x HTTP/1.1\r\nHost: {host}\r\nCookie: hopsyncd="{value}"\r\n'
        return world.port, f"{head}Connection: close\r\n\r\n".encode()

    return Input(len(value), asked(request))


def query(text: str) -> Input:
    return posted("/v1/query", json.dumps({"question": text}).encode())


def posted(path: str, body: bytes) -> Input:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    whole = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    return Input(len(body), asked(lambda world: (world.place.socket, whole)))


def got(path: str) -> Input:
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    return Input(len(path), asked(lambda world: (world.place.socket, request)))


def synced(write: Callable[[World], object], name: str) -> Callable[[World], str]:
    """Make a function that writes the input, syncs, and returns the state of the source."""

    def act(world: World) -> str:
        write(world)
        body = json.dumps({"sources": [name]}).encode()
        head = f"POST /v1/sync HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        try:
            exchanged(world.place.socket, f"{head}connection: close\r\n\r\n".encode() + body)
        except TimeoutError:
            return f"not dealt with in {_PATIENCE_S:.0f} s"
        status = world.place.status()
        source = next(source for source in status["sources"] if source["name"] == name)
        problem = source["problem"] or next((problem["why"] for problem in status["problems"]), "")
        return problem.splitlines()[0][:90] if problem else "indexed"

    return act


def mail(field_name: str, unit: str, kib: int = 240) -> Input:
    text = unit * (kib * _KIB // len(unit))
    whole = f"{_OK_MAIL}From c@d Thu Jan  1 00:00:01 2026\n{field_name}: {text}\n\nHello.\n"
    return Input(len(whole), synced(lambda world: world.box.write_text(whole), "box"))


def file(name: str, text: str) -> Input:
    return Input(len(text.encode()), synced(lambda w: w.place.write(name, text), "notes"))


def view(select: str) -> Input:
    def write(world: World) -> None:
        with closing(sqlite3.connect(world.rows)) as database, database:
            database.executescript(f"DROP TABLE page; CREATE VIEW page AS {select}")

    return Input(len(select), synced(write, "rows"))


def repeated(unit: str, size: int) -> str:
    return unit * (size // len(unit))


INPUTS: Mapping[str, Input] = {
    "cookie of escaped letters": cookie("\\a"),
    "cookie of backslashes": cookie("\\"),
    "query of filters": query(repeated("source:a ", 9_999)),
    "query of brackets": query(repeated("[a: ", 9_999)),
    "query of one word": query("a" * 9_999),
    "query of marks": query(repeated("e\u0301", 9_999)),
    "body of nested brackets": posted("/v1/query", b"[" * 1_000_000),
    "number in JSON": posted("/v1/query", b'{"question":"a","k":' + b"9" * 5_000 + b"}"),
    "number in an address": got(f"/v1/log?before={'9' * 5_000}"),
    "version of digits": got(f"/v1/log?at={'9' * 5_000}"),
    "mail, openings of encoded words": mail("Subject", "=?a?q? "),
    "mail, sender of openings": mail("From", "=?a?q? "),
    "mail, references": mail("References", "<a"),
    "mail, date of digits": mail("Date", "1"),
    "ignore file, one pattern": file(".gitignore", repeated("q\n", 1 << 20)),
    "ignore file, 100,000 patterns": file(
        "other/.gitignore", "".join(f"*q{number}\n" for number in range(100_000))
    ),
    "ignore file, one line of stars": file("other/.gitignore", repeated("*a", 1 << 19)),
    "SQLite, no row for ever": view(f"{_ENDLESS} SELECT i AS id, 'x' AS body FROM r WHERE i < 0"),
    "SQLite, rows for ever": view(f"{_ENDLESS} SELECT i AS id, 'x' || i AS body FROM r"),
    "SQLite, a value of 900 MB": view("SELECT 1 AS id, hex(zeroblob(450000000)) AS body"),
    "Markdown, brackets": file("a.md", repeated("[", 1 << 20)),
    "Markdown, emphasis": file("a.md", repeated("*a **b ", 1 << 20)),
    "Markdown, front matter": file("a.md", f"---\na: {repeated('[', 1 << 20)}\n---\nb\n"),
    "HTML, open tags": file("a.html", repeated("<div><a b='", 1 << 20)),
    "text, one word": file("a.txt", "a" * (1 << 20)),
    "text, marks": file("a.txt", repeated("e\u0301", 1 << 20)),
    "text, short paragraphs": file("a.txt", repeated("a\n\n", 700_000)),
    "HTML, short paragraphs": file("a.html", repeated("<p>a", 1 << 20)),
    "CSV, short rows": file("a.csv", "a,b\n" + repeated("x,y\n", 900_000)),
    "heading of parentheses": file("a.md", f"# {repeated('(', 1 << 20)}\n\nb\n"),
}


def measured(name: str, given: Input) -> tuple[object, ...]:
    with new_place(SMALL) as place:
        world = World(place, free_port())
        for number in range(50):
            place.write(f"d{number}.md", f"# D{number}\n\nText {number}.\n")
        world.box.write_text(_OK_MAIL)
        with closing(sqlite3.connect(world.rows)) as database, database:
            database.execute("CREATE TABLE page (id INTEGER PRIMARY KEY, body TEXT)")
            database.execute("INSERT INTO page VALUES (1, 'Ada wrote notes.')")
        place.configure(
            f'[web]\nlisten = "127.0.0.1:{world.port}"\n'
            f'[[source]]\nname = "notes"\npath = "{place.notes}"\n'
            f'[[source]]\nname = "box"\nkind = "mbox"\npath = "{world.box}"\n'
            f'[[source]]\nname = "rows"\nkind = "sqlite"\npath = "{world.rows}"\n'
            'table = "page"\nkey = "id"\ntext = ["body"]\n'
        )
        place.start()
        place.sync()
        with Health(place.socket) as health:
            began_s = time.monotonic()
            outcome = given.act(world)
            took_s = time.monotonic() - began_s
            time.sleep(max(0.0, _LEAST_S - took_s))
            edit = _edit_s(place)
        if health.failures:
            outcome += f"; {health.failures} health checks failed"
        shares = (round(health.share(part) * 1000) for part in (0.5, 0.99, 1.0))
        return name, given.size, *shares, round(took_s, 1), edit, outcome


def _edit_s(place: Place) -> str:
    """The seconds until a new note that is unrelated to the input is searchable."""
    began_s = time.monotonic()
    place.write("sub/new.md", "# New\n\nZanzibar has cloves.\n")
    while time.monotonic() - began_s < _PATIENCE_S:
        with suppress(AssertionError, OSError):
            if "sub/new.md" in place.documents("Zanzibar cloves"):
                return f"{time.monotonic() - began_s:.1f}"
        time.sleep(0.05)
    return "not seen"


def main() -> None:
    given = arguments(__doc__ or "", ("--only", {"default": ""}))
    rows = []
    for name, one in INPUTS.items():
        if given.only in name:
            rows.append(measured(name, one))
            print(*rows[-1], sep="  ", flush=True)
    columns = ("input", "bytes", "health p50 ms", "p99 ms", "max ms", "dealt with, s", "edit, s")
    table((*columns, "outcome"), rows)


if __name__ == "__main__":
    main()
