"""Ignore files come from strangers: they are compiled once, and a long one is refused."""

import time
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from connectors.ignore import MAX_PATTERNS, TooManyPatterns, parse_patterns
from connectors.protocol import Problem, SourceUnavailable
from connectors.settings import FileSettings


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    (made / "sub").mkdir(parents=True)
    for number in range(300):
        (made / f"{number}.md").write_text("# A\n\nB.\n")
        (made / f"sub/{number}.md").write_text("# A\n\nB.\n")
    return made


def distinct(count: int) -> str:
    return "".join(f"*q{number}\n" for number in range(count))


def connector(notes: Path) -> FolderConnector:
    return FolderConnector(notes, FileSettings(max_bytes=1000))


def test_a_megabyte_of_one_pattern_delays_no_edit(notes: Path) -> None:
    (notes / ".gitignore").write_text("q\n" * ((1 << 19) - 1))
    began_s = time.process_time()
    assert len(list(connector(notes).discover(None))) == 600
    assert [found.id for found in connector(notes).discover(None, ["1.md"])] == ["1.md"]
    assert time.process_time() - began_s < 1.5


def test_the_last_of_equal_patterns_decides() -> None:
    patterns = parse_patterns(b"*.md\n!a.md\n*.md\n!b.md\n# c\n\n")
    assert len(patterns) == 3
    assert patterns.judge("a.md", is_folder=False) is True
    assert patterns.judge("b.md", is_folder=False) is False


def test_an_ignore_file_is_compiled_only_once(notes: Path) -> None:
    (notes / ".gitignore").write_text(distinct(MAX_PATTERNS))
    source = connector(notes)
    list(source.discover(None, ["1.md"]))
    began_s = time.process_time()
    for number in range(10):
        assert [found.id for found in source.discover(None, [f"{number}.md"])] == [f"{number}.md"]
    assert time.process_time() - began_s < 0.5


def test_a_folder_with_too_many_patterns_is_a_problem_and_its_siblings_are_listed(
    notes: Path,
) -> None:
    (notes / "sub/.gitignore").write_text(distinct(MAX_PATTERNS + 1))
    found = {item.id: item for item in connector(notes).discover(None)}
    assert len(found) == 301
    problem = found["sub"]
    assert isinstance(problem, Problem) and problem.subtree
    assert (
        problem.why
        == "the ignore file .gitignore: too many different patterns (5,001; the limit is 5,000)"
    )


def test_the_patterns_above_a_path_count_together(notes: Path) -> None:
    (notes / ".gitignore").write_text(distinct(MAX_PATTERNS // 2))
    (notes / "sub/.gitignore").write_text(distinct(MAX_PATTERNS // 2))
    assert len(list(connector(notes).discover(None))) == 600
    (notes / "sub/.hopsyncdignore").write_text("x\n")
    problems = [item for item in connector(notes).discover(None) if isinstance(item, Problem)]
    assert [problem.id for problem in problems] == ["sub"]
    assert "the ignore files in the folder and above have 5,001 patterns" in problems[0].why


def test_too_many_patterns_at_the_top_make_the_source_unavailable(notes: Path) -> None:
    (notes / ".gitignore").write_text(distinct(MAX_PATTERNS + 1))
    with pytest.raises(SourceUnavailable, match=r"\.gitignore: too many different patterns"):
        list(connector(notes).discover(None))


def test_a_pattern_longer_than_any_path_is_refused() -> None:
    with pytest.raises(TooManyPatterns):
        parse_patterns(b"*" * 5000)
