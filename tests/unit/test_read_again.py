"""Documents that an older reader had read are read again, unseen by those who ask."""

from pathlib import Path

from connectors.folder import FolderConnector
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.readers import extract
from hopsyncd.ingest.read import CHUNKER
from tests.fakes.stack import Stack

TEXTS = {
    "crane.md": "# Crane\n\nThe crane on quay four lifts twelve tons.\n",
    "dues.md": "# Dues\n\nA night in the harbour costs ninety kroner.\n",
    "tides.md": "# Tides\n\nThe tide turns at noon on Sunday.\n",
}


def read_without_tides(data: bytes, media_type: str) -> tuple[Block, ...]:
    """As an older reader, which lost what the newer one reads of one document."""
    blocks = extract(data, media_type)
    return tuple(block for block in blocks if "tide turns" not in block.text)


def served(stack: Stack) -> set[str]:
    """The texts of the passages that the newest version has."""
    rows = stack.connection.execute(
        "SELECT p.text FROM life AS l JOIN passage AS p ON p.id = l.passage"
        " WHERE l.born <= ?1 AND ?1 < l.died",
        (stack.head.id,),
    )
    return {text for (text,) in rows}


def test_an_older_reading_is_served_until_the_new_one_is_whole(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name, text in TEXTS.items():
        (notes / name).write_text(text)
    stack = Stack(tmp_path / "s.db", FolderConnector(notes), extract=read_without_tides)
    stack.sync()
    old, version = served(stack), stack.head.id
    rules = stack.writer.rules.replace(CHUNKER, "chunk/0")
    stack.connection.execute("UPDATE source_state SET rules = ?1", (rules,))
    stack.close()
    during: list[tuple[int, set[str]]] = []

    def read(data: bytes, media_type: str) -> tuple[Block, ...]:
        during.append((stack.head.id, served(stack)))
        return extract(data, media_type)

    stack = Stack(tmp_path / "s.db", FolderConnector(notes), batch_documents=1, extract=read)
    assert stack.path.is_behind(stack.source)
    stack.sync()
    new = served(stack)
    assert during == [(version, old)] * len(TEXTS)
    assert new - old == {"The tide turns at noon on Sunday."}
    assert len(stack.made) == 1  # of the passages that stay, no question is made again
    assert not stack.path.is_behind(stack.source)
    stack.close()
