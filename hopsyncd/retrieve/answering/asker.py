"""Answers a question: searches, then answers from the passages found, at a single version."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest, EncoderUnavailable, LlmError
from hopsyncd.index.filters import Filter
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.language import EntityFinder
from hopsyncd.models.llm.budget import Usage
from hopsyncd.models.llm.call import Llm
from hopsyncd.retrieve.answering.extractive import (
    choose_sentences,
    collect_evidence,
    list_cited_passages,
)
from hopsyncd.retrieve.answering.inline_citations import remove_marks
from hopsyncd.retrieve.answering.llm_answer import (
    AskedQuestion,
    DraftSink,
    answer_by_llm,
    compute_room,
    select_thread,
)
from hopsyncd.retrieve.answering.reply import AskReply
from hopsyncd.retrieve.answering.section_date import keep_asked_time
from hopsyncd.retrieve.answering.structure import find_by_structure
from hopsyncd.retrieve.answering.support import judge
from hopsyncd.retrieve.answering.thread import (
    Conversation,
    Turn,
    add_subjects,
    find_earlier_names,
)
from hopsyncd.retrieve.clauses import split_clauses
from hopsyncd.retrieve.dependencies import Dependencies
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.logic import Tell, ignore_progress
from hopsyncd.retrieve.material import Material, make_material
from hopsyncd.retrieve.ranking import Hop, Ranked
from hopsyncd.retrieve.results import Answer
from hopsyncd.retrieve.sentences import (
    PassageTexts,
    Sentence,
    compute_term_weights,
    list_sentences,
    read_best_sets,
)
from hopsyncd.retrieve.stored_vectors import StoredVectors
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from store.records import PassageId
from store.visibility import Mask


def collect_hops(
    cited: Sequence[PassageId],
    ranked: Iterable[Ranked],
    names: Mapping[PassageId, frozenset[str]],
) -> tuple[Hop, ...]:
    """Collect the hops that led to the cited passages.

    If no hop leads to a cited passage, but the passage shares a name with an earlier cited passage,
    a hop with the share 0 is added for that name. `names` maps each passage to the names that it
    mentions.
    """
    led = {hit.passage: hit.hops for hit in ranked}
    hops = {(hop.source, hop.target): hop for passage in cited for hop in led.get(passage, ())}
    joined = {end for pair in hops for end in pair}
    for position, passage in enumerate(cited):
        if position == 0 or passage in joined:
            continue
        for other in cited[:position]:
            shared = names.get(passage, frozenset()) & names.get(other, frozenset())
            if shared:
                name = min(shared, key=lambda name: (-len(name), name))
                hops[other, passage] = Hop(other, passage, "both", None, name, 0.0)
                break
    return tuple(hops.values())


MAX_LLM_CALLS = 3  # the first call, and up to two calls that repair its reply
DEFAULT_K = 8
TOKENS_PER_QUESTION = 2500
_LLM_DEPTH = 30  # passages to find; excerpts of up to 20 of them are shown


def _explain_llm_error(error: LlmError) -> str:
    """Explain why an LLM did not write the answer."""
    return f"{error.what} ({error.why}), so this answer was made without the LLM"


class Asker:
    """Answers questions from the passages that an engine finds. Thread-safe.

    The `llm` is called only if a request asks for an answer by an LLM. `tokens_per_question`
    limits the text that is sent to the LLM for a question.
    """

    def __init__(
        self,
        engine: Engine,
        encoder: Encoder,
        language: EntityFinder,
        llm: Llm | None = None,
        tokens_per_question: int = TOKENS_PER_QUESTION,
    ) -> None:
        self._engine = engine
        self._encoder = encoder
        self._language = language
        self._llm = llm
        self._tokens_per_question = tokens_per_question

    def ask(
        self,
        question: str,
        k: int | None,
        search: Search,
        at: str = "head",
        *,
        by_llm: bool = False,
        hidden: Mask | Acl = EVERYTHING,
        filter_: Filter = (),
        usage: Usage | None = None,
        on_found: Callable[[Answer], None] | None = None,
        sink: DraftSink | None = None,
        tell: Tell = ignore_progress,
        thread: Sequence[Turn] = (),
    ) -> tuple[Answer | None, AskReply]:
        """Search the version that `at` names, and answer from the first k passages (by default 8).

        An LLM gets excerpts of up to 20 passages, within its token budget. Passages that the LLM's
        answer cites are added to the first k. Passages that the filter `filter_` excludes, or that
        occur only in `hidden` sources, are not used. Returns the search results and the reply. If
        there is no version yet, the results are None and the reply is "not found". `on_found`
        receives the results before the answer is made, and the `sink` receives the LLM's reply, a
        JSON object that contains the answer. If the question refers to the `thread`, the search
        adds the subjects of earlier questions. Raises NoSuchVersion, and BadRequest if an LLM is
        requested and none is configured.
        """
        if by_llm and self._llm is None:
            raise BadRequest(
                "The question was refused",
                "an answer by an LLM was requested, but no LLM is configured",
                "Ask without the LLM, or set `base_url` and `model` in [llm]",
            )
        if search.method == "logic" and not by_llm:
            raise BadRequest(
                "The question was refused",
                "the method `logic` needs an LLM, but no answer by an LLM was requested",
                "Use the LLM (`--llm`), which needs [llm] in the configuration, or use the method"
                " `direct`",
            )
        depth = k or (_LLM_DEPTH if by_llm else DEFAULT_K)
        k = k or DEFAULT_K
        subjects = find_earlier_names(question, thread)
        searched = add_subjects(question, subjects)
        answer = self._engine.query(searched, depth, search, at, usage, hidden, tell, filter_)
        if answer is None:
            return None, AskReply("", None, "extractive", ())
        if on_found:
            on_found(answer)
        conversation = Conversation(question, thread, subjects) if thread else None
        reply = self.reply(
            answer, k, by_llm=by_llm, usage=usage, sink=sink, conversation=conversation
        )
        shown = [
            hit
            for rank, hit in enumerate(answer.ranked)
            if rank < k or hit.passage in reply.passages
        ]
        return replace(answer, ranked=tuple(shown)), reply

    def reply(
        self,
        found: Answer,
        k: int | None = None,
        *,
        by_llm: bool = False,
        usage: Usage | None = None,
        sink: DraftSink | None = None,
        needs_encoder: bool = False,
        conversation: Conversation | None = None,
    ) -> AskReply:
        """Answer from passages that a search has found. Without an LLM, only the first k are used.

        If the encoder is unavailable, a vector computed from stored vectors replaces the question's
        vector. With `needs_encoder`, EncoderUnavailable is raised instead.
        """
        asked = self._engine.drop_unrelated_sentences(found.question, found.snapshot)
        bare = replace(found, question=asked)
        sentences, weights = self.rate_sentences(bare, needs_encoder=needs_encoder)
        names: dict[PassageId, frozenset[str]] = {}
        for sentence in sentences:
            names[sentence.passage] = names.get(sentence.passage, frozenset()) | sentence.names
        usage = usage or Usage(MAX_LLM_CALLS)
        degraded: tuple[str, ...] = ()
        subjects = conversation.subjects if conversation else ()
        if by_llm and self._llm is not None and found.ranked:
            question, material = self.prepare(found, sentences, weights, conversation)
            try:
                answer = answer_by_llm(question, material, self._llm, usage, sink)
            except LlmError as error:
                degraded = (_explain_llm_error(error),)
            else:
                return AskReply(
                    answer.text,
                    remove_marks(answer.text) or None,
                    "llm",
                    answer.citations,
                    answer.evidence,
                    collect_hops(answer.citations, found.ranked, names),
                    answer.notes,
                    usage,
                    subjects,
                )
        bare = replace(bare, ranked=found.ranked[:k])
        first = [sentence for sentence in sentences if sentence.rank < len(bare.ranked)]
        reply = self._answer_by_sentences(bare, first, weights, names)
        return replace(reply, degraded=degraded, spent=usage, subjects=subjects)

    def prepare(
        self,
        answer: Answer,
        sentences: Sequence[Sentence],
        weights: Mapping[str, float],
        conversation: Conversation | None = None,
    ) -> tuple[AskedQuestion, Material]:
        """Prepare the question and the excerpts for an LLM."""
        resolution = answer.resolution
        if resolution and not resolution.has_answer:
            resolution = None
        question = AskedQuestion(answer.question, answer.typed, resolution)
        if conversation:
            asked = conversation.question if conversation.subjects else answer.question
            typed = "" if conversation.subjects else answer.typed
            shown = select_thread(conversation.thread, self._tokens_per_question)
            question = AskedQuestion(asked, typed, resolution, shown)
        room = compute_room(question, self._tokens_per_question)
        cited = resolution.cited if resolution else ()
        return question, make_material(
            collect_texts(answer),
            sentences,
            weights,
            answer.snapshot,
            room,
            required=cited,
        )

    def _answer_by_sentences(
        self,
        answer: Answer,
        sentences: list[Sentence],
        weights: Mapping[str, float],
        names: Mapping[PassageId, frozenset[str]],
    ) -> AskReply:
        texts, count = collect_texts(answer), answer.snapshot.statistics.passages
        asked = keep_asked_time(texts, sentences, weights, answer.question)
        judgement = judge(answer.question, asked, weights, count, self._language)
        if len(asked) < len(sentences) and not judgement.is_found:
            judgement = judge(answer.question, sentences, weights, count, self._language)
            asked = sentences
        judgement = find_by_structure(texts, asked, weights, answer.question, judgement)
        if not judgement.is_found:
            return AskReply("", None, "extractive", ())
        chosen = [*judgement.sentences] or choose_sentences(
            asked, weights, judgement.with_value, judgement.leading
        )
        passages = list_cited_passages(chosen)
        return AskReply(
            " ".join(sentence.text for sentence in chosen),
            judgement.short,
            "extractive",
            passages,
            collect_evidence(chosen),
            collect_hops(passages, answer.ranked, names),
        )

    def trace(
        self, question: str, k: int, first: int, hidden: Mask | Acl = EVERYTHING
    ) -> tuple[Answer, AskReply, Dependencies | None] | None:
        """Search the head with `hop`, answer, and collect the dependencies of the results and the
        answer.

        The dependencies ignore swaps of results after which the answer has the same text and the
        same set of the first `first` passages. Returns None if there is no version yet.
        """
        traced = self._engine.trace(question, k, hidden)
        if traced is None:
            return None
        answer, dependencies = traced
        reply = self.reply(answer, needs_encoder=True)

        @cache
        def is_same(passage_rows: tuple[int, ...]) -> bool:
            other = self._engine.with_results(answer, passage_rows)
            first_hits = {hit.passage for hit in answer.ranked[:first]}
            if {hit.passage for hit in other.ranked[:first]} != first_hits:
                return False
            return self.reply(other, needs_encoder=True).text == reply.text

        return answer, reply, dependencies.ignore_harmless_ties(is_same) if dependencies else None

    def rate_sentences(
        self, answer: Answer, *, needs_encoder: bool = False
    ) -> tuple[list[Sentence], Mapping[str, float]]:
        """Compare the sentences of the passages found for `answer` with the question.

        Returns the sentences and the idf of the question's terms at the searched version. If the
        encoder is unavailable, stored vectors are used. With `needs_encoder`, EncoderUnavailable is
        raised instead.
        """
        instead = None if needs_encoder else answer.snapshot
        asked = (answer.question, *split_clauses(answer.question))
        vector, *clauses = (self._engine.encode(text, instead) for text in asked)
        texts = collect_texts(answer)
        with self._engine.reading() as (connection, _):
            sets = read_best_sets(connection, answer.version, texts.ranked)
        weights = compute_term_weights(answer.snapshot, answer.question)
        try:
            return list_sentences(texts, sets, vector, weights, self._encoder, clauses), weights
        except EncoderUnavailable:
            if needs_encoder:
                raise
            stored = StoredVectors(answer.snapshot)
            return list_sentences(texts, sets, vector, weights, stored, clauses), weights


def collect_texts(answer: Answer) -> PassageTexts:
    return PassageTexts(tuple(hit.passage for hit in answer.ranked), answer.passages, answer.places)
