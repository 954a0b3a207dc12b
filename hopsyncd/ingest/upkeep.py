"""Runs operations that users request, such as tags, pauses, restores and purges. Also checks
matches.

Functions that take a SourceSync run on the writer's thread. The other functions only read.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from hopsyncd.index.edge_selection import (
    compute_similarity,
    find_best_matches,
    list_outgoing,
    make_match_records,
)
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.passage_content import NewPassage, add_passages
from hopsyncd.ingest.plan import source_paused_error
from hopsyncd.ingest.read import Batch, ReadDocument
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.responses.changes import (
    BackupAnswer,
    CheckAnswer,
    CheckFinding,
    GcAnswer,
    PauseAnswer,
    PurgeAnswer,
    RebuildAnswer,
    RestoreAnswer,
    TagAnswer,
    UntagAnswer,
)
from store.check import OnCheck, check, count_checks, run_checks
from store.content import get_generation, read_passages, read_sets_at, read_sets_by_id
from store.contract import Connection
from store.exceptions import PurgeRefused
from store.gc import GcPlan, GcResult, Retention, collect, plan_gc
from store.history import delete_tag, resolve, set_tag
from store.purge import Purge, PurgeResult, purge, request_purge
from store.reads import list_documents, read_live_content, read_live_documents, read_matches_at
from store.records import (
    ALIVE,
    REBUILD,
    RESTORE,
    Finding,
    Match,
    Pin,
    Question,
    QuestionSet,
    SetId,
    Version,
)
from store.sources import (
    include_again,
    is_paused,
    knows_item,
    list_sources,
    put_source_state,
    read_pins,
    read_seen_items,
    release_pins,
    set_source_paused,
)
from store.space import copy_to_file
from store.versions import read_head, read_version

MATCH_CHECKS = 2
_SAMPLE = 8  # the passages that are timed for the estimate
_GROUP = 2000  # matches checked per batch

_MATCHES = """
    SELECT m.question, m.target, m.similarity, m.died, q.question_set, t.question_set
    FROM match AS m JOIN question AS q ON q.id = m.question JOIN question AS t ON t.id = m.target
    ORDER BY q.question_set
"""


def verify_matches(connection: Connection, on_check: OnCheck = lambda name: None) -> list[Finding]:
    """Recompute the similarity of every stored match, and all matches of the head. Returns the
    differences.

    `store.check` finds matches of questions that do not exist.
    """
    return run_checks(connection, (_check_similarities, _check_best_matches), on_check)


def _check_similarities(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(_MATCHES)
    while group := rows.fetchmany(_GROUP):
        set_ids = {SetId(row[end]) for row in group for end in (4, 5)}
        sets = {questions.id: questions for questions in read_sets_by_id(connection, set_ids)}
        for question, target, stored, died, of_question, of_target in group:
            a, b = _find(sets[of_question], question), _find(sets[of_target], target)
            vector_a = sets[of_question].vectors[a.vector_row]
            vector_b = sets[of_target].vectors[b.vector_row]
            exact = compute_similarity(a.keywords, vector_a, b.keywords, vector_b)
            if exact != stored:
                yield Finding(
                    "the stored similarity of a match equals the similarity of its two questions",
                    f"match {question} to {target}",
                    f"the stored similarity is {stored!r}, but it should be {exact!r}",
                    REBUILD if died == ALIVE else RESTORE,
                )


def _find(questions: QuestionSet, id_: int) -> Question:
    return {int(question.id): question for question in questions.questions}[id_]


def _check_best_matches(connection: Connection) -> Iterator[Finding]:
    newest = read_head(connection)
    if newest is None:
        return
    stored = {
        match.question: match for match in read_matches_at(connection, newest.id).to_records()
    }
    best = {match.question: match for match in _recompute_matches(connection, newest)}
    for question in sorted(stored.keys() | best.keys()):
        if stored.get(question) != best.get(question):
            yield Finding(
                "each outgoing question has its best match",
                f"match {question}",
                f"the stored match is {_format_match(stored.get(question))}, but the most similar"
                f" question of another passage is {_format_match(best.get(question))}",
                REBUILD,
            )


def _recompute_matches(connection: Connection, version: Version) -> list[Match]:
    index = LiveIndex(get_generation(connection, version.generation).dimensions)
    sets = read_sets_at(connection, version.id)
    index.begin_passages(add_passages(index, [NewPassage(questions, 0, {}) for questions in sets]))
    outgoing = list_outgoing(index, index.is_vertex.nonzero()[0])
    return make_match_records(index, find_best_matches(index, outgoing, index.is_vertex))


def _format_match(match: Match | None) -> str:
    return f"{match.target} ({match.similarity!r})" if match else "missing"


def check_database(
    connection: Connection, deep: bool, on_step: Callable[[str, int, int], None]
) -> CheckAnswer:
    """Check the database without writing. Returns the findings and the version that was checked.

    With `deep`, all checks run, and the matches are recomputed unless a check has found damage.
    `on_step` is called with the name of the current check, the number of finished checks, and the
    total number.
    """
    newest = read_head(connection)
    done, total = count(), count_checks(deep) + (MATCH_CHECKS if deep else 0)

    def on_check(name: str) -> None:
        on_step(name, next(done), total)

    findings = check(connection, deep, on_check)
    if deep and not findings:
        # If rows are damaged, the checks of matches would only report the damage again.
        findings = verify_matches(connection, on_check)
    return {
        "version": newest.id if newest else 0,
        "deep": deep,
        "findings": [_format_finding(finding) for finding in findings],
    }


def _format_finding(finding: Finding) -> CheckFinding:
    return {
        "invariant": finding.invariant,
        "where": finding.where,
        "detail": finding.detail,
        "hint": finding.hint,
    }


def write_backup(connection: Connection, file: Path) -> BackupAnswer:
    """Write a backup of the database to `file`. Raises BackupFailed."""
    copy_to_file(connection, file)
    newest = read_head(connection)
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "version": newest.id if newest else 0,
        "name": None,
        "removed": [],
    }


def restore_sources(pipeline: SourceSync, at: str, names: Sequence[str]) -> RestoreAnswer:
    """Commit a version in which the documents of the named sources are as in version `at`."""
    number = resolve(pipeline.connection, at).id
    sources = _select_sources(pipeline.connection, names)
    version = restore(pipeline, number, sources)
    newest = read_head(pipeline.connection)
    return {
        "version": newest.id if newest else 0,
        "restored": number,
        "changed": version is not None,
        "sources": [
            {"name": name, "pinned": len(read_pins(pipeline.connection, row))}
            for row, name in sources.items()
        ],
    }


def pause_source(pipeline: SourceSync, name: str, now_ms: int) -> PauseAnswer:
    """Pause a source until it is resumed, even if the daemon restarts. The source's documents stay
    searchable."""
    (row,) = _select_sources(pipeline.connection, [name])
    problem = source_paused_error(name)
    set_source_paused(pipeline.connection, row, now_ms)
    put_source_state(pipeline.connection, row, None, problem.why, problem.hint)
    pipeline.paused[name] = problem.why
    return {"name": name, "paused": True}


def resume_source(pipeline: SourceSync, name: str) -> PauseAnswer:
    """Resume a source that a user has paused. Does nothing if no user has paused the source."""
    (row,) = _select_sources(pipeline.connection, [name])
    if is_paused(pipeline.connection, row):
        set_source_paused(pipeline.connection, row, None)
        put_source_state(pipeline.connection, row, None, None, None)
        pipeline.paused.pop(name, None)
    return {"name": name, "paused": False}


def release_sources(pipeline: SourceSync, names: Sequence[str]) -> None:
    """Release the pins of the named sources. The next scan reads their files again."""
    for row in _select_sources(pipeline.connection, names):
        release_pins(pipeline.connection, row)


def restore(pipeline: SourceSync, number: int, sources: dict[int, str]) -> Version | None:
    """Commit a version in which the documents of the `sources` (names by id) are as in version
    `number`.

    Returns None if nothing would change. No file on disk is changed. The restored documents are
    pinned: scans keep the restored state until a document's file is edited, deleted or created.
    Such a change is indexed as usual, and ends the document's pin. If the pins are released, the
    next scan indexes every document as it is in its file.

    Example: version 4 has a.md ("one"). Version 7 has a.md ("two") and b.md. Restoring version 4
    commits version 8 with a.md ("one") and without b.md, although the files still differ. Touching
    a.md changes nothing. Writing "three" to a.md leads to version 9 with a.md ("three"), still
    without b.md.

    Raises NoSuchVersion.
    """
    connection = pipeline.connection
    read_version(connection, number)
    read: list[ReadDocument] = []
    gone: list[tuple[int, str]] = []
    pins: list[Pin] = []
    for source in sources:
        then = {document.path: document for document in list_documents(connection, number, source)}
        now, seen = read_live_documents(connection, source), read_seen_items(connection, source)
        for item in sorted(then.keys() | now.keys()):
            document = then.get(item)
            if document is None:
                gone.append((source, item))
            elif document.content != now.get(item):
                passages = read_passages(connection, (p.passage for p in document.occurrences))
                parts = tuple(passages[place.passage] for place in document.occurrences)
                read.append(ReadDocument(document, parts))
            else:
                continue
            pins.append(Pin(source, item, seen[item].content if item in seen else None))
    reason = f"restored {', '.join(sources.values())} to version {number}"
    return pipeline.commit(Batch(reason, tuple(read), tuple(gone), pins=tuple(pins)))


def _select_sources(connection: Connection, names: Sequence[str]) -> dict[int, str]:
    return {row.id: row.name for row in list_sources(connection) if row.name in names}


def add_tag(pipeline: SourceSync, name: str, at: str, now_ms: int) -> TagAnswer:
    """Give a version a tag. Raises TagRefused or NoSuchVersion."""
    number = resolve(pipeline.connection, at).id
    set_tag(pipeline.connection, name, number, now_ms)
    return {"name": name, "version": number}


def remove_tag(pipeline: SourceSync, name: str) -> UntagAnswer:
    delete_tag(pipeline.connection, name)
    return {"name": name}


def rebuild_all(pipeline: SourceSync) -> RebuildAnswer:
    """Recompute all derived data, and commit it as a new version. Call this function on the
    writer's thread."""
    version = pipeline.writer.rebuild()
    if version:
        pipeline.on_version(version)
    return {"version": version.id if version else 0, "passages": 0, "estimated_s": 0.0}


def find_generation_in_use(connection: Connection) -> str:
    """Return the name of the newest version's generation settings, or "" if there is no version."""
    newest = read_head(connection)
    return get_generation(connection, newest.generation).name if newest else ""


def switch_encoder(
    pipeline: SourceSync, writer: VersionWriter, dry_run: bool
) -> tuple[Version | None, RebuildAnswer]:
    """Commit a version with the generation settings of another writer. A dry run only estimates the
    work.

    Returns the version, or None if nothing was committed, and the estimate. Queries use the old
    vectors until the commit. If the switch is abandoned, finished question sets are kept.
    """
    missing = writer.list_passages_without_sets()
    sample = missing[: _SAMPLE + 1]
    taken_s = [writer.measure_question_time_s(passage) for passage in sample]
    del taken_s[:1]  # The first passage also loads the models.
    estimated_s = len(missing) * sum(taken_s) / max(len(taken_s), 1)
    version = None
    if not dry_run:
        writer.prepare_ahead(missing, pipeline.yield_to_edits)
        version = writer.renew()
    served = version or read_head(pipeline.connection)
    answer: RebuildAnswer = {
        "version": served.id if served else 0,
        "passages": len(missing),
        "estimated_s": round(estimated_s, 1),
    }
    return version, answer


def collect_garbage(
    pipeline: SourceSync, retention: Retention, now_ms: int, dry_run: bool
) -> GcAnswer:
    """Delete expired versions, or only count them in a dry run. Call this function on the writer's
    thread."""
    if dry_run:
        planned = plan_gc(pipeline.connection, retention, now_ms)
        return {**_format_gc_answer(planned, dry_run=True), "bytes": planned.bytes}
    done = collect(pipeline.connection, retention, now_ms, pipeline.yield_to_edits)
    return {**_format_gc_answer(done, dry_run=False), "freed_bytes": done.freed_bytes}


def _format_gc_answer(counts: GcPlan | GcResult, *, dry_run: bool) -> GcAnswer:
    return {
        "dry_run": dry_run,
        "versions": list(counts.versions),
        "documents": counts.documents,
        "lives": counts.passage_intervals,
        "matches": counts.matches,
        "passages": counts.passages,
        "question_sets": counts.question_sets,
    }


def purge_document(
    pipeline: SourceSync, document: str, source: str | None, now_ms: int
) -> PurgeAnswer:
    """Remove a document, given by its absolute path or its path in a source, from every version.
    Raises PurgeRefused."""
    row, name, item = _locate_document(pipeline.connection, document, source)
    done = remove_everywhere(pipeline, request_purge(pipeline.connection, row, item, now_ms))
    return {
        "source": name,
        "document": item,
        "revisions": done.revisions,
        "passages": done.passages,
        "matches": done.matches,
        "versions": list(done.versions),
        "held_by": [list(document) for document in done.held_by],
        "erased": done.erased,
    }


def remove_everywhere(pipeline: SourceSync, asked: Purge) -> PurgeResult:
    """Remove a document from the head by committing a new version, then purge it from all other
    versions."""
    document_keys = ((asked.source, asked.path),)
    if read_live_content(pipeline.connection, *document_keys[0]) is not None:
        # The log keeps the reason, so it must not name the purged document.
        pipeline.commit(Batch("a document was purged", gone=document_keys, unseen=document_keys))
    if pipeline.switch:
        pipeline.switch.begin_again()
    return purge(pipeline.connection, asked, pipeline.yield_to_edits)


def include_document_again(pipeline: SourceSync, document: str, source: str | None) -> PurgeAnswer:
    row, name, item = _locate_document(pipeline.connection, document, source)
    return {
        "source": name,
        "document": item,
        "included": include_again(pipeline.connection, row, item),
    }


def _locate_document(
    connection: Connection, document: str, source: str | None
) -> tuple[int, str, str]:
    """Find a document by its absolute path, or its path in a source. Returns the source id, source
    name and path.

    Raises PurgeRefused if no source, or more than one source, has such a document.
    """
    places = [
        (row.id, row.name, item)
        for row in list_sources(connection)
        if source in (None, row.name)
        and knows_item(connection, row.id, item := document.removeprefix(f"{row.location}/"))
    ]
    if len(places) == 1:
        return places[0]
    count = f"{len(places)} sources have" if places else "no source has"
    raise PurgeRefused(
        f"Cannot identify the document {document}",
        f"{count} a document at this path",
        "Choose a source with --source" if places else "Check the path and the source",
    )
