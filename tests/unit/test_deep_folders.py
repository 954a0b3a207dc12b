"""Folders nested deeper than a path can name, and folders that become links while they are read."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from connectors.folder import FolderConnector
from connectors.mail.maildir import MaildirConnector
from connectors.protocol import Item, Problem, SourceUnavailable
from connectors.regular_file import OpenFolders
from tests.fakes.nested import nest, remove_nested


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "root"
    root.mkdir()
    yield root
    remove_nested(root)


@pytest.mark.parametrize("depth", [1200, 5000])
def test_a_file_in_any_depth_is_listed_and_read(root: Path, depth: int) -> None:
    nest(root, depth, {"deep.md": b"# Deep\n"})
    (root / "a.md").write_text("# Ada\n")
    connector = FolderConnector(root)
    found = list(connector.discover(None))
    assert [item.id for item in found] == ["a.md", "d/" * depth + "deep.md"]
    assert isinstance(found[1], Item)
    assert connector.fetch(found[1]).data == b"# Deep\n"
    assert list(connector.discover(None, [found[1].id])) == found[1:]


def test_ignore_files_apply_in_any_depth(root: Path) -> None:
    nest(root, 2500, {".hopsyncdignore": b"no.md\n", "no.md": b"x", "yes.md": b"x"})
    assert [item.id for item in FolderConnector(root).discover(None)] == ["d/" * 2500 + "yes.md"]


def test_what_is_too_deep_to_be_listed_is_a_problem(root: Path) -> None:
    nest(root, 10_002, {"deep.md": b"x"}, beside={})
    [problem] = FolderConnector(root).discover(None)
    assert isinstance(problem, Problem)
    assert problem.subtree
    assert "10,000 levels deep" in problem.why


def test_a_walk_keeps_few_folders_open(root: Path) -> None:
    nest(root, 300, {"deep.md": b"x"}, beside={"e.md": b"x"})
    before = _open_descriptors()
    most = 0
    for _ in FolderConnector(root).discover(None):
        most = max(most, _open_descriptors() - before)
    assert 0 < most <= 70
    assert _open_descriptors() == before


def test_a_listing_that_is_abandoned_closes_its_folders(root: Path) -> None:
    nest(root, 100, {"deep.md": b"x"}, beside={"e.md": b"x"})
    before = _open_descriptors()
    listing = FolderConnector(root).discover(None)
    next(listing)
    listing.close()  # type: ignore[attr-defined]
    assert _open_descriptors() == before


def test_opening_a_folder_again_gives_the_same_folder(root: Path) -> None:
    for path in ("a/b/c/d", "a/b/e", "f"):
        (root / path).mkdir(parents=True)
    folders = OpenFolders(os.fspath(root), most_open=2)
    for path in ("a", "a/b", "a/b/c", "a/b/c/d", "a/b/e", "a", "f", "", "a/b/c/d"):
        assert os.fstat(folders.enter(path)).st_ino == (root / path).stat().st_ino
    folders.close()


class TestAFolderThatBecomesALink:
    """At each call of the listing by turns, as an attacker would who can write to the folder."""

    @pytest.fixture
    def closed(self, root: Path) -> Path:
        closed = root.parent / "closed"
        closed.mkdir()
        for number in range(3):
            (closed / f"secret-{number}.md").write_text("# Hidden\n")
        (root / "dir").mkdir()
        for number in range(3):
            (root / "dir" / f"public-{number}.md").write_text("# Public\n")
        return closed

    @pytest.mark.parametrize("under", [None, ["dir"], ["dir/secret-1.md"]])
    def test_a_folder_swapped_for_a_link_leaks_no_names_or_sizes(
        self, root: Path, closed: Path, under: list[str] | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        swapped = 0
        for index in range(40):
            calls = _Swap(root / "dir", closed, index)
            with monkeypatch.context() as patched:
                for name in ("open", "scandir", "lstat", "stat", "access"):
                    patched.setattr(os, name, calls.counting(getattr(os, name)))
                found = list(FolderConnector(root).discover(None, under))
            swapped += calls.undo()
            for item in found:
                assert "secret" not in item.id
                assert not isinstance(item, Problem) or "secret" not in item.why
        assert swapped > 2

    def test_no_names_leak_from_a_maildir(
        self, root: Path, closed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for part in ("cur", "new", "tmp"):
            (root / "mail" / part).mkdir(parents=True)
        (root / "mail/cur/public").write_text("Subject: Hello\n\nHello.\n")
        swapped = 0
        for index in range(60):
            calls = _Swap(root / "mail/cur", closed, index)
            with monkeypatch.context() as patched, suppress(SourceUnavailable):
                for name in ("open", "scandir", "lstat", "stat"):
                    patched.setattr(os, name, calls.counting(getattr(os, name)))
                found = list(MaildirConnector(root).discover(None))
                assert "secret" not in repr(found)
            swapped += calls.undo()
        assert swapped > 10

    def test_a_link_is_identified_by_its_own_text(self, root: Path, closed: Path) -> None:
        (closed / "current").symlink_to(closed / "release-of-next-year")
        (root / "link.md").symlink_to(closed / "current")
        [problem] = [item for item in FolderConnector(root).discover(None) if item.id == "link.md"]
        assert isinstance(problem, Problem)
        assert problem.why.endswith("/closed/current")


def _open_descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


class _Swap:
    """Swaps a folder for a link before the call with this number."""

    def __init__(self, folder: Path, target: Path, at: int) -> None:
        self._folder, self._target, self._left = folder, target, at
        self._swapped = False

    def counting(self, call: Any) -> Any:
        def counted(*arguments: Any, **more: Any) -> Any:
            if not self._left and not self._swapped:
                self._swapped = True
                self._folder.rename(self._folder.with_name("aside"))
                self._folder.symlink_to(self._target)
            self._left -= 1
            return call(*arguments, **more)

        return counted

    def undo(self) -> bool:
        if self._swapped:
            self._folder.unlink()
            shutil.move(self._folder.with_name("aside"), self._folder)
        return self._swapped
