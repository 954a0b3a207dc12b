"""The contract of connectors, for each kind: a line here for every harness."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.harness import (
    DocumentedHarness,
    FolderHarness,
    Harness,
    MemoryHarness,
    SqliteHarness,
)
from tests.contract.mailboxes import MaildirHarness, MboxHarness
from tests.contract.places import GitHarness, GitRemoteHarness, RemoteHarness, S3Harness
from tests.contract.site import WebHarness
from tests.contract.suite import *  # noqa: F403 - its tests, with the fixture of this module
from tests.contract.suite_trouble import *  # noqa: F403

HARNESSES: dict[str, Callable[[Path], Harness]] = {
    "memory": MemoryHarness,
    "folder": FolderHarness,
    "sqlite": SqliteHarness,
    "git": GitHarness,
    "git remote": GitRemoteHarness,
    "remote": RemoteHarness,
    "s3": S3Harness,
    "maildir": MaildirHarness,
    "mbox": MboxHarness,
    "web": WebHarness,
    "documented": DocumentedHarness,
}


@pytest.fixture(params=list(HARNESSES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """A fresh source of each kind."""
    made = HARNESSES[request.param](tmp_path)
    yield made
    made.close()
