"""Repositories and remote folders for the contract suite: a real git, a real S3 server."""

import shutil
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from connectors.git import GitConnector, GitSettings
from connectors.git_program import Mirror, Repository
from connectors.protocol import Connector
from connectors.remote import RemoteConnector
from connectors.remote_driver import Driver
from connectors.settings import FileSettings
from tests.contract.harness import Trouble
from tests.fakes.git_repository import GitRepository

_MAX_BYTES = 100_000


class GitHarness:
    """A repository on this disk."""

    troubles = frozenset({Trouble.AWAY, Trouble.LOCKED, Trouble.GARBAGE})
    max_bytes = _MAX_BYTES
    deletes = True

    def __init__(self, base: Path) -> None:
        if shutil.which("git") is None:
            pytest.skip("there is no git program")
        self._base, self._aside = base, base / "aside"
        self.repository = GitRepository(base / "repository")

    def origin(self) -> Mirror | Repository:
        return Repository(self.repository.root, "repository")

    def connector(self) -> Connector:
        return GitConnector(self.origin(), GitSettings(max_bytes=self.max_bytes))

    def put(self, key: str, text: str) -> str:
        self.repository.put(f"{key}.md", text.encode())
        return f"{key}.md"

    def delete(self, key: str) -> None:
        self.repository.remove(f"{key}.md")

    def begin(self, trouble: Trouble) -> None:
        git = self.repository.root / ".git"
        if trouble is Trouble.LOCKED:
            # What a repository without any right to it comes to, also where the tests run as root.
            git.rename(self._aside)
            git.write_text("gitdir: /root/nowhere\n")
            return
        self.repository.root.rename(self._aside)
        if trouble is Trouble.GARBAGE:
            shutil.copytree(self._aside, self.repository.root)
            for file in (git / "objects").rglob("??/*"):
                file.chmod(0o600)
                file.write_bytes(b"\xff\x00 no object")

    def end(self) -> None:
        root = self.repository.root
        if not self._aside.exists():
            return
        if (self._aside / "objects").exists():
            (root / ".git").unlink()
            self._aside.rename(root / ".git")
            return
        shutil.rmtree(root, ignore_errors=True)
        self._aside.rename(root)

    def close(self) -> None:
        """Nothing was started."""


class GitRemoteHarness(GitHarness):
    """The same repository, fetched from its address into a mirror."""

    def origin(self) -> Mirror | Repository:
        return Mirror(f"file://{self.repository.root}", self._base / "mirror.git")


class _SlowFiles(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory behind a line that can be cut, shut or slow."""

    protocol = "slow"
    store: dict[str, Any] = {}  # noqa: RUF012 - fsspec's own way
    pseudo_dirs = [""]  # noqa: RUF012
    trouble: Trouble | None = None
    over = threading.Event()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("slow://")))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if _SlowFiles.trouble is Trouble.GARBAGE:
            return {"error": "<html>"}
        self._suffer()
        return super().ls(path, detail=detail, **options)

    def info(self, path: str, **options: Any) -> Any:
        self._suffer()
        return super().info(path, **options)

    def _suffer(self) -> None:
        if _SlowFiles.trouble is Trouble.AWAY:
            raise ConnectionError("the line is cut")
        if _SlowFiles.trouble is Trouble.LOCKED:
            raise PermissionError("403 Forbidden")
        if _SlowFiles.trouble is Trouble.SLOW:
            _SlowFiles.over.wait(120)


class RemoteHarness:
    """A folder of a file system that a test breaks."""

    troubles = frozenset(Trouble)
    max_bytes = _MAX_BYTES
    deletes = True

    def __init__(self, _: Path) -> None:
        fsspec.register_implementation("slow", _SlowFiles, clobber=True)
        _SlowFiles.store, _SlowFiles.pseudo_dirs = {}, ["", "/notes"]
        _SlowFiles.trouble = None
        self._files = _SlowFiles()

    def connector(self) -> Connector:
        settings = FileSettings(max_bytes=self.max_bytes)
        return RemoteConnector(Driver("slow://notes", {}, limit_s=5.0), settings)

    def put(self, key: str, text: str) -> str:
        self._files.pipe_file(f"/notes/{key}.md", text.encode())
        return f"{key}.md"

    def delete(self, key: str) -> None:
        self._files.rm_file(f"/notes/{key}.md")

    def begin(self, trouble: Trouble) -> None:
        _SlowFiles.over.clear()
        _SlowFiles.trouble = trouble

    def end(self) -> None:
        _SlowFiles.trouble = None
        _SlowFiles.over.set()

    def close(self) -> None:
        self.end()


class S3Harness:
    """A bucket of a server that speaks S3."""

    troubles = frozenset({Trouble.AWAY})
    max_bytes = _MAX_BYTES
    deletes = True

    def __init__(self, _: Path) -> None:
        pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'hopsyncd[dev]'")
        moto = pytest.importorskip("moto.server", reason="moto is not installed")
        self._server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        address = "http://{}:{}".format(*self._server.get_host_and_port())
        self._options = {
            "key": "one",
            "secret": "another",
            "client_kwargs": {"endpoint_url": address},
        }
        self._files = fsspec.filesystem("s3", use_listings_cache=False, **self._options)
        if self._files.exists("contract"):
            self._files.rm("contract", recursive=True)
        self._files.mkdir("contract")

    def connector(self) -> Connector:
        settings = FileSettings(max_bytes=self.max_bytes)
        return RemoteConnector(Driver("s3://contract/notes", self._options), settings)

    def put(self, key: str, text: str) -> str:
        self._files.pipe_file(f"contract/notes/{key}.md", text.encode())
        return f"{key}.md"

    def delete(self, key: str) -> None:
        self._files.rm_file(f"contract/notes/{key}.md")

    def begin(self, trouble: Trouble) -> None:
        self._files.copy("contract/notes", "contract/aside", recursive=True)
        self._files.rm("contract/notes", recursive=True)

    def end(self) -> None:
        if self._files.exists("contract/aside"):
            self._files.copy("contract/aside", "contract/notes", recursive=True)
            self._files.rm("contract/aside", recursive=True)

    def close(self) -> None:
        self._server.stop()
