"""Answers a question at one version: searches by a strategy, then fetches the passages found."""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopsyncd.config.values import Search
from hopsyncd.errors import EncoderUnavailable
from hopsyncd.index.filters import Filter, apply_filter
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.index.throttle import running_query
from hopsyncd.models.encoder import Encoder, Reranker
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import Llm
from hopsyncd.retrieve.acl_view_cache import AclViewCache, WriterState
from hopsyncd.retrieve.dependencies import Dependencies, is_touched
from hopsyncd.retrieve.literal_search import may_differ_by_words
from hopsyncd.retrieve.logic import Tell, ignore_progress
from hopsyncd.retrieve.other_forms import find_other_forms
from hopsyncd.retrieve.query_words import read_query_words
from hopsyncd.retrieve.ranking import Ranked
from hopsyncd.retrieve.results import Answer, LlmCost, build_answer
from hopsyncd.retrieve.saved_views import SavedViews
from hopsyncd.retrieve.searcher import EncodedTexts, Searcher, SearchResult
from hopsyncd.retrieve.spelling import Spelling, find_corrections
from hopsyncd.retrieve.stored_vectors import WITHOUT_ENCODER, StoredVectors
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.content import get_generation, read_passages
from store.contract import Connection
from store.copying import LocalCopy
from store.exceptions import NoSuchVersion
from store.history import resolve
from store.open_database import Database, open_reader
from store.records import PassageId, Vectors, Version
from store.sources import read_source_names
from store.transactions import snapshot
from store.versions import read_version
from store.visibility import Mask

MAX_LLM_CALLS = 40  # default for one query


class _SnapshotCache:
    """A thread-safe cache of at most `most` snapshots. The oldest snapshot is dropped first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[Any, Snapshot] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, index: LiveIndex, make: Callable[[], Snapshot]) -> Snapshot:
        """Return the cached snapshot for this key and index, or create and cache it with `make`."""
        if cached := self._find(key, index):  # does not wait for the lock
            return cached
        with self._lock:
            if cached := self._find(key, index):
                return cached
            created = make()
            while len(self._made) >= self._most:
                self._made.pop(next(iter(self._made)))
            self._made[key] = created
            return created

    def list_snapshots(self, index: LiveIndex) -> list[tuple[Any, Snapshot]]:
        """List the cached snapshots of an index, with their keys."""
        return [(key, cached) for key, cached in self._made.items() if cached.index is index]

    def clear(self) -> None:
        with self._lock:
            self._made.clear()

    def _find(self, key: Hashable, index: LiveIndex) -> Snapshot | None:
        cached = self._made.get(key)
        return cached if cached and cached.index is index else None


class Engine:
    """Searches one database. Thread-safe.

    `llm` and `reranker` are used only by searches that request them. Whether ACL views are computed
    in advance depends on the `writer`. ACL views are loaded from the folder `saved_views`, and
    saved there if `owns_views`.
    """

    def __init__(
        self,
        database: Database,
        encoder: Encoder,
        settings: WalkSettings,
        llm: Llm | None = None,
        reranker: Reranker | None = None,
        max_llm_calls: int | None = MAX_LLM_CALLS,
        budget_factor: float = 1.0,
        copy: LocalCopy | None = None,
        writer: WriterState = WriterState(),  # noqa: B008 - it is frozen
        saved_views: Path | None = None,
        owns_views: bool = True,
    ) -> None:
        self._database = database
        self._copy = copy
        self._encoder = encoder
        self._searcher = Searcher(encoder, settings, llm, reranker)
        self._llm, self._reranker = llm, reranker
        self._max_llm_calls = max_llm_calls
        self._local = threading.local()
        self._head: Snapshot | None = None
        self._pasts = _SnapshotCache(3)  # versions other than the head
        saved = None
        if saved_views:
            saved = SavedViews(saved_views, self._open_snapshot, budget_factor, owns_views)
        self._restricted = AclViewCache(budget_factor, writer, saved)
        self._narrowed = _SnapshotCache(8)  # filtered versions
        self._being_read: Counter[int] = Counter()
        self._reading_lock = threading.Lock()

    @property
    def being_read(self) -> frozenset[int]:
        """Versions that garbage collection must keep, because requests that wait for an LLM use
        them.
        """
        with self._reading_lock:
            return frozenset(self._being_read)

    @property
    def head(self) -> Snapshot | None:
        """The served version, or None before the first version is published."""
        return self._head

    def encode(self, question: str, instead: Snapshot | None = None) -> Vectors:
        """Encode the question. Returns a (d,) vector, rounded like stored vectors.

        Without the encoder, the vector is computed from the stored vectors of `instead`. If
        `instead` is None, EncoderUnavailable is raised.
        """
        try:
            return self._searcher.encode(question)
        except EncoderUnavailable:
            if instead is None:
                raise
            return self._make_searcher_without_encoder(instead).encode(question)

    @property
    def encoder(self) -> str:
        return self._encoder.name

    def encode_texts(self, question: str, search: Search) -> EncodedTexts:
        """Return the vectors of the texts that this search needs. Raises EncoderUnavailable."""
        return self._searcher.encode_texts(self._head, question, search) if self._head else {}

    def drop_unrelated_sentences(self, question: str, served: Snapshot) -> str:
        """Drop sentences of the question that resemble no passage of the version.

        If the encoder is unavailable, no sentence is dropped.
        """
        try:
            return self._searcher.drop_unrelated_sentences(served, question)
        except EncoderUnavailable:
            return question

    def publish(self, head: Snapshot) -> None:
        """Serve this version to new requests. Running requests continue with their version."""
        self._restricted.follow(head)
        before, self._head = self._head, head
        if before is not None and before.index is not head.index:
            self.forget_pasts()

    def expect(self, masks: Iterable[Mask]) -> None:
        """Start to compute ACL views for these masks before a query needs them."""
        self._restricted.expect(masks)

    def save_views(self) -> None:
        """Save the ACL views for the next start of the daemon."""
        self._restricted.save()

    def is_ready(self, version: int, hidden: Mask | Acl) -> bool:
        """Return False if the version is the head and its ACL view is not computed yet."""
        with snapshot(connection := self._get_connection(str(version))):
            mask = _resolve_mask(connection, hidden)
        return not mask or self._restricted.is_ready(version, mask)

    @property
    def settings(self) -> WalkSettings:
        return self._searcher.settings

    def set_walk_settings(self, settings: WalkSettings) -> None:
        """Use these settings of the walk for later queries."""
        self._searcher.settings = settings

    def forget_pasts(self) -> None:
        """Drop the cached past versions. Call this after a purge, which changes past versions."""
        self._pasts.clear()
        self._searcher.passages.forget()
        self._restricted.forget_pasts()
        self._narrowed.clear()

    @contextmanager
    def reading(
        self, at: str = "head", hidden: Mask | Acl = EVERYTHING, filter_: Filter = ()
    ) -> Iterator[tuple[Connection, Snapshot | None]]:
        """Open a transaction and the snapshot of the version that `at` names.

        The snapshot shows only passages of visible documents that match the filter. `hidden` is a
        set of hidden sources, or an ACL, which hides all sources that it does not list.

        The snapshot is None if there is no version yet. Raises NoSuchVersion.
        """
        with running_query():
            while True:
                connection = self._get_connection(at)
                with snapshot(connection):
                    head = self._head
                    if at == "head" and head is None:
                        yield connection, None
                        return
                    asked = head.version if head and at == "head" else resolve(connection, at)
                    if self._is_kept(connection, asked):
                        mask = _resolve_mask(connection, hidden)
                        served = self._get_snapshot(connection, asked, head, mask)
                        yield connection, self._filter(served, filter_) if filter_ else served
                        return

    @contextmanager
    def holding(self, at: str, hidden: Mask | Acl = EVERYTHING) -> Iterator[str]:
        """Pin the version that `at` names, so that several questions can be asked of the same
        version.

        Yields the value of `at` to pass with these questions. Raises NoSuchVersion.
        """
        with self.reading(at, hidden) as (_, head):
            pass
        if head is None:
            yield at
            return
        number = head.version.id
        if not head.hidden:  # reused even if a newer version is published meanwhile
            self._pasts.get(number, head.index, lambda: head)
        with self._reading(number):
            yield str(number)

    def query(
        self,
        question: str,
        k: int,
        search: Search,
        at: str = "head",
        usage: Usage | None = None,
        hidden: Mask | Acl = EVERYTHING,
        tell: Tell = ignore_progress,
        filter_: Filter = (),
    ) -> Answer | None:
        """Search the version that `at` names. Returns None if there is no version yet.

        Passages that the filter excludes, or that occur only in `hidden` sources, are not used.
        `usage` counts and limits the calls to an LLM, if the search uses an LLM. By default, each
        query has its own `usage`. A search by logic calls `tell` at each stage. Raises
        NoSuchVersion, and BadRequest if this engine cannot run the search.
        """
        usage = usage or Usage(self._max_llm_calls)
        while True:
            with self.reading(at, hidden, filter_) as (connection, served):
                if served is None:
                    return None
                spelling = _correct(connection, served, question)
                asked = spelling.question
                if not search.wants_llm:
                    answer = self._find(connection, served, asked, k, search)
                    return replace(answer, spelling=spelling, typed=question)
            # No transaction is open while the LLM is asked: it would keep the WAL from shrinking.
            with self._reading(served.version.id):
                by_llm = (connection, served, asked, k, search, usage, tell)
                searcher = self._searcher
                try:
                    result = searcher.search_by_llm(*by_llm)
                except EncoderUnavailable:
                    searcher = self._make_searcher_without_encoder(served)
                    result = searcher.search_by_llm(*by_llm)
                    result = replace(result, degraded=(WITHOUT_ENCODER, *result.degraded))
                with snapshot(connection):
                    if self._is_kept(connection, served.version):
                        answer = _make_answer(searcher, connection, served, asked, search, result)
                        cost = LlmCost(usage.calls, usage.tokens)
                        return replace(answer, llm=cost, spelling=spelling, typed=question)

    def _find(
        self, connection: Connection, served: Snapshot, question: str, k: int, search: Search
    ) -> Answer:
        """Search without an LLM. Stored vectors are used if the encoder is unavailable."""
        try:
            result = self._searcher.find(connection, served, question, k, search)
            return _make_answer(self._searcher, connection, served, question, search, result)
        except EncoderUnavailable:
            searcher = self._make_searcher_without_encoder(served)
            result = searcher.find(connection, served, question, k, search)
            result = replace(result, degraded=(WITHOUT_ENCODER, *result.degraded))
            return _make_answer(searcher, connection, served, question, search, result)

    def _make_searcher_without_encoder(self, served: Snapshot) -> Searcher:
        settings = self._searcher.settings
        return Searcher(StoredVectors(served), settings, self._llm, self._reranker)

    def trace(
        self, question: str, k: int, hidden: Mask | Acl = EVERYTHING
    ) -> tuple[Answer, Dependencies | None] | None:
        """Search the head with `hop`. Returns the answer and its dependencies.

        Returns None if there is no version yet. The dependencies are None for an ACL view, because
        existing passages can become visible in an ACL view. Raises EncoderUnavailable, because
        stored vectors would give another answer.
        """
        hop = Search("hop")
        with self.reading("head", hidden) as (connection, served):
            if served is None:
                return None
            spelling = _correct(connection, served, question)
            asked, dependencies = spelling.question, None
            if served.hidden:
                result = self._searcher.find(connection, served, asked, k, hop)
            else:
                ranked, dependencies = self._searcher.trace(connection, served, asked, k)
                result = SearchResult(ranked)
            answer = _make_answer(self._searcher, connection, served, asked, hop, result)
        return replace(answer, spelling=spelling), dependencies

    def may_differ(self, question: str, dependencies: Dependencies) -> bool:
        """Return whether the answer to the question may be different at the head.

        It may differ if typos would now be corrected differently, if documents define other forms
        of words, if the head changes the dependencies, or if literal matches may differ.
        """
        with self.reading() as (connection, served):
            assert served is not None  # dependencies belong to a version
            spelled = _correct(connection, served, question).question
            if spelled != dependencies.question or is_touched(dependencies, served):
                return True
            read = partial(read_passages, connection)
            if find_other_forms(served, dependencies.asked, read) != dependencies.forms:
                return True
            words = read_query_words(spelled)
            return may_differ_by_words(words, dependencies.snapshot, served)

    def with_results(self, answer: Answer, passage_rows: Iterable[int]) -> Answer:
        """Copy the answer, with the passages in `passage_rows` as its results."""
        ids, question = answer.snapshot.passage_ids, answer.question
        ranked = [Ranked(PassageId(int(ids[passage_row])), 0.0) for passage_row in passage_rows]
        with snapshot(connection := self._get_connection("head")):
            collapsed = self._searcher.collapse_similar(
                connection, answer.snapshot, question, ranked, len(ranked)
            )
            result = SearchResult(collapsed.hits[: len(answer.ranked)])
            return build_answer(connection, answer.snapshot, question, answer.search, result)

    @contextmanager
    def _reading(self, version: int) -> Iterator[None]:
        with self._reading_lock:
            self._being_read[version] += 1
        try:
            yield
        finally:
            with self._reading_lock:
                self._being_read[version] -= 1
                self._being_read += Counter()  # drops the versions that nobody reads

    def _is_kept(self, connection: Connection, asked: Version) -> bool:
        """Return whether the database still has the version. Raises NoSuchVersion if the head is
        missing.
        """
        try:
            read_version(connection, asked.id)
        except NoSuchVersion:
            if self._head is None or self._head.version.id == asked.id:
                raise
            return False
        return True

    def _get_connection(self, at: str) -> Connection:
        """Open the database, or its copy on this machine if the database server is unreachable."""
        if self._copy is None:
            return self._open_connection()
        served = self._head.version.id if self._head else None
        readable = served if at in ("head", str(served)) else None
        return self._copy.get_connection(self._open_connection, readable)

    def _open_connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._database)
        return connection

    @contextmanager
    def _open_snapshot(self) -> Iterator[Connection]:
        with closing(open_reader(self._database)) as connection, snapshot(connection):
            yield connection

    def _get_snapshot(
        self, connection: Connection, asked: Version, head: Snapshot | None, hidden: Mask
    ) -> Snapshot:
        if hidden:
            return self._restrict(connection, asked, hidden)
        if head is not None and head.version.id == asked.id:
            return head
        return self._load_past(connection, asked)

    def _restrict(self, connection: Connection, version: Version, hidden: Mask) -> Snapshot:
        """Return the version without the hidden sources, from the cache if possible."""
        return self._restricted.get(self._require_searchable(connection, version), version, hidden)

    def _filter(self, served: Snapshot, filter_: Filter) -> Snapshot:
        """Narrow the snapshot by a filter, and cache the result for the next question."""

        def make() -> Snapshot:
            older = [
                cached.passes_filter
                for (_, _, cached_filter), cached in self._narrowed.list_snapshots(served.index)
                if cached_filter == filter_ and cached.passes_filter is not None
            ]
            before = max(older, key=len, default=np.empty(0, dtype=np.bool_))
            return served.filter_documents(
                apply_filter(served.index, filter_, served.version.id, before)
            )

        key = (served.version.id, served.hidden, filter_)
        return self._narrowed.get(key, served.index, make)

    def _load_past(self, connection: Connection, version: Version) -> Snapshot:
        """Load a stored version, and cache it for the next question. Raises NoSuchVersion."""
        head = self._require_searchable(connection, version)

        def make() -> Snapshot:
            counts = Statistics.count(head.index, version.id, base=head.statistics)
            return Snapshot(head.index, version, counts)

        return self._pasts.get(version.id, head.index, make)

    def _require_searchable(self, connection: Connection, version: Version) -> Snapshot:
        """Return the head if its index also contains this version. Otherwise raises
        NoSuchVersion.
        """
        encoder = get_generation(connection, version.generation).encoder
        if encoder != self._encoder.name:
            raise NoSuchVersion(
                f"Cannot search version {version.id}",
                f"the version was embedded with {encoder}, not with {self._encoder.name}",
                "Search a newer version, or set models.encoder to the former model and restart the"
                " daemon",
            )
        head = self._head
        if head is None:
            raise NoSuchVersion(
                f"Cannot search version {version.id}",
                "re-embedding with other models is in progress, and no version is served yet",
                "Search again once `hopsyncd status` shows a version",
            )
        if version.id > head.index.version:
            raise NoSuchVersion(
                f"Cannot search version {version.id}",
                f"version {head.version.id} is the newest searchable version",
                "Search again in a moment",
            )
        return head


def _make_answer(
    searcher: Searcher,
    connection: Connection,
    served: Snapshot,
    question: str,
    search: Search,
    result: SearchResult,
) -> Answer:
    """Build the answer, with the strength of each passage and the query's words that no passage
    has.
    """
    absent, strengths = searcher.rate(connection, served, question, result)
    answer = build_answer(connection, served, question, search, result)
    return replace(answer, absent=absent, strengths=strengths)


def _resolve_mask(connection: Connection, hidden: Mask | Acl) -> Mask:
    """Return the mask for `hidden`. An ACL hides all sources that it does not list."""
    if isinstance(hidden, Acl):
        return hidden.select_hidden(read_source_names(connection).values())
    return hidden


def _correct(connection: Connection, served: Snapshot, question: str) -> Spelling:
    """Correct the question's spelling with the words of all documents, including filtered-out
    documents.
    """
    read = partial(read_passages, connection)
    return find_corrections(served.unfiltered or served, question, read)
