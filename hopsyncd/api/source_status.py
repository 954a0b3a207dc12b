"""Describes the state of a source, for its admins and for users who see only a part of it."""

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

import numpy as np

from hopsyncd.api.access_rules import AccessRules
from hopsyncd.api.version_log import format_time
from hopsyncd.config.source_kinds import SourceConfig
from hopsyncd.config.values import MEMBERS
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.watch import WatchStatus
from hopsyncd.responses.daemon_state import FolderRightsStatus, SourceRights, SourceStatus
from store.contract import Connection
from store.sources import SourceRow, count_pins, count_problems, parse_counts
from store.visibility import Mask, list_partly_hidden


def describe_source(
    row: SourceRow,
    configured: bool,
    next_ms: int | None,
    watch: WatchStatus | None,
    rights: SourceRights | None,
) -> SourceStatus:
    """Describe the state of a source.

    `next_ms` is the Unix time of its next scan. `rights` is None unless the caller sees everything.
    """
    state: Literal["new", "ok", "paused", "unconfigured"] = "ok" if row.scanned_ms else "new"
    if not configured:
        state = "unconfigured"
    elif row.problem:
        state = "paused"
    return {
        "name": row.name,
        "kind": row.kind,
        "location": row.location,
        "state": state,
        "documents": row.documents,
        "problems": row.problems,
        "pinned": row.pinned,
        "scanned": format_time(row.scanned_ms),
        "next": format_time(next_ms if configured else None),
        "problem": row.problem,
        "hint": row.hint,
        "left_out": parse_counts(row.left_out),
        "watching": bool(watch and watch.watching),
        "watch_problem": f"{watch.why}. {watch.hint}" if watch and watch.why else None,
        "rights": rights,
    }


def restrict_watch_status(watch: WatchStatus | None, is_whole: bool) -> WatchStatus | None:
    """Return the state of a source's watch for a caller.

    Only a caller who may see the whole source (`is_whole`) gets its message, which may name
    folders."""
    return watch if is_whole or watch is None else WatchStatus(watch.watching)


def restrict_source(
    connection: Connection, row: SourceRow, head: Snapshot | None, hidden: Mask
) -> SourceRow:
    """Reduce the state of a source for a caller who may see only some of its folders.

    Counts include only these folders. Messages of scans are left out, because they may name other
    folders. `head` is the version as the caller sees it.
    """
    if row.name not in list_partly_hidden(hidden):
        return row
    return replace(
        row,
        documents=_count_documents(head, row.name),
        problems=count_problems(connection, row.name, hidden),
        pinned=count_pins(connection, row.name, hidden),
        problem=row.problem and "the last scan failed",
        hint=row.hint and "An admin can see the reason in `hopsyncd status`",
        left_out="{}",
    )


def _count_documents(head: Snapshot | None, source: str) -> int:
    if head is None or source not in head.index.sources:
        return 0
    visible = head.statistics.visible.documents
    sources = head.index.documents.source[: len(visible)]
    return int(np.count_nonzero(visible & (sources == head.index.sources.index(source))))


def list_rights(
    sources: Collection[SourceConfig], head: Snapshot | None, access: AccessRules
) -> dict[str, SourceRights]:
    """List the access rules of each source and its folders, with each rule's document count."""
    kept_closed = access.list_closed_by_record(sources)
    return {
        source.name: {
            "visible_to": list(source.visible_to) or [MEMBERS],
            "paths": _count_rules(source, head),
            "kept_closed": source.name in kept_closed,
        }
        for source in sources
    }


def _count_rules(source: SourceConfig, head: Snapshot | None) -> list[FolderRightsStatus]:
    patterns = tuple(folder.match for folder in source.paths)
    counts = [0] * len(patterns)
    if patterns and head is not None:
        visible = head.statistics.visible.documents
        numbers = head.index.documents.source[: len(visible)]
        decided, sets = head.index.find_deciding_patterns(source.name, patterns, numbers)
        decided_by = [
            np.array([pattern in deciding for deciding in sets])[decided]
            for pattern in range(len(patterns))
        ]
        counts = [int(np.count_nonzero(visible & by_this)) for by_this in decided_by]
    return [
        {"match": folder.match, "visible_to": list(folder.visible_to), "documents": count}
        for folder, count in zip(source.paths, counts, strict=True)
    ]
