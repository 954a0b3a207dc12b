"""Folders opened one inside the other, so that no link leads out and no path is too long.

Each folder is opened by its name in its parent, and never through a symbolic link. A walk in
depth-first order keeps a few descriptors open and rarely opens a folder again.
"""

import os
from contextlib import suppress

from connectors.regular_file import FOLDER_FLAGS

_MOST_OPEN = 64


class OpenFolders:
    """The folder at `root` and, as they are asked for, folders below it. Raises OSError.

    Keeps the folders on the path to the last one open, at most `most_open` of them.
    """

    def __init__(self, root: str, most_open: int = _MOST_OPEN) -> None:
        self._most_open = most_open
        self.root = os.open(root, FOLDER_FLAGS)
        self._open: dict[str, int] = {}  # in order of depth

    def enter(self, id_: str) -> int:
        """The descriptor of a folder, valid until the next call; the empty id is the root.

        Raises OSError: ENOTDIR or ELOOP if a component is a file or a link.
        """
        if not id_:
            return self.root
        self._close_others(id_)
        above, folder = "", self.root
        if self._open:
            above, folder = next(reversed(self._open.items()))
        if above == id_:
            return folder
        for end in _ends(id_, len(above)):
            start = len(above) + 1 if above else 0
            folder = os.open(id_[start:end], FOLDER_FLAGS, dir_fd=folder)
            above = id_[:end]
            self._open[above] = folder
            if len(self._open) > self._most_open:
                os.close(self._open.pop(next(iter(self._open))))
        return folder

    def close(self) -> None:
        """Close every descriptor. May be called again."""
        for folder in self._open.values():
            os.close(folder)
        self._open.clear()
        with suppress(OSError):
            os.close(self.root)
        self.root = -1

    def _close_others(self, id_: str) -> None:
        """Close what does not lie on the path to this folder, the deepest first."""
        while self._open:
            deepest = next(reversed(self._open))
            if deepest == id_ or id_.startswith(deepest + "/"):
                return
            os.close(self._open.pop(deepest))


def _ends(id_: str, start: int) -> list[int]:
    """Where the names after `start` end.

    >>> _ends("a/bc/d", 1)
    [4, 6]
    """
    ends, at = [], id_.find("/", start + 1)
    while at >= 0:
        ends.append(at)
        at = id_.find("/", at + 1)
    return [*ends, len(id_)]
