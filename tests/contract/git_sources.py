"""Connectors on a git repository, here or from afar, and what they list."""

from dataclasses import replace

from connectors.git import GitConnector, GitSettings
from connectors.git_mirror import Mirror
from connectors.git_program import Repository
from connectors.protocol import Cursor, Found, Item
from tests.fakes.git_repository import GitRepository


def here(repository: GitRepository, **settings: object) -> GitConnector:
    origin = Repository(repository.root, str(repository.root))
    return GitConnector(origin, replace(GitSettings(), **settings))


def mirror(repository: GitRepository, **settings: object) -> Mirror:
    made = Mirror(f"file://{repository.root}", repository.root.with_name("data") / "mirror.git")
    return replace(made, **settings)


def listed(connector: GitConnector, since: str | None = None) -> tuple[list[Found], str]:
    *found, cursor = connector.discover(since)
    assert isinstance(cursor, Cursor)
    return found, cursor.value


def ids(found: list[Found]) -> list[str]:
    return [one.id for one in found if isinstance(one, Item)]
