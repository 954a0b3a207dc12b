"""Other forms of words are found as after a rebuild, and by what may be seen alone."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.config.values import Search
from hopsyncd.retrieve.ranking import Ranked
from tests.fakes.memory_sources import MemorySources
from tests.fakes.models import FakeEncoder

QUESTIONS = (
    "EST boats",
    "Enterprise Support Team",
    "Who leads the EST?",
    "kube boats",
    "zilla",
    "Eastern Standard boats",
)
_sentence = st.sampled_from(
    [
        "The Enterprise Support Team (EST) has boats.",
        "EST (Eastern Standard Time) is the time of the boats.",
        "Ask the Enterprise Support Team for boats.",
        "Ask EST for oars.",
        "Boats keep Eastern Standard Time.",
        "The Kubernetes boats are blue.",
    ]
)
_text = st.lists(_sentence, min_size=1, max_size=3).map(
    lambda said: "\n\n".join(f"# {one[-6:-1]}\n\n{one}" for one in said)
) | st.sampled_from(
    [
        "---\naliases: [kube]\n---\n# Kubernetes\n\nIt is blue.\n",
        "---\naliases: [zilla, boats]\n---\nIt is blue.\n",
        "Zilla keeps boats.\n",
    ]
)
_steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "closed"]),
        st.sampled_from(["a.md", "Kubernetes.md", "Eastern Standard.md"]),
        st.none() | _text,
    ),
    min_size=2,
    max_size=7,
)


def open_sources(folder: Path, files: Mapping[str, Mapping[str, str]]) -> MemorySources:
    return MemorySources(folder, files, FakeEncoder(), passage_tokens=20)


def ask_all(
    index: MemorySources, at: str = "head", hidden: frozenset[str] = frozenset()
) -> list[tuple[tuple[str, ...], tuple[Ranked, ...], tuple[str, ...]]]:
    found = [index.engine.query(question, 5, Search(), at, hidden=hidden) for question in QUESTIONS]
    return [
        (answer.absent, answer.ranked, tuple(map(str, answer.strengths.values())))
        for answer in found
        if answer
    ]


@settings(max_examples=25, deadline=None)
@given(_steps)
def test_other_forms_are_found_as_after_a_rebuild_and_by_what_may_be_seen(
    steps: list[tuple[str, str, str | None]],
) -> None:
    with TemporaryDirectory() as made:
        folder = Path(made)
        files: dict[str, dict[str, str]] = {
            "open": {"first.md": "# First\n\nEST has oars and boats."},
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
