"""The live index as arrays."""

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given

from hopsyncd.index.documents import NewDocument, change_documents
from hopsyncd.index.frozen_index import freeze
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.models.questions import BuiltinMaker
from store.records import Link, PassageId
from tests.fakes.dump import served_by
from tests.fakes.histories import Step, grown, histories, questions_of, states
from tests.fakes.indexed import advance, document, snapshot_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack


def copied(index: LiveIndex) -> LiveIndex:
    """Another index of the same arrays."""
    copy, vectors = LiveIndex(index.vectors.dimensions), index.vectors
    codes, remainders = vectors.codes.copy(), vectors.remainders.copy()
    whole, outliers = vectors.passage_codes.copy(), vectors.outliers
    copy.vectors.replace(codes, remainders, len(vectors), whole, len(whole), outliers)
    columns = {name: column.copy() for name, column in freeze(index).list_columns()}
    copy.replace_columns(columns, {name: len(column) for name, column in columns.items()})
    for texts in ("name_texts", "sources", "document_paths", "link_texts"):
        getattr(copy, texts).extend(getattr(index, texts))
    return copy


@given(history=histories)
def test_an_index_from_copied_arrays_behaves_like_the_original(history: Sequence[Step]) -> None:
    index, last = grown(states(history)), len(history)
    copy = copied(index)
    for version in range(1, last + 1):
        assert served_by(snapshot_at(copy, version)) == served_by(snapshot_at(index, version))
    for one in (index, copy):
        there = one.passages.passage_id[one.is_vertex].tolist()
        advance(
            one,
            last + 1,
            [] if 0 in there else [questions_of(0, False)],
            there[1:2],
            [document(999, "z.md", [0], called=("rome",), links={0: ["a", "b.md"]})],
            [*one.document_row_of_id][:1],
        )
    now = snapshot_at(index, last + 1)
    assert served_by(snapshot_at(copy, last + 1)) == served_by(now)


def test_links_survive_a_change_of_encoder(tmp_path: Path) -> None:
    far = b"# B\n\nRome.\n\n# Far\n\nParis is far.\n"
    files = MemoryConnector({"a.md": b"See [it](b.md#far).\n", "b.md": far})
    stack = Stack(tmp_path / "s.db", files)
    stack.sync()
    stack.close()
    again = Stack(tmp_path / "s.db", files, BuiltinMaker(FakeLanguage(), FakeEncoder(24)))
    assert again.writer.renew() is not None
    switched = served_by(again.writer.make_snapshot(again.head))
    again.writer.forget_index()
    assert switched == served_by(again.writer.make_snapshot(again.head))
    again.close()


def _placed(
    links: Sequence[Link], *passages: int
) -> tuple[tuple[PassageId, tuple[Link, ...]], ...]:
    """The passages in order; the links stand in the first."""
    return tuple(
        (PassageId(one), () if number else tuple(links)) for number, one in enumerate(passages)
    )


def test_documents_added_together_equal_documents_added_one_by_one() -> None:
    link = Link("b.md#Tides", "the tides")
    documents = [
        NewDocument(1, "notes", "a.md", (), ("a", "diary"), _placed([link], 10, 11, 10)),
        NewDocument(
            2, "notes", "b.md", ("Sea",), (), _placed([link, link], 12), 5, 6, (("tag", "x"),)
        ),
        NewDocument(3, "mail", "a.md", (), ("diary",), (), properties=(("tag", "x"), ("to", "y"))),
    ]
    together, alone = LiveIndex(2), LiveIndex(2)
    change_documents(together, 1, [], documents)
    for one in documents:
        change_documents(alone, 1, [], [one])
    columns = dict(freeze(together).list_columns())
    assert columns.keys() == dict(freeze(alone).list_columns()).keys()
    edges = {name for name in columns if name.startswith("link_edges")}
    for name in columns.keys() - edges:  # a link that led nowhere at first gets its edge later
        assert columns[name].tolist() == dict(freeze(alone).list_columns())[name].tolist(), name
    for name in (
        "sources",
        "document_paths",
        "link_texts",
        "name_texts",
        "properties",
        "document_row_of_id",
    ):
        assert getattr(together, name) == getattr(alone, name)
    assert len(together.links) == 3
