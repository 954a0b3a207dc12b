"""kill -9 while an LLM is asked: what it answered and was stored is never asked for again."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hopsyncd.ingest.upkeep import verify_matches
from store.check import check
from store.engines.sqlite.database import open_writer
from store.operational import count_waiting_by_reason
from store.versions import read_head
from tests.fakes.endpoint import Endpoint, Response, say, user_text
from tests.fakes.llm import good_reply, passages_in

ROOT = Path(__file__).parents[2]
SEED = 5
KILLS = int(os.environ.get("HOPSYNCD_LLM_KILLS", "6"))
PASSAGES, PER_CALL, ROUND = 120, 2, 4
CHILD = """
import sys
from pathlib import Path
from hopsyncd.config.configuration import LlmConfig
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.loading import open_endpoint
from hopsyncd.models.llm_maker import LlmQuestionMaker
from hopsyncd.models.llm_questions import LlmExtractor
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack
folder, url, count, per_call, a_round = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
llm = open_endpoint(LlmConfig(base_url=url, model="fake", concurrency=2), folder)
extractor = LlmExtractor(llm, per_call, a_round)
maker = LlmQuestionMaker(extractor, FakeLanguage(), FakeEncoder(), "both")
files = {f"{n}.md": f"Number{n} met Nero{n % 7} near Rome.".encode() for n in range(count)}
stack = Stack(folder / "s.db", MemoryConnector(files), maker, batch_documents=40)
print("ready", flush=True)
stack.sync()
while stack.writer.upgrade(1000, Usage()):
    pass
print("done", flush=True)
"""


def start(folder: Path, endpoint: Endpoint) -> "subprocess.Popen[str]":
    sizes = map(str, (PASSAGES, PER_CALL, ROUND))
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), endpoint.base_url, *sizes],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def play(request: dict[str, Any]) -> Response:
    return say(good_reply(user_text(request)), delay_s=0.03)


def sent(endpoint: Endpoint) -> Counter[str]:
    """How often each passage was sent."""
    return Counter(
        passage["text"]
        for request in endpoint.requests
        for passage in passages_in(user_text(request))
    )


def stored(folder: Path) -> set[str]:
    """The texts of the passages that have the LLM's questions."""
    connection = open_writer(folder / "s.db")
    try:
        rows = connection.execute(
            "SELECT p.text FROM question_set AS s JOIN passage AS p ON p.id = s.passage"
            " WHERE s.provisional = 0"
        )
        return {row[0] for row in rows}
    finally:
        connection.close()


def test_no_stored_answer_is_paid_for_twice(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    interrupted = 0
    with Endpoint(play) as endpoint:
        for _ in range(KILLS):
            child = start(tmp_path, endpoint)
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            known, before = stored(tmp_path), sent(endpoint)
            time.sleep(chance.uniform(0, 0.5))
            child.kill()
            rest = child.communicate(timeout=300)[0]
            time.sleep(0.1)
            interrupted += "done" not in rest
            again = (sent(endpoint) - before).keys() & known
            assert not again
        child = start(tmp_path, endpoint)
        assert child.communicate(timeout=300)[0].endswith("done\n")
        times = sent(endpoint)
    assert interrupted, "no kill fell into the work"
    assert len(times) == len(stored(tmp_path)) == PASSAGES
    repeated = sum(count - 1 for count in times.values())
    assert repeated <= interrupted * ROUND * PER_CALL, "more than what was under way"
    connection = open_writer(tmp_path / "s.db")
    newest = read_head(connection)
    assert newest is not None and newest.passages == PASSAGES
    assert count_waiting_by_reason(connection, newest.id) == {}
    assert check(connection, deep=True) == []
    assert verify_matches(connection) == []
    connection.close()
