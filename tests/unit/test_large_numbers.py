"""Numbers of thousands of digits, which Python does not convert, are the caller's mistake."""

from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, ValidationError
from starlette.testclient import TestClient

from connectors.mail.imap_session import fetch_rows
from hopsyncd.api.app import ENDPOINTS
from hopsyncd.api.failures import describe_bad_request
from hopsyncd.client import Client, RequestFailed
from hopsyncd.config.configuration import check_config
from hopsyncd.config.schedule import parse_date_ms
from hopsyncd.errors import ConfigError
from hopsyncd.web.listener import Door
from hopsyncd.web.pages import make_page

LONG = ("9" * 30, "9" * 310, "9" * 4300, "9" * 4301, "9" * 5000, "0" * 5000, "-" + "9" * 5000,
        "9" * 5000 + ".5", "1e5000", "1." + "9" * 5000)  # fmt: skip
HOST = "127.0.0.1:1234"


def refusal(model: type[BaseModel], name: str, number: str, of_posts: bool) -> str:
    try:
        if of_posts:
            model.model_validate_json(f'{{"{name}":{number}}}')
        else:
            model.model_validate({name: number})
    except ValidationError as error:
        return str(describe_bad_request(error, model))
    return ""


@pytest.mark.parametrize("number", LONG)
def test_every_field_of_a_request_takes_or_refuses_it(number: str) -> None:
    for endpoint in ENDPOINTS:
        for name, field in endpoint.request.model_fields.items():
            told = refusal(endpoint.request, field.alias or name, number, endpoint.method == "POST")
            assert len(told) < 600


def test_the_refusal_says_which_field_and_why() -> None:
    by_name = {endpoint.operation: endpoint.request for endpoint in ENDPOINTS}
    told = refusal(by_name["log"], "before", "9" * 5000, of_posts=False)
    assert "before: too long for a number: 5,000 characters" in told
    told = refusal(by_name["query"], "k", "9" * 5000, of_posts=True)
    assert "the body is not valid JSON: number out of range" in told


class _FakeClient:
    is_remote = False

    def log(self, limit: int, before: int | None = None) -> Any:
        raise RequestFailed(404, "not_found", f"limit {limit} before {before} a\u202eb\x9b2J", "Go")

    def status(self) -> Any:
        raise RequestFailed(404, "not_found", "no status", "Go")

    def ask(self, question: str, **fields: Any) -> Any:
        raise RequestFailed(404, "not_found", f"k {fields['k']}", "Go")


@pytest.fixture
def browser() -> TestClient:
    door = Door(HOST)
    door.create_address()
    session = door.open_session(door._token)
    page = TestClient(
        make_page(cast(Client, _FakeClient()), door), base_url=f"http://{HOST}{door.base}"
    )
    page.headers["Cookie"] = f"hopsyncd={session}"
    return page


def test_the_page_ignores_a_number_that_is_too_long(browser: TestClient) -> None:
    assert "before 12 " in browser.get("/changes?before=12").text
    for number in (*LONG, "\u0661\u0662", ""):
        answer = browser.get("/changes", params={"before": number})
        assert answer.status_code == 404 and "before None" in answer.text
        assert browser.get(f"/changes/{number or 'x'}").status_code == 404


def test_the_page_shows_controls_as_escapes(browser: TestClient) -> None:
    shown = browser.get("/changes").text
    assert "a\\u202eb\\x9b2J" in shown
    assert "\u202e" not in shown and "\x9b" not in shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"[query]\nbeam = {'9' * 5000}\n", "a number is too long"),
        (f"x = {'[' * 5000}\n", "nested too deeply"),
    ],
)
def test_the_configuration_is_refused_with_a_reason(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_config(tmp_path / "config.toml", text)


@pytest.mark.parametrize(
    "date", ["9" * 5000, "99999-01-01", "-1-01-01", "9999d", "0000-00-00", "1" * 5000 + "d"]
)
def test_a_date_beyond_the_calendar_is_not_read_as_a_date(date: str) -> None:
    assert parse_date_ms(date) is None


def test_a_mail_server_may_send_long_numbers() -> None:
    long = b"9" * 5000
    assert fetch_rows([b"1 (UID %s RFC822.SIZE 5)" % long, b"2 (UID 7 RFC822.SIZE 9)"]) == [(7, 9)]
