"""Sessions of the team's page, and logins that are under way: bounded, and over in time."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hopsyncd.web import pending_logins, sessions
from hopsyncd.web.ended_sessions import EndedSessions
from hopsyncd.web.pending_logins import PendingLogins
from hopsyncd.web.sessions import (
    IDLE_S,
    LONGEST_S,
    MAX_OF_ONE_PERSON,
    Person,
    Session,
    Sessions,
)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> Sessions:
    return Sessions(clock)


def _open(opened: Sessions, user: str = "ann") -> tuple[Session, str]:
    return opened.open(user, Person(user, "read"))


def test_a_session_is_found_by_its_cookie_alone(opened: Sessions) -> None:
    session, cookie = _open(opened)
    assert opened.find(["stale", "\xff\udc80", cookie]) is session
    for wrong in ("", session.key, session.cookie_sha256, cookie[:-1], cookie + "x"):
        assert opened.find([wrong]) is None
    assert cookie not in repr(vars(opened)) and cookie not in repr(session)
    assert opened.find_person(session.key) == Person("ann", "read")
    assert opened.find_person(cookie) is None


def test_a_session_ends_at_logout_for_good(opened: Sessions) -> None:
    session, cookie = _open(opened)
    opened.end(session)
    opened.note_use(session)
    assert opened.find([cookie]) is None and opened.find_person(session.key) is None
    assert not opened.is_open(session) and len(opened) == 0


def test_a_session_that_is_not_used_ends(opened: Sessions, clock: Clock) -> None:
    session, cookie = _open(opened)
    clock.now_s += IDLE_S - 1
    assert opened.find([cookie]) is session  # which is no use yet
    clock.now_s += 2
    assert opened.find_person(session.key) is None and opened.find([cookie]) is None


def test_no_session_lasts_longer_than_half_a_day(opened: Sessions, clock: Clock) -> None:
    session, cookie = _open(opened)
    for _ in range(int(LONGEST_S // 3600)):
        clock.now_s += 3600
        assert opened.find([cookie]) is session
        opened.note_use(session)
    clock.now_s += 1
    assert opened.find([cookie]) is None


def test_a_person_with_too_many_sessions_loses_the_oldest(opened: Sessions, clock: Clock) -> None:
    _, other = _open(opened, "bob")
    cookies = []
    for _ in range(MAX_OF_ONE_PERSON + 2):
        clock.now_s += 1
        cookies.append(_open(opened)[1])
    alive = [opened.find([cookie]) is not None for cookie in cookies]
    assert alive == [False, False] + [True] * MAX_OF_ONE_PERSON
    assert opened.find([other])


def test_all_sessions_together_are_bounded(
    opened: Sessions, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    cookies = []
    for number in range(3):
        clock.now_s += 1
        cookies.append(_open(opened, f"user{number}")[1])
    first = opened.find([cookies[0]])
    assert first
    opened.note_use(first)
    _open(opened, "late")
    assert [opened.find([cookie]) is not None for cookie in cookies] == [True, False, True]
    assert len(opened) == 3


def test_the_owner_ends_the_sessions_of_a_user(tmp_path: Path) -> None:
    file = tmp_path / "ended-sessions.json"
    opened = Sessions(has_ended=EndedSessions(file).has_ended)
    (ann, _), (bob, _) = _open(opened), _open(opened, "bob")
    EndedSessions(file).end("ann")
    assert not opened.is_open(ann) and opened.find_person(ann.key) is None
    assert opened.is_open(bob) and file.stat().st_mode & 0o777 == 0o600
    (again, _) = _open(opened)
    assert opened.is_open(again)
    EndedSessions(file).end("bob")
    assert opened.is_open(again) and not opened.is_open(bob)


def test_a_damaged_file_of_ended_sessions_ends_all_that_are_open(tmp_path: Path) -> None:
    file = tmp_path / "ended-sessions.json"
    opened = Sessions(has_ended=EndedSessions(file).has_ended)
    (ann, _) = _open(opened)
    file.write_text("{")
    os.utime(file, (ann.opened_s + 1, ann.opened_s + 1))
    assert not opened.is_open(ann)
    os.utime(file, (ann.opened_s - 1, ann.opened_s - 1))
    assert opened.is_open(_open(opened)[0])


def test_a_pasted_token_is_the_key_of_its_session(opened: Sessions) -> None:
    session, cookie = opened.open("ann", None, "hops_token")
    assert session.key == "hops_token" and opened.find([cookie]) is session
    assert opened.find_person("hops_token") is None  # the daemon knows it


def test_a_login_is_taken_once_by_its_own_browser(clock: Clock) -> None:
    logins = PendingLogins(clock)
    mine, other = (logins.begin("/x", "192.0.2.1", []) for _ in range(2))
    assert len({mine.state, mine.nonce, mine.verifier, mine.browser}) == 4
    assert mine.browser != other.browser and mine.state != other.state
    assert logins.take(mine.state, [other.browser]) is None
    assert logins.take(mine.state, []) is None
    assert logins.take("", [mine.browser]) is None
    assert logins.take(mine.state, ["stale", mine.browser]) is mine
    assert logins.take(mine.state, [mine.browser]) is None


def test_logins_in_two_tabs_share_the_cookie_of_the_browser(clock: Clock) -> None:
    logins = PendingLogins(clock)
    first = logins.begin("/a", "192.0.2.1", [])
    second = logins.begin("/b", "192.0.2.1", ["chosen by somebody", first.browser])
    assert second.browser == first.browser
    assert logins.begin("/c", "192.0.2.1", ["chosen by somebody"]).browser != "chosen by somebody"
    assert logins.take(second.state, [first.browser]) is second
    assert logins.take(first.state, [first.browser]) is first


def test_a_login_is_over_after_ten_minutes(clock: Clock) -> None:
    logins = PendingLogins(clock)
    old = logins.begin("/", "192.0.2.1", [])
    clock.now_s += pending_logins.LONGEST_S + 1
    assert logins.take(old.state, [old.browser]) is None


def test_a_flood_of_logins_from_one_network_spares_other_logins(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_logins, "MAX_LOGINS", 20)
    logins = PendingLogins(clock)
    honest = [logins.begin("/", f"192.0.2.{number}", []) for number in range(5)]
    for number in range(100):
        logins.begin("/", f"2001:db8::{number:x}", [])  # one network
    assert all(logins.take(one.state, [one.browser]) is one for one in honest)


def test_two_commands_at_once_end_the_sessions_of_both_users(tmp_path: Path) -> None:
    file, together = tmp_path / "ended.json", Barrier(12)
    users = [f"user{number}" for number in range(12)]

    def end(user: str) -> None:
        ended = EndedSessions(file)
        together.wait()
        ended.end(user)

    with ThreadPoolExecutor(len(users)) as pool:
        list(pool.map(end, users))
    assert all(EndedSessions(file).has_ended(user, 1.0) for user in users)
