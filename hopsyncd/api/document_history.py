"""The versions that changed a document, with the changed sentences."""

from typing import Literal

from hopsyncd.api.version_log import diff_lines, format_moment, read_sentences
from hopsyncd.responses.changes import DocumentChange
from store.contract import Connection
from store.reads import list_revisions
from store.records import ALIVE
from store.versions import read_logged_version


def list_document_changes(
    connection: Connection, source: str, path: str, limit: int
) -> list[DocumentChange]:
    """List the changes of a document, newest first.

    If garbage collection has removed a version, its change has no lines.
    """
    changes = list[DocumentChange]()
    revisions = list_revisions(connection, source, path, limit + 1)
    for index, (born, died) in enumerate(revisions):
        after = revisions[index - 1][0] if index else ALIVE
        if died not in (ALIVE, after):
            changes.append(_format_change(connection, died, "removed", []))
        follows = index + 1 < len(revisions) and revisions[index + 1][1] == born
        if not follows:
            changes.append(_format_change(connection, born, "added", []))
            continue
        lines = diff_lines(*(read_sentences(connection, n, source, path) for n in (born - 1, born)))
        changes.append(_format_change(connection, born, "changed", lines))
    return changes[:limit]


def _format_change(
    connection: Connection,
    number: int,
    kind: Literal["added", "changed", "removed"],
    lines: list[str],
) -> DocumentChange:
    return {
        "version": number,
        "created": format_moment(read_logged_version(connection, number).created_ms),
        "what": kind,
        "lines": lines,
    }
