"""The settings of file, mail and web sources, without their code so that they load fast."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from connectors.ignore import DEFAULT_INCLUDE, Rules

DEFAULT_MAX_BYTES = 10 * 1024 * 1024
DEFAULT_MAX_MESSAGE_BYTES = 25 * 1024 * 1024
DEFAULT_MAX_PAGE_BYTES = 5 * 1024 * 1024
DEFAULT_FOLDERS = ("*", "!*[Tt]rash*", "!*[Jj]unk*", "!*[Ss]pam*", "!*[Dd]raft*")

Tls = Literal["tls", "starttls", "off"]


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Which files of a tree are documents, by .gitignore patterns relative to its root."""

    include: tuple[str, ...] = DEFAULT_INCLUDE
    ignore: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    index_secrets: bool = False
    max_bytes: int = DEFAULT_MAX_BYTES

    def rules(self) -> Rules:
        """The rules that these settings make. Raises ValueError for an invalid pattern."""
        return Rules(self.include, self.ignore, self.deny, self.index_secrets)


@dataclass(frozen=True, slots=True)
class ImapSettings:
    """An IMAP account. The password is in the environment variable `password_env`.

    `ca_file` holds the certificates to trust instead of the system's. `folders` are shell patterns;
    one after `!` excludes. What the server marks as trash, junk, drafts or "all mail" is excluded
    unless a pattern names it exactly. `timeout_s` is how long the server may be silent, `limit_s`
    how long a whole listing or message may take.
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
    """Where to begin and how far to go.

    With `depth` 1, the pages that start pages link to are included; sitemaps and feeds are always
    followed. Only pages at the hosts of `start` and at hosts that match the shell patterns `hosts`
    are visited. `allow_private` permits requests to this machine and its network.
    """

    start: tuple[str, ...]
    depth: Literal[0, 1] = 0
    hosts: tuple[str, ...] = ()
    max_pages: int = 500
    max_bytes: int = DEFAULT_MAX_PAGE_BYTES
    delay_s: float = 1.0
    timeout_s: float = 30.0
    allow_private: bool = False
