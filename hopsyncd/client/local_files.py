"""Finds the documents of answers on this machine: their absolute paths."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hopsyncd.client.blocking import Client


def find_local_file(
    source: str | None, document: str | None, sources: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Return the absolute path of a document, or None if it is not a file on this machine.

    `sources` are the daemon's sources, by name.
    """
    location = sources.get(source or "", {}).get("location", "")
    if not (location and document):
        return None
    file = Path(location) / document
    # Unlike Path.is_file(), this does not raise for a folder that we may not enter.
    return str(file) if file.is_absolute() and os.path.isfile(file) else None  # noqa: PTH113


def map_local_sources(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """Return the daemon's sources by name, or {} if the daemon is on another machine.

    Otherwise a file on this machine with the same path could be taken for the document.
    """
    if client.is_remote:
        return {}
    return {source["name"]: source for source in client.sources()["sources"]}


def add_paths(value: Any, sources: Mapping[str, Mapping[str, Any]]) -> Any:
    """Copy an answer, and add `path` after `document` if the document is a file on this machine."""
    if isinstance(value, Mapping):
        copied = {}
        for name, part in value.items():
            copied[name] = add_paths(part, sources)
            if name == "document" and isinstance(part, str) and "path" not in value:
                path = find_local_file(value.get("source"), part, sources)
                copied |= {"path": path} if path else {}
        return copied
    if isinstance(value, list | tuple):
        return [add_paths(part, sources) for part in value]
    return value


def names_documents(value: Any) -> bool:
    """Return whether an answer names any document, so that paths can be added."""
    if isinstance(value, Mapping):
        named = isinstance(value.get("document"), str) and bool(value.get("source"))
        return named or any(map(names_documents, value.values()))
    return isinstance(value, list | tuple) and any(map(names_documents, value))
