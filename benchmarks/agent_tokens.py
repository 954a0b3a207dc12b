"""Tokens that the tools for agents cost, counted by the tokenizer of an LLM (o200k).

python benchmarks/agent_tokens.py

The benchmark asks the development questions about two folders of the real documents, and counts
what a client gives to its model: the text of each result, and structured content if there is any.
"Beyond the quotes" is everything except the text of passages.
"""

import asyncio
import json
import os
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import bpe_openai
from common import JSON, arguments, lines, real_documents, table, write_result
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

from tests.e2e.daemon import Place, new_place, source

_FOLDERS = ("git-manual", "logseq-docs")
_QUESTIONS = 12
_QUOTING = ("quote", "text")
_ENCODING = bpe_openai.get_encoding("o200k_base")

Counts = dict[str, list[tuple[int, int]]]  # by tool: tokens of each result, and of its quotes


def main() -> None:
    given = arguments(__doc__ or "", JSON)
    folder = real_documents(given.data)
    questions = [
        line["question"]
        for line in lines(folder / "questions.jsonl")
        if all(
            evidence["document"].startswith(_FOLDERS)
            for part in line["evidence"]
            for evidence in part
        )
    ][:_QUESTIONS]
    with new_place() as place:
        for name in _FOLDERS:
            shutil.copytree(folder / name, place.notes / name)
        place.configure(source("notes", place.notes))
        place.start()
        place.sync()
        described, counts = asyncio.run(_measure(place, questions))
    columns = ["result", "tokens, median", "of these quotes", "most beyond quotes", "times quotes"]
    rows: list[list[object]] = [["descriptions of the tools", described, 0, described, ""]]
    for tool, found in counts.items():
        whole, quoted = (round(statistics.median(part)) for part in zip(*found, strict=True))
        most = max(tokens - quotes for tokens, quotes in found)
        ratio = round(sum(one for one, _ in found) / sum(quotes for _, quotes in found), 2)
        rows.append([tool, whole, quoted, most, ratio])
    table(columns, rows)
    if given.json:
        write_result("agent-tokens", columns, rows)


async def _measure(place: Place, questions: list[str]) -> tuple[int, Counts]:
    """The tokens of the tools' descriptions, and of the results for each question."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "hopsyncd", "mcp"],
        env={**os.environ, "HOPSYNCD_HOME": str(place.home)},
    )
    counts: Counts = defaultdict(list)
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        await client.initialize()
        tools = (await client.list_tools()).tools
        described = sum(
            _tokens(
                f"{tool.name}\n{tool.description}\n{json.dumps(tool.input_schema)}"
                f"{json.dumps(tool.output_schema) if tool.output_schema else ''}"
            )
            for tool in tools
        )

        async def call(label: str, tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            answer = json.loads(_text_of(result))
            structured = result.structured_content
            sent = _text_of(result) + (json.dumps(structured) if structured else "")
            counts[label].append((_tokens(sent), sum(map(_tokens, _quotes(answer)))))
            return answer

        for question in questions:
            found = await call("search, 8 passages", "search", question=question, max_tokens=20_000)
            place_of, id_ = _first(found)
            await call("ask", "ask", question=question)
            await call("get, a document", "get", **place_of, max_tokens=100_000)
            await call("get, a passage", "get", passage=id_)
            await call("neighbours", "neighbours", passage=id_, max_tokens=3000)
    return described, counts


def _first(found: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Return the document and the id of the first passage found."""
    group = found["documents"][0] if "documents" in found else found
    passage = group["passages"][0]
    return {key: {**passage, **group}[key] for key in ("source", "document")}, passage["id"]


def _text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def _quotes(value: Any) -> Iterator[str]:
    """Yield the texts of passages in a result."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name in _QUOTING and isinstance(part, str):
                yield part
            else:
                yield from _quotes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _quotes(part)


def _tokens(text: str) -> int:
    return len(_ENCODING.encode(text))


if __name__ == "__main__":
    main()
