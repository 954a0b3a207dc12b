"""How often the prompt contains the passages that a question needs, and its number of tokens.

python benchmarks/prompts.py --json

A question counts if each sentence that it needs is in the prompt. No LLM is asked. The rows compare
the excerpts that `ask` sends with whole passages, which earlier versions sent, in the same format.
Tokens are counted by hopsyncd.models.llm.tokens, for the instructions and the data together.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from common import JSON, arguments, real_documents, table, write_result
from real import KEEP, RealIndex, serve_real_documents

from hopsyncd.config.values import Search
from hopsyncd.evaluation.real_folder import QuotedQuestion, read_quoted
from hopsyncd.models.llm.call import LlmCall
from hopsyncd.models.llm.tokens import count_tokens
from hopsyncd.retrieve.answering.asker import Asker, collect_texts
from hopsyncd.retrieve.answering.llm_answer import AskedQuestion, call_for
from hopsyncd.retrieve.excerpts import Excerpt
from hopsyncd.retrieve.material import Material, read_document_dates
from hopsyncd.retrieve.results import Answer
from tests.fakes.llm import excerpts_in

DEPTH = 30
WHOLE = (8, 12, 20)
BUDGETS = (1500, 2500, 4000)
KINDS = {"single": "one", "multi": "several"}


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
    )
    folder = real_documents(given.data)
    index = serve_real_documents(folder, given.keep)
    complete: dict[tuple[str, str], list[bool]] = defaultdict(list)
    tokens: dict[str, list[int]] = defaultdict(list)
    passages: dict[str, list[int]] = defaultdict(list)
    for question in read_quoted(folder / "questions.jsonl"):
        if not question.evidence:
            continue
        for name, call in calls(index, question.question):
            complete[name, question.kind].append(has_all(question, json.loads(call.user)))
            tokens[name].append(count_tokens(call.system) + count_tokens(call.user))
            passages[name].append(len(excerpts_in(json.loads(call.user))))
    rows = [
        [
            name,
            *(f"{sum(complete[name, kind])} of {len(complete[name, kind])}" for kind in KINDS),
            round(mean(passages[name]), 1),
            round(mean(tokens[name])),
            max(tokens[name]),
        ]
        for name in tokens
    ]
    needed = [f"{shown}: all sent" for shown in KINDS.values()]
    columns = ["sent", *needed, "passages", "tokens", "most tokens"]
    table(columns, rows)
    if given.json:
        write_result("prompts", columns, rows)


def calls(index: RealIndex, question: str) -> Iterator[tuple[str, LlmCall]]:
    """Yield each way to make the prompt, by name."""
    found = index.engine.query(question, DEPTH, Search("hop"))
    assert found is not None
    for count in WHOLE:
        yield (
            f"the first {count} passages, whole",
            call_for(AskedQuestion(found.question, found.typed), whole_passages(found, count)),
        )
    models = index.models
    for budget in BUDGETS:
        asker = Asker(index.engine, models.encoder, models.language, tokens_per_question=budget)
        prepared = asker.prepare(found, *asker.rate_sentences(found))
        yield f"excerpts, {budget:,} tokens", call_for(*prepared)


def whole_passages(found: Answer, count: int) -> Material:
    first = replace(found, ranked=found.ranked[:count])
    excerpts = [
        Excerpt(hit.passage, text := found.passages[hit.passage].text, (text,), True)
        for hit in first.ranked
    ]
    texts = collect_texts(first)
    return Material(texts, tuple(excerpts), read_document_dates(found.snapshot, texts))


def has_all(question: QuotedQuestion, data: Mapping[str, Any]) -> bool:
    """Whether the prompt has every sentence that the question needs, from its document."""
    shown = [
        (excerpt["path"], _words(f"{excerpt['title']} {excerpt['heading']} {excerpt['text']}"))
        for excerpt in excerpts_in(data)
    ]
    return all(
        any(
            quote.document.startswith(path) and _words(quote.text) in text
            for quote in quotes
            for path, text in shown  # long paths are shortened
        )
        for quotes in question.evidence
    )


def _words(text: str) -> str:
    words = " ".join(re.findall(r"\w+", text))
    return f" {words} "


if __name__ == "__main__":
    main()
