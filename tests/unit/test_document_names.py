"""Document names: they lead to notes that do not contain them."""

from pathlib import Path

import numpy as np

from hopsyncd.config.values import Search
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import MAX_NAMED_PASSAGES, find_named_passages
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_context import find_names
from hopsyncd.retrieve.results import format_answer
from hopsyncd.retrieve.walk import compute_seeds
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.content import read_passages
from store.history import resolve
from store.records import PassageId
from tests.fakes.dump import served_by
from tests.fakes.indexed import asked, snapshot_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

OTHERS = {f"{n}.md": f"nothing of note, number {n}\n" for n in range(9)}


class Notes:
    """Notes in memory and their index."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.connector = MemoryConnector()
        self.stack = Stack(folder / "s.db", self.connector)
        self.write(files)

    def write(self, files: dict[str, str]) -> None:
        for path, text in files.items():
            self.connector.put(path, text.encode())
        self.stack.sync()

    def rename(self, old: str, new: str) -> None:
        self.connector.put(new, self.connector.files[old])
        self.connector.remove(old)
        self.stack.sync()

    def names(self) -> dict[str, set[str]]:
        """The first words of the passages that have each name from their document."""
        head, found = self.head(), dict[str, set[str]]()
        index, visible = head.index, head.statistics.visible
        every = np.flatnonzero(head.statistics.as_document_name <= MAX_NAMED_PASSAGES)
        rows = index.postings.document_names_by_name.find_all(every)
        numbers, of = find_named_passages(index, visible, *rows)
        ids = head.passage_ids[visible.passage_rows[numbers]]
        texts = read_passages(self.stack.connection, map(PassageId, ids.tolist()))
        for passage, name in zip(ids.tolist(), every[of].tolist(), strict=True):
            first = texts[PassageId(passage)].text.split()[0]
            found.setdefault(index.name_texts[name], set()).add(first)
        return found

    def head(self) -> Snapshot:
        return self.stack.writer.make_snapshot(self.stack.head)

    def best(self, question: str, at: str = "head") -> str:
        """The text of the passage where most of a walk begins that names alone lead."""
        connection = self.stack.connection
        served = snapshot_at(self.stack.writer.index, resolve(connection, at).id)
        worth = dict.fromkeys(find_names(question, served.select_mentioned_names), 1.0)
        mass = compute_seeds(asked(served, names=worth))
        best = PassageId(int(served.passage_ids[mass.argmax()]))
        return read_passages(connection, [best])[best].text


def test_a_note_has_the_names_of_its_file_and_its_aliases(tmp_path: Path) -> None:
    files = {
        "people/Ada Lovelace 0123456789abcdef0123456789abcdef.md": "Wrote programs.\n",
        "pages/Machines___Engine.md": "---\naliases: [The Mill, Store]\n---\nComputes.\n",
        "https://example.org/wiki/Analytical_Engine.html": "Remembers.\n",
    }
    assert Notes(tmp_path, files).names() == {
        "ada lovelace": {"Wrote"},
        "machines engine": {"Computes.", "aliases:"},
        "mill": {"Computes.", "aliases:"},
        "store": {"Computes.", "aliases:"},
        "analytical engine": {"Remembers."},
    }


def test_generic_names_and_names_of_many_notes_are_ignored(tmp_path: Path) -> None:
    files = {
        "index.md": "a\n",
        "Untitled 3.md": "b\n",
        "2026-11-01.md": "c\n",
        **{f"{n}/minutes.md": f"meeting of week {n}\n" for n in range(33)},
        "a/Plan.md": "one\n",
        "b/plan.md": "other\n",
    }
    assert Notes(tmp_path, files).names() == {"plan": {"one", "other"}}


def test_only_the_first_passages_of_a_long_note_have_its_names(tmp_path: Path) -> None:
    text = "".join(f"# Part {n}\n\n{n} it goes on\n\n" for n in range(9))
    assert Notes(tmp_path, {"Saga.md": text}).names() == {"saga": {"0", "1", "2", "3"}}


def test_a_question_that_names_a_note_starts_at_the_note(tmp_path: Path) -> None:
    notes = Notes(tmp_path, {"Zorn Quill.md": "repairs clocks in winter\n", **OTHERS})
    assert notes.best("What does Zorn Quill do?") == "repairs clocks in winter"


def test_the_walk_goes_from_a_passage_that_names_a_note_to_it_and_back(tmp_path: Path) -> None:
    files = {
        "harbour.md": "The keeper often visits Zorn Quill on Sundays.\n",
        "Zorn Quill.md": "repairs clocks in winter\n",
        **OTHERS,
    }
    notes = Notes(tmp_path, files)
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    stack = notes.stack
    engine.publish(stack.writer.make_snapshot(stack.head))
    for question, start, end in (
        ("Whom does the keeper often visit on Sundays?", "harbour.md", "Zorn Quill.md"),
        ("Who repairs clocks in winter?", "Zorn Quill.md", "harbour.md"),
    ):
        answer = format_answer(engine.query(question, 11, Search()), Search())
        (hop,) = next(p for p in answer["passages"] if p["document"] == end)["hops"]
        assert hop["from"]["document"] == start
        assert hop["asked_by"] == "both"
        assert hop["question"] == "What is said of Zorn Quill?"


def test_a_new_name_makes_no_questions_and_a_past_version_keeps_its_names(tmp_path: Path) -> None:
    notes = Notes(tmp_path, {"Zorn Quill.md": "repairs clocks in winter\n", **OTHERS})
    made = len(notes.stack.made)
    notes.rename("Zorn Quill.md", "Tilda Vane.md")
    assert notes.best("What does Tilda Vane do?") == "repairs clocks in winter"
    assert notes.best("What does Zorn Quill do?") != "repairs clocks in winter"
    assert notes.best("What does Zorn Quill do?", "1") == "repairs clocks in winter"
    assert len(notes.stack.made) == made


def test_updated_names_equal_those_of_a_fresh_index(tmp_path: Path) -> None:
    files = {"Rome.md": "It met Turin.\n", "b.md": "Rome praised Turin.\n"}
    notes = Notes(tmp_path, files)
    notes.rename("b.md", "Turin.md")
    notes.write({"Rome.md": "It left Ostia.\n", "Ostia.md": "Turin met Rome.\n"})
    (tmp_path / "anew").mkdir()
    now = {path: data.decode() for path, data in notes.connector.files.items()}
    assert served_by(notes.head()) == served_by(Notes(tmp_path / "anew", now).head())


def test_a_name_equal_to_the_heading_changes_nothing(tmp_path: Path) -> None:
    texts = ["# Zorn Quill\n\nHe repairs clocks.\n", "The keeper visits Zorn Quill.\n"]
    (tmp_path / "other").mkdir()
    called = Notes(tmp_path, dict(zip(["Zorn Quill.md", "1.md"], texts, strict=True)))
    numbered = Notes(tmp_path / "other", dict(zip(["2.md", "1.md"], texts, strict=True)))
    was, now = served_by(called.head()), served_by(numbered.head())
    assert {**was, "homes": None} == {**now, "homes": None}


def test_the_paper_profile_ignores_document_names(tmp_path: Path) -> None:
    files = {"Zorn Quill.md": "It repairs clocks.\n", "1.md": "The keeper visits Zorn Quill.\n"}
    head = Notes(tmp_path, files).head()
    alike = asked(head, names={"zorn quill": 1.0}).rate_passages(head.passage_rows)
    (note,) = head.find_by_topic(head.find_name("zorn quill"))
    assert alike[head.passage_rows == note].tolist() == [0]
    assert alike.any()


def test_chapters_without_a_title_stand_below_the_name_of_their_note(tmp_path: Path) -> None:
    notes = Notes(
        tmp_path,
        {
            "Export.md": "Kept.\n\n## Usage\n\nPress.\n\n## Limits\n\nNone.\n",
            "titled.md": "# Import\n\n## Usage\n\nPull.\n\n## Limits\n\nFew.\n",
            "single.md": "## Only\n\nAlone.\n",
        },
    )

    def headings() -> dict[str, tuple[str, ...]]:
        head = notes.head()
        ids = [PassageId(one) for one in head.passage_ids[head.passage_rows].tolist()]
        passages = read_passages(notes.stack.connection, ids).values()
        return {passage.text: passage.heading for passage in passages}

    expected = {
        "Kept.": ("Export",),
        "Press.": ("Export", "Usage"),
        "None.": ("Export", "Limits"),
        "Pull.": ("Import", "Usage"),
        "Few.": ("Import", "Limits"),
        "Alone.": ("Only",),
    }
    assert headings() == expected
    notes.rename("Export.md", "Backup.md")
    renamed = {text: tuple(expected[text]) for text in expected}
    for text in ("Kept.", "Press.", "None."):
        renamed[text] = ("Backup", *expected[text][1:])
    assert headings() == renamed
