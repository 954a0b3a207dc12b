"""After an upgrade, a newer reader reads every document again, while files are edited and the
process is killed. Every version is the graph built afresh from its documents, each read whole by
one of the two readers; the last one has no document of the older reader."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract
from hopsyncd.ingest.plan import Scope
from store.check import check
from store.records import hash_content
from tests.fakes.dump import Rows, graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack
from tests.property.fresh import MEMORY

MARK = "Only the newer reader"
Sentence = tuple[str, str]

people = st.sampled_from(("Rome", "Italy", "Nero", "Ada"))
sentences = st.lists(st.tuples(people | st.just(MARK), people), min_size=1, max_size=3)
texts = st.lists(sentences, min_size=2, max_size=5)
edits = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 5), st.none() | sentences), max_size=4
)
"""The slow step, the number of the document, and its new text, or None for a kill."""


def text_of(number: int, drawn: Sequence[Sentence]) -> bytes:
    """A text that no document with another number has."""
    lines = [f"{name} met {other}." for name, other in drawn]
    return "\n\n".join([f"File{number} saw Rome.", *lines]).encode()


def read_as_before(data: bytes, media_type: str) -> tuple[Block, ...]:
    return tuple(block for block in extract(data, media_type) if MARK not in block.text)


def built_afresh(path: Path, files: dict[str, bytes], newer: set[bytes]) -> Rows:
    """The graph of these files, of which the newer reader has read those in `newer`."""

    def read(data: bytes, media_type: str) -> tuple[Block, ...]:
        return (extract if data in newer else read_as_before)(data, media_type)

    stack = Stack(path, MemoryConnector(files), extract=read)
    stack.sync()
    rows = graph_at(stack.connection, stack.head.id)
    stack.close()
    return rows


class Killed(Exception):
    """The process ends."""


class Upgrade:
    """Files that the older reader has read, and what becomes of them.

    newer: the texts of which a version had the newer reading. checked: the newest version that was
    compared.
    """

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.folder = folder
        self.files = MemoryConnector(files)
        self.texts = {hash_content(data): data for data in files.values()}
        before = Stack(folder / "graph.db", self.files, extract=read_as_before)
        before.writer.rules = "older"
        before.sync()
        before.close()
        self.newer: set[bytes] = set()
        self.checked = self.step = 0

    def live(self, wanted: dict[int, tuple[str, bytes | None]]) -> bool:
        """Run the newer program until all is synced or it is killed; whether all is synced."""
        stack = Stack(self.folder / "graph.db", self.files, batch_documents=2)
        stack.writer.rules = "newer"
        stack.path.is_awaited = lambda: self.step % 2 == 0

        def yield_to_edits() -> None:
            self.step += 1
            path, data = wanted.pop(self.step, ("", None))
            if not path:
                return
            if data is None:
                raise Killed
            self.check(stack)
            self.texts[hash_content(data)] = data
            self.files.put(path, data)
            assert stack.preempt(path).problem is None
            self.newer.add(data)
            self.check(stack)

        stack.path.yield_to_edits = yield_to_edits
        try:
            for _ in stack.path.sync_in_turns(stack.source, Scope()):
                self.check(stack)
            self.newer.update(self.files.files.values())
            self.checked -= 1
            self.check(stack)
            assert check(stack.connection, deep=True) == []
        except Killed:
            return False
        finally:
            stack.close()
        return True

    def check(self, stack: Stack) -> None:
        """Compare the versions since the last check, and note what the newer reader has read."""
        for number in range(self.checked + 1, stack.head.id + 1):
            rows = graph_at(stack.connection, number)
            files = {path: self.texts[content] for _, path, content, *_ in rows["documents"]}
            texts = {passage: text for passage, _, text, *_ in rows["passages"]}
            self.newer |= {
                files[path] for path, _, passage, *_ in rows["placements"] if MARK in texts[passage]
            }
            fresh = self.folder / f"fresh-{number}-{self.step}.db"
            assert rows == built_afresh(fresh, files, self.newer)
        self.checked = stack.head.id


@given(texts, edits)
def test_every_version_of_an_upgrade_is_a_whole_graph(
    drawn: list[list[Sentence]], changes: list[tuple[int, int, list[Sentence] | None]]
) -> None:
    files = {f"{number}.md": text_of(number, text) for number, text in enumerate(drawn)}
    wanted = {
        step: (f"{number}.md", None if text is None else text_of(number, text))
        for step, number, text in changes
    }
    with TemporaryDirectory(dir=MEMORY) as folder:
        upgrade = Upgrade(Path(folder), files)
        while not upgrade.live(wanted):
            pass
