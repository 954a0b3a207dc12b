"""The endpoints that read: queries, answers, passages, documents, the graph, versions."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.endpoints import endpoint
from hopsyncd.api.failures import make_failure, make_failure_body
from hopsyncd.api.passages import (
    answer_document,
    answer_documents,
    answer_neighbours,
    answer_passage,
    answer_paths,
)
from hopsyncd.api.query_process import AskMessage, QueryMessage, Wanted
from hopsyncd.api.query_workers import choose_worker_version
from hopsyncd.api.requests import (
    AskRequest,
    DiffRequest,
    DocumentRequest,
    DocumentsRequest,
    LogRequest,
    NeighboursRequest,
    PassageRequest,
    PathsRequest,
    QueriesRequest,
    QueryRequest,
)
from hopsyncd.api.serving import (
    DaemonParts,
    ServingState,
)
from hopsyncd.api.version_log import (
    count_visible,
    diff_answer,
    format_logged_version,
    restrict_diff,
    summarise_version,
)
from hopsyncd.api.worker_pools import Listener
from hopsyncd.config.configuration import LlmConfig
from hopsyncd.config.values import Search
from hopsyncd.errors import REPORTABLE, EncoderUnavailable, NotFound
from hopsyncd.index.edge_selection import compute_edge_budget
from hopsyncd.models.encoder import encode_questions
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.loading import Models
from hopsyncd.responses.changes import DiffAnswer, LogAnswer
from hopsyncd.responses.results import (
    AskAnswer,
    AskCost,
    DocumentAnswer,
    DocumentsAnswer,
    Failed,
    NeighboursAnswer,
    PassageAnswer,
    PathsAnswer,
    QueriesAnswer,
    QueryAnswer,
)
from hopsyncd.retrieve.answering.asker import DEFAULT_K, MAX_LLM_CALLS
from hopsyncd.retrieve.answering.llm_answer import AnswerDraft
from hopsyncd.retrieve.answering.reply import format_citation, format_reply
from hopsyncd.retrieve.answering.thread import Turn
from hopsyncd.retrieve.query_parser import Understood, parse_question
from hopsyncd.retrieve.results import Answer, format_answer
from hopsyncd.retrieve.visible_sources import Acl
from store.exceptions import NoSuchVersion
from store.history import VisibleCounts, read_log, resolve, restrict_entry
from store.history import diff as history_diff
from store.sources import read_source_names
from store.transactions import snapshot
from store.visibility import Mask

_Answer = TypeVar("_Answer", QueryAnswer, AskAnswer)


def _compute_requested(models: Models, encoder: str, request: Wanted) -> Sequence[object] | None:
    """Compute the model results that a worker requests.

    Returns None if the models fail or were replaced.
    """
    if models.encoder.name != encoder:
        return None
    try:
        if request.kind == "entities":
            return models.language.find_entities(request.texts)
        if request.kind == "questions":
            return [*encode_questions(models.encoder, request.texts)]
        return [*models.encoder.encode(request.texts)]
    except REPORTABLE:
        return None


def _make_draft(listener: Listener, searched: Sequence[Answer]) -> AnswerDraft:
    """Create a draft whose parts are sent as events.

    The last answer in `searched` has the cited passages.
    """
    return AnswerDraft(
        tell=lambda text: listener.tell("text", text=text),
        tell_withdrawn=lambda why: listener.tell("withdrawn", why=why),
        tell_cited=lambda number, passage: listener.tell(
            "citation", citation=format_citation(searched[-1], number, passage)
        ),
    )


def add_price(cost: AskCost, usage: Usage, config: LlmConfig) -> AskCost:
    """Add the price to the cost of an answer, if prices are configured."""
    if not (config.input_price or config.output_price):
        return cost
    spent = usage.prompt_tokens * config.input_price
    spent += usage.completion_tokens * config.output_price
    return {**cost, "price": round(spent / 1_000_000, 6), "currency": config.currency}


class ReadService:
    def __init__(self, parts: DaemonParts) -> None:
        self._parts = parts

    @property
    def has_llm(self) -> bool:
        """Whether an LLM is configured, which then answers questions by default."""
        return self._parts.state.models.llm is not None

    @endpoint("POST", "/v1/query", "read")
    def query(self, request: QueryRequest, caller: Caller, listener: Listener) -> QueryAnswer:
        """Find the passages that answer a question, best first."""
        state = self._parts.state
        usage = Usage(state.config.llm.max_calls_per_query or None)
        listener.on_disconnect(usage.abandon)
        search = Search(
            request.strategy or state.config.query.strategy,
            request.profile,
            request.reasoner,
            request.top_k,
            request.n_hop,
            request.beam,
            request.rerank,
            request.unit,
            request.method,
            request.match,
        )
        understood = parse_question(request.question, request.filters)
        k = request.k or state.config.query.k
        acl, began_s = caller.acl, time.perf_counter()

        def answer_here() -> QueryAnswer:
            result = state.engine.query(
                understood.question,
                k,
                search,
                request.at,
                usage,
                hidden=acl,
                filter_=understood.filter_,
            )
            return format_answer(result, search, understood)

        behind = self._parts.freshness.is_behind
        answer = self._answer_by_worker(state, understood, k, search, request.at, acl, answer_here)
        self._parts.metrics.count_question()
        self._parts.metrics.note_query(search.strategy, time.perf_counter() - began_s)
        return {
            **answer,
            "degraded": [*self._parts.freshness.list_reasons(acl, behind), *answer["degraded"]],
        }

    def _answer_by_worker(
        self,
        state: ServingState,
        understood: Understood,
        k: int,
        search: Search,
        at: str,
        acl: Acl,
        answer_here: Callable[[], _Answer],
        message: Callable[[QueryMessage], QueryMessage | AskMessage] = lambda query: query,
    ) -> _Answer:
        """Let a worker answer the query. If no worker can, `answer_here` answers in this
        process."""
        engine, models = state.engine, state.models
        newest = engine.head.version.id if engine.head else 0
        number = choose_worker_version(search, at, newest, reranks=engine.settings.rerank)
        if number is None:
            return answer_here()
        # Encode before taking a worker, which would otherwise be idle meanwhile.
        try:
            encoded, encoder = engine.encode_texts(understood.question, search), engine.encoder
        except EncoderUnavailable:
            return answer_here()
        query = QueryMessage(
            understood, k, search, str(number), acl, engine.settings, encoder, encoded
        )
        compute = partial(_compute_requested, models, encoder)
        return self._parts.workers.answer(number, message(query), compute, answer_here)

    @endpoint("POST", "/v1/queries", "read")
    def queries(self, request: QueriesRequest, caller: Caller, listener: Listener) -> QueriesAnswer:
        """Answer up to 100 queries; queries with the same `at` are answered at one version."""
        answers: dict[int, QueryAnswer | Failed] = {}
        for at in dict.fromkeys(query.at for query in request.queries):
            queries = {
                index: query for index, query in enumerate(request.queries) if query.at == at
            }
            try:
                with self._parts.state.engine.holding(at, caller.acl) as pinned:
                    for index, query in queries.items():
                        answers[index] = self._answer_or_failure(query, pinned, caller, listener)
            except NoSuchVersion as error:
                answers |= dict.fromkeys(queries, make_failure(error)[1])
        return {"answers": [answers[index] for index in sorted(answers)]}

    def _answer_or_failure(
        self, request: QueryRequest, at: str, caller: Caller, listener: Listener
    ) -> QueryAnswer | Failed:
        if listener.is_gone:
            return make_failure_body(
                "client_gone", "The client disconnected", "Send the request again"
            )
        try:
            return self.query(request.model_copy(update={"at": at}), caller, listener)
        except REPORTABLE as error:
            return make_failure(error)[1]

    @endpoint("POST", "/v1/ask", "read", streams=True)
    def ask(self, request: AskRequest, caller: Caller, listener: Listener) -> AskAnswer:
        """Answer a question, with citations."""
        by_logic = request.method == "logic"
        state, acl = self._parts.state, caller.acl
        max_calls = state.config.llm.max_calls_per_query or None if by_logic else MAX_LLM_CALLS
        usage = Usage(max_calls)
        listener.on_disconnect(usage.abandon)
        listener.tell("progress", stage="search")
        searched: list[Answer] = []
        draft = _make_draft(listener, searched)
        understood = parse_question(request.question, request.filters)
        search = Search(
            request.strategy or state.config.query.strategy,
            method=request.method,
            match=request.match,
        )
        asker = state.asker
        by_llm = state.models.llm is not None if request.llm is None else request.llm

        def on_found(answer: Answer) -> None:
            searched.append(answer)
            listener.note_found(_list_sources(answer), len(answer.ranked))
            by = "llm" if by_llm else "extractive"
            listener.tell("progress", stage="answer", passages=len(answer.ranked), by=by)

        def answer_here() -> AskAnswer:
            result, reply = asker.ask(
                understood.question,
                request.k,
                search,
                request.at,
                by_llm=by_llm,
                hidden=acl,
                filter_=understood.filter_,
                usage=usage,
                on_found=on_found,
                sink=draft if listener.wants_events else None,
                tell=lambda stage, questions: listener.tell(
                    "progress", stage=stage, questions=[*questions]
                ),
                thread=[Turn(turn.question, turn.answer) for turn in request.thread],
            )
            draft.finish(reply)
            answer = format_reply(result, reply, [], understood, request.passages)
            return {**answer, "llm": add_price(answer["llm"], usage, state.config.llm)}

        behind = self._parts.freshness.is_behind
        if by_llm or listener.wants_events or request.thread:
            answer = answer_here()
        else:
            message = partial(AskMessage, with_passages=request.passages)
            k = request.k or DEFAULT_K
            answer = self._answer_by_worker(
                state, understood, k, search, request.at, acl, answer_here, message
            )
        self._parts.metrics.count_question()
        return {
            **answer,
            "degraded": [*self._parts.freshness.list_reasons(acl, behind), *answer["degraded"]],
        }

    @endpoint("GET", "/v1/passages/{id}", "read")
    def passage(self, request: PassageRequest, caller: Caller) -> PassageAnswer:
        """Return a passage and its questions."""
        with self._parts.state.engine.reading(request.at, caller.acl) as (connection, head):
            return answer_passage(
                connection, head, request.id, self._parts.freshness.list_reasons(caller.acl)
            )

    @endpoint("GET", "/v1/documents", "read")
    def documents(self, request: DocumentsRequest, caller: Caller) -> DocumentsAnswer:
        """List documents by source and path, in pages; pass `next` as `after` for the next page."""
        if request.source is not None and request.source not in self._parts.names.list_visible(
            caller.acl
        ):
            raise NotFound(
                f"There is no source {request.source!r}",
                "no source of that name is configured or indexed",
                "`hopsyncd sources` lists the names",
            )
        with self._parts.state.engine.reading(request.at, caller.acl) as (connection, head):
            return answer_documents(
                connection, head, request, self._parts.freshness.list_reasons(caller.acl)
            )

    @endpoint("GET", "/v1/document", "read")
    def document(self, request: DocumentRequest, caller: Caller) -> DocumentAnswer:
        """List a document's passages, in reading order."""
        with self._parts.state.engine.reading(request.at, caller.acl) as (connection, head):
            return answer_document(
                connection, head, request, self._parts.freshness.list_reasons(caller.acl)
            )

    @endpoint("GET", "/v1/neighbours/{id}", "read")
    def neighbours(self, request: NeighboursRequest, caller: Caller) -> NeighboursAnswer:
        """List the passages near a passage in the graph, nearest first."""
        with self._parts.state.engine.reading(request.at, caller.acl) as (connection, head):
            return answer_neighbours(
                connection, head, request, self._parts.freshness.list_reasons(caller.acl)
            )

    @endpoint("GET", "/v1/paths", "read")
    def paths(self, request: PathsRequest, caller: Caller) -> PathsAnswer:
        """Find the paths from one passage to another, shortest first."""
        with self._parts.state.engine.reading(request.at, caller.acl) as (connection, head):
            return answer_paths(
                connection, head, request, self._parts.freshness.list_reasons(caller.acl)
            )

    @endpoint("GET", "/v1/log", "read")
    def log(self, request: LogRequest, caller: Caller) -> LogAnswer:
        """List versions, newest first."""
        with snapshot(connection := self._parts.reader.get_connection()):
            hidden = caller.acl.select_hidden(read_source_names(connection).values())
            entries = read_log(connection, request.limit, request.before)
            if hidden:
                index = self._parts.state.config.index
                budget = partial(compute_edge_budget, factor=index.edge_budget_factor)
                count = partial(self._count_visible, hidden)
                entries = [
                    restrict_entry(connection, entry, hidden, budget, count) for entry in entries
                ]
            return {
                "version": self._parts.state.version,
                "degraded": self._parts.freshness.list_reasons(caller.acl),
                "versions": [
                    format_logged_version(
                        entry, summarise_version(connection, entry.version.id, hidden)
                    )
                    for entry in entries
                ],
            }

    def _count_visible(self, hidden: Mask, version: int) -> VisibleCounts:
        head = self._parts.state.engine.head
        if head is None:
            return VisibleCounts(0, 0, 0, 0, 0)
        return count_visible(head.index, version, hidden)

    @endpoint("GET", "/v1/diff", "read")
    def diff(self, request: DiffRequest, caller: Caller) -> DiffAnswer:
        """Compare two versions."""
        with snapshot(connection := self._parts.reader.get_connection()):
            ends = resolve(connection, request.old), resolve(connection, request.new)
            hidden = caller.acl.select_hidden(read_source_names(connection).values())
            changes = history_diff(connection, *ends, hidden)
            if not hidden:
                head = self._parts.state.engine.head
                index = head.index if head else None
                return diff_answer(connection, *ends, changes, request.limit, request.graph, index)
        with self._parts.state.engine.reading(str(ends[0].id), caller.acl) as (_, before):
            pass
        with self._parts.state.engine.reading(str(ends[1].id), caller.acl) as (connection, after):
            assert before and after  # both versions exist, so both have snapshots
            visible, index = restrict_diff(changes, before, after), after.index
            return diff_answer(connection, *ends, visible, request.limit, request.graph, index)


def _list_sources(answer: Answer) -> set[str]:
    return {place.source for hit in answer.ranked for place in answer.places[hit.passage]}
