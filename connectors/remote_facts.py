"""What the drivers of fsspec say about a file, each with its own keys: a revision and a time."""

import email.utils
from collections.abc import Mapping
from datetime import datetime
from typing import Any

# Opaque marks of a content, from the surest. An S3 ETag is no MD5; it is only compared.
_MARKS = (
    *("ETag", "etag", "sha", "blob_id", "content_hash", "md5Hash", "md5Checksum"),
    *("generation", "version_id", "VersionId"),
)
_TIMES = (
    *("mtime", "LastModified", "last_modified", "modified", "modifiedTime", "modificationTime"),
    *("last_write_time", "updated", "modify", "created"),
)
_TICK_S = 0.02
_COARSE_TICK_S = 1.0


def revision_of(facts: Mapping[str, Any]) -> str:
    """Changes with the content: the first mark or time that the driver gives, and the size.

    Empty where it gives neither: then there is no way to see a change.

    >>> revision_of({"ETag": '"5d41"', "size": 5})
    'ETag=5d41 5'
    """
    size = size_of(facts)
    for key in _MARKS:
        if facts.get(key):
            mark = str(facts[key]).removeprefix("W/").strip('"')
            return f"{key}={mark} {size}"
    seconds = modified_s(facts)
    return "" if seconds is None else f"{seconds:.6f} {size}"


def size_of(facts: Mapping[str, Any]) -> int:
    """The size in bytes; 0 where the driver does not know it."""
    size = facts.get("size")
    return int(size) if isinstance(size, int | float) and size >= 0 else 0


def modified_s(facts: Mapping[str, Any]) -> float | None:
    """When the file was last written, in Unix time; None where the driver does not say.

    >>> modified_s({"LastModified": "2026-11-21T19:49:14Z"})
    1795290554.0
    """
    return next((s for key in _TIMES if (s := _seconds(facts.get(key))) is not None), None)


def clock_tick_s(facts: Mapping[str, Any]) -> float:
    """Within this time after the last write, another one of the same size could go unseen."""
    seconds = modified_s(facts)
    if seconds is None or any(facts.get(key) for key in _MARKS):
        return 0.0
    return _TICK_S if seconds % 1 else _COARSE_TICK_S


def _seconds(value: object) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if value < 1e11 else value / 1000  # some drivers say milliseconds
    if not isinstance(value, str):
        return None
    for parse in (datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            return parse(value).timestamp()
        except ValueError:
            continue
    return None
