"""Recognizes the copies that sync programs make of a file that changed in two places."""

import re

_COPY = re.compile(
    r"""
    \.sync-conflict-\d{8}-\d{6}(?:-[A-Z0-9]+)?           # Syncthing
    | [ ]\((?:[^()/]*[ ])?conflicted[ ]copy\b[^()/]*\)   # Dropbox, Nextcloud, Obsidian Sync
    | [ ]\(SFConflict[ ][^()/]*\)                        # Seafile
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_conflict_copy(path: str) -> bool:
    """Whether the name of a file says that it is a conflict copy of another.

    >>> is_conflict_copy("plan (Ann's conflicted copy 2026-01-02).md"), is_conflict_copy("plan.md")
    (True, False)
    """
    return _COPY.search(path.rpartition("/")[2]) is not None
