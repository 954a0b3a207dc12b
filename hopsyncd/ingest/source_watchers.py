"""The watches of all configured folders: each change becomes a change event for the worker."""

from collections.abc import Callable, Sequence
from functools import partial

from connectors.folder import widen_changed_ids
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import FolderSource, SourceConfig
from hopsyncd.ingest.connect import folder_of
from hopsyncd.ingest.watch import FolderWatcher, WatchStatus

OnChange = Callable[[str, Sequence[str] | None], None]


class SourceWatchers:
    """`on_change` takes the name of a source, and below which of its paths something changed."""

    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change
        self._watchers: dict[str, FolderWatcher] = {}

    @property
    def names(self) -> set[str]:
        """The sources that are watched."""
        return {*self._watchers}

    def status(self, name: str) -> WatchStatus | None:
        """How the watch of a source is; None if it has none."""
        watcher = self._watchers.get(name)
        return watcher.status() if watcher else None

    def watch(self, source: SourceConfig, config: Config) -> None:
        """Watch a source if it is a folder and the configuration wants that."""
        if config.watch.enabled and isinstance(source, FolderSource):
            is_noise = folder_of(source, config).is_noise
            watcher = FolderWatcher(config.watch.debounce_ms / 1000, skip=is_noise)
            watcher.watch(source.path, partial(self._pass_on, source.name))
            self._watchers[source.name] = watcher

    def unwatch(self, name: str) -> None:
        if watcher := self._watchers.pop(name, None):
            watcher.stop()

    def stop(self) -> None:
        for watcher in [*self._watchers.values()]:
            watcher.stop()

    def _pass_on(self, source: str, paths: Sequence[str] | None) -> None:
        wide = None if paths is None else widen_changed_ids(paths)
        self._on_change(source, wide)
        if wide is None and paths:
            self._on_change(source, paths)
