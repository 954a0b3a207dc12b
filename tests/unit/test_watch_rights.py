"""Whose a watch is, what it shows to whom, and what pauses it."""

from pathlib import Path

import pytest

from hopsyncd.api.access_rules import Access, AccessRules, Caller
from hopsyncd.api.tokens import TokenFile, Tokens, TokenUses
from hopsyncd.api.watch_rights import Makers, Rights, covers, encode_login
from hopsyncd.client.trust import Credentials
from hopsyncd.errors import BadRequest, NotFound
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from hopsyncd.web.sessions import Person, Sessions
from store.operational import Watch
from store.transactions import transaction
from store.visibility import HiddenFolders
from tests.fakes.watching import OWNER, FakeMakers, Watching, member

FILES = {"mira.md": b"# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava.\n"}
QUESTION = "Where was Kaltenbrunn born?"
ALL = Acl(frozenset({"notes"}))
ANN, BOB = member("ann", ALL), member("bob", ALL)
FOLDER = HiddenFolders("notes", ("hr/**",), (True, False))


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    made = Watching(tmp_path, FILES)
    made.watched._makers = FakeMakers(ANN, BOB, OWNER)
    return made


def paused(watching: Watching, login: str = "token:ann") -> None:
    makers = watching.watched._makers
    assert isinstance(makers, FakeMakers)
    del makers.callers[login]


def move(watching: Watching, town: str) -> None:
    watching.connector.put(
        "mira.md", f"# Kaltenbrunn\n\nKaltenbrunn was born in {town}.\n".encode()
    )
    watching.sync()


def test_only_the_maker_and_admins_know_of_a_watch(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, ANN)
    assert [watch["user"] for watch in watching.watched.list_all(ANN)] == ["ann"]
    assert [watch["id"] for watch in watching.watched.list_all(OWNER)] == [number]
    assert watching.watched.list_all(BOB) == []
    for call in (
        lambda: watching.watched.read_details(number, 1, BOB),
        lambda: watching.watched.remove(number, BOB),
    ):
        with pytest.raises(NotFound, match=f"no watched question {number}"):
            call()
    watching.watched.remove(number, OWNER)
    assert watching.watched.list_all(ANN) == []


def test_a_user_of_the_owners_name_does_not_get_the_owners_watches(watching: Watching) -> None:
    watching.watched.add(QUESTION, OWNER)
    namesake = member(OWNER.name, ALL)
    assert watching.watched.list_all(namesake) == []


def test_a_watch_is_paused_while_its_maker_is_unknown_and_misses_nothing(
    watching: Watching,
) -> None:
    number = watching.watched.add(QUESTION, ANN)
    paused(watching)
    move(watching, "Vasterholm")
    watch, now, changes = watching.watched.read_details(number, 9, OWNER)
    assert "was revoked, has expired or was lost in a restore" in (watch["unavailable"] or "")
    assert (now, changes, watch["changes"], watching.told(number)) == (None, [], 0, [])
    again = member("ann", ALL, token="new")
    watching.watched._makers.callers[encode_login(again)] = again  # type: ignore[attr-defined]
    assert watching.watched.add(QUESTION, again) == number
    watching.compare()
    assert watching.told(number) == [(1, 2)]
    assert watching.watched.list_all(again)[0]["unavailable"] is None


def test_a_narrower_token_does_not_show_the_watch_of_a_wider_one(watching: Watching) -> None:
    number = watching.watched.add(QUESTION, ANN)
    move(watching, "Vasterholm")
    narrow = member("ann", Acl(frozenset()), token="agent")
    (listed,) = watching.watched.list_all(narrow)
    assert "Made with a token that may see other sources" in (listed["unavailable"] or "")
    watch, now, changes = watching.watched.read_details(number, 9, narrow)
    assert (watch["changes"], watch["changed"], now, changes) == (0, None, None, [])
    assert watching.watched.list_all(ANN)[0]["changes"] == 1


def test_a_program_is_not_started_once_its_maker_is_no_admin(
    watching: Watching, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    admin = Caller("ann", "admin", EVERYTHING, Credentials(holder="ann", token="ann"))
    makers = watching.watched._makers
    assert isinstance(makers, FakeMakers)
    makers.callers["token:ann"] = admin
    watching.watched.add(QUESTION, admin, ["/usr/bin/touch", str(made)])
    makers.callers["token:ann"] = ANN
    move(watching, "Vasterholm")
    assert not made.exists() and watching.watched._list_deliveries() == []


def test_the_number_of_a_users_watches_is_bounded(watching: Watching) -> None:
    for index in range(20):
        watching.watched.add(f"Question {index}?", ANN)
    with pytest.raises(BadRequest, match="you already watch 20 questions"):
        watching.watched.add("One more?", ANN)
    watching.watched.add("One more?", BOB)
    watching.watched.add("One more?", OWNER)


def test_a_new_hidden_source_does_not_change_stored_rights() -> None:
    before = Rights.from_acl(Acl(frozenset({"notes"}), frozenset([FOLDER])), ["notes", "pay"])
    assert Rights.from_json(before.to_json()) == before
    same = Rights.from_acl(Acl(frozenset({"notes"}), frozenset([FOLDER])), ["notes", "pay", "new"])
    assert not before.has_lost(same) and not before.differs(same)  # a new hidden source
    for lost in (NOTHING_SEEN, Rights.from_acl(Acl(frozenset()), ["notes"])):
        assert before.has_lost(lost)
    more = Rights.from_acl(Acl(frozenset({"notes", "pay"}), frozenset([FOLDER])), ["notes", "pay"])
    assert before.differs(more) and not before.has_lost(more) and more.has_lost(before)
    everything = Rights.from_acl(EVERYTHING, ["notes", "pay"])
    assert everything.to_json() is None and everything.has_lost(before)
    assert covers(EVERYTHING, before, ["notes", "pay"])
    assert not covers(Acl(frozenset({"pay"})), before, ["notes", "pay"])
    assert covers(Acl(frozenset({"notes"}), frozenset([FOLDER])), before, ["notes", "pay"])


NOTHING_SEEN = Rights.from_acl(Acl(frozenset()), ["notes", "pay"])


def test_the_rights_of_a_watch_come_from_its_token_and_end_with_it(tmp_path: Path) -> None:
    tokens, now_s = TokenFile(tmp_path / "tokens.json"), [0.0]
    rules = AccessRules({"notes": (("user:ann",),), "pay": (("group:board",),)})
    known = Tokens(tmp_path / "tokens.json", TokenUses(tmp_path / "uses"), lambda: now_s[0])
    makers = Makers(Access(lambda: rules), known)

    def shown(token_id: str, maker: str = "ann") -> set[str] | None:
        watch = Watch(1, QUESTION, None, 1, 1, "{}", maker, f"token:{token_id}")
        found = makers.find(watch)
        return {*found.acl.visible} if found and found.acl.visible is not None else None

    board, _ = tokens.add("ann", "write", 50, groups=["board"])
    notes, _ = tokens.add("ann", "write", None, sources=["notes"])
    reader, _ = tokens.add("ann", "read", None)
    assert shown(board.id) == {"notes", "pay"} and shown(notes.id) == {"notes"}
    assert shown(board.id, "bob") is None  # another database's user
    assert shown(reader.id) is None and shown("00000000") is None
    now_s[0] = 50
    assert shown(board.id) is None
    tokens.remove(lambda token: token.id == notes.id, "")
    assert shown(notes.id) is None


def test_the_rights_of_a_login_on_the_page_are_those_of_the_open_session() -> None:
    now_s = [0.0]
    sessions = Sessions(now_s=lambda: now_s[0])
    first, _ = sessions.open("ann", Person("ann", "write", ("board",)))
    now_s[0] = 1.0
    sessions.open("ann", Person("ann", "read"))
    sessions.open("ann", None, "a token")
    found = sessions.find_user("ann")
    assert found and found.role == "read"  # as of the newest login
    now_s[0] = 1e6
    assert sessions.find_user("ann") is None and not first.is_over


def test_a_program_of_a_watch_that_a_restore_lost_belongs_to_no_other(
    watching: Watching, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    number = watching.watched.add(QUESTION, OWNER, ["/usr/bin/touch", str(made)])
    connection = watching.stack.connection
    with transaction(connection):  # the backup is older than the watch
        connection.execute("DELETE FROM watch")
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'watch'")
    admin = Caller("ann", "admin", EVERYTHING, Credentials(holder="ann", token="ann"))
    watching.watched._makers.callers["token:ann"] = admin  # type: ignore[attr-defined]
    assert watching.watched.add(QUESTION, admin) == number
    (listed,) = watching.watched.list_all(admin)
    assert (listed["action"], listed["disabled"]) == (None, None)
    move(watching, "Vasterholm")
    assert watching.told(number) == [(1, 2)]
    assert watching.watched._list_deliveries() == [] and not made.exists()
