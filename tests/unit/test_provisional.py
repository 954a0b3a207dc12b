"""Provisional questions: what serves while the LLM is away, and how its own take their place."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.ingest.read import Batch, ReadDocument
from hopsyncd.ingest.upkeep import verify_matches
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall
from store.check import check
from store.content import read_counters, read_sets_at
from store.gc import Retention, collect
from store.operational import count_waiting_by_reason, end_waits
from store.records import Document, Occurrence, Passage, hash_content
from store.sources import register_source
from tests.fakes.dump import Rows, graph_at
from tests.fakes.lived import NAMES, page
from tests.fakes.llm import (
    DOWN,
    FakeLlm,
    Play,
    asked_maker,
    down,
    good_reply,
    library,
    passages_in,
    up,
)
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import CountingMaker
from tests.fakes.stack import Stack, fake_maker

MANY = 1000
# Most of the time would go into waiting for the disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def waiting(stack: Stack) -> dict[str, int]:
    return count_waiting_by_reason(stack.connection, stack.head.id)


def upgraded(stack: Stack, limit: int = MANY) -> bool:
    return stack.writer.upgrade(limit, Usage()) is not None


def assert_sound(stack: Stack) -> None:
    assert check(stack.connection, deep=True) == []
    assert verify_matches(stack.connection) == []


def from_scratch(path: Path, files: MemoryConnector) -> Rows:
    """The graph of an LLM that was up from the start."""
    fresh = Stack(path, MemoryConnector(files.files), asked_maker(FakeLlm()))
    fresh.sync()
    assert waiting(fresh) == {}
    try:
        return graph_at(fresh.connection, fresh.head.id)
    finally:
        fresh.close()


@pytest.fixture
def llm() -> FakeLlm:
    return FakeLlm(down)


@pytest.fixture
def stack(tmp_path: Path, llm: FakeLlm) -> Stack:
    """Synced while the LLM was down."""
    made = Stack(tmp_path / "s.db", library(), asked_maker(llm))
    made.sync()
    return made


def test_while_the_llm_is_down_everything_is_indexed_and_waits(stack: Stack) -> None:
    assert waiting(stack) == {"unavailable": stack.head.passages}
    assert all(
        question_set.provisional for question_set in read_sets_at(stack.connection, stack.head.id)
    )
    assert stack.head.matches > 0
    assert_sound(stack)


def test_the_provisional_graph_is_the_built_in_generators(tmp_path: Path, stack: Stack) -> None:
    plain = Stack(tmp_path / "plain.db", library())
    plain.sync()
    ours, theirs = (
        sorted(
            (
                question_set.passage,
                [(q.text, q.keywords, q.direction) for q in question_set.questions],
            )
            for question_set in read_sets_at(s.connection, s.head.id)
        )
        for s in (stack, plain)
    )
    assert ours == theirs


def test_after_an_upgrade_the_graph_is_the_one_of_an_llm_that_was_up(
    tmp_path: Path, stack: Stack, llm: FakeLlm
) -> None:
    llm.play = up
    documents = stack.head.documents
    assert upgraded(stack)
    assert (stack.head.id, stack.head.documents) == (2, documents)
    assert stack.head.reason == f"{stack.head.passages} passages got their LLM questions"
    assert waiting(stack) == {}
    assert graph_at(stack.connection, 2) == from_scratch(tmp_path / "fresh.db", library())
    assert_sound(stack)
    assert not upgraded(stack)


def test_an_upgrade_in_pieces_ends_at_the_same_graph(
    tmp_path: Path, stack: Stack, llm: FakeLlm
) -> None:
    llm.play = up
    left = [stack.head.passages]
    while upgraded(stack, limit=3):
        left.append(sum(waiting(stack).values()))
        assert_sound(stack)
    assert left == [*range(left[0], 0, -3), 0]
    assert graph_at(stack.connection, stack.head.id) == from_scratch(
        tmp_path / "fresh.db", library()
    )
    # Once in vain, by the first round, then once.
    assert max(llm.times.values()) == 2


def test_an_llm_that_stays_away_makes_no_version(stack: Stack, llm: FakeLlm) -> None:
    assert not upgraded(stack)
    assert stack.head.id == 1
    assert waiting(stack) == {"unavailable": stack.head.passages}


def test_an_upgrade_stops_for_more_urgent_work(stack: Stack, llm: FakeLlm) -> None:
    llm.play = up
    before = len(llm.calls)
    assert stack.writer.upgrade(MANY, Usage(), lambda: len(llm.calls) < before + 2)
    assert waiting(stack) == {"queued": stack.head.passages - 4}
    assert len(llm.calls) == before + 2


def test_a_passage_that_gets_nonsense_waits_longer_each_time_and_the_others_do_not(
    tmp_path: Path,
) -> None:
    def play(call: LlmCall) -> str:
        told = any("Cairo lies" in passage["text"] for passage in passages_in(call.user))
        return "nonsense" if told else good_reply(call.user)

    llm = FakeLlm(play)
    stack = Stack(tmp_path / "s.db", library(), asked_maker(llm))
    stack.sync()
    assert waiting(stack) == {"nonsense": 1}
    assert_sound(stack)
    asked = len(llm.calls)
    assert not upgraded(stack)
    assert len(llm.calls) == asked, "its time has not come"
    end_waits(stack.connection)
    assert not upgraded(stack)
    assert len(llm.calls) == asked + 1
    tries, next_ms = stack.connection.execute("SELECT tries, next_ms FROM waiting").fetchone()
    assert tries == 2
    assert next_ms > 1_000_000 + 4 * 600_000


def test_a_version_says_what_the_llm_took(tmp_path: Path, stack: Stack, llm: FakeLlm) -> None:
    llm.play = up
    before = len(llm.calls)
    upgraded(stack)
    calls = len(llm.calls) - before
    assert stack.head.counters["llm_calls"] == calls
    assert stack.head.counters["llm_tokens"] == 120 * calls
    plain = Stack(tmp_path / "plain.db", library())
    plain.sync()
    assert "llm_calls" not in plain.head.counters


def test_a_spent_budget_leaves_the_rest_waiting(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "s.db", library(), asked_maker(FakeLlm()))
    stack.path.new_usage = lambda: Usage(max_calls=1)
    stack.sync()
    assert waiting(stack) == {"budget": stack.head.passages - 2}
    assert_sound(stack)


def test_a_document_that_comes_back_is_not_asked_for_again(stack: Stack, llm: FakeLlm) -> None:
    assert isinstance(stack.connector, MemoryConnector)
    data = stack.connector.files["rome.md"]
    stack.connector.remove("rome.md")
    stack.sync()
    stack.connector.put("rome.md", data)
    before = len(llm.calls)
    stack.sync()
    assert len(llm.calls) == before
    assert sum(waiting(stack).values()) == stack.head.passages


def test_a_restore_takes_the_better_questions_where_they_are(
    tmp_path: Path, stack: Stack, llm: FakeLlm
) -> None:
    assert isinstance(stack.connector, MemoryConnector)
    llm.play = up
    upgraded(stack)
    stack.connector.remove("rome.md")
    stack.sync()
    before = len(llm.calls)
    stack.restore(1)
    assert len(llm.calls) == before
    assert graph_at(stack.connection, stack.head.id) == from_scratch(
        tmp_path / "fresh.db", library()
    )
    assert_sound(stack)


def test_results_stored_before_a_stop_are_not_requested_again(
    tmp_path: Path, stack: Stack, llm: FakeLlm
) -> None:
    stack.close()
    before = llm.times

    def dies(call: LlmCall) -> str:
        if len(llm.calls) > before.total() // 2 + 3:
            raise KeyboardInterrupt
        return good_reply(call.user)

    llm.play = dies
    killed = Stack(tmp_path / "s.db", library(), asked_maker(llm))
    with pytest.raises(KeyboardInterrupt):
        upgraded(killed)
    killed.close()
    llm.play = up
    again = Stack(tmp_path / "s.db", library(), asked_maker(llm))
    assert upgraded(again)
    assert waiting(again) == {}
    after = llm.times
    twice = [text for text in after if after[text] - before[text] > 1]
    assert len(twice) <= 2 * 2, "no more than the calls of one round"
    assert graph_at(again.connection, again.head.id) == from_scratch(
        tmp_path / "fresh.db", library()
    )


def test_turning_the_llm_on_makes_and_asks_nothing_before_the_switch(tmp_path: Path) -> None:
    plain = Stack(tmp_path / "s.db", library(), fake_maker())
    plain.sync()
    spent = read_counters(plain.connection)
    plain.close()
    llm = FakeLlm()
    stack = Stack(tmp_path / "s.db", library(), asked_maker(llm))
    assert stack.writer.renew() is not None
    assert llm.calls == []
    assert read_counters(stack.connection) == spent
    assert waiting(stack) == {"queued": stack.head.passages}
    assert_sound(stack)
    upgraded(stack)
    assert graph_at(stack.connection, stack.head.id) == from_scratch(
        tmp_path / "fresh.db", library()
    )
    assert_sound(stack)


def test_turning_the_llm_off_and_on_again_costs_nothing(tmp_path: Path) -> None:
    llm, plain = FakeLlm(), CountingMaker(fake_maker())
    for maker in (plain, asked_maker(llm), plain, asked_maker(llm)):
        stack = Stack(tmp_path / "s.db", library(), maker)
        stack.sync()
        stack.writer.renew()
        upgraded(stack)
        stack.close()
    assert set(llm.times.values()) == {1}
    assert len(plain.made) == len(set(plain.made))


def test_provisional_content_goes_with_its_versions(stack: Stack, llm: FakeLlm) -> None:
    llm.play = up
    upgraded(stack)
    done = collect(stack.connection, Retention(1, 0), now_ms=2_000_000)
    assert done.question_sets == stack.head.passages
    assert stack.connection.execute("SELECT count(*) FROM waiting").fetchone()[0] == 0
    assert_sound(stack)


def test_a_rebuild_keeps_waiting_passages(stack: Stack, llm: FakeLlm) -> None:
    stack.writer.rebuild()
    assert sum(waiting(stack).values()) == stack.head.passages
    llm.play = up
    assert upgraded(stack)
    assert_sound(stack)


def test_passages_of_two_sources_never_share_a_call(stack: Stack, llm: FakeLlm) -> None:
    """Not when they come in one version, nor when they are asked for again together."""
    other = register_source(stack.connection, "private", "memory", "")
    read = []
    for source, whose in ((stack.source.id, "Shared"), (other, "Private")):
        for n in range(3):
            passage = Passage((), f"{whose}{n} met Rome.")
            place = (Occurrence(passage.id, 1, 1),)
            document = Document(source, f"{n}.txt", hash_content(b"%d" % n), "text/plain", place)
            read.append(ReadDocument(document, (passage,)))
    before = len(llm.calls)
    stack.writer.apply(Batch("two sources", tuple(read)))
    llm.play = up
    upgraded(stack)
    assert len(llm.calls) > before
    for call in llm.calls[before:]:
        private = {passage["text"].startswith("Private") for passage in passages_in(call.user)}
        assert len(private) == 1
        assert call.source == ("private" if private == {True} else "notes")


edits = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "c.md"]),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3) | st.none(),
        st.sampled_from(["up", "down", "nonsense", "half"]),
        st.booleans(),
    ),
    max_size=6,
)


@settings(max_examples=settings().max_examples // 3)
@given(edits=edits)
def test_whenever_the_llm_was_up_the_graph_in_the_end_is_the_same(
    edits: list[tuple[str, list[str] | None, str, bool]],
) -> None:
    plays: dict[str, Play] = {
        "up": up,
        "down": down,
        "nonsense": lambda call: "nonsense",
        "half": lambda call: DOWN if "Rome" in call.user else good_reply(call.user),
    }
    with TemporaryDirectory(dir=MEMORY) as folder:
        files, llm = MemoryConnector({"z.md": page("Zürich", "Rome")}), FakeLlm()
        stack = Stack(Path(folder) / "s.db", files, asked_maker(llm))
        for path, names, play, upgrade in edits:
            llm.play = plays[play]
            if names:
                files.put(path, page(*names))
            elif path in files.files:
                files.remove(path)
            stack.sync()
            if upgrade:
                upgraded(stack, limit=2)
        stack.sync()
        llm.play = up
        end_waits(stack.connection)
        while upgraded(stack):
            pass
        assert waiting(stack) == {}
        assert graph_at(stack.connection, stack.head.id) == from_scratch(
            Path(folder) / "fresh.db", files
        )
        assert_sound(stack)
        stack.close()


def test_counting_waiting_passages_reads_no_other_passages(tmp_path: Path) -> None:
    texts = {f"{number}.md": b"The file %d met Rome." % number for number in range(500)}
    many = Stack(tmp_path / "many.db", MemoryConnector(texts))
    many.sync()
    done: list[None] = []
    many.file.set_progress_handler(lambda: done.append(None), 100)
    assert waiting(many) == {}
    many.file.set_progress_handler(None, 0)
    assert len(done) < 5
    many.close()
