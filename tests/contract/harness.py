"""What the contract suite needs of a kind of source: a small world that a test changes and breaks.

A kind joins the suite with a class like those at the end, and a line in test_connectors.py.
"""

import json
import os
import re
import shutil
import sqlite3
from enum import Enum, auto
from pathlib import Path
from typing import Any, Protocol

from connectors.folder import FolderConnector
from connectors.protocol import Connector, SourceUnavailable
from connectors.settings import FileSettings
from connectors.sqlite_rows import SqliteConnector, SqliteSettings
from tests.fakes.memory import MemoryConnector


class Trouble(Enum):
    """What can befall a source. Each must end as a paused source or a told Problem, data kept."""

    AWAY = auto()  # it cannot be reached: unmounted, no network
    LOCKED = auto()  # it is there and does not let us in: credentials expired, no rights
    GARBAGE = auto()  # it answers nonsense
    SLOW = auto()  # it answers after two minutes at best: the connector must give up before


class Harness(Protocol):
    """One source with a connector on it. Keys are like `a` or `b/c`: letters, digits and `/`.

    `troubles` are those that `begin` can bring about, `max_bytes` is the connector's limit and
    `deletes` whether an item that is gone from the source is a document that is gone.
    """

    troubles: frozenset[Trouble]
    max_bytes: int
    deletes: bool

    def connector(self) -> Connector:
        """A new connector on the source, as after a restart. The suite closes it."""
        ...

    def put(self, key: str, text: str) -> str:
        """Create or change the item of that key, at once visible; returns its id."""
        ...

    def delete(self, key: str) -> None:
        """Take the item of that key away."""
        ...

    def begin(self, trouble: Trouble) -> None:
        """From now on the source has this trouble."""
        ...

    def end(self) -> None:
        """The trouble is over, and the source as it was before."""
        ...

    def close(self) -> None:
        """Stop and remove what was started."""
        ...


class MemoryHarness:
    """The fake that the other tests use, with cursors: it keeps the contract too."""

    troubles = frozenset({Trouble.AWAY, Trouble.LOCKED})
    max_bytes = 100_000
    deletes = True

    def __init__(self, _: Path) -> None:
        self._connector = MemoryConnector(max_bytes=self.max_bytes, cursors=True)

    def connector(self) -> Connector:
        return self._connector

    def put(self, key: str, text: str) -> str:
        self._connector.put(f"{key}.md", text.encode())
        return f"{key}.md"

    def delete(self, key: str) -> None:
        self._connector.remove(f"{key}.md")

    def begin(self, trouble: Trouble) -> None:
        if trouble is Trouble.AWAY:
            self._connector.available = False
        else:
            self._connector.locked = SourceUnavailable(
                "Cannot read the source", "the key has expired", "Give it a new one"
            )

    def end(self) -> None:
        self._connector.available, self._connector.locked = True, None

    def close(self) -> None:
        """Nothing was started."""


class FolderHarness:
    troubles = frozenset(
        {Trouble.AWAY, Trouble.GARBAGE} | ({Trouble.LOCKED} if os.getuid() else set())
    )
    max_bytes = 100_000
    deletes = True

    def __init__(self, base: Path) -> None:
        self._root, self._aside = base / "notes", base / "aside"
        self._root.mkdir()

    def connector(self) -> Connector:
        return FolderConnector(self._root, FileSettings(max_bytes=self.max_bytes))

    def put(self, key: str, text: str) -> str:
        path = self._root / f"{key}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return f"{key}.md"

    def delete(self, key: str) -> None:
        (self._root / f"{key}.md").unlink()

    def begin(self, trouble: Trouble) -> None:
        if trouble is Trouble.LOCKED:
            self._root.chmod(0)
            return
        self._root.rename(self._aside)
        if trouble is Trouble.GARBAGE:
            self._root.write_bytes(b"\xff\x00")

    def end(self) -> None:
        if self._aside.exists():
            self._root.unlink(missing_ok=True)
            self._aside.rename(self._root)
        self._root.chmod(0o700)

    def close(self) -> None:
        self.end()


class SqliteHarness:
    """A database that another connection keeps open and writes to."""

    troubles = frozenset({Trouble.AWAY, Trouble.GARBAGE, Trouble.SLOW})
    max_bytes = 100_000
    deletes = True

    def __init__(self, base: Path) -> None:
        self._path, self._aside = base / "app.db", base / "aside.db"
        self._writer = sqlite3.connect(self._path, isolation_level=None)
        self._writer.execute("CREATE TABLE page (id TEXT PRIMARY KEY, title TEXT, body TEXT)")

    def connector(self) -> Connector:
        settings = SqliteSettings(
            self._path, "id", ("body",), self.max_bytes, table="page", title="title"
        )
        return SqliteConnector(settings, busy_s=0.2)

    def put(self, key: str, text: str) -> str:
        self._writer.execute("INSERT OR REPLACE INTO page VALUES (?, ?, ?)", [key, key, text])
        return key

    def delete(self, key: str) -> None:
        self._writer.execute("DELETE FROM page WHERE id = ?", [key])

    def begin(self, trouble: Trouble) -> None:
        if trouble is Trouble.SLOW:
            self._writer.execute("BEGIN EXCLUSIVE")
            return
        self._path.rename(self._aside)
        if trouble is Trouble.GARBAGE:
            self._path.write_bytes(b"\xffnot a database" * 1000)

    def end(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
        if self._aside.exists():
            shutil.move(self._aside, self._path)

    def close(self) -> None:
        self.end()
        self._writer.close()


class DocumentedHarness:
    """The example of docs/reference/connectors.md, as it stands there."""

    troubles = frozenset({Trouble.AWAY, Trouble.GARBAGE})
    max_bytes = 100_000
    deletes = True

    def __init__(self, base: Path) -> None:
        self._path, self._aside = base / "notes.jsonl", base / "aside"
        self._notes: dict[str, str] = {}
        page = Path(__file__).parents[2] / "docs/reference/connectors.md"
        (code,) = re.findall(r"(?s)```python\n(.*?)```", page.read_text(encoding="utf-8"))
        names: dict[str, Any] = {}
        exec(compile(code, str(page), "exec"), names)
        self._make = names["connector"]
        self._write()

    def connector(self) -> Connector:
        made: Connector = self._make({"path": str(self._path), "max_bytes": self.max_bytes})
        return made

    def put(self, key: str, text: str) -> str:
        self._notes[key] = text
        self._write()
        return key

    def delete(self, key: str) -> None:
        del self._notes[key]
        self._write()

    def begin(self, trouble: Trouble) -> None:
        self._path.rename(self._aside)
        if trouble is Trouble.GARBAGE:
            self._path.write_bytes(b"\xff{no json")

    def end(self) -> None:
        if self._aside.exists():
            self._aside.replace(self._path)

    def close(self) -> None:
        """Nothing was started."""

    def _write(self) -> None:
        lines = [json.dumps({"id": id_, "text": text}) for id_, text in self._notes.items()]
        self._path.write_text("\n".join(lines))
