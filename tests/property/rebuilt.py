"""Edits of two sources, after which an index answers as a rebuilt one does."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from hopsyncd.config.values import Search
from tests.fakes.memory_sources import MemorySources
from tests.fakes.models import FakeEncoder

Step = tuple[str, str, str | None]
"""A source, the path of a document in it, and the new text; None removes the document."""


def texts_of(sentences: Sequence[str]) -> st.SearchStrategy[str]:
    """Documents of one to three of these sentences, each under a heading."""
    return st.lists(st.sampled_from(sentences), min_size=1, max_size=3).map(
        lambda said: "\n\n".join(f"# {one[-6:-1]}\n\n{one}" for one in said)
    )


def steps_of(paths: Sequence[str], texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[Step]]:
    """Two to seven edits of an open and a closed source."""
    step = st.tuples(st.sampled_from(["open", "closed"]), st.sampled_from(paths), st.none() | texts)
    return st.lists(step, min_size=2, max_size=7)


def check_answers(questions: Sequence[str], text: str, steps: Sequence[Step]) -> None:
    """Make the edits, and compare the answers with those of indexes built afresh.

    The open source has a document with `text` first. Without the closed source, the answers must be
    those of an index that never had it. At past versions, they must be those given then.
    """

    def ask(index: MemorySources, at: str = "head", hidden: frozenset[str] = frozenset()) -> object:
        answers = [
            index.engine.query(question, 5, Search(), at, hidden=hidden) for question in questions
        ]
        return [(answer.absent, answer.ranked, answer.strengths) for answer in answers if answer]

    with TemporaryDirectory() as made:
        folder = Path(made)
        files: dict[str, dict[str, str]] = {"open": {"first.md": text}, "closed": {}}
        index = MemorySources(folder / "index", files, FakeEncoder(), passage_tokens=20)
        past = {}
        for name, path, new in steps:
            if new is not None:
                files[name][path] = new
                index.connectors[name].put(path, new.encode())
            elif files[name].pop(path, None) is not None:
                index.connectors[name].remove(path)
            at = index.sync()
            past[at] = ask(index)
        fresh = MemorySources(folder / "fresh", files, FakeEncoder(), passage_tokens=20)
        assert ask(index) == ask(fresh)
        visible = {"open": files["open"]}
        alone = MemorySources(folder / "alone", visible, FakeEncoder(), passage_tokens=20)
        assert ask(index, hidden=frozenset({"closed"})) == ask(alone)
        assert {at: ask(index, at) for at in past} == past
        for one in (index, fresh, alone):
            one.stack.close()
