"""Stores logins that have begun, until the provider redirects the browser back.

A cookie binds each login to the browser that began it, so a link with another user's code has no
effect. Each login can be completed once, within ten minutes.
"""

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from hopsyncd.client.trust import find_network

MAX_LOGINS = 2048
LONGEST_S = 600.0
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A login in progress.

    browser: the value of the browser's cookie. to: the requested path. address: the browser's
    address. network: the network of that address; if there are too many logins, they are counted
    by network.
    """

    state: str
    nonce: str
    verifier: str
    browser: str
    to: str
    address: str
    network: str
    began_s: float


class PendingLogins:
    """Stores a limited number of logins.

    At the limit, the oldest login of the network with the most logins is dropped.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._by_state: dict[str, PendingLogin] = {}  # ordered from the oldest to the newest

    def begin(self, to: str, address: str, cookies: Collection[str]) -> PendingLogin:
        """Begin a login for a browser. Logins in several tabs share the browser's cookie.

        to: the requested path. cookies: the values of the cookie that the browser sent.
        """
        self._forget_old()
        if len(self._by_state) >= MAX_LOGINS:
            counts = Counter(login.network for login in self._by_state.values())
            ((busiest, _),) = counts.most_common(1)
            self._by_state.pop(
                next(state for state, login in self._by_state.items() if login.network == busiest)
            )
        browsers = {login.browser for login in self._by_state.values()}
        browser = next((cookie for cookie in cookies if cookie in browsers), "") or _make_secret()
        new_login = PendingLogin(
            _make_secret(),
            _make_secret(),
            _make_secret(),
            browser,
            to,
            address,
            find_network(address),
            self._now_s(),
        )
        self._by_state[_digest(new_login.state)] = new_login
        return new_login

    def take(self, state: str, cookies: Collection[str]) -> PendingLogin | None:
        """Remove and return the login with this state. Returns None if there is no such login, or
        if another browser began it."""
        self._forget_old()
        login = self._by_state.get(_digest(state))
        if login is None or login.browser not in cookies:
            return None
        return self._by_state.pop(_digest(state))

    def _forget_old(self) -> None:
        after_s = self._now_s() - LONGEST_S
        old = [state for state, login in self._by_state.items() if login.began_s < after_s]
        for state in old:
            del self._by_state[state]


def _make_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def _digest(secret: str) -> str:
    """Hash a state. Looking up the hash takes a time that reveals nothing about stored states."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
