"""Finds names: with a spaCy model in the model's language, and by rules in other languages."""

import json
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import structlog

from hopsyncd.child_process import ChildProcess, IdleTimer, Process, start_child
from hopsyncd.errors import ModelUnavailable
from hopsyncd.models.encoder import FairLock
from hopsyncd.models.keywords import Mention
from hopsyncd.models.language_process import DEFAULT_MODEL

# The idle process ends after this time, because it takes more memory than the daemon itself.
_IDLE_S = 240.0

log = structlog.get_logger(__name__)

EntityKind = Literal["person", "place", "date", "number"]


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place, date or other entity at text[start:end]."""

    start: int
    end: int
    kind: EntityKind


class EntityFinder(Protocol):
    """Finds persons, places, dates and numbers in texts."""

    def find_entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """Find the entities of each text, in order. The result for a text in an unsupported
        language is empty."""
        ...


class Language(EntityFinder, Protocol):
    @property
    def name(self) -> str:
        """The name of the spaCy model, with the version of the rules for names. Objects with equal
        names find equal mentions."""
        ...

    def find_mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        """Find the names in each text, in order. The names in a text do not depend on the other
        texts.
        """
        ...


class SpacyLanguage:
    """Finds named entities and proper nouns with a spaCy model in a separate process.

    The process keeps spaCy's memory out of the daemon and runs at low priority. It starts at the
    first text, and ends with the daemon or after `idle_s` seconds without a text. If it dies, it is
    restarted.
    """

    def __init__(self, model: str, idle_s: float = _IDLE_S) -> None:
        """Find the spaCy model: "default", an installed package, or a folder.

        Raises ModelUnavailable.
        """
        self._model = DEFAULT_MODEL if model == "default" else model
        meta = _read_meta(self._model)
        self._name = f"{meta['lang']}_{meta['name']}-{meta['version']}"
        self._child = ChildProcess(partial(_start_process, self._model))
        self._turns = FairLock()
        self._waking = threading.Lock()
        self._idle = IdleTimer(idle_s, self._end_if_idle)

    @property
    def name(self) -> str:
        return self._name

    def find_mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        """Find the names in each text. Raises ModelUnavailable if the model cannot be loaded."""
        spans = self._request("mentions", texts)
        return [tuple(Mention(*fields) for fields in of_text) for of_text in spans]

    def find_entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        """Find the entities in each text. Raises ModelUnavailable if the model cannot be loaded."""
        spans = self._request("entities", texts)
        return [tuple(Entity(*fields) for fields in of_text) for of_text in spans]

    def wake(self) -> None:
        """Start the process if it is not running. Call this before a text is expected. Does not
        wait.
        """
        if not (self._child.is_running or self._waking.locked()):
            threading.Thread(target=self._wake, name="wake", daemon=True).start()

    def _wake(self) -> None:
        with self._waking:
            try:
                self._request("mentions", [])
            except ModelUnavailable as error:  # The next text raises the error again.
                log.warning("the spaCy model cannot be started", why=str(error))

    def _request(self, task: str, texts: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        with self._turns:
            try:
                reply = self._exchange(task, texts)
            except (OSError, ValueError):
                # The process died. Send the texts once more, to a new process.
                self._child.end()
                reply = self._retry(task, texts)
            finally:
                self._idle.restart()
        if "why" in reply:
            raise _make_error(self._model, reply["why"])
        found: list[list[tuple[Any, ...]]] = reply["found"]
        return found

    def _retry(self, task: str, texts: Sequence[str]) -> dict[str, Any]:
        try:
            return self._exchange(task, texts)
        except (OSError, ValueError) as error:
            self._child.end()
            raise _make_error(
                self._model, f"the process of the spaCy model ended: {error}"
            ) from error

    def _exchange(self, task: str, texts: Sequence[str]) -> dict[str, Any]:
        """Send texts and receive the reply. Raises OSError or ValueError if the process died."""
        process = self._child.get()
        requests, replies = process.stdin, process.stdout
        assert requests and replies, "the process was started with pipes"
        requests.write(json.dumps([task, [*texts]]).encode() + b"\n")
        requests.flush()
        reply: dict[str, Any] = json.loads(replies.readline())
        return reply

    def close(self) -> None:
        """End the process. The next text starts it again."""
        self._idle.cancel()
        self._child.end()

    def _end_if_idle(self) -> None:
        with self._turns:
            if self._idle.has_expired:
                self._child.end()


def _start_process(model: str) -> Process:
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
    command = [sys.executable, "-P", "-m", "hopsyncd.models.language_process", model]
    return start_child(command, environment)


def find_pipeline_folder(model: str) -> Path:
    """Return the folder of a spaCy model, given as "default", an installed package or a folder."""
    model = DEFAULT_MODEL if model == "default" else model
    package = None if Path(model).is_dir() else find_spec(model)
    folders = (package and package.submodule_search_locations) or [model]
    return Path(folders[0])


def _read_meta(model: str) -> dict[str, str]:
    """Read the meta.json of a spaCy model. Raises ModelUnavailable."""
    try:
        meta: dict[str, str] = json.loads((find_pipeline_folder(model) / "meta.json").read_bytes())
    except (OSError, ImportError, ValueError) as error:
        raise _make_error(model, str(error)) from error
    return meta


def _make_error(model: str, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"Cannot load the spaCy model {model}",
        why.splitlines()[0],
        'Install the spaCy model, or set models.language_model to "default"',
    )
