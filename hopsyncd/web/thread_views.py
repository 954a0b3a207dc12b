"""Streams the answers of an LLM in a conversation, and saves the conversation as a note.

The browser keeps the conversation and sends the earlier turns with each question.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from hopsyncd.client import RequestFailed, calls
from hopsyncd.client.call import Call
from hopsyncd.config.values import MATCHES, STRATEGIES
from hopsyncd.display import format_document_name, format_title, pluralise
from hopsyncd.errors import REPORTABLE, HopsyncdError
from hopsyncd.printable import make_printable
from hopsyncd.web.evidence import make_document_key
from hopsyncd.web.rendering import get_file_name, name_document_kind
from hopsyncd.web.views import View, run_view

_LAID_OUT = "\n\t"
_MOST_TURNS = 20
_CLOSEST = 3  # passages shown if no answer was found
_MAX_NOTE_BYTES = 2 << 20
_TITLE_CHARACTERS = 200
_NOTE_TAG = "hopsyncd-answer"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_MARKUP = re.compile(r"([\\`*_\[\]<>!#|~{}$=%])")
_ADDRESS = re.compile(r"(\w)://")


class ThreadViews(View):
    """Asks an LLM the questions of a conversation, and saves the conversation."""

    name = "Ask"

    async def ask(self, request: Request) -> Response:
        """Answer a posted question with lines of JSON, which are sent while the LLM writes.

        When the browser closes the connection, the call to the LLM ends.
        """
        form = await self.read_form(request)
        if form is None:
            return self.refuse_form(request)
        try:
            lines = self._stream_lines(_read_question(form.get("asked", "")))
        except RequestFailed as error:
            return JSONResponse({"error": _describe_error(error)}, error.status)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=_HEADERS)

    async def _stream_lines(self, call: Call[Any]) -> AsyncIterator[bytes]:
        try:
            async with (
                self.client.asynchronous() as client,
                aclosing(client.stream_events(call)) as events,
            ):
                async for event in events:
                    yield _format_event(_make_browser_event(event))
        except REPORTABLE as error:
            yield _format_event({"event": "error", "why": _describe_error(error)})

    async def save(self, request: Request) -> Response:
        """Write a posted conversation into the inbox folder, as a new Markdown file."""
        form = await self.read_form(request, _MAX_NOTE_BYTES)
        if form is None:
            return self.refuse_form(request)
        return await self._save(request, form.get("thread", ""))

    @run_view
    def _save(self, request: Request, thread: str) -> Response:
        try:
            turns = _read_turns(_parse(thread))
            title = str(turns[0]["question"])[:_TITLE_CHARACTERS]
            saved = self.client.note(title, write_note(turns), [_NOTE_TAG])
        except REPORTABLE as error:
            status = error.status if isinstance(error, RequestFailed) else 400
            return JSONResponse({"error": _describe_error(error)}, status)
        return JSONResponse({"file": saved["file"]})


def make_turn(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of an answer that a browser shows, printable, with a card per citation.

    If nothing was found, `closest` has cards for the closest passages.
    """
    quotes = dict[int, list[str]]()
    for sentence in answer["sentences"]:
        quotes.setdefault(sentence["citation"], []).append(_clean_text(sentence["text"]))
    return {
        "found": answer["found"],
        "by": answer["by"],
        "text": _clean_text(answer["answer"] or ""),
        "degraded": [_clean_text(reason) for reason in answer["degraded"]],
        "subjects": [_clean_text(subject) for subject in answer["subjects"]],
        "version": answer["version"],
        "cost": format_cost(answer["llm"]),
        "cards": [
            make_card(citation, quotes.get(citation["number"], ()))
            for citation in answer["citations"]
        ],
        "closest": [
            make_card({**passage, "number": rank})
            for rank, passage in enumerate(answer["passages"][:_CLOSEST], 1)
            if not answer["found"]
        ],
    }


def make_card(cited: Mapping[str, Any], quotes: Sequence[str] = ()) -> dict[str, Any]:
    """Return a cited passage as a browser shows it, printable, with the `quotes` from it."""
    document, title = cited["document"], format_title(cited)
    return {
        "number": cited["number"],
        "id": cited["id"],
        "key": make_document_key(cited),
        "kind": name_document_kind(document),
        "title": _clean_text(title),
        "file": _clean_text(get_file_name(format_document_name(cited)) if document else title),
        "place": _clean_text(f"{cited['source']}/{document}" if document else ""),
        "where": _clean_text(cited["location"] or ""),
        "quotes": list(quotes),
    }


def format_cost(cost: Mapping[str, Any]) -> str:
    """Describe the tokens of an answer, and its price if prices are configured.

    >>> format_cost({"calls": 1, "cached": 0, "tokens": 1870, "price": 0.0004, "currency": "USD"})
    '1,870 tokens · 0.0004 USD'
    >>> format_cost({"calls": 0, "cached": 1, "tokens": 0})
    'No tokens: this answer was cached'
    """
    if not cost["calls"]:
        return "No tokens: this answer was cached" if cost["cached"] else ""
    text = pluralise(cost["tokens"], "token")
    if price := cost.get("price"):
        text += f" · {price:.6f}".rstrip("0").rstrip(".") + f" {make_printable(cost['currency'])}"
    return text


def write_note(turns: Sequence[Mapping[str, Any]]) -> str:
    """Format a conversation as Markdown, with numbered sources. Escapes markup and addresses.

    >>> card = {"title": "Ada", "place": "notes/ada.md", "where": "line 3"}
    >>> turn = {"question": "Who?", "text": "![x](http://e.org) Ada.", "cards": [card]}
    >>> print(write_note([turn]))
    ## Who?
    <BLANKLINE>
    \\!\\[x\\](http:\\//e.org) Ada.
    <BLANKLINE>
    1. Ada, notes/ada.md, line 3
    """
    parts = []
    for turn in turns:
        parts += [f"## {_escape_text(turn['question'], ' ')}", _escape_text(turn["text"])]
        cited = [_format_place(card) for card in turn["cards"]]
        parts += ["\n".join(f"{number}. {line}" for number, line in enumerate(cited, 1))]
    return "\n\n".join(filter(str.strip, parts))


def _format_place(card: Mapping[str, Any]) -> str:
    places = (card.get(name, "") for name in ("title", "place", "where"))
    return ", ".join(_escape_text(place, " ") for place in places if place)


def _escape_text(text: object, line_end: str = "\n") -> str:
    """Escape Markdown and URLs in text from the browser, so the note shows the text literally.

    Unprintable characters are replaced, and each line break becomes `line_end`.
    """
    lines = line_end.join(_clean_text(str(text)).split("\n"))
    return _ADDRESS.sub(r"\1:\\//", _MARKUP.sub(r"\\\1", lines))


def _make_browser_event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    match event["event"]:
        case "answer":
            return {"event": "answer", "turn": make_turn(event["answer"])}
        case "text":
            return {"event": "text", "text": _clean_text(event["text"])}
        case "citation":
            return {"event": "citation", "card": make_card(event["citation"])}
        case "withdrawn":
            return {"event": "withdrawn", "why": _clean_text(event["why"])}
    fields = ("event", "stage", "passages", "by")
    return {name: event[name] for name in fields if name in event}


def _read_question(posted: str) -> Call[Any]:
    """Return the call for a posted question. Raises RequestFailed."""
    fields = _parse(posted)
    if not isinstance(fields, dict):
        raise _refusal_error()
    strategy, match = fields.get("strategy"), fields.get("match")
    filters = fields.get("filters") or []
    if not isinstance(filters, list):
        raise _refusal_error()
    thread = fields.get("thread") or []
    return calls.ask(
        str(fields.get("question", "")),
        at=str(fields.get("at") or "head"),
        strategy=strategy if strategy in STRATEGIES else None,
        match=match if match in MATCHES else "auto",
        filters=[str(filter_) for filter_ in filters],
        thread=[
            {"question": str(turn["question"]), "answer": str(turn["text"])}
            for turn in (_read_turns(thread) if thread else [])
        ],
    )


def _read_turns(posted: object) -> list[dict[str, Any]]:
    """Read the last `_MOST_TURNS` turns of a posted conversation. Raises RequestFailed."""
    if not isinstance(posted, list) or not posted:
        raise _refusal_error()
    turns = []
    for turn in posted[-_MOST_TURNS:]:
        if not isinstance(turn, dict) or not turn.get("question"):
            raise _refusal_error()
        cards = turn.get("cards") or []
        if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
            raise _refusal_error()
        turns.append(
            {"question": turn["question"], "text": str(turn.get("text") or ""), "cards": cards}
        )
    return turns


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _refusal_error() from None


def _refusal_error() -> RequestFailed:
    return RequestFailed(400, "bad_request", "The form has an invalid field", "Reload the page")


def _clean_text(text: str) -> str:
    return make_printable(text, keep=_LAID_OUT)


def _describe_error(error: Exception) -> str:
    """Describe in one line why a request failed, and what to do."""
    if not isinstance(error, HopsyncdError):
        return make_printable(str(error))
    return make_printable(f"{error.why}. {error.hint}" if error.hint else error.why)


def _format_event(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"
