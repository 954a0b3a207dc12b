"""Days are read from every spelling, and found as a rebuilt index would find them."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.config.values import Search
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.walk_settings import WalkSettings
from hopsyncd.text.dates import find_dates
from store.sources import register_source
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

QUESTIONS = ("2 March 2024", "3 February 2024", "Who came on 2 March 2024?")
_SPELLINGS = ("{0:%Y-%m-%d}", "{0:%B} {0.day}, {0:%Y}", "{0.day} {0:%b} {0:%Y}")
_days = st.dates(datetime.date(1000, 1, 1), datetime.date(2999, 12, 31))
_sentence = st.sampled_from(
    [
        "Seen 02/03/2024 here.",
        "Seen 22/03/2024 there.",
        "Seen 03/22/2024 there.",
        "Seen 2024-03-02 again.",
        "Das war der Tag mit dem Boot.",
        "It was the day of the boat.",
    ]
)
_text = st.lists(_sentence, min_size=1, max_size=3).map(
    lambda said: "\n\n".join(f"# {one[-6:-1]}\n\n{one}" for one in said)
)
_steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "closed"]),
        st.sampled_from(["a.md", "b.md", "2024-03-02.md"]),
        st.none() | _text,
    ),
    min_size=2,
    max_size=7,
)


@given(_days, st.sampled_from(_SPELLINGS))
def test_every_spelling_is_read(day: datetime.date, spelling: str) -> None:
    found = [*find_dates(f"since {spelling.format(day)}.")]
    assert [(one.day, one.order) for one in found] == [(day.isoformat(), None)]


class Index:
    """An open and a closed source."""

    def __init__(self, folder: Path) -> None:
        self.connectors = {name: MemoryConnector({}) for name in ("open", "closed")}
        self.stack = Stack(folder / "s.db", self.connectors["open"], passage_tokens=20)
        self.sources = [
            Source(register_source(self.stack.connection, name, "memory", ""), name, connector)
            for name, connector in self.connectors.items()
        ]
        self.engine = Engine(folder / "s.db", FakeEncoder(), WalkSettings())

    def sync(self) -> str:
        for source in self.sources:
            self.stack.path.sync(source, Scope(None, accept_empty=True))
        newest = self.stack.versions[-1]
        self.engine.publish(self.stack.writer.snapshot_of(newest))
        return str(newest.id)

    def answers(
        self, at: str = "head", hidden: frozenset[str] = frozenset()
    ) -> list[tuple[tuple[str, ...], tuple[Ranked, ...]]]:
        found = [
            self.engine.query(question, 5, Search(), at, hidden=hidden) for question in QUESTIONS
        ]
        return [(answer.absent, answer.ranked) for answer in found if answer]


def _build(folder: Path, files: Mapping[tuple[str, str], str]) -> Index:
    folder.mkdir()
    index = Index(folder)
    for (name, path), text in files.items():
        index.connectors[name].put(path, text.encode())
    index.sync()
    return index


@settings(max_examples=25, deadline=None)
@given(_steps)
def test_days_are_found_as_after_a_rebuild_and_by_what_may_be_seen(
    steps: list[tuple[str, str, str | None]],
) -> None:
    with TemporaryDirectory() as made:
        folder = Path(made)
        files = {("open", "first.md"): "# First\n\nSeen 02/03/2024 here."}
        index = _build(folder / "index", files)
        past = {}
        for name, path, text in steps:
            if text is None:
                if files.pop((name, path), None) is not None:
                    index.connectors[name].remove(path)
            else:
                files[name, path] = text
                index.connectors[name].put(path, text.encode())
            at = index.sync()
            past[at] = index.answers()
        fresh = _build(folder / "fresh", files)
        assert index.answers() == fresh.answers()
        is_open = {place: text for place, text in files.items() if place[0] == "open"}
        alone = _build(folder / "alone", is_open)
        assert index.answers(hidden=frozenset({"closed"})) == alone.answers()
        assert {at: index.answers(at) for at in past} == past
        for one in (index, fresh, alone):
            one.stack.close()
