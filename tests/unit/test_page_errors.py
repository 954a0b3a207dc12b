"""What the page shows if a form is refused, or if there is no daemon."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from hopsyncd.client import Client
from hopsyncd.web.listener import COOKIE, Door
from hopsyncd.web.pages import make_page

HOST = "127.0.0.1:1234"


@pytest.fixture
def browser(tmp_path: Path) -> TestClient:
    door = Door(HOST)
    door.create_address()
    page = make_page(Client(tmp_path / "none"), door)
    headers = {
        "Cookie": f"{COOKIE}={door.open_session(door._token)}",
        "Origin": f"http://{HOST}",
    }
    return TestClient(page, base_url=f"http://{HOST}{door.base}", headers=headers)


def test_a_refused_form_does_not_show_a_failed_sync(browser: TestClient) -> None:
    refused = browser.post("/watches", data={"q": "barge?", "csrf": "0" * 64})
    assert refused.status_code == 403 and "The form is not valid for your session" in refused.text
    assert "State unknown" in refused.text
    assert "last sync failed" not in refused.text and "does not answer" not in refused.text


def test_a_daemon_that_is_down_does_not_show_a_failed_sync(browser: TestClient) -> None:
    shown = browser.get("/sources")
    assert shown.status_code == 502 and "State unknown" in shown.text
    assert "last sync failed" not in shown.text
