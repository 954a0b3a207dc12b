"""What a sync would do and cost, by reading alone: the plan, carried out up to the passages."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from connectors.errors import SourceUnavailable
from hopsyncd.sync.decide import Scope, Source, planned, read_step
from hopsyncd.sync.plan import Action, Step
from hopsyncd.sync.read import ReadDocument
from hopsyncd.sync.scan import finished
from hopsyncd.text.extract import Extract
from hopsyncd.text.llm_questions import estimate
from store.content import best_sets
from store.database import Connection
from store.records import Passage, PassageId

_GROUP = 1000  # passages whose calls are estimated together, as a batch of a sync has


@dataclass(slots=True)
class Preview:
    """Of one source: its documents by what would become of them, and the passages to ask about.

    `problem` and `hint` say why the source would be paused; then there is nothing else. Calls and
    tokens of an LLM are estimates, and of a document that cannot be read the reason is given.
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
    recipe: int | None,
    passages_per_call: int | None,
    extract: Extract,
) -> Preview:
    """What a sync of the source would do now; nothing is written, and no LLM is asked.

    `recipe` (a row id) says which questions are there already, None: none are.
    `passages_per_call` is None where no LLM is to be asked.
    """
    found = Preview(source.name)
    unknown: list[Passage] = []
    seen: set[PassageId] = set()
    try:
        steps = finished(planned(connection, source, scope)).steps
        for document in _changes(connection, source, scope, steps, passage_tokens, extract, found):
            fresh = {one.id: one for one in document.passages if one.id not in seen}
            seen |= fresh.keys()
            known = best_sets(connection, recipe, fresh) if recipe is not None else {}
            unknown += [passage for id_, passage in fresh.items() if id_ not in known]
            if len(unknown) >= _GROUP:
                _count(found, unknown, passages_per_call)
                unknown = []
    except SourceUnavailable as problem:
        return Preview(source.name, problem=problem.why, hint=problem.hint)
    _count(found, unknown, passages_per_call)
    return found


def _changes(
    connection: Connection,
    source: Source,
    scope: Scope,
    steps: tuple[Step, ...],
    passage_tokens: int,
    extract: Extract,
    found: Preview,
) -> Iterator[ReadDocument]:
    """Sort the steps into `found`; gives the documents that the next version would take in."""
    for step in steps:
        if step.action is Action.REMOVE:
            found.gone.append(step.path)
        elif step.action is Action.REPORT:
            found.unreadable.append(f"{step.path}: {step.reason}")
        elif step.action is Action.FETCH:
            reading = read_step(connection, source, scope, step, passage_tokens, extract)
            if reading and reading.read:
                (found.new if step.reason == "new" else found.changed).append(step.path)
                yield reading.read
            elif reading and reading.seen.why:
                found.unreadable.append(f"{step.path}: {reading.seen.why}")


def _count(found: Preview, passages: list[Passage], passages_per_call: int | None) -> None:
    found.passages += len(passages)
    if passages and passages_per_call is not None:
        cost = estimate(passages, passages_per_call)
        found.llm_calls += cost.calls
        found.llm_tokens += cost.tokens
