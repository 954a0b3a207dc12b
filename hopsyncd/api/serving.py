"""The state that requests are answered from: one frozen value, which is replaced as a whole."""

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from hopsyncd.api.access_rules import AccessRules
from hopsyncd.config.configuration import Config
from hopsyncd.config.edit import Reloaded
from hopsyncd.models.loading import Models
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from store.contract import Connection
from store.sources import source_names


@dataclass(frozen=True, slots=True)
class ServingState:
    """All that is in force at one moment. `reloaded` has the result of the last reload."""

    config: Config
    models: Models
    engine: Engine
    access: AccessRules
    reloaded: Reloaded

    @property
    def asker(self) -> Asker:
        models, tokens = self.models, self.config.llm.tokens_per_question
        return Asker(self.engine, models.encoder, models.language, models.llm, tokens)

    @property
    def answering(self) -> tuple[Engine, Asker]:
        return self.engine, self.asker

    @property
    def version(self) -> int:
        """The number of the served version; 0 before the first one."""
        return self.engine.head.version.id if self.engine.head else 0


class Serving:
    """Holds the state in force. A request that needs several parts of it reads `state` once."""

    def __init__(self, state: ServingState) -> None:
        self._state = state
        self._lock = threading.Lock()  # for changes; readers need none

    @property
    def state(self) -> ServingState:
        return self._state

    def change(self, **changes: Any) -> None:
        """Replace these fields of the state, all at once."""
        with self._lock:
            before, self._state = self._state, replace(self._state, **changes)
            state = self._state
        if state.access != before.access:
            state.engine.expect(state.access.masks())


class SourceNames:
    """The names of the sources. `removed` are those removed though they are still configured."""

    def __init__(self, serving: Serving, removed: Collection[str]) -> None:
        self._serving = serving
        self.removed = removed

    @property
    def configured(self) -> list[str]:
        """In the order of the configuration, without the removed sources."""
        sources = self._serving.state.config.sources
        return [source.name for source in sources if source.name not in self.removed]

    def list_known(self, connection: Connection) -> set[str]:
        """The names of all configured or stored sources."""
        configured = {source.name for source in self._serving.state.config.sources}
        return configured | {*source_names(connection).values()}

    def list_visible(self, acl: Acl = EVERYTHING) -> set[str]:
        """The names of all configured or stored sources that may be seen."""
        with self._serving.state.engine.reading() as (connection, _):
            return {name for name in self.list_known(connection) if acl.shows(name)}
