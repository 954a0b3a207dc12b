"""Loads the models of a changed configuration, while the daemon answers with the current models."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from hopsyncd.api.serving import ServingState
from hopsyncd.config.configuration import Config
from hopsyncd.errors import ModelUnavailable
from hopsyncd.ingest.source_scheduler import promise
from hopsyncd.models.loading import Models

Result = TypeVar("Result")


class ModelReload:
    """Loads models for a reload. `load` takes a configuration and the generation in use."""

    def __init__(self, load: Callable[[Config, str], Models]) -> None:
        self._load = load
        self._former: list[Models] = []

    def load(self, state: ServingState, wanted: Config) -> Models | None:
        """Load the models of the new configuration. Returns None if they are unchanged or need a
        restart.

        They need a restart if they cannot use the stored vectors, or if several daemons share the
        database. Loading takes seconds, or minutes if a model must be prepared. Raises
        ModelUnavailable or ConfigError if the models cannot be used.
        """
        if not has_other_models(state.config, wanted):
            return None
        try:
            in_use = state.models.maker.generation.name
        except ModelUnavailable:  # the endpoint never answered, so nothing is indexed yet
            return None
        config = state.config.model_copy(update={"models": wanted.models, "llm": wanted.llm})
        models = self._load(config, in_use)
        if models.maker.generation.name == in_use:
            return models
        models.close()
        return None

    def retire(self, models: Models) -> None:
        """Keep models that requests may still use, until the daemon ends."""
        self._former.append(models)

    def close(self) -> None:
        """Cancel the requests of retired models to their endpoints."""
        for models in self._former:
            models.close()


def has_other_models(config: Config, wanted: Config) -> bool:
    """Whether the new configuration has different models that a reload can load."""
    changed = (config.models, config.llm) != (wanted.models, wanted.llm)
    return changed and not (config.store.url or wanted.store.url)


def run_in_thread(job: Callable[[], Result]) -> "Future[Result]":
    """Run a job on a new thread, which does not keep the process alive."""
    done: Future[Result] = promise()

    def run() -> None:
        try:
            done.set_result(job())
        except BaseException as error:  # noqa: BLE001 - raised again by the future
            done.set_exception(error)

    threading.Thread(target=run, name="models", daemon=True).start()
    return done
