"""Reads web pages as a source: the pages at the start addresses, and the pages to which these link.

A start address is a page, a sitemap or a feed; only a page is itself a document. The cursor
contains each page's ETag, Last-Modified and revision, so that an unchanged page is neither sent nor
read again. A page is removed if its status is 404 or 410. A page to which no other page links any
more, such as an old entry of a feed, is kept as long as it can be fetched. If more pages are known
than a listing may visit, the listings visit them in turn.
"""

import json
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import BinaryIO, Literal

from connectors.protocol import (
    Fetched,
    Found,
    Gone,
    Item,
    ItemUnreadable,
    ItemVanished,
    Problem,
    Selection,
    SourceUnavailable,
    compute_mark,
    make_cursors,
    parse_known,
)
from connectors.settings import WebSettings, get_host, is_on_host, normalise_address
from connectors.web.fetch import PageFetcher, RobotsForbidden, Unreachable, Visitor, is_public
from connectors.web.page_content import NoFeed, PageContent, is_readable, parse_content

MAX_SPOOL_BYTES = 64 * 1024 * 1024


class Spool:
    """Stores pages by address in an unnamed temporary file of at most `MAX_SPOOL_BYTES`.

    Pages that do not fit are dropped.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._places: dict[str, tuple[int, int, int, str]] = {}

    def put(self, url: str, page: Fetched) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives until `clear`
        head = json.dumps(
            [page.media_type, page.title, page.links, dict(page.origin), page.modified_ms]
        ).encode()
        start = self._file.seek(0, 2)
        if start + len(head) + len(page.data) <= MAX_SPOOL_BYTES:
            self._file.write(head + page.data)
            self._places[url] = (start, len(head), len(page.data), page.revision)

    def take(self, url: str, revision: str) -> Fetched | None:
        """Remove the page with this address. Returns the page if it has this revision, else
        None."""
        start, head_bytes, data_bytes, kept = self._places.pop(url, (0, 0, 0, ""))
        if self._file is None or not kept or kept != revision:
            return None
        self._file.seek(start)
        media_type, title, links, origin, written_ms = json.loads(self._file.read(head_bytes))
        data = self._file.read(data_bytes)
        return Fetched(data, revision, media_type, title, tuple(links), origin, written_ms)

    def clear(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._places = None, {}


_MAX_VALIDATOR_CHARACTERS = 200
_MAX_SITEMAPS = 50
_MAX_KNOWN_PAGES = 3000  # the cursor has room for about as many
_GONE = (404, 410)
_NO_PAGES = tuple(
    ".png .jpg .jpeg .gif .webp .svg .ico .css .js .json .zip .gz .tar .tgz .xz .bz2 .exe .dmg .iso"
    " .mp3 .mp4 .webm .ogg .wav .avi .mov .woff .woff2 .ttf".split()
)


@dataclass(frozen=True, slots=True)
class _State:
    """The last reply from an address.

    `revision` is empty if the reply was not a page. `elsewhere` is the target of its redirect, if
    there was one. If `is_overdue` is true, the last listing had no room for the page.
    """

    etag: str = ""
    modified: str = ""
    revision: str = ""
    elsewhere: str = ""
    is_overdue: bool = False


_UNKNOWN = _State()


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result of a request. `kind` is `none` if the reply is neither a page nor a list, or if
    robots.txt forbids the request."""

    kind: Literal["page", "list", "gone", "none", "trouble"]
    state: _State = _UNKNOWN
    content: PageContent | None = None
    why: str = ""
    hint: str = ""


class WebConnector:
    """Lists and reads pages, sending one request at a time. Tests pass a `client` that opens no
    network connection."""

    def __init__(self, settings: WebSettings, client: PageFetcher | None = None) -> None:
        self._settings = settings
        self._starts = tuple(dict.fromkeys(_check_start(text) for text in settings.start))
        # Shell patterns for exactly these hosts: an IPv6 address has brackets.
        hosts = (get_host(start).replace("[", "[[]") for start in self._starts)
        self._hosts = (*hosts, *settings.hosts)
        self._client = client or PageFetcher(
            settings.timeout_s,
            settings.max_bytes,
            (lambda _: True) if settings.allow_private else is_public,
        )
        self._visitor = Visitor(self._client, settings.delay_s, self._is_ours)
        self._spool = Spool()
        self._last: dict[str, _State] = {}

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        """Implement `Connector.discover`.

        Each address in `under` is fetched, even if no other page links to it.
        """
        known_states = {}
        if since is not None and under is None:
            known_states = parse_known(
                since, self._mark(), self._starts[0], lambda row: _State(*row)
            )
        self._visitor.begin()
        self._spool.clear()
        if under is not None and "" not in under:
            yield from self._visit_selected(under)
            return
        now: dict[str, _State] = {}
        named = yield from self._visit_starts(known_states, now)
        yield from self._visit_pages(known_states, now, named)
        self._last = now
        yield from make_cursors(self._mark(), {url: astuple(state) for url, state in now.items()})

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`. A page that the listing has read is not fetched again."""
        page = self._spool.take(item.id, item.revision)
        if page is not None:
            return page
        answer = self._ask(item.id, _UNKNOWN, keep=False)
        if answer.kind == "gone":
            raise ItemVanished(
                f"Cannot read {item.id}",
                "the page no longer exists",
                "The next scan updates the index.",
            )
        if answer.content is None or answer.content.page is None:
            why = answer.why or "the address is no longer a page"
            raise ItemUnreadable(
                f"Cannot read {item.id}", why, answer.hint or "The next scan updates the index."
            )
        return answer.content.page

    def close(self) -> None:
        self._spool.clear()

    def _visit_starts(
        self, known_states: dict[str, _State], now: dict[str, _State]
    ) -> Generator[Found, None, dict[str, None]]:
        """Fetch the start addresses and the sitemaps to which they link. Returns the pages to
        visit."""
        named: dict[str, None] = {}
        queue = deque(self._starts)
        fetched: set[str] = set()
        answer_count, troubles = 0, []
        while queue and len(fetched) < _MAX_SITEMAPS + len(self._starts):
            url = queue.popleft()
            if url in fetched:
                continue
            fetched.add(url)
            answer = self._ask(url, known_states.get(url, _UNKNOWN))
            answer_count += answer.kind in ("page", "list", "gone")
            if answer.kind in ("trouble", "none"):
                troubles.append(answer)
            yield from self._report_answer(url, answer, known_states, now, is_start=True)
            content = answer.content
            if content is not None and (content.page is None or self._settings.depth):
                ours = [link for link in content.links if self._is_ours(link)]
                named.update(dict.fromkeys(ours))
                if content.page is None and len(ours) < len(content.links):
                    yield self._report_foreign_links(url, content.links)
                queue.extend(link for link in content.sitemaps if self._is_ours(link))
        if unread := [url for url in dict.fromkeys(queue) if url not in fetched]:
            yield Problem(
                unread[0],
                f"this sitemap is the first of {_count(len(unread), 'sitemap')} beyond the limit "
                f"of {_MAX_SITEMAPS}",
                "Add the sitemaps that you need to `start` of the source in config.toml.",
            )
        if not answer_count and troubles:
            raise SourceUnavailable(
                f"Cannot read {self._starts[0]}",
                troubles[0].why,
                f"{troubles[0].hint} Indexed pages stay searchable.",
            )
        return named

    def _visit_pages(
        self, known_states: dict[str, _State], now: dict[str, _State], named: dict[str, None]
    ) -> Iterator[Found]:
        """Visit the new pages in `named`, and then the known pages, until `max_pages` are visited.

        New pages are visited only if they are among the first `max_pages` of `named`.
        """
        room = self._settings.max_pages - sum(bool(state.revision) for state in now.values())
        places = room
        beyond: list[str] = []
        for url in named:
            if url in now or url.lower().endswith(_NO_PAGES):
                continue
            if url in known_states:
                places -= 1
            elif places <= 0:
                beyond.append(url)
            else:
                answer = self._ask(url, _UNKNOWN)
                places -= answer.kind == "page"
                room -= answer.kind == "page"
                yield from self._report_answer(url, answer, known_states, now)
        if beyond:
            yield Problem(
                beyond[0],
                f"this page is the first of {_count(len(beyond), 'page')} beyond the limit of "
                f"{_count(self._settings.max_pages, 'page')}",
                "Raise `max_pages` of the source in config.toml.",
            )
        yield from self._visit_known_pages(known_states, now, named, room)

    def _visit_known_pages(
        self,
        known_states: dict[str, _State],
        now: dict[str, _State],
        named: dict[str, None],
        room: int,
    ) -> Iterator[Found]:
        """Visit known pages until `room` of them have answered. The others come first in the next
        listing."""
        overdue = {url for url, state in known_states.items() if state.is_overdue}
        known_states = {
            url: replace(state, is_overdue=False) for url, state in known_states.items()
        }
        pages = [url for url in known_states if url not in now and url not in self._starts]
        pages.sort(key=lambda url: (url not in overdue, url not in named))
        for index, url in enumerate(pages):
            if room <= 0:
                places = max(_MAX_KNOWN_PAGES - len(now), 0)
                left, forgotten = pages[index:][:places], pages[index:][places:]
                now |= {url: replace(known_states[url], is_overdue=True) for url in left}
                if forgotten:
                    yield Problem(
                        forgotten[0],
                        f"this page is the first of {_count(len(forgotten), 'page')} that hopsyncd "
                        f"no longer visits, because it knows {_MAX_KNOWN_PAGES:,} other pages",
                        "Divide the source into several sources in config.toml.",
                    )
                return
            answer = self._ask(url, known_states[url])
            room -= answer.kind == "page"
            yield from self._report_answer(url, answer, known_states, now)

    def _visit_selected(self, under: Sequence[str]) -> Iterator[Found]:
        parts = Selection(under)
        below = [url for url in self._last if parts.has(url)]
        for url in dict.fromkeys((*under, *below)):
            if normalise_address(url) == url and self._is_ours(url):
                answer = self._ask(url, _UNKNOWN)
                if answer.kind in ("page", "trouble"):
                    yield from self._report_answer(url, answer, {}, {})

    def _report_answer(
        self, url: str, answer: _Answer, known_states: dict[str, _State], now: dict[str, _State],
        *, is_start: bool = False,
    ) -> Iterator[Found]:  # fmt: skip
        """Yield the results of a reply for the listing, and record its state for the cursor in
        `now`."""
        before = known_states.get(url, _UNKNOWN)
        if answer.kind == "page":
            now[url] = answer.state
            yield Item(url, answer.state.revision)
        elif answer.kind == "trouble" or (answer.kind == "none" and is_start):
            now[url] = before
            yield Problem(url, answer.why, answer.hint)
        else:
            # A sitemap index keeps no state: its sitemaps can change while the index does not.
            if answer.kind == "list" and not (answer.content and answer.content.sitemaps):
                now[url] = answer.state
            if before.revision:
                yield Gone(url)

    def _ask(self, url: str, state: _State, *, keep: bool = True) -> _Answer:
        headers = {"If-None-Match": state.etag, "If-Modified-Since": state.modified}
        try:
            visit = self._visitor.visit(
                url, {name: value for name, value in headers.items() if value}, is_readable
            )
            status = visit.reply.status
            if status in _GONE:
                return _Answer("gone")
            if status == 304 and state != _UNKNOWN:
                if visit.elsewhere != state.elsewhere:
                    return self._ask(url, _UNKNOWN, keep=keep)
                return _Answer("page" if state.revision else "list", state)
            if status != 200:
                return _make_trouble_answer(f"the server answers HTTP {status}")
            limit = 10 * self._settings.max_pages
            content = parse_content(visit, self._settings.max_bytes, limit)
        except RobotsForbidden:
            why = "the site's robots.txt forbids reading the page"
            kind: Literal["trouble", "none"] = "trouble" if state.revision else "none"
            return _Answer(
                kind, why=why, hint="Ask the site's owner, or remove the page from the source."
            )
        except Unreachable as error:
            return _Answer("trouble", why=error.why, hint=error.hint)
        except NoFeed as error:
            return _make_trouble_answer(str(error))
        if content is None:
            why = f"the page's type is not supported ({visit.reply.media_type or 'none given'})"
            return _Answer("none", why=why, hint="Use the URL of a page, a sitemap or a feed.")
        known_state = _State(
            _shorten(visit.reply.get_header("etag")),
            _shorten(visit.reply.get_header("last-modified")),
            elsewhere=visit.elsewhere,
        )
        if content.page is None:
            return _Answer("list", known_state, content)
        page = content.page
        if keep:
            self._spool.put(url, page)
        known_state = replace(known_state, revision=page.revision)
        return _Answer("page", known_state, content)

    def _report_foreign_links(self, url: str, links: Sequence[str]) -> Problem:
        foreign_links = [link for link in links if not self._is_ours(link)]
        return Problem(
            foreign_links[0],
            f"this page is the first of {_count(len(foreign_links), 'page')} on hosts outside the"
            f" source that {url} lists",
            "Add the pages' hosts to `hosts` in config.toml, such as"
            f' "{get_host(foreign_links[0])}".',
        )

    def _is_ours(self, url: str) -> bool:
        return is_on_host(url, self._hosts)

    def _mark(self) -> str:
        settings = self._settings
        return compute_mark(self._starts, settings.depth, settings.hosts, settings.max_bytes)


def _check_start(text: str) -> str:
    url = normalise_address(text)
    if url is None:
        raise ValueError(f"{text!r} is not a web address. It must begin with https:// or http://")
    return url


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _shorten(validator: str) -> str:
    return validator if len(validator) <= _MAX_VALIDATOR_CHARACTERS else ""


def _make_trouble_answer(why: str) -> _Answer:
    return _Answer(
        "trouble", why=why, hint="Open the page in a browser. The next scan tries again."
    )
