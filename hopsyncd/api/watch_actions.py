"""The programs and webhooks of watched questions, in a file that only the daemon's user can write.

The record says only that a watch has a program or a webhook. Which one is in `watch_actions.json`
in the data folder. An action belongs to the number of a watch and to the digest of its question.
So whoever writes to the record, or brings another record, can neither name a program nor have one
started for another question. `copy`, backups and PostgreSQL never carry an action.

A program or webhook that a record names all the same, as records before this file did, is taken
out of the record and kept here as `proposed`. It does nothing until the owner allows it.
"""

import json
import os
import shlex
import stat
import tempfile
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hopsyncd.api.requests import Argument, WebhookUrl
from store.exceptions import DiskFailure

ACTIONS_NAME = "watch_actions.json"  # in the data_dir
_MAX_BYTES = 4 << 20
_MAX_KEPT = 300  # actions, and as many proposed ones; a record has at most 100 watches
_MAX_ARGUMENTS = 100


class WatchAction(BaseModel):
    """The action at each change of a watch: start a program, or post to a webhook."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    watch: int
    question: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]  # its digest
    exec: Annotated[tuple[Argument, ...], Field(max_length=_MAX_ARGUMENTS)] = ()
    webhook: WebhookUrl = None

    @model_validator(mode="after")
    def _is_one(self) -> "WatchAction":
        if bool(self.exec) == bool(self.webhook):
            raise ValueError("an action is either a program or a webhook")
        if self.exec and not self.exec[0].startswith("/"):
            raise ValueError("a program has its whole path")
        return self

    def to_json(self) -> dict[str, Any]:
        """The program with its arguments as `exec`, or the address as `webhook`."""
        return {"exec": list(self.exec)} if self.exec else {"webhook": self.webhook}


class OpenToOthers(ValueError):
    """Other users can read or write the file, so they could have added a program."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    actions: tuple[WatchAction, ...] = ()
    proposed: tuple[WatchAction, ...] = ()


Key = tuple[int, str]


class WatchActions:
    """The actions in the file. Any thread may use them.

    `problem` says why the file is not used, with what to do. Then no action is in effect.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._actions: dict[Key, WatchAction] = {}
        self._proposed: dict[Key, WatchAction] = {}
        self.problem: str | None = None
        try:
            read = _read(file)
        except (OSError, ValueError, RecursionError) as error:
            self.problem = (
                f"The programs and webhooks of all watches are off: {file} {_why(error)}."
                f" {_what_to_do(error, file)}, then restart the daemon."
            )
        else:
            self._actions = {(one.watch, one.question): one for one in read.actions}
            self._proposed = {(one.watch, one.question): one for one in read.proposed}

    def find(self, watch: int, question: str) -> WatchAction | None:
        """The action in effect for this number and this question."""
        with self._lock:
            return self._actions.get((watch, digest_of(question)))

    def find_proposed(self, watch: int, question: str) -> WatchAction | None:
        """The action that the record brought for this watch, which is not in effect."""
        with self._lock:
            return self._proposed.get((watch, digest_of(question)))

    def add(self, action: WatchAction) -> None:
        """Put an action into effect, in place of others of that number. Raises DiskFailure."""
        with self._lock:
            actions = {key: one for key, one in self._actions.items() if key[0] != action.watch}
            proposed = {key: one for key, one in self._proposed.items() if key[0] != action.watch}
            actions[action.watch, action.question] = action
            self._write(actions, proposed)

    def propose(self, action: WatchAction) -> None:
        """Keep an action that the record brought. It has no effect. Raises DiskFailure."""
        with self._lock:
            key = action.watch, action.question
            if self._actions.get(key) != action:
                self._write(self._actions, {**self._proposed, key: action})

    def remove(self, watch: int) -> None:
        """Forget the actions of this number. Raises DiskFailure."""
        with self._lock:
            actions = {key: one for key, one in self._actions.items() if key[0] != watch}
            proposed = {key: one for key, one in self._proposed.items() if key[0] != watch}
            if (actions, proposed) != (self._actions, self._proposed):
                self._write(actions, proposed)

    def _write(self, actions: dict[Key, WatchAction], proposed: dict[Key, WatchAction]) -> None:
        if self.problem:
            raise DiskFailure(
                f"Cannot write {self._file}",
                "its present content could not be used, and would be lost",
                self.problem,
            )
        actions = dict(list(actions.items())[-_MAX_KEPT:])
        proposed = dict(list(proposed.items())[-_MAX_KEPT:])
        whole = _File(actions=tuple(actions.values()), proposed=tuple(proposed.values()))
        text = whole.model_dump_json(indent=2, exclude_defaults=True)
        try:
            _replace(self._file, text.encode() + b"\n")
        except OSError as error:
            raise DiskFailure(
                f"Cannot write {self._file}",
                (error.strerror or str(error)).lower(),
                "Free some space, or make the data folder writable for this user",
            ) from error
        self._actions, self._proposed = actions, proposed


def digest_of(question: str) -> str:
    """The digest of a question by which an action belongs to it."""
    return blake2b(question.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def action_in_record(watch: int, question: str, act: str) -> WatchAction | None:
    """The action that a record names in `act`, if it could be used at all."""
    try:
        found = json.loads(act)
        if not isinstance(found, dict) or not found.keys() <= {"exec", "webhook"}:
            return None
        return WatchAction.model_validate(
            {"watch": watch, "question": digest_of(question), **found}
        )
    except (ValueError, RecursionError):  # pydantic's errors are ValueErrors
        return None


def _read(file: Path) -> _File:
    """Raises OSError, or ValueError if others could write the file or it is damaged."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return _File()
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            raise ValueError(f"is not a regular file of at most {_MAX_BYTES >> 20} MiB")
        if found.st_uid != os.geteuid():
            raise ValueError("belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise OpenToOthers("can be read or written by other users")
        return _File.model_validate_json(opened.read(_MAX_BYTES))


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read ({(error.strerror or str(error)).lower()})"
    if isinstance(error, RecursionError):
        return "is not valid JSON (it is nested too deep)"
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return f"is not valid JSON ({first['ctx']['error']})"
    place = ".".join(map(str, first["loc"])) or "the whole"
    return f"has a mistake at {place} ({first['msg'].removeprefix('Value error, ').lower()})"


def _what_to_do(error: Exception, file: Path) -> str:
    if isinstance(error, OpenToOthers):
        return f"Check that nobody has changed it, run `chmod 600 {shlex.quote(str(file))}`"
    return "Correct it, or move it away and add the watches again"


def _replace(file: Path, content: bytes) -> None:
    """Put the content in the place of the file's: after a kill there is either of them."""
    descriptor, name = tempfile.mkstemp(".part", f".{file.name}.", file.parent)  # mode 600
    try:
        with os.fdopen(descriptor, "wb") as written:
            written.write(content)
            written.flush()
            os.fsync(descriptor)
        Path(name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
