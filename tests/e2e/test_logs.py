"""The log of a real daemon that knows secrets, and whose sources and LLM fail."""

import json

from tests.e2e.daemon import SMALL, new_place, source
from tests.fakes.endpoint import Endpoint, Response

CANARIES = {
    "OPENAI_API_KEY": "canary-of-the-llm",
    "GIT_TOKEN": "canary-of-git",
    "HOPSYNCD_IMAP_PASSWORD": "canary-of-mail",
}
NOWHERE = """
[[source]]
name = "code"
kind = "git"
url = "https://127.0.0.1:9/code.git"
token = "${GIT_TOKEN}"
[[source]]
name = "mail"
kind = "imap"
host = "127.0.0.1"
user = "ann"
tls = "off"
port = 9
"""


def test_the_log_has_every_request_and_no_secret_and_no_text() -> None:
    echo = Response(f"no such key: {CANARIES['OPENAI_API_KEY']}".encode(), status=500)
    with Endpoint(lambda _: echo) as endpoint, new_place(SMALL) as place:
        place.variables.update(CANARIES)
        place.write("a.md", "Ansgar Nyborg keeps the lighthouse.\n")
        place.configure(
            '[daemon]\nlog_level = "debug"\n'
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "m"\n'
            'timeout_s = 2.0\nquestions = "both"\n' + source("notes", place.notes) + NOWHERE
        )
        place.start()
        place.sync("notes")
        place.post("/v1/ask", {"question": "Who keeps the lighthouse?", "llm": True})
        place.query("Who keeps the lighthouse?")
        place.request("GET", "/v1/nothing?api_key=canary-of-a-client")
        assert endpoint.requests
        place.stop()
        text = place.log.read_text()
    events = [json.loads(line) for line in text.splitlines()]
    operations = [event["operation"] for event in events if event["event"] == "request"]
    assert {"ask", "query", "sync"} <= set(operations)
    assert "canary" not in text
    assert "lighthouse" not in text
