"""What a stranger sends is read in time linear in its size.

Every parser that runs in the process of the daemon, and some that run in a worker, get every
hostile text at two sizes, four to one. The least processor
time of several runs counts: a busy machine makes a run longer, never shorter.
"""

import gc
import imaplib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pytest
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from connectors.ignore import Rules, TooManyPatterns, parse_patterns
from connectors.mail.imap_session import fetch_rows, parse_folders
from connectors.mail.mbox import split_messages
from connectors.mail.message import make_fetched
from connectors.media_type import guess_media_type, is_document_name
from connectors.protocol import ConnectorError
from connectors.settings import is_on_host, normalise_address
from connectors.web.fetch import HttpReply, Unreachable, Visit, read_robots
from connectors.web.page_content import NoFeed, parse_content, parse_date_ms
from hopsyncd.api.failures import describe_bad_request
from hopsyncd.api.requests import (
    DiffRequest,
    DocumentRequest,
    DocumentsRequest,
    LogRequest,
    PassageRequest,
    QueryRequest,
    WatchRequest,
)
from hopsyncd.errors import HopsyncdError
from hopsyncd.formats.blocks import list_names, make_name_link
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.decode import decode
from hopsyncd.formats.readers import extract
from hopsyncd.formats.units import split_into_sentences
from hopsyncd.index.filters import Condition, _make_path_test, list_type_words
from hopsyncd.index.links import NamedDocument, list_candidates, list_document_keys
from hopsyncd.logs import redact
from hopsyncd.models.keywords import (
    find_neutral_spans,
    find_topic,
    normalise,
    normalise_document_names,
)
from hopsyncd.models.questions import find_sentence_spans
from hopsyncd.retrieve.query_parser import parse_question
from hopsyncd.retrieve.query_words import contains_literal, read_query_words
from hopsyncd.text.abbreviations import find_pairs
from hopsyncd.text.dates import count_date_terms, find_days_in_name
from hopsyncd.text.words import list_index_terms, list_spellings, normalise_text
from hopsyncd.web.evidence import find_shared_name, list_question_terms, make_snippet, mark_words
from hopsyncd.web.links import read_asked
from hopsyncd.web.listener import Door, PageGuard
from hopsyncd.web.markdown_page import MOST_CHARACTERS, render_markdown
from hopsyncd.web.reading import render_passage
from hopsyncd.web.rendering import mark_code
from store.records import split_unspaced

LARGE = 64 << 10
IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
GROWTH = 8.0  # four where it is linear, sixteen where it is quadratic
NOISE_S = 0.008  # a run shorter than this says nothing
MOST_S = 2.0  # of 64 KiB on a busy machine, whatever the growth

UNITS = {
    "encoded words that do not end": "=?a?q? ",
    "encoded words": "=?utf-8?q?a?= ",
    "openings of encoded words": "=?",
    "backslashes": "\\",
    "escaped letters": "\\a",
    "octal escapes": "\\101",
    "brackets": "[",
    "links that do not end": "[a](",
    "pictures that do not end": "![",
    "nested brackets": "[[a]",
    "parentheses": "(",
    "closed parentheses": "(a)",
    "braces": "{",
    "angles": "<",
    "tags that do not end": "<a ",
    "tags with open quotes": '<a b="',
    "comments that do not end": "<!--",
    "scripts that do not end": "<script>",
    "titles that do not end": "<title>",
    "quotes": '"',
    "single quotes": "'",
    "backticks": "`",
    "backticks apart": "` a ``",
    "stars": "*",
    "emphasis": "*a **b ",
    "underscores": "_a",
    "bare underscores": "_",
    "capitals": "A",
    "humps": "aA",
    "prices": "1,",
    "groups of digits": "1(",
    "tildes": "~",
    "digits": "1",
    "numbers": "1 ",
    "decimals": "1.",
    "a word": "a",
    "ideographs": "今",
    "letters of Thai": "ก",
    "spaces": " ",
    "tabs": "\t",
    "spaces and letters": "a" + " " * 400,
    "newlines": "\n",
    "carriage returns": "\r",
    "lines of a letter": "q\n",
    "lines that differ": "",  # see text_of
    "colons": ":",
    "fields": "a: b\n",
    "folded fields": "a:\n b\n",
    "dashes": "-",
    "rules": "---\n",
    "grid tables that do not end": "+--+\n|  |\n",
    "simple tables": "a b\n-- --\n",
    "simple tables without names": "-\n-- --\n",
    "lines of tables that differ": "",  # see text_of
    "multiline tables that do not end": "---\na b\n-- --\n",
    "dots": ".",
    "sentences": "A. b ",
    "parent folders": "../",
    "folders": "a/",
    "percent signs": "%",
    "escaped percent signs": "%25",
    "ampersands": "&",
    "parameters": "a=b&",
    "entities": "&amp;",
    "numbered entities": "&#1;",
    "marks": "e\u0301",
    "combining characters": "\u0301",
    "controls": "\u202e",
    "emoji": "\U0001f469\u200d",
    "at signs": "@",
    "addresses": "a@b ",
    "links": "http://a ",
    "passwords": "://a:b@",
    "openings of passwords": "://a:",
    "tokens": "?token=",
    "filters": "source:a ",
    "filters with open quotes": 'path:"a ',
    "properties": "[a:b] ",
    "stars and letters": "*a",
    "folders of stars": "**/",
    "classes": "[!a]",
    "semicolons": ";",
    "cookies": "hopsyncd=a; ",
    "commas": ",",
    "user agents": "user-agent: a\n",
    "rules of robots": "disallow: /*a\n",
    "headings": "# a\n",
    "quotations": "> ",
    "lists": "- a\n",
    "deeper lists": "  - a\n",
    "tables": "|a",
    "rows": "|a|b|\n|-|-|\n",
    "fences": "```a\n",
    "underlined": "a\n=\n",
    "directives": ".. a::\n",
    "references": "`a`_ ",
    "footnotes": "[^a]: b\n",
    "definitions": "[a]: b\n",
    "strings": '"""',
    "beginnings of messages": "\n\nFrom a\n",
    "quoted beginnings": ">From ",
}


# Of formats that a worker reads, beside UNITS.
FORMATS = {
    "text/x-tex": (
        "\\a{", "\\'{", "\\footnote{", "\\frac{", "\\sqrt[", "^{", "$", "\\[", "\\verb|",
        "\\begin{", "\\end{", "\\begin{verbatim}", "\\begin{tabular}{l}a&", "\\begin{tabular}{",
        "\\begin{itemize}\\item ", "\\begin{table}\\caption{a}", "\\item[", "\\cite[", "\\text{",
        "\\def\\a#1{\\a\\a}\\a ", "\\newcommand{\\a}[9]{", "\\author{a\\and ", "\\multirow{9}{*}{",
    ),
    "text/x-bibtex": (
        "@a{b,c={", "@a{b,\nc={", '@a{b,\nc="', "@a{b,\nc={{\n", "@a{b,c=d,\n", "@string{a=a#a",
        "@string{a=a}\n", "a and ",
    ),
    "text/org": (
        "* ", "[fn:1]", ":a:\n", "#+begin_src\n", "- a :: ", "[[a][", "|a|\n", "|-\n|a\n",
        "<2024-01-01 ", "=a ", "#+caption: a\n",
    ),
    "text/vtt": (
        "00:01.000 --> 00:02.000\n", "00:01.000 --> 00:02.000\na\n\n", "<v a", "{\\a",
    ),
    "text/vcard": (
        "BEGIN:VCARD\nFN:a\n", "BEGIN:VCARD\nTEL;TYPE=a;TYPE=b:1\n", "BEGIN:VCARD\nADR:a;",
        'a;a="', "TEL;TYPE=a",
    ),
}  # fmt: skip


def text_of(name: str, size: int) -> str:
    """A unit many times: one of UNITS by its name, or the given one."""
    unit = UNITS.get(name, name)
    if name == "lines of tables that differ":
        lines = (
            f"{'-' * (2 + index % 60)} {'-' * (2 + index // 60)}\n" for index in range(size // 8)
        )
        return "".join(lines)[:size]
    if not unit:
        return "".join(f"w{number}\n" for number in range(size // 5))[:size]
    return (unit * (size // len(unit) + 1))[:size]


@dataclass(frozen=True, slots=True)
class Parser:
    """`limit`: how many characters can reach it."""

    read: Callable[[str], object]
    limit: int = LARGE


def _request(headers: dict[str, str], query: str = "") -> Request:
    raw = [(name.encode(), value.encode("utf-8", "replace")) for name, value in headers.items()]
    return Request(
        {
            "type": "http", "method": "GET", "path": "/x/", "headers": raw,
            "query_string": query.encode("utf-8", "replace"), "server": ("127.0.0.1", 1),
            "scheme": "http", "root_path": "",
        }
    )  # fmt: skip


async def _nothing(*_: object) -> None:
    return None


_GUARD = PageGuard(_nothing, Door("127.0.0.1:1"))


def _enter(cookie: str) -> object:
    return _GUARD._admit(_request({"host": "127.0.0.1:1", "cookie": f'hopsyncd="{cookie}"'}))


def _mail(field: str, text: str) -> object:
    return make_fetched(f"{field}: {text}\n\nbody\n".encode("utf-8", "replace"), "r")


def _validate(model: type[BaseModel], field: str, text: str) -> object:
    """As a request with the text in one of its fields, and the refusal."""
    try:
        return model.model_validate({field: text})
    except ValidationError as error:
        return describe_bad_request(error, model)


def _validate_json(text: str) -> object:
    try:
        return QueryRequest.model_validate_json(text)
    except ValidationError as error:
        return describe_bad_request(error, QueryRequest)


def _validate_field(text: str) -> object:
    return _validate_json(json.dumps({text: 1}))


def _form(text: str) -> object:
    return read_asked(_request({}, f"q={text}&k={text}&f={text}&at={text}"))


def _ignored(text: str) -> object:
    patterns = parse_patterns(text.encode("utf-8", "surrogateescape"))
    return [patterns.judge(f"folder/{number}.md", is_folder=False) for number in range(3)]


def _page(media: str, text: str) -> object:
    body = text.encode("utf-8", "replace")
    visit = Visit("http://a/b", HttpReply(200, {"content-type": media}, body))
    return parse_content(visit, 1 << 20, 1000)


def _document(kind: str, text: str) -> object:
    blocks = extract(text.encode("utf-8", "replace"), kind)
    names = list_names(blocks, None)
    pieces = split_into_passages(blocks)
    for piece in pieces:
        for link in piece.links:
            list_candidates(link.target, "s", "a/b.md")
    return normalise_document_names(names), list_document_keys(NamedDocument("s", "a/b.md", names))


def _passage(text: str) -> object:
    return normalise(text), find_topic(text), find_sentence_spans(text), find_neutral_spans(text)


def _words(text: str) -> object:
    return list_index_terms(text), list_spellings(text), normalise_text(text), split_unspaced(text)


PARSERS: dict[str, Parser] = {
    **{f"mail, {one}": Parser(partial(_mail, one))
       for one in ("Subject", "From", "Date", "Message-ID", "References", "a\n b")},
    "mail, head": Parser(lambda text: make_fetched(text.encode("utf-8", "replace"), "r")),
    "mbox": Parser(lambda text: list(split_messages(text.encode("utf-8", "replace")))),
    "imap, folders": Parser(
        lambda text: parse_folders([f'(\\A) "/" {text}'.encode("utf-8", "replace")])
    ),
    "imap, messages": Parser(
        lambda text: fetch_rows([f"1 (UID {text}".encode("utf-8", "replace")])
    ),
    "cookies": Parser(_enter, 15_000),
    "form of the page": Parser(_form, 15_000),
    "message on the page": Parser(mark_code),
    "passage on the page": Parser(render_passage),
    "Markdown file on the page": Parser(
        lambda text: render_markdown(text, [1, 9]), MOST_CHARACTERS
    ),
    "marked words": Parser(lambda text: make_snippet(text, list_question_terms("Who is Ada?"))),
    "all words marked": Parser(lambda text: mark_words(text, list_question_terms("a b"))),
    "name that joins": Parser(
        lambda text: find_shared_name(
            {"heading": [], "text": text}, {"heading": [text], "text": text}
        )
    ),
    "ignore file": Parser(_ignored),
    "names of files": Parser(
        lambda text: (
            guess_media_type(text),
            is_document_name(text),
            Rules().hides(text, False, []),
        ),
        4096,
    ),
    "path filter": Parser(lambda text: _make_path_test(text)("a/b/c.md"), 400),
    "types": Parser(lambda text: list_type_words(text, text), 4096),
    "conditions": Parser(lambda text: str(Condition("path", text)), 400),
    "question": Parser(lambda text: parse_question(text, (), datetime(2026, 1, 1)), 10_000),
    # A mark that no code has at the end: a pattern that could match in many ways tries them all.
    "words of a query": Parser(lambda text: read_query_words(f"a{text}\xa7"), 10_000),
    "abbreviations": Parser(lambda text: find_pairs((text[:400],), text), 10_000),
    "dates": Parser(lambda text: count_date_terms(f"{text} 1999"), 10_000),
    "days in a file name": Parser(find_days_in_name, 4096),
    "filters": Parser(
        lambda text: parse_question("q", [f"since:{text}"], datetime(2026, 1, 1)), 400
    ),
    "sentences": Parser(lambda text: list(split_into_sentences(text))),
    "words": Parser(_words),
    "request, JSON": Parser(_validate_json),
    "request, a JSON field": Parser(_validate_field),
    **{f"request, {model.__name__}.{field}": Parser(partial(_validate, model, field))
       for model, field in (
           (QueryRequest, "question"), (QueryRequest, "at"), (WatchRequest, "webhook"),
           (WatchRequest, "question"), (PassageRequest, "id"), (DocumentsRequest, "limit"),
           (DocumentsRequest, "after"), (DocumentsRequest, "under"), (DocumentRequest, "document"),
           (LogRequest, "before"), (DiffRequest, "graph"), (DiffRequest, "x"),
       )},
    "address": Parser(lambda text: normalise_address(text, "http://a/b")),
    "host": Parser(lambda text: normalise_address(f"http://{text}", "http://a/b")),
    "host and patterns": Parser(
        lambda text: is_on_host(normalise_address(f"http://{text}") or "", ["*a*b"])
    ),
    "HTTP date": Parser(parse_date_ms),
    "robots.txt": Parser(lambda text: read_robots(text.encode()).can_fetch("http://a/b", "x")),
    **{f"page, {kind}": Parser(partial(_page, kind))
       for kind in ("text/html", "text/plain", "application/xml", "text/html; charset=idna")},
    "page, content type": Parser(lambda text: _page(f"text/html; {text}", "<p>a"), 15_000),
    "decode": Parser(lambda text: decode(b"\xff" + text.encode("utf-8", "replace"), None)),
    **{f"document, {kind}": Parser(partial(_document, kind))
       for kind in (
           "text/plain", "text/markdown", "text/x-python",
           "text/x-source", "text/plain; charset=punycode",
       )},
    "front matter": Parser(lambda text: _document("text/markdown", f"---\na: {text}\n---\nb\n")),
    "front matter, list": Parser(
        lambda text: _document("text/markdown", f"---\naliases: [{text}]\ntags: {text}\n---\nb\n")
    ),
    "heading": Parser(lambda text: _document("text/markdown", f"# {text}")),
    "link": Parser(
        lambda text: (make_name_link(text), list_candidates(text[:4096], "s", "a/b.md"))
    ),
    "names of a document": Parser(lambda text: normalise_document_names([text, find_topic(text)])),
    "passage": Parser(_passage, 4096),  # chunking makes none longer
    "phrase in a passage": Parser(lambda text: contains_literal(text[:4096], f"{text}!"), 10_000),
    "log line": Parser(redact),
}  # fmt: skip


def took_s(parser: Parser, name: str, size: int, runs: int) -> float:
    text = text_of(name, size)
    # A full collection now and then costs more, the more objects there are: in all it is linear,
    # and it would blur the ratio of two sizes.
    gc.disable()
    try:
        return _least_s(parser, text, runs)
    finally:
        gc.enable()


def _least_s(parser: Parser, text: str, runs: int) -> float:
    least = float("inf")
    for _ in range(runs):
        began_s = time.process_time()
        with suppress(
            HopsyncdError, ConnectorError, TooManyPatterns, NoFeed, Unreachable, imaplib.IMAP4.abort
        ):
            parser.read(text)
        least = min(least, time.process_time() - began_s)
    return least


def slow(parser: Parser, name: str) -> str:
    """Why the parser is too slow on a text; empty if it is not.

    A quarter of the size is enough if its time is long enough to compare, and linear. By night, all
    is read.
    """
    most = min(LARGE, parser.limit)
    is_linear = not IS_NIGHTLY and _compare(parser, name, most // 4, MOST_S / 4) == ""
    return "" if is_linear else _compare(parser, name, most, MOST_S) or ""


def _compare(parser: Parser, name: str, large: int, most_s: float) -> str | None:
    """None if the text is read too fast to compare."""
    small = large // 4
    for runs in (1, 3, 8):  # only what looks bad is measured again
        large_s = took_s(parser, name, large, runs)
        if large_s < NOISE_S:
            return None
        if large_s > 2 * most_s:
            return f"{name}: {large_s:.1f} s for {large} characters"
        small_s = took_s(parser, name, small, 2 * runs)
        if large_s < max(GROWTH * small_s, NOISE_S) and large_s < most_s:
            return ""
    return f"{name}: {small_s:.3f} s for {small} characters, {large_s:.3f} s for {large}"


@pytest.mark.parametrize("name", PARSERS)
def test_hostile_text_is_read_in_linear_time(name: str) -> None:
    found = [said for unit in UNITS if (said := slow(PARSERS[name], unit))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", FORMATS)
def test_hostile_documents_of_a_format_are_read_in_linear_time(kind: str) -> None:
    parser = Parser(partial(_document, kind))
    found = [said for unit in (*UNITS, *FORMATS[kind]) if (said := slow(parser, unit))]
    assert not found, "\n".join(found)
