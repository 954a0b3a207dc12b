"""The read path at versions other than the head."""

import gc
import json
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest

from hopsyncd.config.values import STRATEGIES, Profile, Search, Strategy
from hopsyncd.errors import BadRequest, LlmError, LlmUnavailable
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.read import Batch
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import LlmCall
from hopsyncd.models.questions import BuiltinMaker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.visible_sources import Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.content import build_full_text
from store.contract import Connection
from store.exceptions import NoSuchVersion
from store.gc import Retention, collect
from store.purge import purge, request_purge
from store.records import Version
from store.sources import register_source
from tests.fakes.llm import FakeLlm, Play
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

ROME = b"# Rome\n\nRome lies on the Tiber. Caesar ruled in Rome.\n"
PARIS = b"# Paris\n\nParis lies on the Seine. Caesar called it Lutetia.\n"
QUESTION = "What did Caesar call Paris?"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    files = MemoryConnector({"rome.md": ROME, "paris.md": PARIS})
    made = Stack(tmp_path / "s.db", files, budget_factor=10)
    made.sync()
    return made


SEARCHES = [
    *(Search(strategy) for strategy in STRATEGIES),
    Search(reasoner="similarity"),
    Search(profile="paper"),
    Search(profile="paper", top_k=2, n_hop=1),
    Search(reasoner="llm"),
    Search(profile="paper", reasoner="llm-relevance"),
    Search("decompose", reasoner="llm"),
]
DOWN = LlmUnavailable("The LLM gave no answer", "the endpoint is down", "Start it")


def first_offered(call: LlmCall) -> str:
    """Follow the first question of each passage; split no question."""
    if call.purpose == "decomposition":
        return '{"questions": []}'
    offered = json.loads(call.user)["follow_up_questions"]
    return json.dumps({"follow": 1, "grades": ["relevant"] * len(offered)})


def serving(
    stack: Stack,
    database: Path,
    play: Play = first_offered,
    max_llm_calls: int | None = None,
) -> Engine:
    engine = Engine(
        database, FakeEncoder(), WalkSettings(), FakeLlm(play), max_llm_calls=max_llm_calls
    )
    engine.publish(stack.writer.make_snapshot(stack.head))
    return engine


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_past_version_answers_as_it_did_when_it_was_the_head(
    stack: Stack, tmp_path: Path, search: Search
) -> None:
    then = serving(stack, tmp_path / "s.db").query(QUESTION, 5, search)
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    files.put("paris.md", PARIS + b"\nCaesar never saw the Eiffel Tower in Paris.\n")
    files.put("oslo.md", b"# Oslo\n\nCaesar never came to Oslo.\n")
    files.remove("rome.md")
    stack.sync()
    engine = serving(stack, tmp_path / "s.db")
    assert engine.query(QUESTION, 5, search, at="1") == then
    assert engine.query(QUESTION, 5, search) != then


@pytest.mark.parametrize("strategy", [*STRATEGIES])
def test_the_snapshot_of_a_replaced_version_is_freed_at_once_after_a_query(
    stack: Stack, tmp_path: Path, strategy: Strategy
) -> None:
    engine = serving(stack, tmp_path / "s.db")
    replaced = weakref.ref(engine.head)
    stack.writer.forget_index()  # the writer keeps its newest snapshot
    engine.query(QUESTION, 5, Search(strategy))
    gc.disable()
    try:
        engine.query(QUESTION, 5, Search(strategy))
        engine.publish(stack.writer.make_snapshot(stack.head))
        assert replaced() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("strategy", ["hop", "statement", "topic"])
def test_a_clause_that_no_visible_passage_resembles_does_not_change_the_ranking(
    stack: Stack, tmp_path: Path, strategy: Strategy
) -> None:
    aside = "Zebras graze quietly."

    def found(question: str, at: str = "head") -> tuple[Ranked, ...]:
        answer = serving(stack, tmp_path / "s.db").query(question, 5, Search(strategy), at)
        assert answer is not None
        return answer.ranked

    plain = found(QUESTION)
    assert found(f"{aside} {QUESTION}") == plain
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    files.put("zebras.md", f"# Zebras\n\n{aside}\n".encode())
    stack.sync()
    assert found(f"{aside} {QUESTION}") != found(QUESTION)
    assert found(f"{aside} {QUESTION}", at="1") == plain


def test_a_version_of_another_encoder_is_refused_by_name(stack: Stack, tmp_path: Path) -> None:
    wider = BuiltinMaker(FakeLanguage(), FakeEncoder(24))
    stack.close()
    again = Stack(tmp_path / "s.db", stack.connector, wider)
    assert again.writer.renew() is not None
    engine = Engine(tmp_path / "s.db", FakeEncoder(24), WalkSettings())
    engine.publish(again.writer.make_snapshot(again.head))
    assert engine.query(QUESTION, 5, Search()) is not None
    with pytest.raises(NoSuchVersion, match="encoder"):
        engine.query(QUESTION, 5, Search(), at="1")


def test_a_version_that_the_index_does_not_have_yet_is_refused(
    stack: Stack, tmp_path: Path
) -> None:
    engine = serving(stack, tmp_path / "s.db")
    stack.writer.forget_index()  # what is served does not go on with the writer's
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    files.put("oslo.md", b"# Oslo\n\nCaesar never called Paris Oslo.\n")
    stack.sync()
    for hidden in (frozenset[str](), frozenset({"diary"})):
        with pytest.raises(NoSuchVersion, match="is the newest searchable version"):
            engine.query(QUESTION, 5, Search(), at="2", hidden=hidden)
    engine.publish(stack.writer.make_snapshot(stack.head))
    assert engine.query(QUESTION, 5, Search(), at="2") == engine.query(QUESTION, 5, Search())


def test_a_source_that_comes_after_the_acl_was_made_is_hidden(stack: Stack, tmp_path: Path) -> None:
    engine = serving(stack, tmp_path / "s.db")
    acl = Acl(frozenset({stack.source.name}))
    with engine.reading(hidden=acl) as (_, before):
        assert before is not None and not before.hidden
    late = MemoryConnector({"pay.md": b"# Pay\n\nCaesar paid Brutus in Rome.\n"})
    row = register_source(stack.connection, "late", "memory", "")
    stack.path.sync(Source(row, "late", late), Scope(None))
    engine.publish(stack.writer.make_snapshot(stack.head))
    seen = engine.query(QUESTION, 50, Search(), hidden=acl)
    whole = engine.query(QUESTION, 50, Search())
    assert seen is not None and whole is not None
    assert seen.snapshot.hidden == {"late"}
    assert len(seen.ranked) == len(whole.ranked) - 1


class Overtaken(Engine):
    """An engine whose head is replaced and collected just after a request took it up."""

    meanwhile: list[Snapshot]

    def _is_kept(self, connection: Connection, wanted: Version) -> bool:
        while self.meanwhile:
            self.publish(self.meanwhile.pop())
        return super()._is_kept(connection, wanted)


def test_a_request_whose_version_gc_has_just_collected_uses_the_newest_version(
    stack: Stack, tmp_path: Path
) -> None:
    engine = Overtaken(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    assert isinstance(stack.connector, MemoryConnector)
    stack.connector.put("paris.md", PARIS + b"\nParis has a tower.\n")
    stack.sync()
    collect(stack.connection, Retention(1, 0), 10_000_000_000)
    engine.meanwhile = []
    with pytest.raises(NoSuchVersion, match="expired"):
        engine.query(QUESTION, 5, Search())
    engine.meanwhile = [stack.writer.make_snapshot(stack.head)]
    answer = engine.query(QUESTION, 5, Search())
    assert answer is not None and answer.version == 2


def test_a_past_version_is_read_anew_after_a_purge(stack: Stack, tmp_path: Path) -> None:
    stack.writer.apply(Batch("purge", gone=((stack.source.id, "paris.md"),)))
    engine = serving(stack, tmp_path / "s.db")
    before = engine.query(QUESTION, 5, Search(), at="1")
    purge(stack.connection, request_purge(stack.connection, stack.source.id, "paris.md", 0))
    engine.forget_pasts()
    after = engine.query(QUESTION, 5, Search(), at="1")
    assert before is not None and after is not None
    assert {passage.text for passage in before.passages.values()} - {
        passage.text for passage in after.passages.values()
    }
    assert not any("Lutetia" in passage.text for passage in after.passages.values())


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_an_llm_that_takes_the_first_of_what_it_is_offered_is_the_similarity_reasoner(
    stack: Stack, tmp_path: Path, profile: Profile
) -> None:
    engine = serving(stack, tmp_path / "s.db")
    by_llm = engine.query(QUESTION, 5, Search(profile=profile, reasoner="llm"))
    plain = engine.query(QUESTION, 5, Search(profile=profile, reasoner="similarity"))
    assert by_llm is not None and plain is not None
    assert by_llm.ranked == plain.ranked
    assert by_llm.llm is not None and by_llm.llm.calls > 0 and by_llm.llm.tokens > 0
    assert (by_llm.degraded, plain.llm) == ((), None)


def test_the_llm_decides_what_is_followed(stack: Stack, tmp_path: Path) -> None:
    one_seed = Search(reasoner="llm", top_k=1)
    follows = serving(stack, tmp_path / "s.db").query(QUESTION, 5, one_seed)
    stays = serving(stack, tmp_path / "s.db", lambda _: '{"follow": null}').query(
        QUESTION, 5, one_seed
    )
    assert follows is not None and stays is not None
    assert [len(hit.hops) for hit in follows.ranked] == [0, 1]
    assert len(stays.ranked) == 1


def test_no_search_asks_the_llm_unless_told_to(stack: Stack, tmp_path: Path) -> None:
    llm = FakeLlm(first_offered)
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings(), llm)
    engine.publish(stack.writer.make_snapshot(stack.head))
    for search in SEARCHES:
        answer = engine.query(QUESTION, 5, search)
        assert answer is not None
        assert bool(llm.calls) == search.wants_llm == (answer.llm is not None)
        llm.calls.clear()


def test_by_default_the_llm_also_sees_where_a_question_leads(stack: Stack, tmp_path: Path) -> None:
    offered: dict[str, set[str]] = {"default": set(), "paper": set()}
    for profile in ("default", "paper"):

        def play(call: LlmCall, seen: set[str] = offered[profile]) -> str:
            seen.update(json.loads(call.user)["follow_up_questions"].values())
            return first_offered(call)

        engine = serving(stack, tmp_path / "s.db", play)
        engine.query(QUESTION, 5, Search(profile=profile, reasoner="llm"))
    assert offered["default"] and offered["paper"]
    assert all(text.endswith(("(Rome)", "(Paris)")) for text in offered["default"])
    assert not any(text.endswith(("(Rome)", "(Paris)")) for text in offered["paper"])


@pytest.mark.parametrize(
    "search", [Search(reasoner="llm"), Search("decompose", reasoner="llm")], ids=str
)
def test_if_the_llm_fails_the_answer_says_so_and_equals_the_answer_without_it(
    stack: Stack, tmp_path: Path, search: Search
) -> None:
    answer = serving(stack, tmp_path / "s.db", lambda _: DOWN).query(QUESTION, 5, search)
    plain = Search(search.strategy, reasoner="similarity")
    without = serving(stack, tmp_path / "s.db").query(QUESTION, 5, plain)
    assert answer is not None and without is not None
    assert answer.ranked == without.ranked
    (why,) = answer.degraded
    assert "the endpoint is down" in why


def test_the_calls_of_a_query_are_capped(stack: Stack, tmp_path: Path) -> None:
    engine = serving(stack, tmp_path / "s.db", max_llm_calls=1)
    answer = engine.query(QUESTION, 5, Search(reasoner="llm"))
    assert answer is not None and answer.llm is not None
    assert answer.llm.calls == 1
    assert "used all of its 1 calls" in answer.degraded[0]


def test_a_meter_of_the_caller_counts_and_limits(stack: Stack, tmp_path: Path) -> None:
    usage = Usage(max_calls=1)
    engine = serving(stack, tmp_path / "s.db")
    engine.query(QUESTION, 5, Search(reasoner="llm"), usage=usage)
    assert usage.calls == 1


@pytest.mark.parametrize("spared", [True, False])
def test_gc_keeps_a_version_while_an_llm_query_uses_it(
    stack: Stack, tmp_path: Path, spared: bool
) -> None:
    """No read transaction is open then, so it has to be told; else the next version is asked."""
    versions = iter([None])

    def play(call: LlmCall) -> str | LlmError:
        for _ in versions:
            assert isinstance(stack.connector, MemoryConnector)
            stack.connector.put("paris.md", PARIS + b"\nParis has a tower.\n")
            stack.sync()
            engine.publish(stack.writer.make_snapshot(stack.head))
            reading = engine.being_read
            assert reading == {1}
            retention = Retention(1, 0, reading if spared else frozenset())
            collect(stack.connection, retention, 10_000_000_000)
            busy, *_ = stack.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            assert not busy
        return first_offered(call)

    engine = serving(stack, tmp_path / "s.db", play)
    answer = engine.query(QUESTION, 5, Search(reasoner="llm"))
    assert answer is not None and answer.version == (1 if spared else 2)
    assert not engine.being_read


def test_a_document_purged_during_an_llm_call_is_not_in_the_answer(
    stack: Stack, tmp_path: Path
) -> None:
    once = iter([None])

    def play(call: LlmCall) -> str | LlmError:
        for _ in once:
            stack.writer.apply(Batch("purge", gone=((stack.source.id, "paris.md"),)))
            purge(stack.connection, request_purge(stack.connection, stack.source.id, "paris.md", 0))
        return first_offered(call)

    engine = serving(stack, tmp_path / "s.db", play)
    answer = engine.query(QUESTION, 5, Search(reasoner="llm"), at="1")
    assert answer is not None and answer.ranked
    assert {hit.passage for hit in answer.ranked} <= answer.passages.keys()
    assert not any("Paris" in passage.heading for passage in answer.passages.values())


@pytest.mark.parametrize(
    ("search", "told"),
    [
        (Search("rerank"), "no reranker is configured"),
        (Search(reasoner="llm"), "no LLM is configured"),
        (Search("decompose", reasoner="llm"), "no LLM is configured"),
        (Search(profile="paper", reasoner="walk"), "does not support the reasoner `walk`"),
        (Search(unit="statement"), "does not support `unit = statement`"),
        (Search("bm25", beam=2), "`bm25` does not support `beam = 2`"),
        (Search("dense", rerank="cosine"), "`dense` does not support `rerank = cosine`"),
        (Search(reasoner="llm", unit="statement"), "does not support `unit = statement`"),
    ],
    ids=str,
)
def test_a_search_that_cannot_be_made_here_is_refused(
    stack: Stack, tmp_path: Path, search: Search, told: str
) -> None:
    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    with pytest.raises(BadRequest, match=told):
        engine.query(QUESTION, 5, search)


def test_the_reranker_orders_the_nearest_passages(stack: Stack, tmp_path: Path) -> None:
    class ByLength:
        def score_texts(self, question: str, texts: Sequence[str]) -> list[float]:
            assert question == QUESTION
            return [float(len(text)) for text in texts]

    engine = Engine(tmp_path / "s.db", FakeEncoder(), WalkSettings(), reranker=ByLength())
    engine.publish(stack.writer.make_snapshot(stack.head))
    answer = engine.query(QUESTION, 2, Search("rerank"))
    assert answer is not None
    texts = [answer.passages[hit.passage] for hit in answer.ranked]
    whole = [hit.score for hit in answer.ranked]
    assert len(texts) == 2
    assert whole == sorted(whole, reverse=True)
    assert whole == [len(build_full_text(text)) for text in texts]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_graphs_of_one_passage_and_of_none_can_be_searched(
    stack: Stack, tmp_path: Path, search: Search
) -> None:
    files = stack.connector
    assert isinstance(files, MemoryConnector)
    files.remove("rome.md")
    files.put("paris.md", b"# Paris\n\nParis has a tower.\n")
    stack.sync()
    alone = serving(stack, tmp_path / "s.db").query("What has Paris?", 5, search)
    files.remove("paris.md")
    stack.sync(accept_empty=True)
    none = serving(stack, tmp_path / "s.db").query("What has Paris?", 5, search)
    assert alone is not None and none is not None
    assert len(alone.ranked) == (0 if search.profile == "paper" else 1)
    assert none.ranked == ()
