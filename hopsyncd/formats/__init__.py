"""Converts documents to blocks, with a reader for each format, and groups blocks into passages."""

from importlib import import_module
from typing import Any

from hopsyncd.errors import ReaderUnavailable


def library(name: str) -> Any:
    """Import a library. Raises ReaderUnavailable if it is missing, so that no document is reported
    as damaged."""
    try:
        return import_module(name)
    except (ImportError, OSError, MemoryError) as error:
        reason = str(error) or "memory has run out"
        raise ReaderUnavailable(
            "Documents of this type cannot be read",
            f"the library {name} cannot be loaded ({reason})",
            "Install hopsyncd again, or free memory. The next sync retries the unread documents",
        ) from error
