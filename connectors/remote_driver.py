"""Calls an fsspec file system with a time limit, and translates its drivers' errors.

Errors about a single path are raised unchanged: FileNotFoundError, NotADirectoryError and
PermissionError. All other errors become SourceUnavailable, because drivers raise the errors of many
libraries.
"""

import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from connectors.protocol import SourceUnavailable

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

_T = TypeVar("_T")
Facts = dict[str, Any]

EXTRAS: dict[str, str] = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gcs", "gs"), "gcs"),
    **dict.fromkeys(("az", "abfs"), "azure"),
    **dict.fromkeys(("sftp", "ssh"), "sftp"),
    **{protocol: protocol for protocol in ("smb", "webdav", "github")},
}
"""The extra of hopsyncd that installs the driver for a protocol."""

_OF_ONE_PATH = (FileNotFoundError, NotADirectoryError, PermissionError)
_SECRET_OPTION = re.compile(
    "secret|pass|key|token|credential|auth|connection_string|sas", re.IGNORECASE
)
_MOST_STUCK = 3


def check_url(url: str) -> str:
    """Return the address unchanged. Raises ValueError unless fsspec supports the address.

    >>> check_url("s3://bucket/notes")
    's3://bucket/notes'
    """
    import fsspec  # slow, and most commands do not need it

    scheme, separator, _ = url.partition("://")
    if not separator or not url.isprintable():
        raise ValueError("not an address such as s3://bucket/folder")
    if "::" in scheme or "::" in url.partition("/")[2].replace("[::", "["):
        raise ValueError("chained addresses (`::`) are not supported")
    if scheme not in fsspec.available_protocols():
        raise ValueError(f"fsspec has no driver for {scheme}://")
    if urlsplit(url).password is not None and scheme != "github":
        raise ValueError("the address contains a password, which belongs in `options`")
    return url


@dataclass(slots=True)
class Driver:
    """The file system at a URL. Connects on the first call, and again after a call that hung.

    `options` are passed to the fsspec driver. A call that takes longer than `limit_s` is abandoned,
    but its thread cannot be ended. While three such threads run, further calls fail at once.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limit_s: float = 60.0
    _system: "AbstractFileSystem | None" = field(default=None, repr=False)
    _root: str = ""
    _stuck: list[threading.Thread] = field(default_factory=list, repr=False)

    def get_root(self) -> str:
        """Return the driver's path for the URL, without a final `/`."""
        self._connect_once()
        return self._root

    def forget(self) -> None:
        """Clear the driver's cache of folders and files."""
        self._connect_once().invalidate_cache()

    def list_facts(self, folder: str) -> list[Facts]:
        """Return the driver's information about each entry of a folder."""
        system = self._connect_once()
        entries = self._call_with_limit(lambda: system.ls(folder, detail=True))
        if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
            raise self.unavailable_error(
                "the fsspec driver did not return a list of files", "Check `url` of this source."
            )
        return entries

    def read_facts(self, path: str) -> Facts:
        """Return the driver's information about a path. Call `forget` first for current facts."""
        system = self._connect_once()
        entry = self._call_with_limit(lambda: system.info(path))
        if not _is_entry(entry):
            raise self.unavailable_error(
                "the fsspec driver did not describe a file", "Check `url` of this source."
            )
        return dict(entry)

    def read(self, path: str, max_bytes: int) -> bytes:
        system = self._connect_once()

        def read() -> bytes:
            with system.open(path, "rb") as file:
                return bytes(file.read(max_bytes))

        return self._call_with_limit(read)

    def unavailable_error(self, why: str, hint: str) -> SourceUnavailable:
        return SourceUnavailable(f"Cannot read {self.url}", why, hint)

    def _connect_once(self) -> "AbstractFileSystem":
        if self._system is None:
            self._system, self._root = self._call_with_limit(self._connect)
        return self._system

    def _connect(self) -> "tuple[AbstractFileSystem, str]":
        from fsspec.core import url_to_fs
        from fsspec.dircache import DirCache

        system, root = url_to_fs(self.url, **{**self.options, "skip_instance_cache": True})
        # Some drivers would pass this option to a library that does not support it.
        if isinstance(system.dircache, DirCache):
            system.dircache.use_listings_cache = False
        return system, root.rstrip("/")

    def _call_with_limit(self, call: Callable[[], _T]) -> _T:
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        if len(self._stuck) >= _MOST_STUCK:
            raise self.unavailable_error(
                "the server does not answer, and earlier requests are still pending",
                "Check the network. If the error persists, restart the daemon.",
            )
        result: queue.SimpleQueue[tuple[_T | None, Exception | None]] = queue.SimpleQueue()
        thread = threading.Thread(target=_put_result, args=(call, result), daemon=True)
        thread.start()
        try:
            value, error = result.get(timeout=self.limit_s)
        except queue.Empty as late:
            self._stuck.append(thread)
            self._system = None
            raise self.unavailable_error(
                f"the server did not answer within {self.limit_s:.0f} s",
                "Check the network, or raise `timeout_s`. The next scan tries again.",
            ) from late
        if error is not None:
            raise (
                error if isinstance(error, _OF_ONE_PATH) else self._translate_error(error)
            ) from error
        return value  # type: ignore[return-value]

    def _translate_error(self, error: Exception) -> SourceUnavailable:
        if isinstance(error, SourceUnavailable):
            return error
        why = " ".join(f"{type(error).__name__}: {error}".split())
        for secret in _find_secrets(self.options):
            why = why.replace(secret, "***")
        protocol = self.url.partition("://")[0]
        if not isinstance(error, ImportError):
            hint = "Check the network, `url` and `options`. The next scan tries again."
        else:
            hint = install_hint(protocol)
        return self.unavailable_error("".join(filter(str.isprintable, why))[:300].rstrip("."), hint)


def install_hint(protocol: str) -> str:
    if protocol in EXTRAS:
        return f"Install the driver: pip install 'hopsyncd[{EXTRAS[protocol]}]'."
    return "Install the missing driver with pip."


def _put_result(
    call: Callable[[], _T], result: "queue.SimpleQueue[tuple[_T | None, Exception | None]]"
) -> None:
    try:
        result.put((call(), None))
    except Exception as error:  # noqa: BLE001 - the edge of a thread: raised where it is awaited
        result.put((None, error))


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str)


def _find_secrets(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of options whose names suggest secrets, including those in nested options
    and lists."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _find_secrets(value)
        elif _SECRET_OPTION.search(name):
            values = value if isinstance(value, list | tuple) else (value,)
            yield from (value for value in values if isinstance(value, str) and value)
