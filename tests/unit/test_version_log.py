"""History in words: what changed in a document by sentence, and what a version was about."""

from contextlib import closing
from pathlib import Path

from hopsyncd.api.version_log import diff_answer, diff_lines, summarise_version
from store.content import read_question_texts
from store.history import diff, read_log, resolve
from tests.fakes.lived import lived
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ADA = (
    "# Ada\n\nAda Byron met Babbage in June. She wrote to him often.\n\n"
    "## Death\n\nShe died young.\n"
)


def test_a_version_says_what_it_was_about_and_which_sentences_changed(tmp_path: Path) -> None:
    rome = b"# Rome\n\nRome fell in the year 476.\n"
    files = MemoryConnector({"ada.md": ADA.encode(), "rome.md": rome})
    with closing(Stack(tmp_path / "graph.db", files, passage_tokens=200)) as stack:
        stack.sync()
        files.put("ada.md", ADA.replace("June", "July").replace("young", "in London").encode())
        files.move("rome.md", "places/roma.md")
        files.put("bonn.md", b"# Bonn\n\nBonn lies on the Rhine.\n")
        stack.sync()
        _check(stack)
        newest = next(iter(read_log(stack.connection, 1)))
        assert newest.version.reason == f"{stack.source.name}: 2 new or changed, 1 renamed"


def _check(stack: Stack) -> None:
    ends = resolve(stack.connection, "1"), resolve(stack.connection, "2")
    told = diff_answer(stack.connection, *ends, diff(stack.connection, *ends), None)
    assert told["texts"] == [
        {
            "source": stack.source.name,
            "document": "ada.md",
            "lines": [
                "@@ Ada",
                "-Ada Byron met Babbage in June.",
                "+Ada Byron met Babbage in July.",
                " She wrote to him often.",
                "@@ Ada > Death",
                "-She died young.",
                "+She died in London.",
            ],
        }
    ]
    assert summarise_version(stack.connection, 1, frozenset()) == "added ada.md, rome.md"
    assert summarise_version(stack.connection, 2, frozenset()) == (
        "changed ada.md; renamed rome.md -> places/roma.md; added bonn.md"
    )
    assert summarise_version(stack.connection, 2, frozenset({stack.source.name})) is None


def test_questions_of_known_passages_are_found_without_a_scan(tmp_path: Path) -> None:
    with closing(lived(tmp_path / "s.db")) as stack:
        ends = resolve(stack.connection, "1"), resolve(stack.connection, "6")
        found, index = diff(stack.connection, *ends), stack.writer.index
        asked: list[str] = []
        stack.file.set_trace_callback(asked.append)
        told = diff_answer(stack.connection, *ends, found, None, index=index)
        passages = [*found.passages_added]
        texts = read_question_texts(
            stack.connection, [edge[0] for edge in found.edges_added], passages
        )
        stack.file.set_trace_callback(None)
        read = [sql for sql in asked if "question AS q" in sql]
        assert len(read) == 3  # for the edges that began, for those that ended, and for the texts
        for sql in read:
            plan = stack.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
            assert {row[3].split(" ")[1] for row in plan if row[3].startswith("SCAN")} <= {
                "json_each"
            }
        assert told["edges"]["added"] and told["edges"]["removed"]
        assert {*texts.values()} <= {edge["question"] for edge in told["edges"]["added"]}
        assert texts
        assert told == diff_answer(stack.connection, *ends, found, None)


def test_distant_changes_have_separate_headings() -> None:
    old = [(("A",), f"Sentence {index}.") for index in range(9)] + [(("B",), "Last.")]
    new = [(("A",), "Another."), *old[1:-1], (("B",), "Other.")]
    assert diff_lines(old, new) == [
        "@@ A", "-Sentence 0.", "+Another.", " Sentence 1.",
        "@@ B", "-Last.", "+Other.",
    ]  # fmt: skip


def test_a_change_of_layout_or_headings_alone_is_reported() -> None:
    old = [(("A",), "One.")]
    assert diff_lines(old, old) == ["@@ the same sentences; layout, links or properties differ"]
    assert diff_lines(old, [(("B",), "One.")]) == ["@@ A is now B, with the same text"]
    assert diff_lines([], []) == []


def test_documents_too_long_to_compare_are_counted() -> None:
    long = [((), str(index)) for index in range(5000)]
    assert diff_lines(long, long[1:]) == [
        "@@ 5,000 sentences before, 4,999 now: too many to compare"
    ]
