"""Polite visits: robots.txt is obeyed, and requests to a host are spaced out."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from protego import Protego

from connectors.settings import address
from connectors.web.fetch import USER_AGENT, HttpReply, PageFetcher, Unreachable

_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_ROBOTS_BYTES = 500 * 1024  # what RFC 9309 asks crawlers to read
_ROBOTS_AGE_S = 3600.0
_MAX_CRAWL_DELAY_S = 30.0
_FAILURES_IN_A_ROW = 2
_MAX_HOSTS = 100
_AGENT = re.compile(r"\s*user\W*agent\s*:?\s*([^\s#]*)", re.IGNORECASE)

Accepts = Callable[[str], bool]


class RobotsForbidden(Exception):
    """The host's robots.txt forbids the page."""


@dataclass(frozen=True, slots=True)
class Visit:
    """An answer and the address that gave it; after redirects, also in `elsewhere`."""

    url: str
    reply: HttpReply
    elsewhere: str = ""


@dataclass(slots=True)
class _Host:
    """The known state of a host. `down` says why it gets no more requests in this round."""

    next_s: float = 0.0
    delay_s: float = 0.0
    failures: int = 0
    down: str = ""
    rules: Protego | None = None
    rules_until_s: float = 0.0


@dataclass(slots=True)
class Visitor:
    """Follows redirects to wanted addresses, one request at a time."""

    client: PageFetcher
    delay_s: float
    is_wanted: Callable[[str], bool]
    clock_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _hosts: dict[str, _Host] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a new round: hosts that were down may be up again."""
        for host in self._hosts.values():
            host.failures, host.down = 0, ""

    def visit(self, url: str, headers: Mapping[str, str], accepts: Accepts) -> Visit:
        """The answer to a GET, after redirects. Raises Unreachable or RobotsForbidden."""
        for redirects in range(_MAX_REDIRECTS + 1):
            if not self._rules(url).can_fetch(url, USER_AGENT):
                raise RobotsForbidden
            reply = self._get(url, headers, accepts)
            if reply.status not in _REDIRECTS:
                return Visit(url, reply, url if redirects else "")
            url = self._target(url, reply)
            if not self.is_wanted(url):
                raise Unreachable(f"it redirects to {url}, which is at another host")
        raise Unreachable(f"it redirects more than {_MAX_REDIRECTS} times")

    def _rules(self, url: str) -> Protego:
        host = self._host(url)
        if host.rules is None or self.clock_s() > host.rules_until_s:
            host.rules = self._read_rules(url)
            host.rules_until_s = self.clock_s() + _ROBOTS_AGE_S
            asked = host.rules.crawl_delay(USER_AGENT)
            host.delay_s = min(float(asked or 0), _MAX_CRAWL_DELAY_S)
        return host.rules

    def _read_rules(self, url: str) -> Protego:
        """As in RFC 9309: a missing file allows everything, an unreadable one nothing."""
        parts = urlsplit(url)
        at = f"{parts.scheme}://{parts.netloc}/robots.txt"
        for _ in range(_MAX_REDIRECTS + 1):
            reply = self._get(at, {}, lambda _: True)
            if reply.status not in _REDIRECTS:
                break
            at = self._target(at, reply)
        if reply.status >= 500 or reply.status in (*_REDIRECTS, 429):
            raise Unreachable(f"its robots.txt cannot be read (HTTP {reply.status})")
        return read_robots(reply.body if reply.status == 200 else b"")

    def _get(self, url: str, headers: Mapping[str, str], accepts: Accepts) -> HttpReply:
        host = self._host(url)
        if host.down:
            raise Unreachable(host.down)
        wait_s = host.next_s - self.clock_s()
        if wait_s > 0:
            self.sleep(wait_s)
        try:
            reply = self.client.get(url, dict(headers), accepts)
        except Unreachable as error:
            host.failures += error.host_is_down
            if host.failures >= _FAILURES_IN_A_ROW:
                host.down = f"{error.why}, repeatedly"
            raise
        finally:
            host.next_s = self.clock_s() + max(self.delay_s, host.delay_s)
        host.failures = 0
        if reply.status == 429:
            host.down = "its host asks for fewer requests (HTTP 429)"
        return reply

    def _target(self, url: str, reply: HttpReply) -> str:
        target = address(reply.header("location"), url)
        if target is None:
            raise Unreachable("it redirects to something that is not a web page")
        return target

    def _host(self, url: str) -> _Host:
        parts = urlsplit(url)
        name = f"{parts.scheme}://{parts.netloc}"
        if name not in self._hosts:
            while len(self._hosts) >= _MAX_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            self._hosts[name] = _Host()
        return self._hosts[name]


def read_robots(body: bytes) -> Protego:
    """The rules in a robots.txt, of which only the first part is read."""
    text = body[:_MAX_ROBOTS_BYTES].decode("utf-8-sig", "replace")
    return Protego.parse(_merge_other_agents(text))


def _merge_other_agents(robots: str) -> str:
    """Give all agents except ours one name.

    The parser stores each rule once per agent. For thousands of agents, this takes too much memory.
    """

    def rename(line: str) -> str:
        found = _AGENT.match(line)
        if not found:
            return line
        name = found[1].lower()
        return f"user-agent: {name if name in ('*', USER_AGENT) else 'another'}"

    return "\n".join(map(rename, robots.splitlines()))
