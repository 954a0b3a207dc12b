"""Measure the cost of a watched question per version, and the changes missed by not asking each
time.

The collection is invented (benchmarks/invented.py), and the models take no time. Each edit makes a
version. Most edits add a sentence or change a word; some add or delete a document. After each edit,
the dependencies of every question are compared with the new version. The table has the processor
time of the version (from the listing to the served version), of a question that is asked again, and
of a question whose dependencies did not change. `nearly tied`: asked again with unchanged
dependencies, because two of its passages are so close that the collection's statistics may decide
their order. `missed`: the first passages or the answer changed, but the question was not asked
again. The daemon reports such a change later, when one passage in a hundred has changed.

python benchmarks/watches.py --passages 2000 --edits 60
"""

import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from common import arguments, p50, table
from fast_daemon import FastEncoder
from invented import collection

from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.dependencies import Dependencies
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeLanguage
from tests.fakes.stack import Stack

_QUESTIONS = 10
_FIRST = 5

State = tuple[frozenset[int], str]


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("--passages", {"type": int, "default": 2000}),
        ("--edits", {"type": int, "default": 60}),
    )
    files, questions, chance = {}, [], random.Random(1)
    for one in collection(given.passages):
        files[one.path] = one.text.encode()
        questions.append(one.question)
    encoder = FastEncoder()
    with tempfile.TemporaryDirectory() as folder:
        connector = MemoryConnector(files)
        maker = BuiltinMaker(FakeLanguage(), encoder)
        stack = Stack(Path(folder) / "s.db", connector, maker, passage_tokens=400)
        stack.sync()
        engine = Engine(Path(folder) / "s.db", encoder, WalkSettings())
        engine.publish(stack.writer.make_snapshot(stack.head))
        asker = Asker(engine, encoder, FakeLanguage())
        known = {one: _asked(asker, one) for one in chance.sample(questions, _QUESTIONS)}
        versions, asked, spared = list[float](), list[float](), list[float]()
        changed = missed = tied = 0
        for number in range(given.edits):
            _edit(files, connector, chance, number)
            began_s = time.process_time()
            stack.sync()
            engine.publish(stack.writer.make_snapshot(stack.head))
            versions.append(time.process_time() - began_s)
            for question, (dependencies, before) in known.items():
                began_s = time.process_time()
                touched = engine.may_differ(question, dependencies)
                checked_s = time.process_time()
                again, now = _asked(asker, question)
                asked_s = time.process_time()
                sure = replace(dependencies, lead=1.0)
                tied += touched and not engine.may_differ(question, sure)
                changed += now != before
                missed += now != before and not touched
                (asked if touched else spared).append((asked_s if touched else checked_s) - began_s)
                known[question] = again if touched else dependencies, now
        stack.close()
    table(
        ["what", "times", "p50, processor ms"],
        [
            [name, len(times), round(p50(times) * 1000, 2) if times else 0]
            for name, times in (
                ("a version", versions),
                ("a question, asked again", asked),
                ("a question, nothing had changed", spared),
            )
        ],
    )
    part = p50(spared) / p50(versions) if spared else 0.0
    print(f"nothing had changed / a version: {part:.2%}. Changes: {changed}, missed: {missed}.")
    mean = (sum(spared) + tied * p50(asked)) / max(len(spared) + tied, 1) if asked else 0.0
    print(f"nearly tied: {tied}; with these {mean / p50(versions):.2%} of a version, on average.")


def _edit(
    files: dict[str, bytes], connector: MemoryConnector, chance: random.Random, number: int
) -> None:
    """Edit like people do: half of the edits add a sentence."""
    path, kind = chance.choice(sorted(files)), chance.random()
    if kind < 0.5:
        files[path] += f"\nThe {number}th survey of Orchard {number} was lost.\n".encode()
    elif kind < 0.8:
        words = files[path].split(b" ")
        words[chance.randrange(len(words))] = b"reviewed"
        files[path] = b" ".join(words)
    elif kind < 0.95:
        path = f"new/{number}.md"
        files[path] = f"# Meeting {number}\n\nThe plan for spring is item {number}.\n".encode()
    else:
        del files[path]
        connector.remove(path)
        return
    connector.put(path, files[path])


def _asked(asker: Asker, question: str) -> tuple[Dependencies, State]:
    traced = asker.trace(question, 8, _FIRST)
    assert traced is not None
    found, reply, dependencies = traced
    assert dependencies is not None
    first = frozenset(int(hit.passage) for hit in found.ranked[:_FIRST])
    return dependencies, (first, reply.text)


if __name__ == "__main__":
    main()
