"""Folders that fsspec reaches: its memory and local file systems, and a server that speaks S3."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from connectors.protocol import (
    Item,
    ItemUnreadable,
    ItemVanished,
    Problem,
    SourceUnavailable,
)
from connectors.remote import RemoteConnector, choose_clock_tick_s, format_revision, get_modified_s
from connectors.remote_driver import Driver, check_url
from connectors.settings import FileSettings
from tests.fakes.listing import Named, named

SETTINGS = FileSettings(max_bytes=1000)


@dataclass(frozen=True, slots=True)
class Remote:
    """A folder at `url`, changed through a file system of the test's own."""

    url: str
    system: Any
    root: str
    options: dict[str, Any]

    def connector(self, settings: FileSettings = SETTINGS) -> RemoteConnector:
        return RemoteConnector(Driver(self.url, self.options, limit_s=120), settings)

    def put(self, id_: str, data: bytes) -> None:
        path = f"{self.root}/{id_}"
        self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.system.pipe_file(path, data)

    def remove(self, id_: str) -> None:
        self.system.rm(f"{self.root}/{id_}")


@pytest.fixture(scope="module")
def s3_address() -> Iterator[str]:
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'hopsyncd[dev]'")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    yield "http://{}:{}".format(*running.get_host_and_port())
    running.stop()


def s3(address: str, bucket: str) -> Remote:
    options = {"key": "one", "secret": "another", "client_kwargs": {"endpoint_url": address}}
    system = fsspec.filesystem("s3", use_listings_cache=False, **options)
    if system.exists(bucket):
        system.rm(bucket, recursive=True)
    system.mkdir(bucket)
    return Remote(f"s3://{bucket}/notes", system, f"{bucket}/notes", options)


@pytest.fixture(params=["memory", "local", "s3"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Remote]:
    if request.param == "s3":
        yield s3(request.getfixturevalue("s3_address"), "bucket")
        return
    scheme, root = ("memory", "/notes") if request.param == "memory" else ("file", str(tmp_path))
    system = fsspec.filesystem(scheme)
    system.makedirs(root, exist_ok=True)
    yield Remote(f"{scheme}://{root}", system, root, {})
    system.rm(root, recursive=True)


@pytest.fixture
def memory() -> Iterator[Remote]:
    system = fsspec.filesystem("memory")
    system.makedirs("/notes", exist_ok=True)
    yield Remote("memory://notes", system, "/notes", {})
    if system.exists("/notes"):
        system.rm("/notes", recursive=True)


def listed(remote: Remote, settings: FileSettings = SETTINGS) -> list[Named]:
    return list(named(remote.connector(settings).discover(None)))


def items(remote: Remote, settings: FileSettings = SETTINGS) -> dict[str, Item]:
    return {item.id: item for item in listed(remote, settings) if isinstance(item, Item)}


class TestOnEachFileSystem:
    def test_all_files_are_listed_and_fetched(self, remote: Remote) -> None:
        texts = {"a.md": b"# A", "b/c.txt": b"see", "b/d/e.rst": b"E\n=", "empty.md": b""}
        for id_, data in texts.items():
            remote.put(id_, data)
        found = items(remote)
        assert found.keys() == texts.keys()
        fetched = {id_: remote.connector().fetch(item) for id_, item in found.items()}
        assert {id_: one.data for id_, one in fetched.items()} == texts
        assert {id_: one.revision for id_, one in fetched.items()} == {
            id_: item.revision for id_, item in found.items()
        }
        assert fetched["a.md"].media_type == "text/markdown"

    def test_a_revision_changes_with_the_content_and_else_stays(self, remote: Remote) -> None:
        remote.put("a.md", b"one")
        remote.put("b.md", b"two")
        before = items(remote)
        remote.connector().fetch(before["a.md"])
        remote.put("a.md", b"eno")
        after = items(remote)
        assert after["a.md"].revision != before["a.md"].revision
        assert after["b.md"] == before["b.md"]

    def test_a_deleted_file_is_removed_from_the_index(self, remote: Remote) -> None:
        remote.put("a.md", b"one")
        remote.put("b/c.md", b"two")
        found = items(remote)
        remote.remove("b/c.md")
        with pytest.raises(ItemVanished):
            remote.connector().fetch(found["b/c.md"])
        assert list(items(remote)) == ["a.md"]

    def test_a_listing_of_one_part_contains_only_that_part(self, remote: Remote) -> None:
        for id_ in ("a.md", "b/c.md", "b/d/e.md", "f/g.md"):
            remote.put(id_, b"x")
        found = remote.connector().discover(None, ["b/d", "f/g.md", "z"])
        assert [item.id for item in found] == ["b/d/e.md", "f/g.md"]

    def test_secrets_ignored_and_unwanted_files_are_no_documents(self, remote: Remote) -> None:
        for id_ in ("a.md", ".env", ".ssh/x.md", "build/b.md", "drafts/c.md", "d.toml", "no/e.md"):
            remote.put(id_, b"text")
        remote.put("sub/.gitignore", b"*.txt\n")
        remote.put("sub/f.txt", b"x")
        remote.put("sub/g.md", b"x")
        chosen = replace(SETTINGS, ignore=("drafts/",), deny=("no/",))
        assert list(items(remote, chosen)) == ["a.md", "sub/g.md"]

    def test_a_truncated_ignore_file_is_not_applied(self, remote: Remote) -> None:
        remote.put("sub/.gitignore", b"#" * (1 << 20) + b"\nprivate.md\n")
        remote.put("sub/private.md", b"x")
        with pytest.raises(SourceUnavailable, match=r"sub/\.gitignore: the document is too large"):
            listed(remote)

    def test_a_huge_and_a_binary_file_do_not_stop_the_others(self, remote: Remote) -> None:
        remote.put("huge.md", b"x" * 1001)
        remote.put("nul.md", b"a\0b")
        remote.put("z.md", b"fine")
        found = {item.id: item for item in listed(remote)}
        assert isinstance(found["huge.md"], Problem)
        for id_ in ("huge.md", "nul.md"):
            with pytest.raises(ItemUnreadable):
                remote.connector().fetch(Item(id_, "x"))
        assert isinstance(found["z.md"], Item)

    def test_a_missing_folder_is_not_treated_as_empty(self, remote: Remote) -> None:
        remote.put("a.md", b"x")
        away = replace(remote, url=f"{remote.url}/nowhere")
        with pytest.raises(SourceUnavailable, match=r"the folder (does not|no longer) exist"):
            listed(away)

    def test_a_root_that_vanishes_during_the_listing_deletes_nothing(self, remote: Remote) -> None:
        for id_ in ("a/b.md", "c/d.md"):
            remote.put(id_, b"x")
        listing = remote.connector().discover(None)
        next(listing)
        remote.system.rm(remote.root, recursive=True)
        with pytest.raises(SourceUnavailable, match=r"the folder (does not|no longer) exist"):
            list(listing)
        remote.system.makedirs(remote.root, exist_ok=True)
        remote.put("a.md", b"for the clean-up")


class TestS3:
    def test_folder_markers_are_skipped_and_empty_names_are_problems(self, s3_address: str) -> None:
        remote = s3(s3_address, "odd")
        for key in ("notes/", "notes/a/", "notes/a/b.md", "notes/a//c.md", "notes/a"):
            remote.system.call_s3("put_object", Bucket="odd", Key=key, Body=b"x")
        found = {item.id: type(item) for item in listed(remote)}
        assert found == {"a/b.md": Item, "a/": Problem}

    def test_rights_that_are_missing_and_a_server_that_is_away(self, s3_address: str) -> None:
        remote = s3(s3_address, "away")
        remote.put("a.md", b"x")
        options = remote.options | {"client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}}
        nowhere = Driver(remote.url, options, limit_s=1)
        with pytest.raises(SourceUnavailable):
            list(RemoteConnector(nowhere, SETTINGS).discover(None))


class Odd(MemoryFileSystem):  # type: ignore[misc]
    """A file system that does what a test says before each call; its files are its own."""

    protocol = "odd"
    store: dict[str, Any] = {}  # noqa: RUF012 - fsspec's own way
    pseudo_dirs = [""]  # noqa: RUF012
    before: Any = None

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("odd://")))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if Odd.before:
            Odd.before("ls", path)
        return super().ls(path, detail=detail, **options)

    def info(self, path: str, **options: Any) -> Any:
        if Odd.before:
            Odd.before("info", path)
        return super().info(path, **options)


@pytest.fixture
def odd() -> Iterator[Remote]:
    fsspec.register_implementation("odd", Odd, clobber=True)
    Odd.store, Odd.before = {}, None
    Odd.pseudo_dirs = ["", "/notes"]
    yield Remote("odd://notes", Odd(), "/notes", {})
    Odd.before = None


def ids_or_none(connector: RemoteConnector) -> list[str] | None:
    """What is listed, if the source is there."""
    try:
        return [item.id for item in connector.discover(None)]
    except SourceUnavailable:
        return None


class TestTrouble:
    def test_no_rights_to_the_root_pause_and_to_a_folder_are_a_problem(self, odd: Remote) -> None:
        odd.put("a.md", b"x")
        odd.put("shut/b.md", b"x")

        def refuse(path: str) -> Any:
            def before(_: str, asked: str) -> None:
                if asked.rstrip("/") == path:
                    raise PermissionError("Forbidden")

            return before

        Odd.before = refuse("/notes/shut")
        found = listed(odd)
        assert [type(one) for one in found] == [Item, Problem]
        assert isinstance(found[1], Problem) and found[1].subtree
        part = list(odd.connector().discover(None, ["shut/b.md"]))
        assert part == [found[1]]
        Odd.before = refuse("/notes/a.md")
        with pytest.raises(ItemUnreadable, match="credentials"):
            odd.connector().fetch(Item("a.md", "x"))
        Odd.before = refuse("/notes")
        with pytest.raises(SourceUnavailable, match="credentials"):
            listed(odd)

    @pytest.mark.parametrize(
        "options",
        [
            {"password": "hunter2"},
            {"passphrase": "hunter2"},
            {"auth": ["zoe", "hunter2"]},
            {"client_kwargs": {"connection_string": "hunter2"}},
        ],
    )
    def test_an_error_of_the_driver_pauses_the_source_and_hides_its_secrets(
        self, odd: Remote, options: dict[str, object]
    ) -> None:
        class Strange(Exception):
            pass

        def before(*_: str) -> None:
            raise Strange("cannot log in with hunter2\nat all")

        Odd.before = before
        driver = Driver(odd.url, options)
        with pytest.raises(SourceUnavailable) as caught:
            list(RemoteConnector(driver, SETTINGS).discover(None))
        assert caught.value.why == "Strange: cannot log in with *** at all"
        assert "hunter2" not in repr(driver)

    def test_a_server_that_does_not_answer_is_abandoned(self, odd: Remote) -> None:
        odd.put("a.md", b"x")
        answer = threading.Event()
        Odd.before = lambda *_: answer.wait(120)
        connector = RemoteConnector(Driver(odd.url, {}, limit_s=0.5), SETTINGS)
        began = time.monotonic()
        for _ in range(3):
            with pytest.raises(SourceUnavailable, match="did not answer"):
                list(connector.discover(None))
        with pytest.raises(SourceUnavailable, match="are still pending"):
            list(connector.discover(None))
        assert time.monotonic() - began < 60
        answer.set()
        while (found := ids_or_none(connector)) is None:
            assert time.monotonic() - began < 120
            time.sleep(0.02)
        assert found == ["a.md"]

    def test_a_file_that_changes_while_it_is_read_is_read_again(self, odd: Remote) -> None:
        odd.put("a.md", b"old")
        item = items(odd)["a.md"]
        calls: list[str] = []

        def before(call: str, _: str) -> None:
            calls.append(call)
            if len(calls) == 2:
                odd.put("a.md", b"new")

        Odd.before = before
        fetched = odd.connector().fetch(item)
        Odd.before = None
        assert fetched.data == b"new"
        assert fetched.revision == items(odd)["a.md"].revision

    def test_a_listing_uses_bounded_memory(self, memory: Remote) -> None:
        for id_ in ("a/1.md", "b/2.md", "c/3.md"):
            memory.put(id_, b"x")
        listing = memory.connector().discover(None)
        next(listing)
        memory.put("c/4.md", b"x")
        assert "c/4.md" in {item.id for item in listing}

    def test_links_are_skipped(self, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_text("x")
        (tmp_path / "link.md").symlink_to("a.md")
        (tmp_path / "loop").symlink_to(".")
        remote = Remote(f"file://{tmp_path}", fsspec.filesystem("file"), str(tmp_path), {})
        assert list(items(remote)) == ["a.md"]

    def test_a_driver_that_is_missing_names_the_command(self) -> None:
        fsspec.register_implementation("gcs", "no_such_module.Files", clobber=True)
        connector = RemoteConnector(Driver("gcs://bucket/x"), SETTINGS)
        with pytest.raises(SourceUnavailable) as caught:
            list(connector.discover(None))
        assert "pip install 'hopsyncd[gcs]'" in caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        *("", "notes", "/notes", "nothing://x", "simplecache::s3://x/y", "s3://a\nb"),
        *("zip://x::s3://b/c.zip", "sftp://ada:secret@example.org/x"),
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        check_url(url)


@pytest.mark.parametrize("url", ["s3://b/x", "github://org:repo@main/docs", "sftp://ada@[::1]/x"])
def test_a_usual_address_is_accepted(url: str) -> None:
    assert check_url(url) == url


def test_a_revision_uses_the_most_reliable_property_of_the_driver() -> None:
    assert format_revision({"size": 3}) == ""
    assert format_revision({"size": 3, "mtime": 1.5}) == "1.500000 3"
    assert format_revision({"size": 3, "etag": 'W/"x"', "mtime": 1.5}) == "etag=x 3"


def test_times_are_read_in_each_drivers_way() -> None:
    said = [1795290554, 1795290554000, "2026-11-21T19:49:14Z", "Sat, 21 Nov 2026 19:49:14 GMT"]
    assert {get_modified_s({"modified": value}) for value in said} == {1795290554.0}
    assert get_modified_s({"modified": "yesterday"}) is None
    assert choose_clock_tick_s({"mtime": 1795290554}) == 1.0
    assert choose_clock_tick_s({"mtime": 1795290554, "ETag": "x"}) == 0.0
