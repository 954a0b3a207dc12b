"""Reads an IMAP account as a source, and lists the messages of its folders incrementally by UID.

As long as a folder keeps its UIDVALIDITY, a UID identifies the same message, so the revision
consists of both. The cursor contains the UIDs of each folder. Sequence numbers are in the order of
UIDs. If the old UIDs still have the same sequence numbers, no message was removed, and only new
messages are listed.
"""

import imaplib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.mail.imap_session import (
    Answer,
    Deadline,
    Listed,
    fetch_rows,
    log_in,
    parse_folders,
    quote_name,
)
from connectors.mail.message import describe_too_large, is_wanted, make_fetched
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
    vanished_error,
)
from connectors.settings import ImapSettings

_WINDOW = 1000  # the maximum number of messages per FETCH command
_LEFT_OUT = frozenset(("\\trash", "\\junk", "\\drafts", "\\all"))
_NO_FOLDER = frozenset(("\\noselect", "\\nonexistent"))
_FAILURES = (OSError, imaplib.IMAP4.error)


class Uids:
    """A compact set of UIDs, to which UIDs are added in ascending order.

    >>> uids = Uids.parse("1:3,7")
    >>> uids.add(8)
    >>> str(uids), len(uids), 3 in uids, 4 in uids, uids.last
    ('1:3,7:8', 5, True, False, 8)
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._count = 0

    @classmethod
    def parse(cls, text: str) -> "Uids":
        """Parse a set that `str` has formatted. Raises ValueError."""
        uids = cls()
        for part in text.split(",") if text else ():
            first, _, last = part.partition(":")
            uids._add_range(int(first), int(last or first))
        return uids

    def add(self, uid: int) -> None:
        """Add a UID. Raises ValueError unless it is higher than all UIDs in the set."""
        self._add_range(uid, uid)

    def extend(self, other: "Uids") -> None:
        """Add all UIDs of another set, which must be higher than all UIDs in this set."""
        for first, last in zip(other._firsts, other._lasts, strict=True):
            self._add_range(first, last)

    @property
    def last(self) -> int:
        """Return the highest UID, or 0 if the set is empty."""
        return self._lasts[-1] if self._lasts else 0

    def __contains__(self, uid: int) -> bool:
        index = bisect_right(self._firsts, uid) - 1
        return index >= 0 and uid <= self._lasts[index]

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self._count

    def __str__(self) -> str:
        ranges = zip(self._firsts, self._lasts, strict=True)
        return ",".join(f"{a}:{b}" if a != b else str(a) for a, b in ranges)

    def _add_range(self, first: int, last: int) -> None:
        if first <= self.last or last < first:
            raise ValueError(f"the UIDs {first}:{last} are not above {self.last}")
        if self._lasts and first == self.last + 1:
            self._lasts[-1] = last
        else:
            self._firsts.append(first)
            self._lasts.append(last)
        self._count += last - first + 1


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a folder, as stored in the cursor."""

    validity: int
    uids: Uids

    @classmethod
    def from_row(cls, row: Any) -> "_Known":
        """Parse the state of a folder from a row of the cursor."""
        validity, uids = row
        return cls(int(validity), Uids.parse(uids))


@dataclass(frozen=True, slots=True)
class _Open:
    """A folder that is selected read-only, with the server's description of it at that moment."""

    name: str
    messages: int
    validity: int


@dataclass(slots=True)
class ImapConnector:
    """Lists and reads the messages of an account over a single connection, without changing their
    flags."""

    settings: ImapSettings
    _server: imaplib.IMAP4 | None = None
    _deadline: Deadline | None = None
    _opened: _Open | None = None
    _raw_names: dict[str, str] = field(default_factory=dict)

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        """Implement `Connector.discover`."""
        known_states = {}
        if since is not None and under is None:
            known_states = parse_known(since, self._mark(), self._where, _Known.from_row)
        self.close()  # a connection that idled since the last listing may be dead
        with Deadline(self.settings.limit_s) as self._deadline:
            try:
                yield from self._list_all(known_states, under)
            except (*_FAILURES, ValueError) as error:
                self._drop()
                raise self._unavailable_error(error) from error

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`. If the connection was lost, the fetch is repeated once over
        a new connection."""
        for attempt in (1, 2):
            with Deadline(self.settings.limit_s) as deadline:
                self._deadline = deadline
                if self._server is not None:
                    deadline.watch(self._server)
                try:
                    return self._fetch(item)
                except _FAILURES as error:
                    self._drop()
                    if attempt == 2 or deadline.passed:
                        raise self._unavailable_error(error) from error
        raise AssertionError("the second attempt returns or raises")

    def close(self) -> None:
        """Close the connection, if it is open."""
        server, self._server, self._opened = self._server, None, None
        if server is not None:
            try:
                server.logout()
            except _FAILURES:
                server.shutdown()

    def _list_all(
        self, known_states: dict[str, _Known], under: Sequence[str] | None
    ) -> Iterator[Found]:
        now: dict[str, _Known] = {}
        parts = Selection(under)
        for name in self._list_folders():
            if not parts.leads_to(name):
                continue
            open_folder = self._open(name)
            if open_folder is None:
                yield Problem(
                    name,
                    "the server did not open the folder",
                    "Check that this account may read the folder, or"
                    f' add "!{name}" to `folders` of this source.',
                    subtree=True,
                )
                if name in known_states:
                    now[name] = known_states[name]
                continue
            before = known_states.get(name, _Known(open_folder.validity, Uids()))
            uids = Uids()
            yield from self._list_messages(open_folder, before, uids, parts)
            now[name] = _Known(open_folder.validity, uids)
        if under is not None:
            return
        for name in known_states.keys() - now.keys():
            yield from (Gone(f"{name}/{uid}") for uid in known_states[name].uids)
        yield from make_cursors(
            self._mark(),
            {name: [folder.validity, str(folder.uids)] for name, folder in now.items()},
        )

    def _list_messages(
        self, open_folder: _Open, before: _Known, uids: Uids, parts: Selection
    ) -> Iterator[Found]:
        """Yield the new and the removed messages of a folder, and add its current UIDs
        to `uids`."""
        same = before.validity == open_folder.validity
        first = 1
        if same and self._keeps_all(open_folder, before.uids):
            uids.extend(before.uids)
            first = len(before.uids) + 1
        old = before.uids if same else Uids()
        for uid, size_bytes in self._list_rows(open_folder, first):
            uids.add(uid)
            if uid not in old and parts.has(f"{open_folder.name}/{uid}"):
                yield self._judge(open_folder, uid, size_bytes)
        for uid in before.uids:
            if uid not in uids:
                yield Gone(f"{open_folder.name}/{uid}")

    def _keeps_all(self, open_folder: _Open, uids: Uids) -> bool:
        """Whether the folder still has all messages with these UIDs."""
        count = len(uids)
        if count == 0 or count > open_folder.messages:
            return count == 0
        last = min(count + 1, open_folder.messages)
        rows = self._fetch_window(open_folder, count, last)
        return bool(rows) and rows[0][0] == uids.last and all(u > uids.last for u, _ in rows[1:])

    def _list_rows(self, open_folder: _Open, first: int) -> Iterator[tuple[int, int]]:
        for start in range(first, open_folder.messages + 1, _WINDOW):
            yield from self._fetch_window(
                open_folder, start, min(start + _WINDOW - 1, open_folder.messages)
            )

    def _fetch_window(self, open_folder: _Open, first: int, last: int) -> list[tuple[int, int]]:
        """Return the (UID, size) of each message with the sequence numbers from `first` to `last`.

        Sequence numbers do not change between two such requests: a server must not report expunged
        messages in response to FETCH (RFC 3501, 7.4.1).
        """
        if self._opened is not open_folder:
            raise imaplib.IMAP4.abort("the connection opened another folder during the listing")
        status, data = self._connect().fetch(f"{first}:{last}", "(UID RFC822.SIZE)")
        _check(status, data)
        rows = fetch_rows(data)
        if len(rows) != last - first + 1:
            raise imaplib.IMAP4.abort(
                f"the server listed {len(rows)} of {last - first + 1} messages"
            )
        return sorted(rows)

    def _judge(self, open_folder: _Open, uid: int, size_bytes: int) -> Item | Problem:
        id_ = f"{open_folder.name}/{uid}"
        if size_bytes > self.settings.max_bytes:
            return Problem(id_, *describe_too_large(size_bytes, self.settings.max_bytes))
        return Item(id_, f"{open_folder.validity}-{uid}")

    def _fetch(self, item: Item) -> Fetched:
        name, _, uid = item.id.rpartition("/")
        if name not in self._raw_names:
            self._list_folders()
        open_folder = self._opened
        if open_folder is None or open_folder.name != name:
            open_folder = self._open(name) if name in self._raw_names else None
        if open_folder is None:
            raise ItemVanished(
                f"Cannot read {item.id!r}",
                "the message's folder was deleted",
                "The next scan updates the index.",
            )
        limit = self.settings.max_bytes
        status, data = self._connect().uid("FETCH", uid, f"(UID BODY.PEEK[]<0.{limit + 1}>)")
        _check(status, data)
        body = next((row[1] for row in data if isinstance(row, tuple)), None)
        if body is None:
            raise vanished_error(item.id)
        if len(body) > limit:
            raise ItemUnreadable(f"Cannot read {item.id!r}", *describe_too_large(len(body), limit))
        return make_fetched(body, f"{open_folder.validity}-{uid}")

    def _list_folders(self) -> list[str]:
        """Return the names of the selected folders, sorted. Also stores each folder's name on the
        server."""
        server = self._connect()
        status, data = server.list('""', '"*"')
        _check(status, data)
        folders = [folder for folder in parse_folders(data) if self._wants_folder(folder)]
        self._raw_names = {folder.name: folder.raw for folder in folders}
        return sorted(self._raw_names)

    def _wants_folder(self, folder: Listed) -> bool:
        if folder.flags & _NO_FOLDER:
            return False
        if folder.name in self.settings.folders:
            return True
        return not folder.flags & _LEFT_OUT and is_wanted(folder.name, self.settings.folders)

    def _open(self, name: str) -> _Open | None:
        """Select a folder read-only. Returns None if the server refuses, or sends no UIDVALIDITY or
        no number of messages."""
        server = self._connect()
        self._opened = None
        status, data = server.select(quote_name(self._raw_names[name]), readonly=True)
        validity = _parse_number(server.response("UIDVALIDITY")[1])
        messages = _parse_number(data)
        if status != "OK" or validity is None or messages is None:
            return None
        self._opened = _Open(name, messages, validity)
        return self._opened

    def _connect(self) -> imaplib.IMAP4:
        if self._server is None:
            self._opened = None
            self._server = log_in(self.settings, self._deadline)
        return self._server

    def _drop(self) -> None:
        server, self._server, self._opened = self._server, None, None
        if server is not None:
            server.shutdown()

    def _mark(self) -> str:
        """Compute a digest of the settings on which a cursor depends."""
        settings = self.settings
        return compute_mark(
            settings.host, settings.port, settings.user, settings.folders, settings.max_bytes
        )

    @property
    def _where(self) -> str:
        return f"{self.settings.user} at {self.settings.host}:{self.settings.port}"

    def _unavailable_error(self, error: Exception) -> SourceUnavailable:
        late = self._deadline is not None and self._deadline.passed
        return SourceUnavailable(
            f"Cannot read the mail of {self._where}",
            f"the server took longer than {self.settings.limit_s:g} s"
            if late
            else _translate_error(error),
            "Check the network, `host` and `user` of this source, and the account's password. "
            "Indexed mail stays searchable, and the next scan tries again.",
        )


def _check(status: str, data: Answer) -> None:
    if status != "OK":
        raise imaplib.IMAP4.error(_decode_text(data))


def _parse_number(data: Answer) -> int | None:
    match = re.search(r"\d+", _decode_text(data))
    return int(match[0]) if match else None


def _decode_text(data: Answer) -> str:
    first = data[0] if data else b""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else ""


def _translate_error(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    first = error.args[0] if error.args else type(error).__name__
    text = first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
    return f"the server said: {text[:200]}"
