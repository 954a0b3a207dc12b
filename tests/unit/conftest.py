"""The HTTP API over a small service, as its owner asks it."""

import pytest
from starlette.testclient import TestClient

from hopsyncd.api.app import make_app
from tests.fakes.owner import as_owner
from tests.fakes.service import FakeService, services_of


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def client(service: FakeService) -> TestClient:
    return TestClient(as_owner(make_app(services_of(service))), raise_server_exceptions=False)
