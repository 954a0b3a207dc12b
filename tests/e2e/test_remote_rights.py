"""Drawn requests over TLS: members get the answers of a daemon that never had the hidden files."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.daemon import SMALL, new_place
from tests.e2e.test_access import CANARY, CLOSED, OPEN, new_token
from tests.e2e.test_remote import Server

HIDDEN = {f"open/hr/{path}": text for path, text in CLOSED.items()} | {
    f"open/HR/{CANARY}-2.md": f"# Pay\n\nAda Byron pays the {CANARY} in Oslo in 1816.\n"
}
RULE = 'paths = [{ match = "hr/**", visible_to = ["user:root"] }]'
OWN = 'visible_to = ["user:root"]'
WORDS = ("Ada", "Byron", "Rome", "Babbage", "London", "who", "met", "1815", "Oslo", CANARY, "hr/")
STRATEGIES = ("hop", "dense", "bm25", "hybrid")
PATHS = tuple(path.removeprefix("open/") for path in HIDDEN)
# Members may see that something happens: each change makes a version.
STATE = (
    "version",
    "took_ms",
    "created",
    "modified",
    "ms",
    "timings",
    "origin",
    "indexed",
    "changed",
)

questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
filters = st.sampled_from(
    ["", "path:hr/", "path:HR/", "source:closed", "source:open", "type:md", "-path:hr/"]
)


def _posts() -> st.SearchStrategy[tuple[str, str, dict[str, Any]]]:
    query = st.fixed_dictionaries(
        {
            "question": st.builds(lambda words, narrow: f"{words} {narrow}", questions, filters),
            "strategy": st.sampled_from(STRATEGIES),
            "k": st.integers(1, 20),
        }
    )
    ask = st.fixed_dictionaries({"question": questions})
    return st.one_of(
        st.tuples(st.just("POST"), st.just("/v1/query"), query),
        st.tuples(st.just("POST"), st.just("/v1/ask"), ask),
        st.tuples(st.just("POST"), st.just("/v1/facets"), st.just({})),
    )


def _gets() -> st.SearchStrategy[tuple[str, str, None]]:
    spelled = st.builds(
        lambda path, prefix: prefix + path,
        st.sampled_from([*OPEN, *PATHS, *(path.upper() for path in PATHS)]),
        st.sampled_from(["", "//", "./", "x/../"]),
    )
    operation = st.sampled_from(["document", "history", "file"])
    source = st.sampled_from(["open", "closed"])
    return st.builds(
        lambda name, where, path: (
            "GET",
            f"/v1/{name}?{urlencode({'source': where, 'document': path})}",
            None,
        ),
        operation,
        source,
        spelled,
    ) | st.sampled_from([("GET", f"/v1/{name}", None) for name in ("documents", "examples")])


class Pair:
    """The daemon with hidden files and one that never had them, and a member's token for each."""

    def __init__(self, stack: ExitStack) -> None:
        whole, alone = (stack.enter_context(new_place(SMALL)) for _ in range(2))
        for path, text in HIDDEN.items():
            whole.write(path, text)
        self.servers = (
            Server(whole, ("open", "closed"), {"open": RULE, "closed": OWN}),
            Server(alone, ("open",), {"open": RULE}),
        )
        self.tokens = [new_token(server.place, "read") for server in self.servers]

    def answers(self, method: str, path: str, body: dict[str, Any] | None) -> list[Any]:
        """The status and the answer of each, without times and places on the disk."""
        found = []
        for server, token in zip(self.servers, self.tokens, strict=True):
            status, text, _ = server.send(method, path, body, token)
            found.append((status, _stable(json.loads(text)) if path[:8] != "/v1/file" else text))
        return found


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack)


@given(asked=_posts() | _gets())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_remote_member_gets_the_answers_of_a_daemon_without_the_hidden_files(
    pair: Pair, asked: tuple[str, str, dict[str, Any] | None]
) -> None:
    found, expected = pair.answers(*asked)
    assert found == expected


def test_the_hidden_files_are_there_for_those_who_may_see_them(pair: Pair) -> None:
    server = pair.servers[0]
    _, text, _ = server.send(
        "POST", "/v1/query", {"question": f"{CANARY} pays in Oslo"}, server.tokens["owner"]
    )
    assert f"HR/{CANARY}-2.md" in text


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(one) for key, one in value.items() if key not in STATE}
    if isinstance(value, str):
        return re.sub(r"version \d+", "a version", value)
    if isinstance(value, float):
        return pytest.approx(value, abs=1e-4)
    return [_stable(one) for one in value] if isinstance(value, list) else value
