"""Reads the original text of a document's file."""

from connectors.folder import FolderConnector
from connectors.protocol import ConnectorError, Item
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import FolderSource
from hopsyncd.errors import DocumentUnreadable, NotFound
from hopsyncd.formats.decode import decode
from store.contract import Connection
from store.reads import read_live_document
from store.records import hash_content
from store.sources import read_source_names

_MOST_BYTES = 1 << 20


def read_file_text(connection: Connection, config: Config, source: str, path: str) -> str:
    """Read the file of a document of the newest version.

    Raises NotFound if no folder source has the document, if it is not a text file or is too long,
    or if its file has changed since it was indexed.
    """
    numbers = [number for number, name in read_source_names(connection).items() if name == source]
    document = read_live_document(connection, numbers[0], path) if numbers else None
    if document is None:
        raise no_folder_document_error(source, path)
    if not document.media_type.startswith("text/"):
        raise no_file_error(source, path, "the document is not a text file")
    data = read_indexed_file(config, source, path, document.content)
    if len(data) > _MOST_BYTES:
        raise no_file_error(source, path, f"the file is longer than {_MOST_BYTES:,} bytes")
    try:
        return decode(data)
    except DocumentUnreadable as error:
        raise no_file_error(source, path, error.why) from error


def read_indexed_file(config: Config, source: str, path: str, content: bytes) -> bytes:
    """Read a file in a folder source. Raises NotFound unless its hash is `content`."""
    folder = next((configured for configured in config.sources if configured.name == source), None)
    if not isinstance(folder, FolderSource):
        raise no_folder_document_error(source, path)
    try:
        data = FolderConnector(folder.path).fetch(Item(path, "")).data
    except ConnectorError as error:
        raise no_file_error(source, path, error.why) from error
    if hash_content(data) != content:
        raise no_file_error(source, path, "the file has changed since it was indexed")
    return data


def no_file_error(source: str, path: str, why: str) -> NotFound:
    """Create the error for a document whose file cannot be shown."""
    hint = "`GET /v1/document` returns the passages of the document"
    return NotFound(f"Cannot show the file {source}/{path}", why, hint)


def no_folder_document_error(source: str, path: str) -> NotFound:
    """Create the error for a document that no folder source has."""
    return NotFound(
        f"Cannot show the file {source}/{path}",
        "no folder source has an indexed document with this path",
        "Copy source and path from a search result. `GET /v1/document` also shows documents that"
        " are not files in a folder",
    )
