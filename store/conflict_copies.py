"""Recognizes conflict copies, which sync programs create when a file was changed on two devices."""

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
    """Whether a file name marks a conflict copy.

    >>> is_conflict_copy("plan (Ann's conflicted copy 2026-01-02).md"), is_conflict_copy("plan.md")
    (True, False)
    """
    return _COPY.search(path.rpartition("/")[2]) is not None
