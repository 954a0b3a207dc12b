"""As `test_incremental`, a few of its sequences, with the record on a PostgreSQL server."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
from hypothesis import seed, settings

from store.open_database import Database
from tests.fakes.postgres import Postgres, postgres
from tests.property.test_incremental import SEED, Incremental


@seed(SEED)
class IncrementalOnServer(Incremental):
    server: ClassVar[Postgres]

    def place(self) -> Database:
        return self.server.database()


@pytest.fixture(scope="module")
def _server() -> Iterator[None]:
    with postgres() as IncrementalOnServer.server:
        yield


TestIncrementalOnServer = pytest.mark.usefixtures("_server")(IncrementalOnServer.TestCase)
TestIncrementalOnServer.settings = settings(
    IncrementalOnServer.TestCase.settings, max_examples=6, stateful_step_count=25
)
