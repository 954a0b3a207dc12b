"""Watches of three users over TLS: each sees their own, as far as their rights go."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.daemon import SMALL, new_place
from tests.e2e.test_access import CANARY
from tests.e2e.test_remote import Server

QUESTION = "Where does Kaltenbrunn live?"
OWN = 'visible_to = ["user:ann"]'
LIVES = "# Kaltenbrunn\n\nKaltenbrunn lives in {town}.\n"


class Users:
    """A server where Ann sees the source `closed`, and Bob does not."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.place = server.place
        self.tokens = {"owner": server.tokens["owner"], "reader": server.tokens["read"]}
        for user, name in (("ann", "ann"), ("bob", "bob"), ("ann", "agent")):
            limits = ("--source", "open") if name == "agent" else ()
            self.tokens[name] = self.new_token(user, *limits)

    def new_token(self, user: str, *options: str) -> str:
        made = self.place.run("token", "create", "--user", user, "--role", "write", *options)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def send(self, who: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        status, text, _ = self.server.send(method, path, body, self.tokens[who])
        return status, json.loads(text)

    def watches(self, who: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.send(who, "GET", "/v1/watches")[1]["watches"]
        return found

    def watch(self, who: str) -> int:
        status, answer = self.send(who, "POST", "/v1/watches", {"question": QUESTION})
        assert status == 200, answer
        return int(answer["watch"]["id"])

    def write(self, path: str, town: str) -> None:
        """Change a document, and wait until all watches are compared."""
        self.place.write(path, LIVES.format(town=town))
        version = self.place.sync()["version"]
        self.place.until(
            lambda: all(
                watch["checked"] >= version or watch["unavailable"]
                for watch in self.watches("owner")
            )
        )


@pytest.fixture
def users() -> Iterator[Users]:
    with new_place(SMALL) as place:
        place.write("open/mira.md", LIVES.format(town="Bergen"))
        yield Users(Server(place, ("open", "closed"), {"closed": OWN}))


def test_each_user_watches_what_they_may_see(users: Users) -> None:
    ann, bob, owner = (users.watch(who) for who in ("ann", "bob", "owner"))
    users.write("closed/mira.md", f"Graz, says the {CANARY}")
    assert [watch["id"] for watch in users.watches("owner")] == [ann, bob, owner]
    assert [(watch["id"], watch["changes"]) for watch in users.watches("ann")] == [(ann, 1)]
    assert [(watch["id"], watch["changes"]) for watch in users.watches("bob")] == [(bob, 0)]
    _, shown = users.send("bob", "GET", f"/v1/watches/{bob}")
    assert CANARY not in json.dumps(shown) and "closed" not in json.dumps(shown)
    for method in ("GET", "DELETE"):
        assert users.send("bob", method, f"/v1/watches/{ann}")[0] == 404
    assert users.send("reader", "GET", "/v1/watches")[0] == 403

    users.write("open/mira.md", "Cork")
    _, shown = users.send("bob", "GET", f"/v1/watches/{bob}")
    assert [change["id"] for change in shown["changes"]] == [1]
    assert "Cork" in shown["now"]["answer"] and CANARY not in json.dumps(shown)
    (listed,) = users.watches("agent")  # Ann's narrower token
    assert listed["unavailable"] and listed["changes"] == 0
    assert CANARY not in json.dumps(users.send("agent", "GET", f"/v1/watches/{ann}")[1])


def test_when_rights_shrink_a_watch_shows_less(users: Users) -> None:
    ann = users.watch("ann")
    users.write("closed/mira.md", f"Graz, says the {CANARY}")
    assert users.watches("ann")[0]["changes"] == 1
    config = users.place.home / "config.toml"
    config.write_text(config.read_text().replace(OWN, 'visible_to = ["user:root"]'))
    assert users.place.run("reload").returncode == 0
    _, shown = users.send("ann", "GET", f"/v1/watches/{ann}")
    assert (shown["watch"]["changes"], shown["changes"]) == (0, [])
    assert CANARY not in json.dumps(shown) and "closed" not in json.dumps(shown)
    users.write("open/mira.md", "Cork")
    _, shown = users.send("ann", "GET", f"/v1/watches/{ann}")
    assert CANARY not in json.dumps(shown) and "Cork" in shown["now"]["answer"]


def test_revoking_a_token_pauses_its_watches_until_the_user_watches_again(users: Users) -> None:
    bob = users.watch("bob")
    shown = users.place.printed("token", "list")["tokens"]
    (known,) = [one["id"] for one in shown if one["user"] == "bob"]
    assert users.place.run("token", "revoke", known).returncode == 0
    assert users.send("bob", "GET", "/v1/watches")[0] == 401
    users.write("open/mira.md", "Cork")
    (listed,) = users.watches("owner")
    assert (
        "was revoked, has expired or was lost in a restore" in listed["unavailable"]
        and listed["user"] == "bob"
    )
    assert "Paused" in users.place.run("watches").stdout
    users.tokens["bob"] = users.new_token("bob")
    assert users.watches("bob")[0]["unavailable"]
    assert users.watch("bob") == bob
    users.place.until(lambda: users.watches("bob")[0]["changes"] == 1)


def test_a_user_may_not_have_the_server_call_programs_or_addresses(users: Users) -> None:
    for action in ({"webhook": "http://127.0.0.1:9/"}, {"exec": ["/usr/bin/true"]}):
        status, answer = users.send("ann", "POST", "/v1/watches", {"question": QUESTION, **action})
        assert status == 403 and "only" in answer["error"]["message"]
    assert users.watches("owner") == []
