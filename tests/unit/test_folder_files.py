"""What is on disk beside plain files: pipes, links, giants, changes under way, roots that go."""

import errno
import inspect
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors import regular_file
from connectors.folder import FolderConnector
from connectors.protocol import Item, ItemUnreadable, ItemVanished, Problem, SourceUnavailable


def found(connector: FolderConnector, under: list[str] | None = None) -> dict[str, Item | Problem]:
    return {entry.id: entry for entry in connector.discover(None, under)}


def problem(entry: Item | Problem) -> Problem:
    assert isinstance(entry, Problem)
    return entry


def item(id_: str) -> Item:
    return Item(id_, "")


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder in which modes count: root gives up its rights for the test."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        yield base
        if os.geteuid() != os.getuid():
            os.seteuid(os.getuid())
        for path in [base, *base.rglob("*")]:
            path.chmod(0o755)


def give_up_rights() -> None:
    if os.getuid() == 0:
        os.seteuid(65534)


def test_pipes_sockets_and_devices_are_problems(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(tmp_path)  # A socket's path may have 107 bytes only.
    listener.bind("s.sock")
    os.chdir(here)
    (tmp_path / "a.md").write_text("x")
    connector = FolderConnector(tmp_path)
    entries = found(connector)
    listener.close()
    assert "regular file" in problem(entries["pipe.md"]).why
    assert "regular file" in problem(entries["s.sock"]).why
    assert isinstance(entries["a.md"], Item)
    for name in ("pipe.md", "s.sock"):
        with pytest.raises(ItemUnreadable):
            connector.fetch(item(name))


def test_a_file_of_1_gib_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "giant.md").open("wb") as file:
        file.truncate(1 << 30)
    connector = FolderConnector(tmp_path)
    assert "too large" in problem(found(connector)["giant.md"]).why
    with pytest.raises(ItemUnreadable, match="too large"):
        connector.fetch(item("giant.md"))


def test_the_problem_of_a_huge_mbox_file_says_how_to_add_it_as_a_source(tmp_path: Path) -> None:
    with (tmp_path / "all.mbox").open("wb") as file:
        file.truncate(1 << 30)
    assert "hopsyncd add" in problem(found(FolderConnector(tmp_path))["all.mbox"]).hint


def test_links_inside_the_root_are_passed_over_and_loops_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/note.md").write_text("x")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    (tmp_path / "same.md").symlink_to("a/note.md")
    (tmp_path / "self.md").symlink_to("self.md")
    (tmp_path / "nowhere.md").symlink_to("gone.md")
    assert list(found(FolderConnector(tmp_path))) == ["a/note.md"]
    assert found(FolderConnector(tmp_path), ["a/loop/a/note.md", "same.md"]) == {}


def test_links_out_of_the_root_are_problems_and_never_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "private.md").write_text("private")
    (root / "file.md").symlink_to(outside / "private.md")
    (root / "folder").symlink_to(outside)
    (root / "picture.png").symlink_to(outside / "picture.png")
    (root / "sibling.md").symlink_to("../root-2.md")
    connector = FolderConnector(root)
    entries = found(connector)
    assert entries.keys() == {"file.md", "folder", "sibling.md"}
    assert not problem(entries["file.md"]).subtree
    assert problem(entries["folder"]).subtree
    assert found(connector, ["folder/private.md"]) == {"folder": entries["folder"]}
    for id_ in ("file.md", "folder/private.md"):
        with pytest.raises(ItemVanished):
            connector.fetch(item(id_))


def test_a_root_that_is_a_link_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.md").write_text("x")
    (tmp_path / "link").symlink_to("real")
    connector = FolderConnector(tmp_path / "link")
    assert list(found(connector)) == ["a.md"]
    assert connector.fetch(item("a.md")).data == b"x"


@pytest.mark.parametrize("id_", ["../x.md", "a/../../x.md", "/etc/passwd", "a//b", "./a", "a\0b"])
def test_ids_outside_the_folder_are_refused(tmp_path: Path, id_: str) -> None:
    with pytest.raises(ValueError, match="inside the folder"):
        FolderConnector(tmp_path).discover(None, [id_])
    with pytest.raises(ItemUnreadable):
        FolderConnector(tmp_path).fetch(item(id_))


def test_unreadable_files_and_folders_are_problems(unprivileged: Path) -> None:
    for name in ("open", "closed", "hidden"):
        (unprivileged / name).mkdir()
        (unprivileged / name / "a.md").write_text("x")
    (unprivileged / "open/b.md").write_text("x")
    (unprivileged / "hidden/.gitignore").write_text("b.md")
    for name in ("closed", "open/b.md", "hidden/.gitignore"):
        (unprivileged / name).chmod(0)
    give_up_rights()
    connector = FolderConnector(unprivileged)
    entries = found(connector)
    assert entries.keys() == {"closed", "hidden", "open/a.md", "open/b.md"}
    assert problem(entries["closed"]).subtree
    assert problem(entries["hidden"]).subtree
    assert "permission denied" in problem(entries["open/b.md"]).why
    assert found(connector, ["closed/a.md"]).keys() == {"closed"}
    with pytest.raises(ItemUnreadable, match="permission denied"):
        connector.fetch(item("open/b.md"))


def test_an_unreadable_root_makes_the_source_unavailable(unprivileged: Path) -> None:
    unprivileged.chmod(0)
    give_up_rights()
    with pytest.raises(SourceUnavailable, match="permission denied"):
        found(FolderConnector(unprivileged))


def test_a_root_that_is_a_file_or_the_data_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    with pytest.raises(SourceUnavailable, match="not a directory"):
        found(FolderConnector(tmp_path / "a.md"))
    (tmp_path / "data/x").mkdir(parents=True)
    with pytest.raises(SourceUnavailable, match="own data"):
        found(FolderConnector(tmp_path / "data/x", never=[tmp_path / "data"]))


def test_an_error_in_the_middle_of_a_folder_covers_its_subtree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.md").write_text("x")
        (tmp_path / name / "y.md").write_text("y")
    real = os.scandir

    class Breaking:
        """The first entry, then an I/O error."""

        def __init__(self, folder: int) -> None:
            self._entries = real(folder)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            yield_one = next(self._entries)

            def entries() -> Iterator[os.DirEntry[str]]:
                yield yield_one
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            return entries()

        def __exit__(self, *_: object) -> None:
            self._entries.close()

    def breaking_in_a(folder: int) -> object:
        in_a = Path(f"/proc/self/fd/{folder}").readlink().name == "a"
        return Breaking(folder) if in_a else real(folder)

    monkeypatch.setattr(os, "scandir", breaking_in_a)
    entries = found(FolderConnector(tmp_path))
    assert entries.keys() == {"a", "b/x.md", "b/y.md"}
    assert problem(entries["a"]).subtree


def test_a_folder_that_vanishes_during_the_listing_is_gone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.md").write_text("x")
    listing = FolderConnector(tmp_path).discover(None)
    assert next(listing).id == "a/x.md"
    (tmp_path / "b").rename(tmp_path.with_name(tmp_path.name + "-b"))
    assert list(listing) == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_root_that_vanishes_during_the_listing_is_unavailable(
    tmp_path: Path, replaced: bool
) -> None:
    root = tmp_path / "root"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        (root / name / "x.md").write_text("x")
    listing = FolderConnector(root).discover(None)
    next(listing)
    root.rename(tmp_path / "moved")
    if replaced:  # As when a drive is unmounted and the empty mount point shows.
        root.mkdir()
    with pytest.raises(SourceUnavailable):
        list(listing)


def test_a_tree_deeper_than_the_recursion_limit_is_listed(tmp_path: Path) -> None:
    depth, limit = 500, sys.getrecursionlimit()
    (tmp_path / ("d/" * depth)).mkdir(parents=True)
    (tmp_path / ("d/" * depth) / "a.md").write_text("x")
    sys.setrecursionlimit(len(inspect.stack()) + 200)
    try:
        assert list(found(FolderConnector(tmp_path))) == ["d/" * depth + "a.md"]
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    ("data", "refused"),
    [
        (b"text\0more", True),
        (b"x" * 8191 + b"\0", True),
        (b"x" * 8192 + b"\0", False),
        ("hällo".encode("utf-16"), False),
        ("hällo".encode("utf-32"), False),
        (b"caf\xe9", False),
    ],
)
def test_binary_is_refused(tmp_path: Path, data: bytes, refused: bool) -> None:
    (tmp_path / "a.md").write_bytes(data)
    connector = FolderConnector(tmp_path)
    if refused:
        with pytest.raises(ItemUnreadable, match="binary"):
            connector.fetch(item("a.md"))
    else:
        assert connector.fetch(item("a.md")).data == data


def changing(path: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the file appended to during each of the next reads."""
    real, left = os.fstat, [2 * times]

    def fstat(handle: int) -> os.stat_result:
        state = real(handle)
        if left[0] > 0:
            left[0] -= 1
            with path.open("ab") as file:
                file.write(b"+")
        return state

    monkeypatch.setattr(os, "fstat", fstat)
    monkeypatch.setattr(regular_file, "ATTEMPT_PAUSE_S", 0.001)


def test_a_change_during_the_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("x")
    changing(path, 1, monkeypatch)
    fetched = FolderConnector(tmp_path).fetch(item("a.md"))
    assert fetched.data == path.read_bytes()
    assert fetched.revision == regular_file.format_revision(path.stat())


def test_a_file_that_changes_all_the_time_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("x")
    changing(path, 99, monkeypatch)
    with pytest.raises(ItemUnreadable, match="still being written"):
        FolderConnector(tmp_path).fetch(item("a.md"))


def test_an_old_time_set_back_does_not_hide_an_edit(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("one")
    before, entry = path.stat(), found(FolderConnector(tmp_path))["a.md"]
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(FolderConnector(tmp_path))["a.md"] != entry


def test_an_old_word_file_is_to_be_saved_as_docx(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(4000))
    with pytest.raises(ItemUnreadable) as refused:
        FolderConnector(tmp_path).fetch(item("old.txt"))
    assert "format from before 2007" in refused.value.why
    assert refused.value.hint == "Save the file as .docx or .pptx."
