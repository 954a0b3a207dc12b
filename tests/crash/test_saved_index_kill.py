"""A kill at any file operation while the live index is saved."""

import os
import signal
import sys
from pathlib import Path

from hopsyncd.ingest.read import identify_rules
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.version_writer import VersionWriter
from tests.fakes.dump import served_by
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack, fake_maker

FILES = {"a.md": b"# Rome\n\nCaesar ruled Rome.\n", "b.md": b"# Paris\n\nCaesar took Paris.\n"}
EVENTS = {"open", "os.remove", "os.rename", "os.mkdir"}


def test_a_kill_while_the_index_is_saved_leaves_a_correct_saved_index_or_none(
    tmp_path: Path,
) -> None:
    stack = Stack(tmp_path / "s.db", MemoryConnector(FILES))
    stack.sync()
    folder = tmp_path / "index"

    def started() -> VersionWriter:
        return VersionWriter(
            stack.connection,
            fake_maker(),
            rules=identify_rules(12),
            budget_factor=1.0,
            now_ms=lambda: 0,
            saved=SavedIndex(folder),
        )

    expected = served_by(stack.writer.make_snapshot(stack.head))
    killed = True
    at = 0
    while killed:
        at += 1
        writer = started()
        assert served_by(writer.make_snapshot(stack.head)) == expected
        child = os.fork()
        if not child:
            _die_at(at, folder)
            writer.keep_index()
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert at > 4
    stack.close()


def _die_at(number: int, folder: Path) -> None:
    """End this process at so many operations on files of the folder."""
    left = number

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in EVENTS and str(arguments[0]).startswith(str(folder)):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
