"""What can be configured for files, mail and web pages; apart from their code, to load fast."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from connectors.ignore import DEFAULT_INCLUDE, Rules

DEFAULT_MAX_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The patterns are those of .gitignore, relative to the top of the tree."""

    include: tuple[str, ...] = DEFAULT_INCLUDE
    ignore: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    index_secrets: bool = False
    max_bytes: int = DEFAULT_MAX_BYTES

    def rules(self) -> Rules:
        """Raises ValueError for a pattern that is none."""
        return Rules(self.include, self.ignore, self.deny, self.index_secrets)


Tls = Literal["tls", "starttls", "off"]

DEFAULT_MAX_MESSAGE_BYTES = 25 * 1024 * 1024
DEFAULT_FOLDERS = ("*", "!*[Tt]rash*", "!*[Jj]unk*", "!*[Ss]pam*", "!*[Dd]raft*")


@dataclass(frozen=True, slots=True)
class ImapSettings:
    """An account. The password is in the environment variable `password_env`.

    `ca_file` names certificates to trust in place of the system's. `folders` are shell patterns,
    one after `!` leaves out; what the server marks as trash, junk, drafts or "all mail" is left out
    unless a pattern is its very name. `timeout_s` is how long the server may say nothing, `limit_s`
    what a listing or a message may take in all.
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


DEFAULT_MAX_PAGE_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Where to begin and how far to go.

    `depth` 1 takes in the pages that start pages link to as well; sitemaps and feeds are followed
    in any case. Only pages at the hosts of `start` and those that the shell patterns of `hosts` fit
    are visited. `allow_private` lets addresses of this machine and its network be asked.
    """

    start: tuple[str, ...]
    depth: Literal[0, 1] = 0
    hosts: tuple[str, ...] = ()
    max_pages: int = 500
    max_bytes: int = DEFAULT_MAX_PAGE_BYTES
    delay_s: float = 1.0
    timeout_s: float = 30.0
    allow_private: bool = False
