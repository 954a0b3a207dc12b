"""Opens a document on this machine: finds its file or address, and the program for it."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hopsyncd.client.local_files import find_local_file
from hopsyncd.errors import NotFound

# The arguments with which editors open a line. Other programs get only the path.
_AT_LINE = {
    **dict.fromkeys(("code", "codium", "cursor", "windsurf"), "-g {path}:{line}"),
    **dict.fromkeys(("subl", "zed", "hx", "helix", "mate"), "{path}:{line}"),
    **dict.fromkeys(
        ("vi", "vim", "nvim", "gvim", "nano", "emacs", "emacsclient", "micro", "kak", "joe"),
        "+{line} {path}",
    ),
    **dict.fromkeys(("kate", "idea", "pycharm", "gedit"), "--line {line} {path}"),
}


def find_target(
    place: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]
) -> tuple[str, bool]:
    """Return the URL or absolute path of a document, and whether an editor can open it at a line.

    Raises NotFound if no program on this machine can open the document.
    """
    origin, document = place["origin"] or {}, str(place["document"])
    for address in (origin.get("url", ""), document):
        if address.startswith(("http://", "https://")):
            return address, False
    location = sources.get(place["source"], {}).get("location", "")
    if file := find_local_file(place["source"], document, sources):
        return file, bool(place["lines"])
    if message := origin.get("message_id"):
        return f"mid:{quote(message)}", False
    raise NotFound(
        f"Cannot open {document}",
        f"the file is not on this machine: the source {place['source']} is at"
        f" {location or 'an unknown place'}",
        f"Print the text with `hopsyncd show {place['id']}`",
    )


def make_editor_command(editor: str, path: str, line: int) -> list[str] | None:
    """Return the command that opens a line in the editor, or None to use the system's program."""
    template = editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not template:
        return None
    if "://" in template:
        return [template.replace("{path}", quote(path)).replace("{line}", str(line))]
    try:
        parts = shlex.split(template)
    except ValueError as error:
        raise _no_editor_error(
            path, f"{template!r} is not a valid command line: {str(error).lower()}"
        ) from error
    if "{path}" not in template:
        parts += shlex.split(_AT_LINE.get(Path(parts[0]).name, "{path}"))
    parts = [part.replace("{path}", path).replace("{line}", str(line)) for part in parts]
    if shutil.which(parts[0]) is None:
        raise _no_editor_error(path, f"the program {parts[0]} is not installed")
    return parts


def _no_editor_error(path: str, why: str) -> NotFound:
    hint = 'Set `editor` under [open] in the configuration, such as "code -g {path}:{line}"'
    return NotFound(f"Cannot open {path}", why, hint)
