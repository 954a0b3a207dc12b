"""A store with six versions to collect, and what must hold of it after a gc."""

from store.check import check
from store.contract import Connection
from store.gc import Retention
from store.open_database import Database
from store.versions import list_kept_versions
from tests.fakes.dump import Rows, graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

LATER_MS = 10_000_000_000  # long after every version of a Stack
NOTHING = Retention(keep_versions=1, keep_days=0)


def text(number: int) -> bytes:
    return f"# Rome\n\nCaesar met Brutus{number}.\n\nNero burnt Rome{number} in Italy.\n".encode()


def edited(path: Database, versions: int = 6) -> Stack:
    """rome.md, edited once a version; oslo.md stays, paris.md comes at 2 and goes at 4."""
    files = MemoryConnector({"rome.md": text(1), "oslo.md": b"# Oslo\n\nHarald founded Oslo.\n"})
    stack = Stack(path, files)
    stack.sync()
    for number in range(2, versions + 1):
        files.put("rome.md", text(number))
        if number == 2:
            files.put("paris.md", b"# Paris\n\nParis met Caesar. Lutetia is Paris.\n")
        if number == 4:
            files.remove("paris.md")
        stack.sync()
    assert stack.head.id == versions
    return stack


def graphs(connection: Connection) -> dict[int, Rows]:
    """Every version that can be read."""
    return {number: graph_at(connection, number) for number in list_kept_versions(connection)}


def ids(connection: Connection, table: str) -> set[int]:
    return {row[0] for row in connection.execute(f"SELECT id FROM {table}")}


def assert_whole(connection: Connection) -> None:
    """Nothing refers to what is not there, and nothing is there that no kept version has."""
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    kept = list_kept_versions(connection)
    for table in ("document", "life", "match"):
        for born, died in connection.execute(f"SELECT born, died FROM {table}"):
            assert any(born <= number < died for number in kept), (table, born, died)
    assert check(connection, deep=True) == []
