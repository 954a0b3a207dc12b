"""The dry run of a sync as a JSON object, documented in docs/api.md: by reading alone."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from hopsyncd.config import DATABASE_NAME, Config
from hopsyncd.extraction.process import ExtractionProcess
from hopsyncd.sources import connector_of
from hopsyncd.sync.decide import Scope, Source
from hopsyncd.sync.preview import Preview, preview
from hopsyncd.sync.read import READER, rules_of
from store.database import Connection, fresh_database, open_reader
from store.quarantine import quarantined
from store.sources import is_read_by, source_names
from store.versions import head
from store.waiting import waiting_by_reason

_NO_SOURCE = 0  # no row has it: a source that was never synced

DOCUMENT_LISTS = ("new", "changed", "gone", "unreadable")


def preview_file(config: Config, names: Sequence[str], limit: int | None) -> dict[str, Any]:
    """As preview_json, of a database that no daemon serves; it may not exist yet."""
    database = config.daemon.data_dir / DATABASE_NAME
    connection = open_reader(database) if database.exists() else fresh_database()
    with closing(connection):
        return preview_json(connection, config, names, limit)


def preview_json(
    connection: Connection, config: Config, names: Sequence[str], limit: int | None
) -> dict[str, Any]:
    """What a sync of the named sources would do and cost; lists have at most `limit` lines."""
    newest = head(connection)
    rows = {name: row for row, name in source_names(connection).items()}
    rules = rules_of(config.index.passage_tokens)
    asks = bool(config.llm.base_url) and config.llm.questions != "off"
    per_call = config.llm.passages_per_call if asks else None
    with ExitStack() as stack:
        known = quarantined(connection, READER)
        extraction = stack.enter_context(closing(ExtractionProcess(quarantined=known)))
        found = [
            preview(
                connection,
                Source(
                    row := rows.get(source.name, _NO_SOURCE),
                    source.name,
                    stack.enter_context(closing(connector_of(source, config))),
                ),
                Scope(afresh=not is_read_by(connection, row, rules)),
                config.index.passage_tokens,
                newest.recipe if newest else None,
                per_call,
                extraction.extract,
            )
            for source in config.sources
            if source.name in names
        ]
    return {
        "version": newest.id if newest else 0,
        "sources": [_source(one, limit) for one in found],
        "llm_calls": sum(one.llm_calls for one in found),
        "llm_tokens": sum(one.llm_tokens for one in found),
        "waiting": waiting_by_reason(connection, newest.id) if newest else {},
    }


def _source(found: Preview, limit: int | None) -> dict[str, Any]:
    lists = {kind: getattr(found, kind) for kind in DOCUMENT_LISTS}
    return {
        "name": found.source,
        "problem": found.problem,
        "hint": found.hint,
        "counts": {kind: len(paths) for kind, paths in lists.items()},
        **{kind: paths[:limit] for kind, paths in lists.items()},
        "passages": found.passages,
        "llm_calls": found.llm_calls,
        "llm_tokens": found.llm_tokens,
    }
