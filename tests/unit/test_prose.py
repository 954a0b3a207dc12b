"""The prose check finds what STYLE forbids, and leaves plain sentences alone."""

import json

import pytest

from scripts.prose import BASELINE, ROOT, check, findings_in, findings_of_subject

HARD = [
    "So many mentions of each name, by rising name",
    "Words that no document has are taken for those of another.",
    "Of what a filter leaves out nothing is left either",
    "What follows the matches that go is found",
    "The source waits politely.",
    "It rests on none but the head.",
    "The caller is told when it ends.",
    "One that was asked before costs nothing.",
    "At most as much as the standby keeps.",
    "It goes on with what is left.",
]
PLAIN = [
    "The writer commits the batch.",
    "After a crash, the last committed version is still served.",
    "Filtered-out passages are excluded from counts too.",
    "What if the folder is missing?",
    "A reader must be able to follow a column.",
    "It declines 76 % of unanswerable questions, and wrongly declines 8 % of answerable ones.",
    "`so many` is code.",
]


@pytest.mark.parametrize("sentence", HARD)
def test_a_hard_sentence_is_found_in_a_page_a_docstring_a_comment_and_a_message(
    sentence: str,
) -> None:
    message = f'raise ValueError("{sentence}")\n'
    for file, text in (
        ("docs/a.md", f"# A page\n\n- {sentence}\n"),
        ("hopsyncd/a.py", f'"""A module.\n\n{sentence}\n"""\n'),
        ("hopsyncd/a.py", f"x = 1  # {sentence}\n"),
        ("hopsyncd/a.py", message),
        ("config.toml", f"# {sentence}\nkey = 1\n"),
    ):
        assert findings_in(file, text), (file, text)


@pytest.mark.parametrize("sentence", PLAIN)
def test_a_plain_sentence_has_no_finding(sentence: str) -> None:
    assert findings_in("docs/a.md", f"{sentence}\n") == []
    assert findings_in("hopsyncd/a.py", f'"""A module.\n\n{sentence}\n"""\n') == []


def test_code_in_a_page_is_left_alone() -> None:
    assert findings_in("docs/a.md", "```sh\nso many of what is told\n```\n\nAnd `so many`.\n") == []


def test_the_line_of_a_finding_is_that_of_the_file() -> None:
    page = "# A page\n\n```sh\none\ntwo\n```\n\nIt is plain.\n\nIt waits politely.\n"
    assert [finding.line for finding in findings_in("docs/a.md", page)] == [10]


@pytest.mark.parametrize("name", ["purged", "_fused", "told", "made"])
def test_a_function_that_is_named_by_a_participle_is_found(name: str) -> None:
    found = findings_in("hopsyncd/a.py", f"def {name}() -> int:\n    return 1\n")
    assert [one.text for one in found] == [f"def {name}"]


@pytest.mark.parametrize(
    "code",
    [
        "def purge() -> None: ...",
        "def read_passages() -> list[int]: ...",
        "def closed() -> bool: ...",
        "class A:\n    @property\n    def chosen(self) -> int: ...",
        "def feed() -> None: ...",
    ],
)
def test_other_names_have_no_finding(code: str) -> None:
    assert findings_in("hopsyncd/a.py", f"{code}\n") == []


@pytest.mark.parametrize(
    "subject",
    [
        "What a watch says is compared has its changes told",
        "The first question after a commit",
        "Fix the log; fix the clock",
        "Close a removed source to members, and to everyone else who might have seen it until now",
    ],
)
def test_a_subject_that_is_no_command_is_found(subject: str) -> None:
    assert findings_of_subject(subject)


@pytest.mark.parametrize(
    "subject", ["Close a removed source to members", "Read mail headers in linear time"]
)
def test_a_plain_subject_has_no_finding(subject: str) -> None:
    assert findings_of_subject(subject) == []


def test_counts_may_fall_and_never_rise() -> None:
    baseline = {"a.md": 2, "b.md": 1}
    assert check({"a.md": 2, "b.md": 0}, baseline) == []
    assert check({"a.md": 3, "b.md": 0}, baseline) == ["a.md"]
    assert check({"new.md": 1}, baseline) == ["new.md"]


def test_the_baseline_names_files_that_exist() -> None:
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    assert baseline
    assert all(count > 0 for count in baseline.values())
    assert len([file for file in baseline if not (ROOT / file).is_file()]) < 10
