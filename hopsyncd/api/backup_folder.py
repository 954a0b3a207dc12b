"""Where admins who are not the owner may write backups: below one folder of the owner's.

The daemon writes with the rights of its own user. A file of an admin's choice, with lines from the
documents in it, would let the admin act as that user.
"""

import os
import stat
from pathlib import Path

from hopsyncd.errors import Forbidden

_WHAT = "The backup was refused"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def backup_below(folder: Path | None, file: Path) -> Path:
    """The path to write, without symbolic links. Raises Forbidden if it is not below the folder.

    No other user may be able to write to the folders on the way, nor to replace the folder itself:
    they could lead the backup elsewhere.
    """
    if folder is None:
        raise Forbidden(
            _WHAT,
            "only the owner of this daemon may choose where backups go",
            "The owner can set access.backup_dir to a folder for backups by admins",
        )
    root, parent = Path(os.path.realpath(folder)), Path(os.path.realpath(file.parent))
    if not parent.is_relative_to(root):
        raise Forbidden(
            _WHAT, f"{file} is not below {folder}", f"Choose a file below {folder} (backup_dir)"
        )
    where = Path("/")
    try:
        opened = os.open(where, _FOLDER)
        try:
            for part in parent.parts[1:]:
                _check_own(opened, where, is_above=where in root.parents)
                where /= part
                below = os.open(part, _FOLDER, dir_fd=opened)
                os.close(opened)
                opened = below
            _check_own(opened, where, is_above=False)
        finally:
            os.close(opened)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Forbidden(_WHAT, f"{where} cannot be used: {why}", "Make that folder") from error
    return where / file.name


def _check_own(folder: int, path: Path, *, is_above: bool) -> None:
    """Raise Forbidden if others may write here.

    Above the folder of backups they may, as in /tmp, if they cannot replace what others have there.
    """
    found = os.fstat(folder)
    is_shared = found.st_mode & 0o022 and not (is_above and found.st_mode & stat.S_ISVTX)
    if found.st_uid not in (os.geteuid(), 0) or is_shared:
        raise Forbidden(
            _WHAT,
            f"others may write to {path}",
            f"Its owner can run `chmod go-w {path}`; it must belong to the daemon's user",
        )
