"""What a program that logs as the daemon does writes to standard error."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hopsyncd.config.configuration import check_config
from hopsyncd.config.privacy import collect_secrets

ROOT = Path(__file__).parents[2]
CANARY = 'cänary "b1rd"/x'
PROGRAM = f"""
import logging, sys, threading, structlog
from hopsyncd.logs import configure_logs

SECRET = {CANARY!r}
configure_logs("info", sys.argv[1], [SECRET, ""])
log = structlog.get_logger("program")

def fail(text):
    private = "the text of a document"
    raise ValueError(f"refused {{text}}")

log.info("plain", why=SECRET, headers={{"x": SECRET}})
log.info("forms", a="https://ann:pa55word@example.org/x?api_key=k3y-1234&b=1",
         b="Authorization: Bearer t0ken-5678", c={{"authorization": "Basic dXNlcjpw"}})
try:
    fail(SECRET)
except ValueError:
    log.exception("it failed")
logging.getLogger("library").warning("got %s", SECRET)
logging.getLogger("library").info("not told")
threading.Thread(target=fail, args=(SECRET,)).start()
log.debug("not told either")
"""


def logged(form: str, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, form],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    return ran.stderr


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_line_holds_a_secret_or_a_local_variable(form: str) -> None:
    text = logged(form)
    for secret in ("b1rd", "pa55word", "k3y-1234", "t0ken-5678", "dXNlcjpw"):
        assert secret not in text
    assert text.count("[secret]") >= 8
    assert "the text of a document" not in text
    assert "example.org" in text
    assert "not told" not in text


def test_json_is_one_object_a_line_from_libraries_and_threads_too() -> None:
    lines = [json.loads(line) for line in logged("auto").splitlines()]
    assert [line["event"] for line in lines] == [
        "plain", "forms", "it failed", "got [secret]", "a thread ended in an error",
    ]  # fmt: skip
    assert [line["level"] for line in lines] == ["info", "info", "error", "warning", "error"]
    assert all("timestamp" in line for line in lines)
    assert "ValueError: refused [secret]" in lines[2]["exception"]


def test_the_journal_gets_priorities_and_no_times_of_ours() -> None:
    with tempfile.TemporaryFile() as journal:
        found = os.fstat(journal.fileno())
        stream = f"{found.st_dev}:{found.st_ino}"
        subprocess.run(
            [sys.executable, "-c", PROGRAM, "auto"],
            cwd=ROOT,
            env={**os.environ, "JOURNAL_STREAM": stream},
            stderr=journal,
            check=True,
            timeout=180,
        )
        journal.seek(0)
        lines = journal.read().decode().splitlines()
    assert [line[:3] for line in lines] == ["<6>", "<6>", "<3>", "<4>", "<3>"]
    assert all("timestamp" not in json.loads(line[3:]) for line in lines)
    assert logged("auto", JOURNAL_STREAM=stream).startswith("{"), "another stream is no journal"


def test_the_secrets_of_a_configuration_are_its_keys_tokens_and_passwords(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY_OF_LLM", "key of the llm")
    monkeypatch.setenv("PASSWORD_OF_MAIL", "password of mail")
    monkeypatch.setenv("TOKEN", "token of git")
    monkeypatch.setenv("OPENAI_API_KEY", "key of the encoder")
    text = """
[models]
encoder = "openai:m"
[llm]
base_url = "https://llm.example.org/v1"
model = "m"
api_key_env = "KEY_OF_LLM"
[[source]]
name = "mail"
kind = "imap"
host = "imap.example.org"
user = "ann"
password_env = "PASSWORD_OF_MAIL"
[[source]]
name = "code"
kind = "git"
url = "https://example.org/code.git"
token = "${TOKEN}"
[[source]]
name = "bucket"
kind = "remote"
url = "s3://bucket"
options = { key = "key of s3", client_kwargs = { region_name = "eu", secrets = ["of s3"] } }
[[source]]
name = "tickets"
kind = "sqlite"
path = "tickets.db"
table = "ticket"
key = "ticket_id"
text = ["body"]
"""
    assert collect_secrets(check_config(Path("/x/config.toml"), text)) == {
        "key of the llm", "key of the encoder", "password of mail", "token of git", "key of s3",
        "of s3",
    }  # fmt: skip
