"""An LLM's answer as it is written: over the socket, from an endpoint that streams, or fails to."""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
from pydantic import TypeAdapter

from hopsyncd.client import AsyncClient, Client
from hopsyncd.responses.results import Event
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.endpoint import (
    Endpoint,
    Response,
    error,
    event,
    in_turn,
    say_json,
    stream,
    user_text,
)
from tests.fakes.terminal import at_terminal

QUESTION = "Where was Kaltenbrunn, whose film is Bronze Door, born?"
GOOD = {"found": True, "answer": "In Ostrava", "citations": [1]}
BEGINNING, END = '{"found": true, "answer": "In Ost', 'rava", "citations": [1]}'
PATIENCE_S = 60.0
_NUMBERS = itertools.count(1)
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


@contextmanager
def serving(endpoint: Endpoint, timeout_s: float, prices: str = "") -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("door.md", "# Bronze Door\n\nBronze Door is a film by Kaltenbrunn.\n")
        made.write("mira.md", "# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava.\n")
        made.configure(
            f'[llm]\nbase_url = "{endpoint.base_url}"\nmodel = "small"\nquestions = "off"\n'
            f"timeout_s = {timeout_s}\n{prices}[watch]\nenabled = false\n"
            + source("notes", made.notes)
        )
        made.start()
        made.sync()
        yield made


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(lambda _: error(500)) as made:
        yield made


@pytest.fixture(scope="module")
def place(endpoint: Endpoint) -> Iterator[Place]:
    with serving(endpoint, 2 * PATIENCE_S) as made:
        yield made


@pytest.fixture(scope="module")
def hasty(endpoint: Endpoint) -> Iterator[Place]:
    """A daemon that does not wait long for its LLM, but has loaded all it needs to ask it."""
    with serving(endpoint, 6.0) as made:
        endpoint.play = lambda _: stream([BEGINNING, END])
        made.until(lambda: bool(asked(made, QUESTION)[-1]["answer"]["by"] == "llm"), PATIENCE_S)
        yield made


@pytest.fixture
def question() -> str:
    """One in other bytes than those before, for replies are kept."""
    return QUESTION + "?" * next(_NUMBERS)


def checked(events: Iterable[Any]) -> list[Any]:
    """The events, after a look at what holds for all streams."""
    seen = list(events)
    text = ""
    for one in seen:
        _EVENT.validate_python(one)
        if one["event"] == "text":
            text += one["text"]
        elif one["event"] == "withdrawn":
            assert text and one["why"]
            text = ""
    assert [one["event"] for one in seen].index("answer") == len(seen) - 1
    assert text == (seen[-1]["answer"]["answer"] or "")
    return seen


def asked(place: Place, question: str) -> list[Any]:
    return checked(Client(place.socket).ask_events(question, llm=True))


def kinds(events: Iterable[Any]) -> list[str]:
    return [one["event"] for one in events if one["event"] != "progress"]


def test_the_first_words_come_before_the_llm_has_written_the_last(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    heard = threading.Event()

    def texts() -> Iterator[str]:
        yield BEGINNING
        assert heard.wait(PATIENCE_S), "nobody was told of the first words"
        yield END

    endpoint.play = lambda _: stream(texts())
    seen: list[Any] = []
    for one in Client(place.socket).ask_events(question, llm=True):
        seen.append(one)
        if one["event"] == "text":
            heard.set()
    checked(seen)
    assert [one["text"] for one in seen if one["event"] == "text"] == ["In Ost", "rava"]
    answer = seen[-1]["answer"]
    assert (answer["by"], answer["degraded"]) == ("llm", [])
    assert answer["llm"] == {"calls": 1, "cached": 0, "tokens": 120}


def test_an_answer_that_was_kept_is_one_text_and_the_same_without_a_stream(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: stream([*BEGINNING, *END])
    first, again = asked(place, question), asked(place, question)
    assert kinds(first).count("text") == len("In Ostrava") - 1  # a blank comes with what follows
    assert kinds(again) == ["text", "answer"]
    plain = Client(place.socket).ask(question, llm=True)
    assert plain["llm"] == {"calls": 0, "cached": 1, "tokens": 0}
    assert first[-1]["answer"] | {"llm": plain["llm"]} == again[-1]["answer"] == plain


def test_without_a_listener_no_stream_is_asked_for(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: say_json(GOOD)
    assert Client(place.socket).ask(question, llm=True)["by"] == "llm"
    assert "stream" not in endpoint.requests[-1]


def test_any_text_comes_through_in_one_piece_or_many(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    text = 'In "Östra\u2028va" 😀\\ by\n\nthe\u0085river'
    endpoint.play = lambda _: stream(json.dumps({**GOOD, "answer": text}))
    assert asked(place, question)[-1]["answer"]["answer"] == text

    async def listen() -> list[Any]:
        async with AsyncClient(place.socket) as other:
            return [one async for one in other.ask_events(f"{question}!", llm=True)]

    assert checked(asyncio.run(listen()))[-1]["answer"]["answer"] == text


def test_an_llm_answer_without_valid_citations_is_replaced_by_sentences(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: stream([BEGINNING, 'rava", "citations": [99]}'])
    seen = asked(place, question)
    assert kinds(seen)[:3] == ["text", "text", "withdrawn"]
    assert set(kinds(seen)[3:-1]) == {"text"}
    (why,) = (one["why"] for one in seen if one["event"] == "withdrawn")
    answer = seen[-1]["answer"]
    assert (answer["by"], answer["degraded"]) == ("extractive", [why])
    assert "cites passage 99" in why


def test_a_reply_that_is_repaired_is_withdrawn_first(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = in_turn(
        stream(['{"found": true, "answer": "In Graz', '", "citations": "1"}']),
        stream([BEGINNING, END]),
    )
    seen = asked(place, question)
    assert kinds(seen) == ["text", "withdrawn", "text", "text", "answer"]
    assert (seen[-1]["answer"]["by"], seen[-1]["answer"]["llm"]["calls"]) == ("llm", 2)


def test_a_stream_that_breaks_off_is_withdrawn_and_asked_for_again(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    def torn() -> Iterator[bytes]:
        yield event({"choices": [{"delta": {"content": BEGINNING}}]})
        raise ConnectionResetError

    for broken in (stream([BEGINNING], finish_reason=None), Response(parts=torn())):
        endpoint.play = in_turn(broken, say_json(GOOD))
        seen = asked(place, question + "!" * len(endpoint.requests))
        assert kinds(seen) == ["text", "withdrawn", "text", "answer"]
        assert (seen[-1]["answer"]["by"], seen[-1]["answer"]["degraded"]) == ("llm", [])


def test_a_draft_is_withdrawn_if_the_final_reply_is_not_found(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: stream(['{"answer": "In Graz"', ', "found": false}'])
    seen = asked(place, question)
    assert kinds(seen) == ["text", "withdrawn", "answer"]
    assert (seen[-1]["answer"]["by"], seen[-1]["answer"]["found"]) == ("llm", False)


def test_an_endpoint_that_cannot_stream_answers_in_one_piece(
    endpoint: Endpoint, question: str
) -> None:
    def play(request: dict[str, Any]) -> Response:
        return error(400, "unknown field") if "stream" in request else say_json(GOOD)

    endpoint.play = play
    with serving(endpoint, PATIENCE_S) as other:
        before = len(endpoint.requests)
        for more in ("", "!"):
            seen = asked(other, question + more)
            assert kinds(seen) == ["text", "answer"]
            assert seen[-1]["answer"]["by"] == "llm"
        assert len(endpoint.requests) == before + 3


def test_a_client_that_goes_away_ends_the_stream_of_the_endpoint(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    def endless() -> Iterator[bytes]:
        yield event({"choices": [{"delta": {"content": BEGINNING}}]})
        while True:
            time.sleep(0.02)
            yield b": still here\n\n"

    endpoint.play = lambda _: Response(parts=endless())
    left, sent = endpoint.left, len(endpoint.requests)
    with closing(Client(place.socket).ask_events(question, llm=True)) as events:
        assert any(one["event"] == "text" for one in events)
    place.until(lambda: endpoint.left > left, PATIENCE_S)
    assert len(endpoint.requests) == sent + 1
    endpoint.play = lambda _: stream([BEGINNING, END])
    assert asked(place, question)[-1]["answer"]["by"] == "llm"


def in_parts(request: dict[str, Any], then: Response) -> Response:
    """Two subproblems, the first of which has no answer; then what is said of the second."""
    data = json.loads(user_text(request))
    if "open" not in data and "documents" not in data:
        parts = [
            {"id": 1, "question": "Who directed Bronze Door?", "after": []},
            {"id": 2, "question": "Where was Kaltenbrunn born?", "after": [1]},
        ]
        return say_json({"subproblems": parts})
    if "open" in data and data["open"][0]["id"] == 1:
        return say_json({"answers": [], "notes": "", "more": []})
    if "open" in data:
        return then
    return say_json(GOOD)


def test_a_follow_up_keeps_the_thread_and_the_price_is_shown(
    endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: stream(json.dumps(GOOD))
    prices = 'input_price = 2.0\noutput_price = 10.0\ncurrency = "EUR"\n'
    with serving(endpoint, 2 * PATIENCE_S, prices) as place:
        thread: list[Any] = [{"question": "Who directed Bronze Door?", "answer": "Kaltenbrunn"}]
        events = Client(place.socket).ask_events("And where was she born?", thread=thread)
        answer = checked(events)[-1]["answer"]
        assert answer["subjects"] == ["Bronze Door", "Kaltenbrunn"]
        sent = json.loads(user_text(endpoint.requests[-1]))
        assert (sent["question"], sent["thread"]) == ("And where was she born?", thread)
        price = (100 * 2.0 + 20 * 10.0) / 1e6
        assert answer["llm"] == {
            "calls": 1,
            "cached": 0,
            "tokens": 120,
            "price": price,
            "currency": "EUR",
        }
        endpoint.play = lambda _: say_json(GOOD)
        ran = place.run("ask", question)
        assert "1 LLM call, 120 tokens, 0.0004 EUR" in ran.stderr
        alone = Client(place.socket).ask("And where was she born?", llm=False, thread=thread)
        assert alone["subjects"] == ["Bronze Door", "Kaltenbrunn"]
        assert "Ostrava" in str(alone["answer"])


def test_a_stopped_answer_is_in_the_ledger(place: Place, endpoint: Endpoint, question: str) -> None:
    def spent() -> tuple[int, int]:
        rows = [one for one in place.status()["llm"]["today"] if one["purpose"] == "answers"]
        return sum(row["calls"] for row in rows), place.status()["llm"]["tokens_today"]

    endpoint.play = lambda _: Response(parts=dripping())
    calls, tokens = spent()
    left = endpoint.left
    with closing(Client(place.socket).ask_events(question, llm=True)) as events:
        assert any(one["event"] == "text" for one in events)
    place.until(lambda: endpoint.left > left, PATIENCE_S)
    place.until(lambda: spent()[0] == calls + 1 and spent()[1] > tokens, PATIENCE_S)


def test_a_search_by_logic_reports_its_parts(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    resolved = {"answers": [{"id": 2, "answer": "In Ostrava", "citations": [1]}], "notes": "x"}
    endpoint.play = lambda request: in_parts(request, say_json(resolved))
    events = checked(Client(place.socket).ask_events(question, llm=True, method="logic"))
    stages = [one["stage"] for one in events if one["event"] == "progress"]
    assert stages == ["search", "split", "search", "resolve", "search", "resolve", "answer"]
    answer = events[-1]["answer"]
    assert (answer["answer"], answer["by"], answer["degraded"]) == ("In Ostrava", "llm", [])
    assert [subproblem["answer"] for subproblem in answer["logic"]["subproblems"]] == [
        None,
        "In Ostrava",
    ]
    assert answer["llm"]["calls"] == 4
    ran = place.run("ask", question, "--llm", "--method", "logic", "--explain")
    assert "#2 Where was Kaltenbrunn born?   step 2, needs #1" in ran.stdout
    assert "In Ostrava   [" in ran.stdout and "no answer" in ran.stdout


def test_a_client_that_goes_away_ends_a_search_by_logic(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            time.sleep(0.02)
            yield b" "

    endpoint.play = lambda request: in_parts(request, Response(parts=endless()))
    left, sent = endpoint.left, len(endpoint.requests)
    with closing(Client(place.socket).ask_events(question, llm=True, method="logic")) as events:
        wanted = ("search", ["Where was Kaltenbrunn born?"])
        assert any((one.get("stage"), one.get("questions")) == wanted for one in events)
        place.until(lambda: len(endpoint.requests) == sent + 3, PATIENCE_S)
    place.until(lambda: endpoint.left > left, PATIENCE_S)
    assert len(endpoint.requests) == sent + 3


def silent() -> Iterator[bytes]:
    yield event({"choices": [{"delta": {"content": BEGINNING}}]})
    threading.Event().wait(PATIENCE_S)


def dripping() -> Iterator[bytes]:
    yield event({"choices": [{"delta": {"content": BEGINNING}}]})
    while True:
        time.sleep(0.05)
        yield b": still here\n\n"


def turning() -> Iterator[str]:
    """An object that has another answer again and again."""
    yield '{"found": true'
    yield from itertools.cycle((', "answer": "In Graz"', ', "answer": "In Ostrava"'))


HOSTILE = {
    "ten megabytes": lambda: stream([BEGINNING, "x" * (10 << 20)]),
    "no end": lambda: stream(itertools.chain([BEGINNING], itertools.repeat("x" * 500))),
    "no line": lambda: Response(parts=itertools.repeat(b"data: x" * 1000)),
    "no opinion": lambda: stream(turning()),
    "garbage": lambda: Response(parts=[event({"choices": 5}), b"data: \xff{\n\n" * 99]),
    "half a character": lambda: stream(['{"found": true, "answer": "In \\ud83d', "\\ud83d"]),
    "an escape": lambda: stream(['{"found": true, "answer": "\\u001b[31m", "citations": 1}']),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_stream_ends_in_the_sentences(
    place: Place, endpoint: Endpoint, question: str, name: str
) -> None:
    endpoint.play = lambda _: HOSTILE[name]()
    answer = asked(place, question)[-1]["answer"]
    assert (answer["by"], len(answer["degraded"])) == ("extractive", 1)
    assert "Ostrava" in answer["answer"]
    endpoint.play = lambda _: stream([BEGINNING, END])
    assert asked(place, f"{question}!")[-1]["answer"]["by"] == "llm"


def test_streams_that_never_end_are_withdrawn_at_the_deadline(
    hasty: Place, endpoint: Endpoint, question: str
) -> None:
    turns = itertools.cycle((silent, dripping))
    endpoint.play = lambda _: Response(parts=next(turns)())
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda one: asked(hasty, one), (question, f"{question}!")))
    for seen in both:
        assert kinds(seen)[:2] == ["text", "withdrawn"]
        answer = seen[-1]["answer"]
        assert (answer["by"], len(answer["degraded"])) == ("extractive", 1)


def test_a_terminal_shows_the_words_as_they_come_and_keeps_the_answer(
    place: Place, endpoint: Endpoint, question: str
) -> None:
    endpoint.play = lambda _: stream(['{"found": true, "answer": "In \\u001b[31mOst', END])
    status, shown = at_terminal(place.home, "ask", question, "--llm")
    assert status == 0
    draft, _, kept = shown.rpartition("\x1b[2K")
    assert "In \\x1b[31mOstrava" in draft
    assert "In \\x1b[31mOstrava [1]" in kept
    assert "\x1b[31m" not in shown
    piped = place.run("ask", question, "--llm").stdout
    assert piped.startswith("In \\x1b[31mOstrava [1]\n[1] notes: ")


def test_an_answer_begun_before_changes_were_indexed_says_so(
    endpoint: Endpoint,
) -> None:
    indexed = threading.Event()

    def play(_: object) -> Response:
        assert indexed.wait(PATIENCE_S)
        return stream([BEGINNING, END])

    endpoint.play = play
    with serving(endpoint, 2 * PATIENCE_S) as place, ThreadPoolExecutor() as threads:
        for number in range(400):
            place.write(f"more/{number}.md", f"# Captain{number}\n\nCaptain{number} sails.\n")
        syncing = threads.submit(place.sync)
        place.until(lambda: bool(place.status()["pending"]))
        asking = threads.submit(place.post, "/v1/ask", {"question": QUESTION, "llm": True})
        syncing.result()
        place.until(lambda: not place.status()["pending"])
        indexed.set()
        assert "changes are being indexed" in asking.result()["degraded"]
