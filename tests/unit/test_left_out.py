"""Why a file in a folder is not a document, and what to write to have it read."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from connectors.settings import FileSettings

IGNORED = "an ignore file, `ignore` or a built-in pattern excludes"
FILES = (
    "kept.md", "a.js", "blob", "build/a.md", "drafts/deep/a.md", ".github/a.md", "tokens.md",
    "own/a.md",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x y")
    (tmp_path / ".gitignore").write_text("drafts/\n")
    (tmp_path / "own/.hopsyncdignore").write_text("*\n")
    (tmp_path / "out.md").symlink_to("/etc/hostname")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "why", "to_write"),
    [
        ("a.js", "`include` of the source names no files like *.js", '"@tables", "*.js"]'),
        ("blob", "`include` of the source names no files like blob", '"blob"]'),
        ("build/a.md", f"{IGNORED} build/", '"!build/"'),
        ("drafts/deep/a.md", f"{IGNORED} drafts/", '"!drafts/"'),
        ("own/a.md", f"{IGNORED} own/a.md", '"!own/a.md"'),
        (".github/a.md", "the name of the folder .github/ begins with a dot", '"!.github/"'),
        ("tokens.md", "the name of tokens.md looks like a secret", '"tokens.md" to `not_secret`'),
        ("out.md", "the symbolic link leads out of the folder, to /etc/hostname", "add the link"),
    ],
)
def test_the_reason_and_the_remedy_are_named(
    folder: Path, path: str, why: str, to_write: str
) -> None:
    reason = FolderConnector(folder).explain_left_out(path)
    assert reason is not None
    assert reason[0] == why
    assert to_write in reason[1]


def test_the_remedies_work(folder: Path) -> None:
    settings = replace(
        FileSettings(),
        include=("@text", "*.js", "blob"),
        ignore=("!build/", "!drafts/", "!own/a.md", "!.github/"),
        not_secret=("tokens.md",),
    )
    connector = FolderConnector(folder, settings)
    assert {found.id for found in connector.discover(None)} == {*FILES, "out.md"}
    assert [connector.explain_left_out(name) for name in FILES] == [None] * len(FILES)


@pytest.mark.parametrize("path", ["private.md", ".git/a.md"])
def test_what_ignore_cannot_include_has_another_remedy(folder: Path, path: str) -> None:
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("x y")
    settings = FileSettings(ignore=("!private.md", "!.git/"), deny=("private.md",))
    reason = FolderConnector(folder, settings).explain_left_out(path)
    assert reason is not None
    assert reason[0].startswith("`deny` of the source, or a rule for version control, excludes")
    assert "`ignore`" not in reason[1]


@pytest.mark.parametrize("path", ["kept.md", "none.md", "none/a.md", "../a.md", "kept.md/a"])
def test_a_listed_or_missing_file_has_no_reason(folder: Path, path: str) -> None:
    assert FolderConnector(folder).explain_left_out(path) is None
