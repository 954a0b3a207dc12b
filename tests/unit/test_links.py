"""Links between documents: which document each means, and the edges that result."""

from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from connectors.protocol import Fetched, Item
from hopsyncd.api.passages import answer_neighbours, answer_paths
from hopsyncd.api.requests import NeighboursRequest, PathsRequest
from hopsyncd.config.values import Search
from hopsyncd.ingest.plan import Scope
from hopsyncd.ingest.read import Batch
from hopsyncd.responses.results import WalkedHop
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import format_answer, format_id
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.check import check
from store.content import read_passages
from store.purge import purge, request_purge
from store.reads import list_documents, read_places
from store.records import PassageId
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

OBSIDIAN = {
    "people/Ada Lovelace.md": "---\naliases: [Countess]\ntags: [maths]\n---\n"
    "She met [[Charles Babbage|the inventor]] and read [[Engine#The mill]].\n",
    "people/Charles Babbage.md": "He designed the [engine](../Engine.md#the-store). [[nobody]]\n",
    "Engine.md": "# The analytical engine\n\nIt was never built.\n\n"
    "## The mill\n\nIt computes.\n\n## The store\n\nIt remembers.\n",
    "maths.md": "Notes of the [[countess]], not of [[Twin]].\n",
    "a/Twin.md": "One of two.\n",
    "b/Twin.md": "The other, beside [[Twin|itself]].\n",
}
LOGSEQ = {
    "pages/Ada.md": "title:: Ada Lovelace\nalias:: Countess\n\n"
    "- wrote for the [[Machines/Engine]]\n",
    "pages/Machines___Engine.md": "- described by #[[Ada Lovelace]]\n",
    "pages/What%3F.md": "- asked by [[countess]]\n",
    "journals/2026_11_01.md": "- Read [[What?]] again\n",
}
NOTION_ID = "0123456789abcdef0123456789abcdef"
NOTION = {
    f"Plan {NOTION_ID}.md": f"# Plan\n\n[Ada](Plan%20{NOTION_ID}/Ada%20{NOTION_ID[::-1]}.md)\n",
    f"Plan {NOTION_ID}/Ada {NOTION_ID[::-1]}.md": "# Ada\n\nOf the [[plan]].\n",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def linked_passages(stack: Stack) -> list[tuple[PassageId, PassageId, str]]:
    """The links of the head: from which passage to which, and what is shown."""
    head = stack.writer.make_snapshot(stack.head)
    links = head.find_links(head.passage_rows)
    return [
        (
            PassageId(int(head.passage_ids[start])),
            PassageId(int(head.passage_ids[end])),
            head.index.link_texts[link],
        )
        for start, end, link, back in zip(
            links.start, links.end, links.link_row.tolist(), links.is_backward, strict=True
        )
        if not back
    ]


def links_of(stack: Stack) -> set[tuple[str, str, str]]:
    """The links of the head as (document, what is shown, start of the passage it leads to)."""
    connection, version = stack.connection, stack.head.id
    linked = linked_passages(stack)
    ends = {end for source, target, _ in linked for end in (source, target)}
    places = read_places(connection, version, ends)
    texts = {id_: passage.text for id_, passage in read_passages(connection, ends).items()}
    return {
        (place.document, shown, texts[target].split(".")[0])
        for source, target, shown in linked
        for place in places[source]
    }


def synced(folder: Path, files: dict[str, str]) -> Stack:
    stack = Stack(folder / "s.db", FolderConnector(written(folder / "notes", files)))
    stack.sync()
    return stack


def test_links_of_an_obsidian_vault_are_resolved(tmp_path: Path) -> None:
    stack = synced(tmp_path, OBSIDIAN)
    assert links_of(stack) == {
        ("people/Ada Lovelace.md", "maths", "Notes of the countess, not of Twin"),
        ("people/Ada Lovelace.md", "the inventor", "He designed the engine"),
        ("people/Ada Lovelace.md", "Engine#The mill", "It computes"),
        ("people/Charles Babbage.md", "engine", "It remembers"),
        ("maths.md", "countess", "aliases: Countess"),
    }


def test_links_of_a_logseq_graph_are_resolved(tmp_path: Path) -> None:
    stack = synced(tmp_path, LOGSEQ)
    assert links_of(stack) == {
        ("pages/Ada.md", "Machines/Engine", "described by #Ada Lovelace"),
        ("pages/Machines___Engine.md", "Ada Lovelace", "alias:: Countess"),
        ("pages/What%3F.md", "countess", "alias:: Countess"),
        ("journals/2026_11_01.md", "What?", "asked by countess"),
    }


def test_links_of_a_notion_export_are_resolved(tmp_path: Path) -> None:
    stack = synced(tmp_path, NOTION)
    plan, ada = NOTION
    assert links_of(stack) == {(plan, "Ada", "Of the plan"), (ada, "plan", "Ada")}


def test_a_link_follows_its_target_and_is_dropped_with_it(tmp_path: Path) -> None:
    stack = synced(tmp_path, OBSIDIAN)
    notes, connector = tmp_path / "notes", stack.connector
    assert isinstance(connector, FolderConnector)

    def shown() -> set[str]:
        stack.sync()
        return {shown for document, shown, _ in links_of(stack) if "Ada" in document}

    (notes / "people/Charles Babbage.md").rename(notes / "Charles Babbage.md")
    assert "the inventor" in shown()
    (notes / "Charles Babbage.md").rename(notes / "Babbage.md")
    assert "the inventor" not in shown()
    (notes / "Babbage.md").write_text("---\naliases: Charles Babbage\n---\nHe.\n")
    assert "the inventor" in shown()
    (notes / "c").mkdir()
    (notes / "c/Engine.md").write_text("Another of the name.\n")
    assert "Engine#The mill" in shown()
    (notes / "Engine.md").rename(notes / "d.md")
    assert "Engine#The mill" in shown()
    (notes / "c/Engine.md").unlink()
    assert "Engine#The mill" not in shown()
    made = len(stack.made)
    (notes / "d.md").rename(notes / "Engine.md")
    assert shown() == {"the inventor", "Engine#The mill", "maths"}
    assert len(stack.made) == made


def test_links_are_restored_with_their_documents(tmp_path: Path) -> None:
    stack = synced(tmp_path, OBSIDIAN)
    was, documents = links_of(stack), list_documents(stack.connection, 1, stack.source.id)
    (tmp_path / "notes/people/Ada Lovelace.md").write_text("Nothing.\n")
    (tmp_path / "notes/maths.md").unlink()
    stack.sync()
    assert links_of(stack) < was
    stack.restore(1)
    assert links_of(stack) == was
    assert list_documents(stack.connection, stack.head.id, stack.source.id) == documents


def test_an_answer_hops_over_a_link_and_back(tmp_path: Path) -> None:
    files = {
        "Zorn.md": "the keeper lives with [[quill|her brother]]\n",
        "quill.md": "he repairs clocks\n",
        **{f"{n}.md": f"nothing of note, number {n}\n" for n in range(9)},
    }
    stack = synced(tmp_path, files)
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings(by_links=0.9))
    engine.publish(stack.writer.make_snapshot(stack.head))

    def hop_to(document: str, question: str) -> WalkedHop:
        search = Search()
        answer = format_answer(engine.query(question, 11, search), search)
        return next(p for p in answer["passages"] if p["document"] == document)["hops"][-1]

    over = hop_to("quill.md", "What does the keeper who lives with her brother do?")
    assert (over["asked_by"], over["question"]) == ("link", "See her brother.")
    assert over["from"]["document"] == "Zorn.md"
    back = hop_to("Zorn.md", "Who repairs clocks?")
    assert (back["asked_by"], back["question"]) == ("backlink", "See her brother.")


def test_the_graph_around_a_passage_knows_links(tmp_path: Path) -> None:
    files = {"Zorn.md": "the keeper lives with [[quill|her brother]]\n", "quill.md": "clocks\n"}
    stack = synced(tmp_path, files)
    head = stack.writer.make_snapshot(stack.head)
    ((source, target, _),) = linked_passages(stack)
    zorn, quill = format_id(source), format_id(target)
    near = answer_neighbours(stack.connection, head, NeighboursRequest(id=quill), ())
    assert [(passage["id"], passage["distance"]) for passage in near["passages"]] == [
        (quill, 0),
        (zorn, 1),
    ]
    link = {"asked_by": "link", "question": "See her brother.", "similarity": None}
    assert near["edges"] == [{"from": zorn, "to": quill, **link}]

    for start, end, asked_by in ((zorn, quill, "link"), (quill, zorn, "backlink")):
        asked = PathsRequest.model_validate({"from": start, "to": end})
        (hop,) = answer_paths(stack.connection, head, asked, ())["paths"][0]
        assert (hop["from"]["id"], hop["to"]["id"]) == (start, end)
        assert {key: hop[key] for key in link} == link | {"asked_by": asked_by}


def test_a_passage_of_several_documents_is_counted_to_the_first_by_path(tmp_path: Path) -> None:
    files = {"b.md": "# X\n\nSame.\n\n## Y\n\nOther.\n", "a.md": "# X\n\nSame.\n"}
    stack = synced(tmp_path, files)

    def homes() -> dict[str, str]:
        head = stack.writer.make_snapshot(stack.head)
        documents = head.index.documents.path_key.tolist()
        paths = dict(zip(documents, head.index.document_paths, strict=True))
        passages = [PassageId(one) for one in head.passage_ids[head.passage_rows].tolist()]
        texts = read_passages(stack.connection, passages)
        return {
            texts[passage].text: paths[home]
            for passage, home in zip(
                passages, head.get_document_keys(head.passage_rows).tolist(), strict=True
            )
        }

    assert homes() == {"Same.": "a.md", "Other.": "b.md"}
    (tmp_path / "notes/a.md").unlink()
    stack.sync()
    assert homes() == {"Same.": "b.md", "Other.": "b.md"}


def test_a_purge_takes_names_and_links_with_their_document(tmp_path: Path) -> None:
    secret = b"---\naliases: [Qzalias]\n---\nOf [her](Wxtarget.md), #Vytag.\n"
    files = MemoryConnector({"a.md": secret, "b.md": b"Nothing of note.\n"})
    stack = Stack(tmp_path / "s.db", files)
    stack.sync()

    def found() -> list[str]:
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        return [word for word in ("Qzalias", "Wxtarget", "Vytag") if word.encode() in stored]

    assert len(found()) == 3
    stack.writer.apply(Batch("purge of a.md", gone=((stack.source.id, "a.md"),)))
    assert purge(
        stack.connection, request_purge(stack.connection, stack.source.id, "a.md", 0)
    ).erased
    assert found() == []


class Replies(MemoryConnector):
    """Pages of the web, whose links the source tells apart from the text."""

    def fetch(self, item: Item) -> Fetched:
        links = ("http://x.org/b/", "http://x.org/away") if item.id == "http://x.org/a" else ()
        return Fetched(self.files[item.id], self.revisions[item.id], "text/html", "T", links)


def test_links_reported_by_a_source_belong_to_the_first_passage(tmp_path: Path) -> None:
    pages = Replies({"http://x.org/a": b"<p>Rome.", "http://x.org/b": b"<p>Oslo."})
    stack = Stack(tmp_path / "s.db", pages)
    stack.sync()
    assert links_of(stack) == {("http://x.org/a", "http://x.org/b/", "Oslo")}


def test_an_index_from_before_links_has_them_once_its_documents_are_read_again(
    tmp_path: Path,
) -> None:
    files = MemoryConnector({path: text.encode() for path, text in OBSIDIAN.items()})
    stack = Stack(tmp_path / "s.db", files)
    stack.sync()
    was, made = links_of(stack), len(stack.made)
    for statement in (
        "UPDATE document SET names = '[]'",
        "UPDATE placement SET links = '[]'",
        "DROP INDEX placement_with_links",
        "ALTER TABLE placement DROP COLUMN links",
        "ALTER TABLE document DROP COLUMN names",
        "DELETE FROM _sqlite_migrations WHERE name = '008_links'",
        "PRAGMA user_version = 7",
    ):
        stack.connection.execute(statement)
    stack.close()

    again = Stack(tmp_path / "s.db", files, stack.maker)
    assert links_of(again) == set()
    again.path.sync(again.source, Scope(afresh=True))
    assert links_of(again) == was
    assert len(again.made) == made


@pytest.mark.parametrize("column", ["document SET names", "placement SET links"])
def test_names_and_links_that_were_changed_in_the_file_are_found(
    tmp_path: Path, column: str
) -> None:
    stack = synced(tmp_path, OBSIDIAN)
    stack.connection.execute(f"UPDATE {column} = '[]'")
    assert {finding.invariant for finding in check(stack.connection, deep=True)} == {
        "a document and its occurrences have their stored digest"
    }
