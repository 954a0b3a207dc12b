"""Days are read from every spelling, and found as a rebuilt index would find them."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.config.values import Search
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.text.dates import find_dates
from tests.fakes.memory_sources import MemorySources
from tests.fakes.models import FakeEncoder

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


def open_sources(folder: Path, files: Mapping[str, Mapping[str, str]]) -> MemorySources:
    return MemorySources(folder, files, FakeEncoder(), passage_tokens=20)


def ask_all(
    index: MemorySources, at: str = "head", hidden: frozenset[str] = frozenset()
) -> list[tuple[tuple[str, ...], tuple[Ranked, ...]]]:
    found = [index.engine.query(question, 5, Search(), at, hidden=hidden) for question in QUESTIONS]
    return [(answer.absent, answer.ranked) for answer in found if answer]


@settings(max_examples=25, deadline=None)
@given(_steps)
def test_days_are_found_as_after_a_rebuild_and_by_what_may_be_seen(
    steps: list[tuple[str, str, str | None]],
) -> None:
    with TemporaryDirectory() as made:
        folder = Path(made)
        files: dict[str, dict[str, str]] = {
            "open": {"first.md": "# First\n\nSeen 02/03/2024 here."},
            "closed": {},
        }
        index = open_sources(folder / "index", files)
        past = {}
        for name, path, text in steps:
            if text is None:
                if files[name].pop(path, None) is not None:
                    index.connectors[name].remove(path)
            else:
                files[name][path] = text
                index.connectors[name].put(path, text.encode())
            at = index.sync()
            past[at] = ask_all(index)
        fresh = open_sources(folder / "fresh", files)
        assert ask_all(index) == ask_all(fresh)
        alone = open_sources(folder / "alone", {"open": files["open"]})
        assert ask_all(index, hidden=frozenset({"closed"})) == ask_all(alone)
        assert {at: ask_all(index, at) for at in past} == past
        for one in (index, fresh, alone):
            one.stack.close()
