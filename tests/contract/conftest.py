"""Sources that several of the modules here ask for, and the suite, which is no test module: its
assertions are to be explained like those of one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.harness import Harness
from tests.contract.site import Site, serving
from tests.contract.world import World
from tests.fakes.git_repository import GitRepository
from tests.fakes.postgres import Postgres, postgres

pytest.register_assert_rewrite("tests.contract.suite", "tests.contract.suite_trouble")


@pytest.fixture
def world(harness: Harness, tmp_path: Path) -> Iterator[World]:
    """The harness's source with three items, not yet synced."""
    made = World(harness, tmp_path)
    yield made
    made.close()


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    made = GitRepository(tmp_path / "repository")
    made.put("a.md", b"# A")
    made.put("b/c.txt", b"see")
    return made


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as made:
        yield made


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
def on_server(server: Postgres) -> str:
    return server.database()
