"""Connectors on a git repository, here or from afar, and what they list."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from connectors.git import GitConnector, GitSettings
from connectors.git_program import Mirror, Repository
from connectors.protocol import Cursor, Found, Item
from tests.fakes.git_repository import GitRepository
from tests.fakes.listing import Named, named


def here(repository: GitRepository, **settings: Any) -> GitConnector:
    origin = Repository(repository.root, str(repository.root))
    return GitConnector(origin, replace(GitSettings(), **settings))


def mirror(repository: GitRepository, **settings: Any) -> Mirror:
    made = Mirror(f"file://{repository.root}", repository.root.with_name("data") / "mirror.git")
    return replace(made, **settings)


def listed(connector: GitConnector, since: str | None = None) -> tuple[list[Named], str]:
    *found, cursor = connector.discover(since)
    assert isinstance(cursor, Cursor)
    return list(named(found)), cursor.value


def ids(found: Sequence[Found]) -> list[str]:
    return [item.id for item in found if isinstance(item, Item)]
