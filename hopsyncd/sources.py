"""From a configured source to the connector that lists and fetches it."""

import hashlib
from importlib.metadata import entry_points
from typing import Any

from connectors.folder import FolderConnector
from connectors.git_mirror import Mirror
from connectors.git_program import Repository
from connectors.protocol import Connector
from hopsyncd.config import Config
from hopsyncd.config_sources import (
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
from hopsyncd.errors import ConfigError

_COMMON = set(SourceBase.model_fields)


def connector_of(source: SourceConfig, config: Config) -> Connector:
    """What lists and fetches a configured source. Raises ConfigError for a bad third-party kind.

    Each kind is imported where it is configured: some bring libraries that a start would wait for.
    """
    match source:
        case FolderSource():
            return folder_of(source, config)
        case GitSource():
            from connectors.git import GitConnector, GitSettings

            settings = GitSettings(branch=source.branch, **_files_of(source))
            return GitConnector(_repository_of(source, config), settings)
        case RemoteSource():
            from connectors.remote import RemoteConnector, RemoteSettings
            from connectors.remote_driver import Driver

            driver = Driver(source.url, source.options, source.timeout_s)
            return RemoteConnector(driver, RemoteSettings(**_files_of(source)))
        case SqliteSource():
            from connectors.sqlite import SqliteConnector, SqliteSettings

            return SqliteConnector(SqliteSettings(**source.model_dump(exclude=_COMMON)))
        case MaildirSource():
            from connectors.mail.maildir import MaildirConnector

            return MaildirConnector(source.path, source.folders, source.max_bytes)
        case MboxSource():
            from connectors.mail.mbox import MboxConnector

            return MboxConnector(source.path, source.max_bytes)
        case ImapSource():
            from connectors.mail.imap import ImapConnector
            from connectors.mail.settings import ImapSettings

            return ImapConnector(ImapSettings(**source.model_dump(exclude=_COMMON)))
        case WebSource():
            from connectors.web.connector import WebConnector
            from connectors.web.settings import WebSettings

            return WebConnector(WebSettings(**source.model_dump(exclude=_COMMON)))
        case PluginSource():
            return _of_package(source)


def folder_of(source: FolderSource, config: Config) -> FolderConnector:
    """The connector of a folder, which never lists hopsyncd's own files."""
    return FolderConnector(
        source.path,
        source.include,
        source.ignore,
        source.max_bytes,
        (config.daemon.data_dir, config.daemon.socket.parent),
        deny=source.deny,
        index_secrets=source.index_secrets,
    )


def _files_of(source: FilesSource) -> dict[str, Any]:
    """Which files are documents, as settings."""
    return {name: getattr(source, name) for name in FilesSource.model_fields.keys() - _COMMON}


def _repository_of(source: GitSource, config: Config) -> Mirror | Repository:
    """The repository here, or the mirror of a remote one, in a folder named for its url."""
    if source.path is not None:
        return Repository(source.path, source.location, source.timeout_s)
    name = hashlib.sha256(f"{source.url} {source.branch}".encode()).hexdigest()[:16]
    return Mirror(
        source.url,
        config.daemon.data_dir / "git" / f"{name}.git",
        source.token,
        source.username,
        source.depth,
        source.max_repository_bytes,
        source.timeout_s,
    )


def _of_package(source: PluginSource) -> Connector:
    (entry,) = entry_points(group=PLUGIN_GROUP, name=source.kind)
    try:
        connector: Connector = entry.load()(source.settings)
    except Exception as error:
        raise ConfigError(
            f'The source "{source.name}" cannot be used',
            f"its connector {entry.value} failed: {type(error).__name__}: {error}",
            "Correct its table in config.toml, or the package that brings the connector.",
        ) from error
    return connector


def settings_of(source: SourceConfig) -> str:
    """A digest of what decides which items the source has: with another, its cursor is void."""
    told = source.model_dump_json(exclude=_COMMON - {"kind"})
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()
