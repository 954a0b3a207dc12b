"""The sessions of users who are logged in to the team's web interface. Kept only in memory.

A session has two secrets. The browser has the cookie, of which only the hash is stored. The web
interface sends the session's key to the daemon, which identifies the user by the key.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hopsyncd.config.access import PageRole

IDLE_S = 2 * 3600.0
LONGEST_S = 12 * 3600.0
MAX_SESSIONS = 1000
MAX_OF_ONE_PERSON = 8
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Person:
    """A logged-in user: the provider's name for the user, and the role from the configuration."""

    user: str
    role: PageRole
    groups: tuple[str, ...] = ()


@dataclass(eq=False)
class Session:
    """The login of a browser. Times are from the clock of Sessions, except that opened_s is Unix
    time.

    person: the user; None for a pasted token, which the daemon identifies. key: the secret that is
    sent to the daemon, or the pasted token. form_token: the secret in the session's forms.
    """

    user: str
    person: Person | None
    key: str
    cookie_sha256: str
    began_s: float
    used_s: float
    opened_s: float = field(default_factory=time.time)
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(_SECRET_BYTES))
    is_over: bool = False


class Sessions:
    """Stores a limited number of sessions. Only `find_user` is thread-safe.

    A session ends at logout, IDLE_S after its last use, LONGEST_S after its login, and when
    `has_ended` returns True for its user and opened_s.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        has_ended: Callable[[str, float], bool] = lambda user, opened_s: False,
    ) -> None:
        self._now_s = now_s
        self._has_ended = has_ended
        self._by_cookie: dict[str, Session] = {}
        self._by_key: dict[str, Session] = {}

    def open(self, user: str, person: Person | None, token: str = "") -> tuple[Session, str]:
        """Open a session. Also returns the value of its cookie, which is not stored.

        If the user has `MAX_OF_ONE_PERSON` sessions, the user's oldest session ends. If there are
        `MAX_SESSIONS` in total, the session that was unused for the longest time ends.
        """
        self._end_old()
        sessions = [session for session in self._by_cookie.values() if session.user == user]
        if len(sessions) >= MAX_OF_ONE_PERSON:
            self.end(min(sessions, key=lambda session: session.began_s))
        if len(self._by_cookie) >= MAX_SESSIONS:
            self.end(min(self._by_cookie.values(), key=lambda session: session.used_s))
        cookie, now_s = secrets.token_urlsafe(_SECRET_BYTES), self._now_s()
        key = token or f"page_{secrets.token_urlsafe(_SECRET_BYTES)}"
        new_session = Session(user, person, key, _digest(cookie), now_s, now_s)
        self._by_cookie[new_session.cookie_sha256] = new_session
        if person:
            self._by_key[key] = new_session
        return new_session, cookie

    def find(self, cookies: Iterable[str]) -> Session | None:
        """Return the session of the first cookie whose session is still open, or None."""
        for cookie in cookies:
            session = self._by_cookie.get(_digest(cookie))
            if session and self.is_open(session):
                return session
        return None

    def note_use(self, session: Session) -> None:
        """Record a use of the session. A session ends IDLE_S after its last use."""
        session.used_s = self._now_s()

    def is_open(self, session: Session) -> bool:
        """Return whether a session is still open. If the session has expired, end it."""
        if self._has_lapsed(session):
            self.end(session)
        return not session.is_over

    def _has_lapsed(self, session: Session) -> bool:
        now_s = self._now_s()
        is_old = now_s - session.used_s > IDLE_S or now_s - session.began_s > LONGEST_S
        return is_old or self._has_ended(session.user, session.opened_s)

    def end(self, session: Session) -> None:
        """End a session at once."""
        session.is_over = True
        self._by_cookie.pop(session.cookie_sha256, None)
        self._by_key.pop(session.key, None)

    def find_person(self, key: str) -> Person | None:
        """Return the user whose open session has this key, or None if no session has it."""
        session = self._by_key.get(key)
        return session.person if session and self.is_open(session) else None

    def find_user(self, user: str) -> Person | None:
        """Return the user with this name, in the role and with the groups of the newest open
        session. Thread-safe."""
        sessions = [
            session
            for session in [*self._by_key.values()]
            if session.user == user and session.person
        ]
        newest = max(sessions, key=lambda session: session.began_s, default=None)
        is_open = newest and not newest.is_over and not self._has_lapsed(newest)
        return newest.person if newest and is_open else None

    def _end_old(self) -> None:
        for session in list(self._by_cookie.values()):
            self.is_open(session)

    def __len__(self) -> int:
        return len(self._by_cookie)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
