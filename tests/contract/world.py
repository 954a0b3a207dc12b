"""A source of any kind kept in sync by the real write path, and hooks for what goes wrong."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from connectors.protocol import Connector, Fetched, Found, Item
from hopsyncd.ingest.source_sync import SyncOutcome
from store.reads import read_live_documents
from store.sources import ListingState, list_item_problems, put_listing_state, read_listing_state
from tests.contract.harness import Harness, Trouble
from tests.fakes.stack import Stack

ROME = "Rome is in Italy. Caesar crossed the Rubicon."
ADA = "Ada Lovelace met Charles Babbage in London."
OSLO = "Oslo is the capital of Norway."

Between = Callable[[], None]


def nothing() -> None:
    """The hook of a test that needs none."""


class Wrapped:
    """A connector with hooks: before each listed thing and before each fetch. Counts fetches."""

    def __init__(
        self, connector: Connector, *, on_found: Between = nothing, on_fetch: Between = nothing
    ) -> None:
        self._connector = connector
        self.on_found, self.on_fetch = on_found, on_fetch
        self.fetched: list[str] = []
        self.listings: list[str | None] = []

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        self.listings.append(since)
        for found in self._connector.discover(since, under):
            self.on_found()
            yield found

    def fetch(self, item: Item) -> Fetched:
        self.on_fetch()
        self.fetched.append(item.id)
        return self._connector.fetch(item)

    def close(self) -> None:
        self._connector.close()


class World:
    """A harness kept in sync with a database: `sync()` is one scan by the real write path."""

    def __init__(self, harness: Harness, base: Path) -> None:
        self.harness = harness
        self._path = base / "graph.db"
        self.connector = Wrapped(harness.connector())
        self.stack = Stack(self._path, self.connector)

    def sync(self) -> SyncOutcome:
        return self.stack.sync()

    def restart(self, between: Between = nothing, batch_documents: int = 100) -> None:
        """A new process: another connection to the store, another connector."""
        self.close()
        self.connector = Wrapped(self.harness.connector())
        self.stack = Stack(
            self._path, self.connector, between=between, batch_documents=batch_documents
        )

    @property
    def documents(self) -> set[str]:
        return set(read_live_documents(self.stack.connection, self.stack.source.id))

    @property
    def content(self) -> dict[str, bytes]:
        return dict(read_live_documents(self.stack.connection, self.stack.source.id))

    @property
    def state(self) -> ListingState:
        return read_listing_state(self.stack.connection, self.stack.source.id)

    def put_cursor(self, value: str) -> None:
        state = ListingState(value, self.state.listed_ms)
        put_listing_state(self.stack.connection, self.stack.source.id, state)

    def problems(self) -> dict[str, str]:
        return {path: why for _, path, why, _ in list_item_problems(self.stack.connection, 100)}

    def close(self) -> None:
        self.stack.close()
        self.connector.close()


def needs(harness: Harness, trouble: Trouble) -> None:
    if trouble not in harness.troubles:
        pytest.skip(f"this kind of source cannot be {trouble.name.lower()}")


def fill(harness: Harness) -> dict[str, str]:
    return {key: harness.put(key, text) for key, text in (("a", ROME), ("b", ADA), ("c", OSLO))}


def revisions(connector: Connector) -> dict[str, str]:
    """What a listing of everything says: the revisions by id."""
    return {f.id: f.revision for f in connector.discover(None) if isinstance(f, Item)}
