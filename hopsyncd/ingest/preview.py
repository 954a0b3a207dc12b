"""Previews the steps and the cost of a sync without writing anything."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

from connectors.protocol import SourceUnavailable
from hopsyncd.config.configuration import Config
from hopsyncd.formats.readers import Extract
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from hopsyncd.ingest.connector_setup import create_connector, create_tesseract
from hopsyncd.ingest.plan import NEW, Action, Scope, Source, Step, make_plan
from hopsyncd.ingest.read import READER, ReadDocument, identify_rules, read_step
from hopsyncd.ingest.source_thread import run_to_end
from hopsyncd.models.llm_questions import Estimate, estimate
from hopsyncd.models.llm_statements import make_prompt_spec
from hopsyncd.responses.changes import PreviewAnswer, PreviewedSource
from store.content import find_best_sets
from store.contract import Connection
from store.open_database import exists, open_fresh_database, open_reader
from store.operational import count_waiting_by_reason, find_quarantined
from store.records import Passage, PassageId
from store.sources import is_read_by, read_source_names
from store.versions import read_head

Price = Callable[[Sequence[Passage]], Estimate]
"""Estimates the LLM calls and tokens for the questions of these passages."""

_GROUP = 1000  # Estimate the calls for this many passages together, like a batch of a sync.


@dataclass(slots=True)
class Preview:
    """The changes that a sync of a source would index, and the number of passages that need
    questions.

    If the sync would pause the source, `problem` says why, `hint` says what to do, and the other
    fields are empty. The numbers of LLM calls and tokens are estimates. Each line of `unreadable`
    has a path and a reason.
    """

    source: str
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    passages: int = 0
    llm_calls: int = 0
    llm_tokens: int = 0
    problem: str | None = None
    hint: str | None = None


def preview(
    connection: Connection,
    source: Source,
    scope: Scope,
    passage_tokens: int,
    generation: int | None,
    price: Price | None,
    extract: Extract,
) -> Preview:
    """Preview a sync of the source, without writing anything or asking an LLM.

    `generation` is the row id of the settings whose stored questions are reused, or None if no
    questions are stored. `price` estimates the LLM calls and tokens for some passages, and is None
    if no LLM would be asked.
    """
    result = Preview(source.name)
    unknown: list[Passage] = []
    seen: set[PassageId] = set()
    try:
        steps = run_to_end(make_plan(connection, source, scope)).steps
        for document in _list_changes(
            connection, source, scope, steps, passage_tokens, extract, result
        ):
            new = {passage.id: passage for passage in document.passages if passage.id not in seen}
            seen |= new.keys()
            known = find_best_sets(connection, generation, new) if generation is not None else {}
            unknown += [passage for id_, passage in new.items() if id_ not in known]
            if len(unknown) >= _GROUP:
                _count(result, unknown, price)
                unknown = []
    except SourceUnavailable as problem:
        return Preview(source.name, problem=problem.why, hint=problem.hint)
    _count(result, unknown, price)
    return result


def _list_changes(
    connection: Connection,
    source: Source,
    scope: Scope,
    steps: tuple[Step, ...],
    passage_tokens: int,
    extract: Extract,
    result: Preview,
) -> Iterator[ReadDocument]:
    """Add the planned steps to the preview `result`, and yield the documents that the next version
    would index."""
    for step in steps:
        if step.action is Action.REMOVE:
            result.gone.append(step.path)
        elif step.action is Action.REPORT:
            result.unreadable.append(f"{step.path}: {step.reason}")
        elif step.action is Action.FETCH:
            reading = read_step(connection, source, scope, step, passage_tokens, extract)
            if reading and reading.read:
                (result.new if step.reason == NEW else result.changed).append(step.path)
                yield reading.read
            elif reading and reading.seen.why:
                result.unreadable.append(f"{step.path}: {reading.seen.why}")


def _count(result: Preview, passages: list[Passage], price: Price | None) -> None:
    result.passages += len(passages)
    if passages and price is not None:
        cost = price(passages)
        result.llm_calls += cost.calls
        result.llm_tokens += cost.tokens


_NO_SOURCE = 0  # No row has this id. It stands for a source that was never synced.

DOCUMENT_LISTS = ("new", "changed", "gone", "unreadable")


def preview_file(config: Config, names: Sequence[str], limit: int | None) -> PreviewAnswer:
    """Preview a sync like `format_preview`, but without a daemon. The database need not exist."""
    connection = open_reader(config.database) if exists(config.database) else open_fresh_database()
    with closing(connection):
        return format_preview(connection, config, names, limit)


def format_preview(
    connection: Connection, config: Config, names: Sequence[str], limit: int | None
) -> PreviewAnswer:
    """Preview a sync of the named sources. Each list in the reply has at most `limit` lines."""
    newest = read_head(connection)
    rows = {name: row for row, name in read_source_names(connection).items()}
    tesseract = create_tesseract(config)
    rules = identify_rules(config.index.passage_tokens, tesseract)
    asks = bool(config.llm.base_url) and config.llm.questions != "off"
    ask_about = partial(
        estimate,
        passages_per_call=config.llm.passages_per_call,
        prompt_spec=make_prompt_spec(config.llm.questions),
    )
    with ExitStack() as stack:
        known = find_quarantined(connection, READER)
        extraction = stack.enter_context(
            closing(ExtractionProcess(quarantined=known, tesseract=tesseract))
        )
        found = [
            preview(
                connection,
                Source(
                    row := rows.get(source.name, _NO_SOURCE),
                    source.name,
                    stack.enter_context(closing(create_connector(source, config))),
                ),
                Scope(afresh=not is_read_by(connection, row, rules)),
                config.index.passage_tokens,
                newest.generation if newest else None,
                ask_about if asks else None,
                extraction.extract,
            )
            for source in config.sources
            if source.name in names
        ]
    return {
        "version": newest.id if newest else 0,
        "degraded": [],
        "sources": [_format_source(preview, limit) for preview in found],
        "llm_calls": sum(preview.llm_calls for preview in found),
        "llm_tokens": sum(preview.llm_tokens for preview in found),
        "waiting": count_waiting_by_reason(connection, newest.id) if newest else {},
    }


def _format_source(result: Preview, limit: int | None) -> PreviewedSource:
    lists = {kind: getattr(result, kind) for kind in DOCUMENT_LISTS}
    return {
        "name": result.source,
        "problem": result.problem,
        "hint": result.hint,
        "counts": {kind: len(paths) for kind, paths in lists.items()},
        "new": result.new[:limit],
        "changed": result.changed[:limit],
        "gone": result.gone[:limit],
        "unreadable": result.unreadable[:limit],
        "passages": result.passages,
        "llm_calls": result.llm_calls,
        "llm_tokens": result.llm_tokens,
    }
