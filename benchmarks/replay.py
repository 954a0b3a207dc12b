"""Answers of a strong LLM on real documents, from recorded replies.

python benchmarks/replay.py --write /tmp/prompts      # the prompts that have no recorded reply
python benchmarks/replay.py --record /tmp/prompts     # record the replies in replies.json there
python benchmarks/replay.py --json                    # replay the recorded replies

The questions go through `ask` to an endpoint on this machine, which plays the recorded replies. A
reply counts only for the prompt that it was written for: if hopsyncd now sends another prompt, the
reply is stale, and its question is named and not counted. replies.json maps the name of a prompt's
file, without its suffix, to the reply.

An answer is right if it has all words of an accepted answer, in any order, without function words.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from common import JSON, arguments, real_documents, table, write_result
from prompts import has_all
from real import KEEP, RealIndex, serve_real_documents

from hopsyncd.config.configuration import Config, DaemonConfig, LlmConfig
from hopsyncd.config.values import Method, Search
from hopsyncd.evaluation.measures import split_answer
from hopsyncd.evaluation.real_folder import (
    KINDS,
    QuotedQuestion,
    find_gold_passages,
    read_quoted,
)
from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.tokens import count_tokens
from hopsyncd.models.loading import open_endpoint
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import AskReply
from store.open_database import open_reader
from store.records import PassageId
from store.transactions import snapshot
from tests.fakes.endpoint import Endpoint, Response, error, say

RECORDED = Path(__file__).parent / "replies"
METHODS: tuple[Method, ...] = ("direct", "logic")
SHOWN = {"single": "one passage needed", "multi": "several needed", "none": "no answer"}
_CHANGED_MS = 1_767_225_600_000  # 1 January 2026: when each document was last changed
_NEGATIONS = {"no", "not"}
_UNKNOWN = error(400, "No reply is recorded for this prompt.")


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """The reply to call number `step` of a question. prompt: the digest of the call's texts."""

    question: str
    step: int
    prompt: str
    reply: Mapping[str, Any]


@dataclass(slots=True)
class Player:
    """Plays the recorded replies. `question` is the id of the question that is asked now.

    unanswered: the prompts without a reply, by question and step. stale: the questions whose reply
    was written for another prompt. calls: the prompt and reply of each call of this question.
    """

    recorded: Mapping[tuple[str, int], RecordedReply]
    question: str = ""
    calls: list[tuple[list[str], str]] = field(default_factory=list)
    unanswered: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)

    def ask(self, question: str) -> None:
        """Expect the calls of the next question."""
        self.question = question
        self.calls = []

    def play(self, request: Mapping[str, Any]) -> Response:
        """The recorded reply to this request, or an error."""
        texts = [str(message["content"]) for message in request["messages"]]
        key = (self.question, len(self.calls) + 1)
        if self.lacks_reply:
            return _UNKNOWN  # the product now does without the LLM
        one = self.recorded.get(key)
        if one is None or one.prompt != digest_of(texts):
            self.unanswered[key] = texts
            if one is not None:
                self.stale.append(self.question)
            return _UNKNOWN
        reply = json.dumps(one.reply, ensure_ascii=False)
        self.calls.append((texts, reply))
        sent = sum(map(count_tokens, texts))
        return say(reply, prompt_tokens=sent, completion_tokens=count_tokens(reply))

    @property
    def lacks_reply(self) -> bool:
        """Whether a call of this question has no reply."""
        return any(question == self.question for question, _ in self.unanswered)


@dataclass(frozen=True, slots=True)
class Judged:
    """A question with its checked answer.

    had_all: whether the last prompt contains each needed sentence. needed: for each needed place,
    the passages that have it. sent, received: tokens of all calls.
    """

    question: QuotedQuestion
    had_all: bool
    reply: AskReply
    needed: tuple[frozenset[PassageId], ...]
    calls: int
    sent: int
    received: int

    @property
    def is_right(self) -> bool:
        return has_words(self.reply.short or "", self.question.answers)

    @property
    def cites_all(self) -> bool:
        """Whether each needed passage is cited."""
        return all(not some.isdisjoint(self.reply.passages) for some in self.needed)

    @property
    def needless(self) -> int:
        """The number of cited passages that are not needed."""
        return len(set(self.reply.passages) - frozenset().union(*self.needed))


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--keep", {"type": Path, "default": KEEP, "help": f"Default: {KEEP}"}),
        ("--method", {"choices": METHODS, "default": "direct"}),
        ("--kind", {"choices": KINDS, "action": "append", "help": "Default: all."}),
        ("--write", {"type": Path, "help": "Write prompts without a reply to this folder."}),
        ("--record", {"type": Path, "help": "Record the replies in this folder."}),
        ("--per-question", {"action": "store_true"}),
    )
    recorded = RECORDED / f"{given.method}.jsonl"
    if given.record:
        record(given.record, recorded)
        return
    folder = dated_copy(real_documents(given.data), given.keep)
    index = serve_real_documents(folder, given.keep)
    questions = [
        one for one in read_quoted(folder / "questions.jsonl") if one.kind in (given.kind or KINDS)
    ]
    player = Player(read_recorded(recorded))
    judged = [*ask_all(index, questions, player, Search("hop", method=given.method))]
    if given.write:
        write_prompts(given.write, player)
    if player.stale:
        print(f"stale, not counted: {', '.join(dict.fromkeys(player.stale))}\n")
    missing = {question for question, _ in player.unanswered} - {*player.stale}
    if missing:
        print(f"no reply is recorded: {', '.join(sorted(missing))}\n")
    if given.per_question:
        for one in judged:
            print(verdict(one))
    columns, rows = scores(judged)
    table(columns, rows)
    if given.json:
        name = "replies" if given.method == "direct" else f"replies-{given.method}"
        write_result(name, columns, rows)


def dated_copy(folder: Path, keep: Path) -> Path:
    """Copy the documents, and give all files the same date, because prompts show the date."""
    copy = keep / "dated" / folder.name
    if not copy.exists():
        shutil.copytree(folder, copy, copy_function=shutil.copyfile)
    for file in copy.rglob("*"):
        os.utime(file, ns=(_CHANGED_MS * 10**6,) * 2)
    return copy


def ask_all(
    index: RealIndex, questions: Sequence[QuotedQuestion], player: Player, search: Search
) -> Iterator[Judged]:
    """Ask the questions, and judge each answer all of whose calls had a current reply."""
    with closing(open_reader(index.database)) as connection, snapshot(connection):
        gold = find_gold_passages(connection, index.head.version.id, questions)
    with TemporaryDirectory() as temporary, Endpoint(player.play) as endpoint:
        config = Config(
            daemon=DaemonConfig.model_validate({"data_dir": temporary}),
            llm=LlmConfig(base_url=endpoint.base_url, model="recorded"),
        )
        llm = open_endpoint(config.llm, config.daemon.data_dir)
        models = index.models
        asker = Asker(
            index.engine, models.encoder, models.language, llm, config.llm.tokens_per_question
        )
        try:
            for question in questions:
                player.ask(question.id)
                usage = Usage(config.llm.max_calls_per_query)
                _, reply = asker.ask(question.question, None, search, by_llm=True, usage=usage)
                if player.lacks_reply:
                    continue
                last = json.loads(player.calls[-1][0][-1])
                needed = tuple(gold[quotes[0].name] for quotes in question.evidence)
                sent = sum(count_tokens(text) for texts, _ in player.calls for text in texts)
                received = sum(count_tokens(text) for _, text in player.calls)
                yield Judged(
                    question, has_all(question, last), reply, needed, usage.calls, sent, received
                )
        finally:
            llm.close()


def scores(judged: Sequence[Judged]) -> tuple[list[str], list[list[object]]]:
    """One row for each kind of question."""
    rows: list[list[object]] = []
    for kind, shown in SHOWN.items():
        some = [one for one in judged if one.question.kind == kind]
        if not some:
            continue
        whole = [one for one in some if one.had_all and kind != "none"]
        rest = [one for one in some if one not in whole]
        answered = [one for one in some if one.reply.found]
        right = [one for one in some if one.is_right]
        rows.append(
            [
                shown,
                len(some),
                len(whole),
                sum(one.is_right for one in whole),
                sum(one.is_right for one in rest),
                sum(not one.reply.found for one in rest),
                len(answered) - len(right),
                sum(one.cites_all for one in some),
                sum(bool(one.reply.degraded) for one in some),
                round(mean(one.sent for one in some)),
                max(one.sent for one in some),
                round(mean(one.received for one in some)),
            ]
        )
    columns = ["questions", "count", "all sent", "right of these", "right of the others"]
    columns += ["declined of the others", "not right", "all cited", "citations removed"]
    return [*columns, "tokens sent", "most", "tokens received"], rows


def has_words(answer: str, golds: Sequence[str]) -> bool:
    """Whether an answer has each word of a gold answer; number words equal digits.

    >>> has_words("In Oslo, for three months", ["3 months, at Oslo"])
    True
    >>> has_words("in Oslo", ["not in Oslo"])
    False
    """
    said = {*split_answer(answer)}
    return any({*split_answer(gold)} - (STOP_WORDS - _NEGATIONS) <= said for gold in golds)


def verdict(one: Judged) -> str:
    """A line about one question."""
    found = "right" if one.is_right else "not right" if one.reply.found else "declined"
    return (
        f"{one.question.id} {'all sent' if one.had_all else 'not all sent'}, {found}, cites"
        f" {'all' if one.cites_all else 'not all'} and {one.needless} more,"
        f" {one.sent}+{one.received} tokens; {'; '.join(one.reply.degraded)}"
    )


def digest_of(texts: Sequence[str]) -> str:
    """The digest of a call's messages."""
    return blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()


def write_prompts(folder: Path, player: Player) -> None:
    """Write each prompt without a reply to a file of its own, named by its question and digest."""
    folder.mkdir(parents=True, exist_ok=True)
    for (question, step), texts in player.unanswered.items():
        name = f"{question}.{step}.{digest_of(texts)}.txt"
        (folder / name).write_text("\n\n".join(texts), encoding="utf-8")
    print(f"{len(player.unanswered)} prompts in {folder}")


def record(folder: Path, recorded: Path) -> None:
    """Add the replies of a folder. A reply replaces the older reply to the same call, and all later
    replies to the same question."""
    known = read_recorded(recorded)
    replies = json.loads((folder / "replies.json").read_text(encoding="utf-8"))
    for name, reply in sorted(replies.items()):
        question, step, prompt = name.split(".")
        for key in [key for key in known if key[0] == question and key[1] >= int(step)]:
            del known[key]
        known[question, int(step)] = RecordedReply(question, int(step), prompt, reply)
    lines = [
        json.dumps(
            {"question": one.question, "step": one.step, "prompt": one.prompt, "reply": one.reply},
            ensure_ascii=False,
        )
        for _, one in sorted(known.items())
    ]
    recorded.parent.mkdir(exist_ok=True)
    recorded.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(replies)} replies recorded, {len(lines)} in {recorded.name}")


def read_recorded(file: Path) -> dict[tuple[str, int], RecordedReply]:
    """The recorded replies by question and step; none if the file is missing."""
    if not file.exists():
        return {}
    read = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {(one["question"], one["step"]): RecordedReply(**one) for one in read}


if __name__ == "__main__":
    main()
