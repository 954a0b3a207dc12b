"""Versions and their differences as JSON objects: documented in docs/api.md."""

from typing import Any

from hopsyncd.query.answer import id_text
from hopsyncd.serve.status import time_text
from store.history import Diff, Edge, LogEntry
from store.records import Version


def entry_json(entry: LogEntry) -> dict[str, Any]:
    """One version of the log."""
    version = entry.version
    return {
        "version": version.id,
        "created": time_text(version.created_ms),
        "collected": time_text(entry.collected_ms),
        "reason": version.reason,
        "tags": list(entry.tags),
        "documents": version.documents,
        "passages": version.passages,
        "edges": min(version.edge_budget, version.matches),
        "documents_added": entry.documents_added,
        "documents_changed": entry.documents_changed,
        "documents_removed": entry.documents_removed,
        "passages_added": entry.passages_added,
        "passages_removed": entry.passages_removed,
        "counters": version.counters,
    }


def diff_json(old: Version, new: Version, found: Diff) -> dict[str, Any]:
    """What differs; lists are whole, however long."""
    return {
        "from": old.id,
        "to": new.id,
        "documents": {
            "added": _documents(found.documents_added),
            "removed": _documents(found.documents_removed),
            "changed": _documents(found.documents_changed),
        },
        "passages": {
            "added": [id_text(passage) for passage in found.passages_added],
            "removed": [id_text(passage) for passage in found.passages_removed],
        },
        "edges": {
            "added": [_edge(edge) for edge in found.edges_added],
            "removed": [_edge(edge) for edge in found.edges_removed],
        },
    }


def _documents(found: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"source": source, "document": path} for source, path in found]


def _edge(edge: Edge) -> dict[str, str]:
    return {"from": id_text(edge.source), "to": id_text(edge.target), "question": edge.text}
