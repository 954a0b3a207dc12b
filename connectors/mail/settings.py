"""What can be chosen about mail. Apart from its code: reading it all is quick."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Tls = Literal["tls", "starttls", "off"]

DEFAULT_MAX_BYTES = 25 * 1024 * 1024
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
    max_bytes: int = DEFAULT_MAX_BYTES
    timeout_s: float = 30.0
    limit_s: float = 600.0
