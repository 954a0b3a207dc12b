"""Loads the models of a changed configuration, while the daemon answers with the current models."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog

from hopsyncd.api.access_rules import AccessRules
from hopsyncd.api.serving import Serving, ServingState
from hopsyncd.config.configuration import Config
from hopsyncd.config.edit import ConfigChange, Reloaded, compare_configs
from hopsyncd.config.privacy import configure_daemon_logs
from hopsyncd.errors import ModelUnavailable
from hopsyncd.ingest.source_scheduler import make_future
from hopsyncd.ingest.watch import SourceWatchers
from hopsyncd.models.loading import Models
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.contract import Connection
from store.sources import read_access_rules

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


class ModelReload:
    """Loads the models for a reload of the configuration.

    load: loads the models of a configuration, given the name of the generation in use.
    """

    def __init__(self, load: Callable[[Config, str], Models]) -> None:
        self._load = load
        self._former: list[Models] = []

    def load(self, state: ServingState, new_config: Config) -> Models | None:
        """Load the models of the new configuration.

        Returns None if the models are unchanged, or if only a restart can load them, because the
        models of the stored vectors cannot be loaded. Loading takes seconds, or minutes if a model
        must be prepared. Raises ModelUnavailable or ConfigError if the models cannot be used.
        """
        if not has_other_models(state.config, new_config):
            return None
        try:
            in_use = state.models.maker.generation.name
        except ModelUnavailable:  # the encoder's endpoint never answered, so nothing is indexed yet
            return None
        config = state.config.model_copy(
            update={"models": new_config.models, "llm": new_config.llm}
        )
        models = self._load(config, in_use)
        if models.maker.generation.name == in_use:
            return models
        models.close()
        return None

    def apply_following(
        self,
        serving: Serving,
        new_config: Config,
        models: Models | None,
        engine_of: Callable[[Config, Models, AccessRules], Engine],
        watchers: SourceWatchers,
        connection: Connection,
    ) -> ConfigChange:
        """Apply a configuration on the worker's thread while another daemon writes.

        `models` is the result of `load`. If the models are new, the stored vectors serve until a
        version has vectors of the new models. Only the writer changes the database.
        """
        state = serving.state
        if models:  # the writer may have switched to the new models already
            in_use = state.models.maker.generation.name
            models = models.choose_generation(in_use)
            models = models if models.maker.generation.name == in_use else None
        applied = compare_configs(state.config, new_config, with_models=models is not None)
        config = applied.config
        serving.change(
            config=config,
            access=AccessRules.from_config(config, read_access_rules(connection)),
            reloaded=Reloaded(restart_needed=applied.waiting),
        )
        state.engine.set_walk_settings(WalkSettings.from_config(config.query))
        if models:
            self.retire(state.models)
            # Running requests keep their engine.
            engine = engine_of(config, models, serving.state.access)
            if state.engine.head:
                engine.publish(state.engine.head)
            serving.change(models=models, engine=engine)
        serving.state.access.warn_of_closed(config.sources)
        configure_daemon_logs(config)
        names = {*applied.added, *applied.changed, *applied.removed}
        if config.watch != state.config.watch:
            names |= {source.name for source in (*state.config.sources, *config.sources)}
        watchers.rewatch(names, config)
        log.info("configuration applied", **applied.to_json(pending=False))
        return applied

    def retire(self, models: Models) -> None:
        """Keep models open until the daemon ends, because requests may still use them."""
        self._former.append(models)

    def close(self) -> None:
        """Cancel the requests of retired models to their endpoints."""
        for models in self._former:
            models.close()


def has_other_models(config: Config, new_config: Config) -> bool:
    """Return whether the new configuration has different models that a reload can load."""
    return (config.models, config.llm) != (new_config.models, new_config.llm)


def run_in_thread(job: Callable[[], Result]) -> "Future[Result]":
    """Run a job on a new thread, which does not keep the process alive."""
    future: Future[Result] = make_future()

    def run() -> None:
        try:
            future.set_result(job())
        except BaseException as error:  # noqa: BLE001 - raised again by the future
            future.set_exception(error)

    threading.Thread(target=run, name="models", daemon=True).start()
    return future
