"""Converts documents to blocks, with a reader for each format, and groups blocks into passages."""

from importlib import import_module
from typing import Any

from hopsyncd.errors import ReaderUnavailable


def import_library(name: str) -> Any:
    """Import a library by its module name. Raises ReaderUnavailable if the import fails, because
    the document is not to blame."""
    try:
        return import_module(name)
    except (ImportError, OSError, MemoryError) as error:
        reason = str(error) or "memory has run out"
        raise ReaderUnavailable(
            "Documents of this type cannot be read",
            f"the library {name} cannot be loaded ({reason})",
            "Reinstall hopsyncd, or free memory. The next scan tries again",
        ) from error
