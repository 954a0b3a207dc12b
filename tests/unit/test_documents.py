"""Documents in the live index: how links are resolved, also as documents come and go."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given

from hopsyncd.index.documents import NewDocument
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from store.records import Link, PassageId
from tests.fakes.dump import served_by
from tests.fakes.histories import Step, grown, histories, states
from tests.fakes.indexed import advance, document, indexed, passage, snapshot_at
from tests.fakes.triplets import triplets


def led(graph: Snapshot) -> list[tuple[int, int]]:
    """From which passage a link leads to which."""
    links = graph.find_links(graph.passage_rows)
    onwards = ~links.is_backward
    ends = (graph.passage_ids[links.start[onwards]], graph.passage_ids[links.end[onwards]])
    return sorted(zip(*(ids.tolist() for ids in ends), strict=True))


def meant(documents: Sequence[NewDocument]) -> list[int]:
    """Where the links of the first document lead, each document of one passage."""
    passages = dict.fromkeys(one for each in documents for one, _ in each.occurrences)
    return [end for _, end in led(indexed([triplets(one) for one in passages], documents))]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("Note", "x/Note.md"),
        ("note.md", "x/Note.md"),
        ("x/note", "x/Note.md"),
        ("../y/Other.md", "y/Other.md"),
        ("/y/Other.md", "y/Other.md"),
        ("C# notes", "y/C# notes.md"),
        ("C# notes#a", "y/C# notes.md"),
        ("other name", "y/Other.md"),
        ("Twice", None),
        ("x/Twice", "x/Twice.md"),
        ("z/Twice#a", "z/Twice.md"),
        ("", None),
        ("../../../etc/passwd", None),
        ("http://[", None),
    ],
)
def test_a_link_means_one_document_or_none(target: str, path: str | None) -> None:
    paths = ["x/Note.md", "y/Other.md", "y/C# notes.md", "x/Twice.md", "z/Twice.md"]
    start = "deep/down/start.md" if "wice" in target else "x/start.md"
    documents = [
        document(0, start, [0], links={0: [target]}),
        *(
            document(index, one, [index], names=("Other name",) if one == "y/Other.md" else ())
            for index, one in enumerate(paths, 1)
        ),
    ]
    assert [paths[one - 1] for one in meant(documents)] == ([path] if path else [])


def test_a_file_name_that_two_documents_have_is_not_taken_for_a_title() -> None:
    """Two files are called Twice, and one other document has that as its title."""
    documents = [
        document(0, "deep/start.md", [0], links={0: ["Twice"]}),
        document(1, "x/Twice.md", [1]),
        document(2, "z/Twice.md", [2]),
        document(3, "y/other.md", [3], names=("Twice",)),
    ]
    assert meant(documents) == []
    assert meant([documents[0], documents[3]]) == [3]


def test_names_of_one_source_come_before_those_of_others() -> None:
    mine = document(1, "1", [1], source="a", names=("id@x",))
    theirs = document(2, "2", [2], source="b", names=("id@x", "other@x"))

    def linking(source: str, target: str) -> list[int]:
        start = document(0, "0", [0], source=source, links={0: [target]})
        return meant([start, mine, theirs])

    assert linking("a", "id@x") == [1]
    assert linking("a", "other@x") == [2]
    assert linking("c", "id@x") == []


def test_a_link_leads_to_its_heading_or_else_to_the_first_passage() -> None:
    passages = [
        passage(triplets(0)),
        passage(triplets(1), headings=["Works"]),
        passage(triplets(2), headings=["Works", "Early life"]),
    ]
    for target, end in (
        ("b", 1),
        ("b#early-life", 2),
        ("b#Works#Early Life", 2),
        ("b#works", 1),
        ("b#none", 1),
    ):
        documents = [document(0, "a.md", [0], links={0: [target]}), document(1, "b.md", [1, 2])]
        assert led(indexed(passages, documents)) == [(0, end)], target
    own = [document(0, "a.md", [0, 1, 2], links={0: ["#early-life", "#none"]})]
    assert led(indexed(passages, own)) == [(0, 2)]


def test_of_several_links_to_one_passage_the_first_written_is_shown() -> None:
    links = tuple(Link("b.md", shown) for shown in ("first", "second"))
    documents = [
        NewDocument(0, "notes", "a.md", (), (), ((PassageId(0), links),)),
        document(1, "b.md", [1]),
    ]
    graph = indexed([triplets(0), triplets(1)], documents)
    (link,) = graph.find_links(np.array([0])).link_row
    assert graph.index.link_texts[link] == "first"


def test_a_passage_with_many_links_has_a_bounded_number_of_edges() -> None:
    targets = [f"{index}.md" for index in range(1, 100)]
    documents = [
        document(0, "0.md", [0], links={0: ["0.md", *targets, *targets]}),
        *(document(index, path, [index]) for index, path in enumerate(targets, 1)),
    ]
    graph = indexed([triplets(index) for index in range(100)], documents)
    assert led(graph) == [(0, index) for index in range(1, 33)]


class Vault:
    """One note that links to `Ada`, and others that come and go."""

    def __init__(self) -> None:
        self.index = LiveIndex(2)
        self.version = 1
        start = document(0, "x/start.md", [0], links={0: ["Ada"]})
        advance(self.index, 1, [triplets(index) for index in range(5)], documents=[start])

    def change(self, *come: NewDocument, gone: Sequence[int] = ()) -> list[int]:
        """Where the link leads then."""
        self.version += 1
        advance(self.index, self.version, documents=come, documents_ended=gone)
        return self.at(self.version)

    def at(self, version: int) -> list[int]:
        return [end for _, end in led(snapshot_at(self.index, version))]


def test_links_are_resolved_again_when_documents_change_and_past_versions_keep_theirs() -> None:
    vault = Vault()
    told = [
        vault.at(1),
        vault.change(document(1, "y/Ada.md", [1])),  # 2: by the name of a file
        vault.change(document(2, "z/Ada.md", [2])),  # 3: ambiguous
        vault.change(document(3, "x/Ada.md", [3])),  # 4: by its path
        vault.change(gone=[3]),
        vault.change(gone=[1]),  # 6: of those of one name one is left
        vault.change(document(4, "w.md", [4], names=("Ada",)), gone=[2]),  # 7: an alias
        vault.change(document(5, "w.md", [4, 1], names=("Ada",)), gone=[4]),  # 8: a new revision
        vault.change(document(6, "w.md", [1], names=("Ada",)), gone=[5]),  # 9: another passage
        vault.change(gone=[6]),
        vault.change(gone=[0]),
    ]
    assert told == [[], [1], [], [3], [], [2], [4], [4], [1], [], []]
    assert [vault.at(version) for version in range(1, 12)] == told


def test_a_passage_in_two_documents_has_the_links_of_both() -> None:
    documents = [
        document(0, "a.md", [0], links={0: ["c"]}),
        document(1, "b.md", [0], links={0: ["d"]}),
        document(2, "c.md", [2]),
        document(3, "d.md", [3]),
    ]
    graph = indexed([triplets(0), triplets(2), triplets(3)], documents)
    assert led(graph) == [(0, 2), (0, 3)]
    advance(graph.index, 2, documents_ended=[1])
    assert led(snapshot_at(graph.index, 2)) == [(0, 2)]
    assert led(snapshot_at(graph.index, 1)) == [(0, 2), (0, 3)]


@given(history=histories)
def test_updated_links_and_names_equal_those_of_a_fresh_index(
    history: Sequence[Step],
) -> None:
    found = states(history)
    index, last = grown(found), len(found)
    assert served_by(snapshot_at(index, last)) == served_by(snapshot_at(grown(found[-1:]), 1))
