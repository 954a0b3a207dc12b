"""Defines the roles with their rights, and stores the tokens of users who connect over TCP.

An endpoint declares the right that it needs (api/endpoints.py), and a caller has one role. A token
names its user, the role, and the sources that it is limited to. Tokens are in a file of the daemon,
not in the database: a copied or restored database must not give access or make a revoked token
valid again.

A token is `hops_ID_SECRET`. The ID is public and identifies the token in the file, which has the
SHA-256 of the SECRET. Passwords need slow hashes, because people choose weak passwords. The SECRET
is 256 random bits, which nobody can guess at any speed.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

import structlog
from pydantic import TypeAdapter, ValidationError

from hopsyncd.config.configuration import Config
from hopsyncd.config.secret_file import SECRET_BYTES, hold_lock_of, read_secret, replace_private
from hopsyncd.errors import ConfigError, NotFound, SocketRefused

Right = Literal["health", "metrics", "read", "write", "admin", "owner"]
Role = Literal["owner", "admin", "write", "read", "metrics"]

RIGHTS: Mapping[Role, frozenset[Right]] = {
    "owner": frozenset({"health", "metrics", "read", "write", "admin", "owner"}),
    "admin": frozenset({"health", "metrics", "read", "write", "admin"}),
    "write": frozenset({"health", "read", "write"}),
    "read": frozenset({"health", "read"}),
    "metrics": frozenset({"health", "metrics"}),
}
LIMITED_ROLES: frozenset[Role] = frozenset({"read", "write"})
"""The roles that can be limited to some sources."""

log = structlog.get_logger(__name__)

FILE_NAME = "tokens.json"  # the file in the data_dir
_USES_NAME = "token-uses.json"  # the file in the data_dir
_FORMER_NAMES = ("token", "token-metrics", "token-read", "token-owner")
TOKEN_START = b"hops_"
_TOKEN = re.compile(r"hops_(?P<id>[0-9a-f]{8})_(?P<secret>[\w-]{43})")
_NOTED_EVERY_S = 60


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret. Times are Unix seconds.

    sources: the sources that the token is limited to; None means no limit. groups: the user's
    groups, for entries `group:NAME` of `visible_to`.
    """

    id: str
    user: str
    role: Role
    sources: tuple[str, ...] | None
    groups: tuple[str, ...]
    created_s: int
    expires_s: int | None
    sha256: str

    def is_expired(self, now_s: float) -> bool:
        return self.expires_s is not None and self.expires_s <= now_s


_FILE = TypeAdapter(list[Token])


class WrongToken(Exception):
    """The text is not a valid token.

    token_id: the id of the existing token that the text names, if there is one.
    """

    def __init__(self, why: str, token_id: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.token_id = token_id


class TokenCheck(Protocol):
    def find(self, sent_token: bytes) -> Token:
        """Return the token with this text. Raises WrongToken."""


class TokenFile:
    """The file of all tokens. Commands change the file, and the daemon reloads it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @classmethod
    def from_config(cls, config: Config) -> "TokenFile":
        return cls(config.access.token_file or config.daemon.data_dir / FILE_NAME)

    def read(self) -> list[Token]:
        """Read all tokens, in the order of creation.

        Raises ConfigError for a damaged file, and for a file that other users could have changed.
        The cause of the error is an OSError if reading failed.
        """
        what = f"Cannot read the tokens in {self._file}"
        try:
            with self._file.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            hint = f"Make yourself the owner of {self._file}, and run `chmod 600` on it"
            raise ConfigError(what, str(error.strerror).lower(), hint) from error
        advice = "Move the token file away, and create new tokens with `hopsyncd token create`"
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
            raise ConfigError(
                what, "other users can change the token file, and may have added tokens", advice
            )
        try:
            return _FILE.validate_json(content)
        except ValidationError:
            raise ConfigError(what, "the token file is not a list of tokens", advice) from None

    def add(
        self,
        user: str,
        role: Role,
        expires_s: int | None,
        sources: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> tuple[Token, str]:
        """Create a token. Also returns its text, which is not stored. Raises ConfigError."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        with self._changing() as tokens:
            ids = {token.id for token in tokens}
            new = next(new for new in iter(lambda: secrets.token_hex(4), "") if new not in ids)
            new_token = Token(
                new,
                user,
                role,
                tuple(sources) or None,
                tuple(groups),
                int(time.time()),
                expires_s,
                _digest(secret),
            )
            tokens.append(new_token)
        return new_token, f"hops_{new_token.id}_{secret}"

    def remove(self, is_wanted: Callable[[Token], bool], description: str) -> list[Token]:
        """Remove and return the tokens for which `is_wanted` is true.

        Raises NotFound if there is no such token. `description` describes the token in the message.
        """
        removed = self.remove_all(is_wanted)
        if not removed:
            raise NotFound(
                "Cannot revoke the token",
                f"there is no token {description}",
                "`hopsyncd token list` shows all tokens",
            )
        return removed

    def remove_all(self, is_wanted: Callable[[Token], bool]) -> list[Token]:
        """Remove the tokens for which `is_wanted` is true, and return them in a list."""
        with self._changing() as tokens:
            removed = [token for token in tokens if is_wanted(token)]
            tokens[:] = [token for token in tokens if not is_wanted(token)]
        return removed

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """Read the tokens, and write them back after the `with` block.

        Holds a lock, so other processes wait before they change the file.
        """
        with hold_lock_of(self._file, f"the tokens to {self._file}"):
            tokens = self.read()
            yield tokens
            replace_private(self._file, json.dumps([asdict(token) for token in tokens], indent=1))


class TokenUses:
    """Records when each token was last used, to the minute."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._used_s = self.read()

    @classmethod
    def from_config(cls, config: Config) -> "TokenUses":
        return cls(config.daemon.data_dir / _USES_NAME)

    def read(self) -> dict[str, int]:
        """Return when each token was last used, in Unix seconds, by token id.

        Returns {} if the file is missing or damaged.
        """
        with suppress(OSError, ValueError):
            uses = json.loads(self._file.read_bytes())
            if isinstance(uses, dict):
                return {str(name): used for name, used in uses.items() if isinstance(used, int)}
        return {}

    def note(self, token: Token, tokens: Sequence[Token], now_s: float) -> None:
        """Record a use of a token, and forget tokens that are not in `tokens`.

        Write errors, such as a full disk, are ignored.
        """
        if now_s - self._used_s.get(token.id, 0) < _NOTED_EVERY_S:
            return
        self._used_s[token.id] = int(now_s)
        ids = {token.id for token in tokens}
        self._used_s = {name: used for name, used in self._used_s.items() if name in ids}
        with suppress(OSError):
            replace_private(self._file, json.dumps(self._used_s, indent=1))


class Tokens:
    """The valid tokens of the daemon, which are reloaded when the file changes.

    If other users could change the file, no token is valid, because they could have added tokens.
    """

    def __init__(self, file: Path, uses: TokenUses, now_s: Callable[[], float] = time.time) -> None:
        self._file = file
        self._uses = uses
        self._now_s = now_s
        self._state: object = None
        self._by_id: dict[str, Token] = {}

    @classmethod
    def from_config(cls, config: Config) -> "Tokens":
        file = config.access.token_file or config.daemon.data_dir / FILE_NAME
        return cls(file, TokenUses.from_config(config))

    def find(self, sent_token: bytes) -> Token:
        """Return the token with this text. Raises WrongToken."""
        self._follow()
        parsed = _TOKEN.fullmatch(sent_token.decode("latin-1"))
        token = self._by_id.get(parsed["id"]) if parsed else None
        if parsed is None or token is None:
            raise WrongToken("this daemon has no such token")
        if not hmac.compare_digest(_digest(parsed["secret"]), token.sha256):
            raise WrongToken("the token has the wrong secret", token.id)
        if token.is_expired(self._now_s()):
            raise WrongToken("the token has expired", token.id)
        self._uses.note(token, [*self._by_id.values()], self._now_s())
        return token

    def find_valid(self, token_id: str) -> Token | None:
        """Return the token with this id, or None if it was revoked or has expired."""
        self._follow()
        token = self._by_id.get(token_id)
        return token if token and not token.is_expired(self._now_s()) else None

    def _follow(self) -> None:
        """Reload the tokens if the file has changed."""
        try:
            status = self._file.stat()
        except OSError:
            self._state, self._by_id = None, {}
            return
        state: object = (
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_mode,
            status.st_uid,
        )
        if state == self._state:
            return
        by_id = dict[str, Token]()
        try:
            by_id = {token.id: token for token in TokenFile(self._file).read()}
        except ConfigError as error:
            log.error("no token is valid, because the token file cannot be used", why=str(error))
            if isinstance(error.__cause__, OSError):
                state = None  # try again at the next request
        # The tokens come first, so that no other thread uses old tokens with the new state.
        self._by_id = by_id
        self._state = state


class OneToken:
    """The single token in a separate file, for `hopsyncd mcp --http`."""

    def __init__(self, file: Path, role: Role) -> None:
        self._file = file
        self._token = Token("", "the token's holder", role, None, (), 0, None, "")

    def find(self, sent_token: bytes) -> Token:
        """Return the token with this text. Raises WrongToken."""
        try:
            secret = read_secret(self._file)
        except SocketRefused as error:
            log.warning("the token file is ignored", file=str(self._file), why=error.why)
            secret = ""
        if secret and hmac.compare_digest(sent_token, secret.encode()):
            return self._token
        raise WrongToken("this daemon has no such token")


def warn_of_former_files(config: Config) -> None:
    """Log which token files of earlier versions still exist. They no longer give access."""
    names = [name for name in _FORMER_NAMES if (config.daemon.data_dir / name).is_file()]
    if names:
        log.warning(
            "token files of an earlier version no longer give access: make tokens with "
            "`hopsyncd token create`, and remove these files",
            folder=str(config.daemon.data_dir),
            files=names,
        )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
