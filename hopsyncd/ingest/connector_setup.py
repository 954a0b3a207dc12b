"""Creates the connectors of configured sources."""

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import structlog

from connectors.folder import FolderConnector
from connectors.git_program import Mirror, Repository
from connectors.ignore import DOCUMENTS, IMAGES
from connectors.protocol import Connector, Fetched, Found, Item, SourceUnavailable
from connectors.settings import FileSettings
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import (
    PLUGIN_GROUP,
    FilesSource,
    FolderSource,
    GitSource,
    ImapSource,
    MaildirSource,
    MboxSource,
    PluginSource,
    RemoteSource,
    SourceBase,
    SourceConfig,
    SqliteSource,
    WebSource,
)
from hopsyncd.formats.sandbox.tesseract import Tesseract, find_tesseract
from hopsyncd.ingest.plan import Source
from hopsyncd.ingest.source_thread import SourceThread, WriterThread
from store.contract import Connection
from store.sources import register_source

log = structlog.get_logger(__name__)

_STOP_CALLS_S = 2.0  # how long a stop waits for running calls to sources
_COMMON = set(SourceBase.model_fields)


def create_connector(source: SourceConfig, config: Config) -> Connector:
    """Create the connector of a configured source.

    If the connector cannot be created, returns an UnusableSource, which pauses the source at its
    next listing.
    """
    try:
        return _make_connector(with_pictures(source, config), config)
    except Exception as error:  # noqa: BLE001 - a package may raise anything; each listing reports it
        return UnusableSource(source.name, error)


def open_source(connection: Connection, source: SourceConfig, config: Config) -> Source:
    row_id = register_source(
        connection,
        source.name,
        source.kind,
        source.location,
        digest_settings(with_pictures(source, config)),
    )
    connector = create_connector(source, config)
    if isinstance(connector, UnusableSource):
        log.error("a connector cannot be created", source=source.name, exc_info=connector.error)
    caller = SourceThread(source.name) if is_slow(source) else WriterThread()
    return Source(row_id, source.name, connector, caller)


def close_sources(sources: Iterable[Source]) -> None:
    """Stop the calls to the sources, and close their connectors. A call that does not end within 2
    seconds is abandoned, and its connector stays open."""
    closing = list(sources)
    for source in closing:
        source.caller.end()
    end_s = time.monotonic() + _STOP_CALLS_S
    for source in closing:
        if not source.caller.has_ended(end_s - time.monotonic()):
            log.warning("a call to a source did not end in time", source=source.name)
            continue
        try:
            source.connector.close()
        except Exception as error:  # noqa: BLE001 - the others must be closed too
            log.warning("a connector cannot be closed", source=source.name, why=str(error))


def is_slow(source: SourceConfig) -> bool:
    """Return whether calls to the source may be slow. This is true for every source except folders.

    Callers also use this function to recognise sources without change events.
    """
    return not isinstance(source, FolderSource)


@dataclass(frozen=True, slots=True)
class UnusableSource:
    """Replaces a connector that could not be created. Each of its listings fails with
    the reason."""

    source: str
    error: Exception

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        raise self._make_error() from self.error

    def fetch(self, item: Item) -> Fetched:
        raise self._make_error() from self.error

    def close(self) -> None:
        """Do nothing, because no resource is open."""

    def _make_error(self) -> SourceUnavailable:
        return SourceUnavailable(
            f'Cannot use the source "{self.source}"',
            f"the source's connector cannot be created ({type(self.error).__name__}: {self.error})",
            "Correct the section of this source in config.toml, or install the missing package, and"
            " start the daemon again. The indexed documents stay searchable.",
        )


def _make_connector(source: SourceConfig, config: Config) -> Connector:
    """Create the connector of a source. Raises ConfigError if a third-party kind of source cannot
    be used.

    Only the configured kinds are imported, because some need libraries that load slowly.
    """
    match source:
        case FolderSource():
            return create_folder_connector(source, config)
        case GitSource():
            from connectors.git import GitConnector, GitSettings

            settings = GitSettings(branch=source.branch, **_make_file_settings(source))
            return GitConnector(_open_repository(source, config), settings)
        case RemoteSource():
            from connectors.remote import RemoteConnector
            from connectors.remote_driver import Driver

            driver = Driver(source.url, source.options, source.timeout_s)
            return RemoteConnector(driver, FileSettings(**_make_file_settings(source)))
        case SqliteSource():
            from connectors.sqlite_rows import SqliteConnector, SqliteSettings

            rows = SqliteSettings(**source.model_dump(exclude=_COMMON))
            return SqliteConnector(rows, never=(config.daemon.data_dir,))
        case MaildirSource():
            from connectors.mail.maildir import MaildirConnector

            return MaildirConnector(source.path, source.folders, source.max_bytes)
        case MboxSource():
            from connectors.mail.mbox import MboxConnector

            return MboxConnector(source.path, source.max_bytes)
        case ImapSource():
            from connectors.mail.imap import ImapConnector
            from connectors.settings import ImapSettings

            return ImapConnector(ImapSettings(**source.model_dump(exclude=_COMMON)))
        case WebSource():
            from connectors.settings import WebSettings
            from connectors.web.site import WebConnector

            return WebConnector(WebSettings(**source.model_dump(exclude=_COMMON)))
        case PluginSource():
            return _load_package(source)


def create_tesseract(config: Config) -> Tesseract | None:
    """Return Tesseract, or None if text recognition is off or Tesseract is not installed."""
    formats = config.formats
    return find_tesseract(formats.ocr_languages) if formats.ocr == "auto" else None


def with_pictures(source: SourceConfig, config: Config) -> SourceConfig:
    """Return the source with pictures added to its `include` patterns, if text in pictures can be
    recognized.

    Git repositories are returned unchanged, because most pictures in a repository are logos and
    screenshots.
    """
    if not isinstance(source, FilesSource) or isinstance(source, GitSource):
        return source
    if IMAGES in source.include:
        return source
    if DOCUMENTS not in source.include or not create_tesseract(config):
        return source
    documents = source.include.index(DOCUMENTS)
    include = (*source.include[:documents], IMAGES, *source.include[documents:])
    return source.model_copy(update={"include": include})


def create_folder_connector(source: FolderSource, config: Config) -> FolderConnector:
    """Create the connector of a folder.

    The connector excludes hopsyncd's own files, and mbox files that are configured as sources.
    """
    mailboxes = (source.path for source in config.sources if isinstance(source, MboxSource))
    never = config.daemon.data_dir, config.daemon.socket.parent, *mailboxes
    return FolderConnector(source.path, FileSettings(**_make_file_settings(source)), never)


def _make_file_settings(source: FilesSource) -> dict[str, Any]:
    return {name: getattr(source, name) for name in FilesSource.model_fields.keys() - _COMMON}


def _open_repository(source: GitSource, config: Config) -> Mirror | Repository:
    """Return the local repository, or the mirror of a remote repository."""
    if source.path is not None:
        return Repository(source.path, source.location, source.timeout_s)
    return Mirror(
        source.url,
        find_mirror_folder(source, config),
        source.token,
        source.username,
        source.depth,
        source.max_repository_bytes,
        source.timeout_s,
    )


def find_mirror_folder(source: GitSource, config: Config) -> Path:
    """Return the folder for the mirror of a remote repository, named after its URL and branch."""
    name = hashlib.sha256(f"{source.url} {source.branch}".encode()).hexdigest()[:16]
    return config.daemon.data_dir / "git" / f"{name}.git"


def _load_package(source: PluginSource) -> Connector:
    (entry,) = entry_points(group=PLUGIN_GROUP, name=source.kind)
    connector: Connector = entry.load()(source.settings)
    return connector


def digest_settings(source: SourceConfig) -> str:
    """Return a digest of the settings that select items. If the digest changes, cursors from
    earlier listings are invalid."""
    settings = source.model_dump_json(exclude=_COMMON - {"kind"})
    return hashlib.blake2b(settings.encode(), digest_size=16).hexdigest()
