"""Writes notes of agents and users as new Markdown files in one folder. Never changes a file."""

import json
import os
import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from hopsyncd.errors import BadRequest

_NAME_CHARACTERS = 60
_MOST_A_DAY = 100  # the most notes of an author in a day
_MOST_FILES_A_DAY = 2000
_AUTHOR = re.compile(rb"\A---\nauthor: (.*)\n")
_HEAD_BYTES = 4000
_TAG = re.compile(r"[\w/-]{1,60}")


def write_note(inbox: Path, title: str, text: str, tags: Sequence[str], author: str = "") -> Path:
    """Write a note to a new file in the folder `inbox`. Returns the file's path. Raises BadRequest.

    `author` is the user who wrote the note; empty for the daemon's owner. The daily limit is per
    author.
    """
    line = " ".join(title.split())
    if not line or not text.strip():
        raise _refusal_error("the title or the text is missing", "Give a title and text")
    if wrong_tags := [tag for tag in tags if not _TAG.fullmatch(tag)]:
        raise _refusal_error(
            f"{wrong_tags[0]!r} is not a valid tag", "Use at most 60 letters, digits, _, - and /"
        )
    signed = json.dumps(author, ensure_ascii=False) if author else ""
    fields = [f"author: {signed}"] * bool(author) + [f"tags: [{', '.join(tags)}]"] * bool(tags)
    head = "\n".join(["---", *fields, "---\n\n"]) if fields else ""
    content = f"{head}# {line}\n\n{text.strip()}\n".encode(errors="replace")
    now = datetime.now().astimezone()
    day = f"{now:%Y-%m-%d}-"
    name = day + _make_file_name(line)
    try:
        _require_room([*inbox.glob(f"{day}*")], signed.encode(errors="replace"))
        folder = os.open(inbox, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return inbox / _put(folder, name, content)
        finally:
            os.close(folder)
    except OSError as error:
        why = f"{inbox}: {str(error.strerror).lower()}"
        hint = (
            "Create the folder"
            if isinstance(error, FileNotFoundError)
            else "Check the permissions of the folder and its disk"
        )
        raise _refusal_error(why, f"{hint}, or set mcp.inbox to another folder") from error


def _require_room(today: Sequence[Path], signed: bytes) -> None:
    """Raise BadRequest if the author, or all authors together, have reached today's limit.

    today: the notes of today. signed: the author, as written in notes.
    """
    limit, by = _MOST_FILES_A_DAY, "all users together"
    if len(today) < limit:
        limit, by = _MOST_A_DAY, "you"
        if len(today) < limit or sum(_read_author(note) == signed for note in today) < limit:
            return
    raise _refusal_error(
        f"{by} wrote {limit} notes today, the daily limit",
        "Try again tomorrow, or put related text into one note",
    )


def _read_author(note: Path) -> bytes:
    """Return the author that the note names, or b"" if the note names no author."""
    if not note.is_file():
        return b""
    try:
        with note.open("rb") as file:
            match = _AUTHOR.match(file.read(_HEAD_BYTES))
    except OSError:  # the note was deleted meanwhile
        return b""
    return match[1] if match else b""


def _put(folder: int, name: str, content: bytes) -> str:
    """Create `name`.md in the folder with the file descriptor `folder`. If the name is taken, a
    number is added, as in `name`-2.md. Returns the file's name."""
    number = 1
    while True:
        file = f"{name}.md" if number == 1 else f"{name}-{number}.md"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(file, flags, 0o600, dir_fd=folder)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        return file


def _make_file_name(title: str) -> str:
    """Return a file name for a title, made of letters, digits and dashes.

    >>> _make_file_name("../Who is Ada?")
    'who-is-ada'
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return "-".join(re.findall(r"[a-z0-9]+", plain))[:_NAME_CHARACTERS].strip("-") or "note"


def _refusal_error(why: str, hint: str) -> BadRequest:
    return BadRequest("The note was not written", why, hint)
