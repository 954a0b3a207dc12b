"""Defines the settings of file, mail and web sources, and normalizes web addresses.

The connectors are in other modules, so that importing the settings is fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from connectors.ignore import DEFAULT_INCLUDE, TABLES, Rules
from connectors.mail import DEFAULT_MAX_MESSAGE_BYTES
from connectors.media_type import is_table_name
from connectors.regular_file import describe_too_large

DEFAULT_MAX_BYTES = 10 * 1024 * 1024
DEFAULT_MAX_PAGE_BYTES = 5 * 1024 * 1024
DEFAULT_FOLDERS = ("*", "!*[Tt]rash*", "!*[Jj]unk*", "!*[Ss]pam*", "!*[Dd]raft*")

_MAX_ADDRESS = 2000
_PORTS = {"http": 80, "https": 443}
_SAFE = "!$&'()*+,;=:@/?%-._~[]"

Tls = Literal["tls", "starttls", "off"]

MAX_TABLE_BYTES = 1 << 20
"""The size limit for CSV and TSV files. Larger files are mostly data, with too many passages."""


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Selects the files of a folder that are documents, by .gitignore patterns relative to the
    folder.

    `include` may contain `@text`, `@documents`, `@tables`, `@images` and `@scripts`. `deny` adds
    patterns to the built-in secrets. If `index_secrets` is true, neither `deny` nor the built-in
    secrets apply. A name that matches `not_secret` is not a secret, unless it matches `deny`.
    """

    include: tuple[str, ...] = DEFAULT_INCLUDE
    ignore: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    index_secrets: bool = False
    not_secret: tuple[str, ...] = ()
    max_bytes: int = DEFAULT_MAX_BYTES

    def describe_size_problem(self, id_: str, size_bytes: int) -> tuple[str, str] | None:
        """Return why a file is too large and what to do, or None if it is not too large.

        The limit is lower for CSV and TSV files, unless a pattern in `include` names them.
        """
        if size_bytes > self.max_bytes:
            return describe_too_large(size_bytes, self.max_bytes)
        if size_bytes <= MAX_TABLE_BYTES or not is_table_name(id_) or TABLES not in self.include:
            return None
        suffix = id_.lower().rpartition(".")[2]
        if any(line.lower().endswith(f".{suffix}") for line in self.include):
            return None
        return (
            f"the table has {size_bytes:,} bytes; the limit for CSV and TSV is {MAX_TABLE_BYTES:,}",
            f'Add "*.{suffix}" to `include` of the source in config.toml to read the table, or add'
            " the table to `ignore`.",
        )

    def build_rules(self) -> Rules:
        return Rules(self.include, self.ignore, self.deny, self.index_secrets, self.not_secret)


@dataclass(frozen=True, slots=True)
class ImapSettings:
    """An IMAP account. The environment variable named in `password_env` contains the password.

    `ca_file` contains the certificates to trust instead of the system's. `folders` are shell
    patterns; a pattern that begins with `!` excludes folders. Folders that the server marks as
    trash, junk, drafts or "all mail" are excluded unless a pattern names them exactly. `timeout_s`
    limits how long the server may be silent, and `limit_s` how long a whole listing or message may
    take.
    """

    host: str
    user: str
    password_env: str
    port: int = 993
    tls: Tls = "tls"
    ca_file: Path | None = None
    folders: tuple[str, ...] = DEFAULT_FOLDERS
    max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    timeout_s: float = 30.0
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The start addresses of a web source, and which links to follow.

    With `depth` 1, the pages to which start pages link are included. Sitemaps and feeds are always
    followed. Only pages on the hosts of `start`, and on hosts that match the shell patterns
    `hosts`, are visited. `allow_private` permits requests to this machine and its network.
    """

    start: tuple[str, ...]
    depth: Literal[0, 1] = 0
    hosts: tuple[str, ...] = ()
    max_pages: int = 500
    max_bytes: int = DEFAULT_MAX_PAGE_BYTES
    delay_s: float = 1.0
    timeout_s: float = 30.0
    allow_private: bool = False


def normalise_address(text: str, base: str = "") -> str | None:
    """Return a link as a canonical address without fragment, or None if it is not an http or https
    address.

    >>> normalise_address("../B c#top", "HTTP://Example.org:80/a/d/e.html")
    'http://example.org/a/B%20c'
    >>> normalise_address("mailto:ann@example.org", "http://example.org/") is None
    True
    """
    try:
        parts = urlsplit(urljoin(base, text.strip()))
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        if scheme not in _PORTS or not host or parts.username is not None:
            return None
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError:
        return None
    if any(ord(character) <= 32 or character in '"<>\\^`{|}/?#@' for character in name):
        return None
    name = f"[{name}]" if ":" in name else name
    place = name if port in (None, _PORTS[scheme]) else f"{name}:{port}"
    path, query = quote(parts.path or "/", _SAFE), quote(parts.query, _SAFE)
    url = urlunsplit((scheme, place, path, query, ""))
    return url if len(url) <= _MAX_ADDRESS else None


def get_host(url: str) -> str:
    """Return the host and port that identify a site, without `www.`.

    >>> get_host("https://www.example.org/a"), get_host("http://localhost:8080/")
    ('example.org', 'localhost:8080')
    """
    return urlsplit(url).netloc.removeprefix("www.")


def is_on_host(url: str, hosts: Sequence[str]) -> bool:
    """Whether the address is on one of the hosts, which may be shell patterns."""
    return any(fnmatchcase(get_host(url), host) for host in hosts)
