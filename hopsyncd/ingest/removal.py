"""Removes the documents of sources, either from the head by committing a new version, or from all
versions by a purge."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from hopsyncd.config.configuration import INDEX_NAME, NEXT_INDEX_NAME, Config
from hopsyncd.config.source_kinds import GitSource
from hopsyncd.ingest.connector_setup import find_mirror_folder
from hopsyncd.ingest.read import Batch
from hopsyncd.ingest.saved_index import SavedIndex
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.upkeep import remove_everywhere
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.llm.budget import LlmContext
from hopsyncd.models.questions import MakeResult
from hopsyncd.responses.changes import RemoveAnswer
from store.access_rules import make_rule_for_removed
from store.check import refuse_damaged
from store.content import get_generation
from store.contract import Connection
from store.open_database import exists, hold_writer_lock, open_reader, open_writer
from store.purge import list_pending_purges, request_source_purge
from store.purge import purge as carry_out
from store.reads import read_live_documents
from store.records import GenerationConfig, Passage, QuestionSet, Version
from store.sources import forget_source, put_access_rules, read_access_rules, read_source_names
from store.versions import read_head

_PASSES = 3  # attempts to delete the mirror, because a fetch may be writing to it


def remove_source_documents(
    connection: Connection,
    apply: Callable[[Batch], object],
    name: str,
    purge: bool,
    between: Callable[[], None] = lambda: None,
) -> RemoveAnswer:
    """Commit a version without the documents of a source, and delete the other data of the source.

    `apply` commits a batch. If `purge` is true, the documents are also removed from earlier
    versions. After a crash, `finish_purges` completes the purge. `between` is called after each
    transaction.
    """
    rows = {known: row for row, known in read_source_names(connection).items()}
    gone: list[str] = []
    erased = None
    if name in rows:
        row = rows[name]
        request = request_source_purge(connection, row) if purge else None
        gone = sorted(read_live_documents(connection, row))
        # Forget the source before the commit. A crash between the two then costs only a scan.
        forget_source(connection, row)
        # Older versions still have its documents, which must stay hidden if they were hidden.
        put_access_rules(
            connection, {name: make_rule_for_removed(read_access_rules(connection)[name])}
        )
        if gone:
            reason = f"{name}: the source was removed"
            apply(Batch(reason, gone=tuple((row, path) for path in gone)))
        erased = carry_out(connection, request, between) if request else None
    newest = read_head(connection)
    return {
        "name": name,
        "version": newest.id if newest else 0,
        "documents": len(gone),
        "purged": purge,
        "held_by": [list(document) for document in erased.held_by] if erased else [],
        "erased": erased.erased if erased else True,
    }


def finish_purges(pipeline: SourceSync) -> set[str]:
    """Complete interrupted purges. Returns the names of the sources that lost all documents."""
    names, emptied = read_source_names(pipeline.connection), set[str]()
    apply = partial(pipeline.commit, yield_to_edits=pipeline.yield_to_edits)
    for request in list_pending_purges(pipeline.connection):
        if request.path:
            remove_everywhere(pipeline, request)
            continue
        name = names[request.source]
        emptied.add(name)
        with pipeline.leaving_alone(name):
            remove_source_documents(
                pipeline.connection, apply, name, purge=True, between=pipeline.yield_to_edits
            )
    return emptied


def drop_mirror(config: Config, name: str) -> None:
    """Delete the mirror of a git repository, unless another source uses the same mirror."""
    repositories = [source for source in config.sources if isinstance(source, GitSource)]
    folders = {source.name: find_mirror_folder(source, config) for source in repositories}
    folder = folders.pop(name, None)
    if folder is not None and folder not in folders.values():
        for _ in range(_PASSES):
            shutil.rmtree(folder, ignore_errors=True)


def remove_source_offline(config: Config, name: str, purge: bool) -> RemoveAnswer:
    """Remove a source like `remove_source_documents`, but without a daemon. `config` must still
    contain the source.

    Raises WriterBusy if a daemon is running.
    """
    with hold_writer_lock(config.database), closing(open_writer(config.database)) as connection:
        refuse_damaged(connection)

        def apply(batch: Batch) -> None:
            newest = read_head(connection)
            assert newest is not None, "there are documents"
            _create_writer(connection, newest, config).apply(batch)

        done = remove_source_documents(connection, apply, name, purge)
        if purge:
            for index in (INDEX_NAME, NEXT_INDEX_NAME):
                SavedIndex(config.daemon.data_dir / index).forget()
    drop_mirror(config, name)
    return done


def list_stored_sources(config: Config) -> set[str]:
    """Return the names of all sources that the database contains."""
    if not exists(config.database):
        return set()
    with closing(open_reader(config.database)) as connection:
        return set(read_source_names(connection).values())


def _create_writer(connection: Connection, newest: Version, config: Config) -> VersionWriter:
    """Create a writer that keeps the generation settings and rules of `newest`, without loading a
    model."""
    return VersionWriter(
        connection,
        _NoQuestions(get_generation(connection, newest.generation)),
        rules=newest.rules,
        budget_factor=config.index.edge_budget_factor,
        now_ms=lambda: time.time_ns() // 1_000_000,
    )


@dataclass(frozen=True, slots=True)
class _NoQuestions:
    generation: GenerationConfig
    store_after: int = 1
    store_every_s: float = 0.0

    @property
    def provisional_generation(self) -> GenerationConfig:
        return self.generation

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None
    ) -> Iterator[Sequence[MakeResult]]:
        raise AssertionError("a removal has no new passage")

    def make_provisional(self, passage: Passage) -> QuestionSet:
        raise AssertionError("a removal has no new passage")
