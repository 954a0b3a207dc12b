"""IMAP against a real dovecot: the contract, as far as it fits messages that never change."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.mail.imap import ImapConnector
from connectors.protocol import (
    Cursor,
    CursorExpired,
    Gone,
    Item,
    ItemVanished,
    Problem,
    SourceUnavailable,
)
from hopsyncd.ingest.source_thread import Stopping
from tests.contract.harness import Harness, Trouble
from tests.contract.mailboxes import (
    MAX_BYTES,
    PASSWORD_ENV,
    Dovecot,
    ImapHarness,
    dovecot_program,
    message,
)
from tests.contract.suite import *  # noqa: F403 - its tests, with the fixture of this module
from tests.contract.suite_trouble import *  # noqa: F403
from tests.contract.world import ADA, OSLO, ROME, World, nothing

pytestmark = pytest.mark.skipif(
    dovecot_program() is None, reason="dovecot 2.3 is not installed (apt install dovecot-imapd)"
)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = ImapHarness(tmp_path)
    yield made
    made.close()


@pytest.fixture
def imap(tmp_path: Path) -> Iterator[ImapHarness]:
    made = ImapHarness(tmp_path)
    yield made
    made.close()


# In place of those tests of the suite that change an item: here it becomes another one.


def test_only_changed_items_are_fetched(world: World) -> None:
    ids = [world.harness.put(key, text) for key, text in (("a", ROME), ("b", ADA))]
    world.sync()
    world.connector.fetched.clear()
    new = [world.harness.put("b", OSLO), world.harness.put("d", ADA)]
    outcome = world.sync()
    assert (outcome.changed, outcome.removed) == (2, 1)
    assert world.connector.fetched == new
    assert world.documents == {ids[0], *new}


def test_a_connector_that_fails_in_its_own_way_pauses_its_source(world: World) -> None:
    world.harness.put("a", ROME)
    world.sync()
    new = world.harness.put("b", OSLO)

    def stumble() -> None:
        raise ZeroDivisionError("by nought")

    world.connector.on_fetch = stumble
    world.sync()
    assert "by nought" in world.problems()[new]
    world.connector.on_fetch = nothing
    world.sync()
    assert world.problems() == {}
    assert new in world.documents


@pytest.mark.parametrize("trouble", [Trouble.AWAY, Trouble.LOCKED])
def test_a_source_that_denies_access_is_paused_and_keeps_its_documents(
    world: World, trouble: Trouble
) -> None:
    ids = [world.harness.put(key, text) for key, text in (("a", ROME), ("b", ADA))]
    world.sync()
    new = world.harness.put("c", OSLO)
    before = world.content
    world.harness.begin(trouble)
    assert world.sync().problem
    assert world.content == before
    world.harness.end()
    assert world.sync().changed == 1
    assert world.documents == {*ids, new}


def test_a_cursor_from_the_future_lists_everything(world: World) -> None:
    ids = [world.harness.put(key, text) for key, text in (("a", ROME), ("b", ADA))]
    world.sync()
    world.put_cursor("99999999999999999999")
    world.harness.delete("a")
    assert world.sync().removed == 1
    assert world.documents == {ids[1]}


def test_an_interrupted_listing_of_changes_continues_after_a_restart(world: World) -> None:
    ids = [world.harness.put(key, text) for key, text in (("a", ROME), ("b", ADA))]
    world.sync()
    new = [world.harness.put(key, OSLO + key) for key in ("c", "d")]
    world.harness.delete("a")

    def stop() -> None:
        raise Stopping

    world.restart(between=stop, batch_documents=1)
    with pytest.raises(Stopping):
        world.sync()
    world.restart()
    world.sync()
    assert len(world.connector.fetched) == 1
    assert world.documents == {ids[1], *new}


def test_a_huge_item_is_reported_and_other_items_are_read(world: World) -> None:
    huge = world.harness.put("b", "word " * (world.harness.max_bytes // 4))
    small = world.harness.put("a", OSLO)
    assert world.sync().problem is None
    assert "too large" in world.problems()[huge]
    assert world.documents == {small}
    world.harness.delete("b")
    world.sync()
    assert world.problems() == {}


# What is peculiar to IMAP.


def listed(connector: ImapConnector, since: str | None = None) -> tuple[list[str], list[str], str]:
    """The ids of the items and of what is gone, and the cursor."""
    found = list(connector.discover(since))
    cursor = found[-1]
    assert isinstance(cursor, Cursor)
    assert not any(isinstance(one, Problem) for one in found)
    return (
        [item.id for item in found if isinstance(item, Item)],
        [item.id for item in found if isinstance(item, Gone)],
        cursor.value,
    )


def test_flags_change_nothing_and_reading_sets_none(imap: ImapHarness) -> None:
    id_ = imap.put("a", ROME)
    connector = ImapConnector(imap.server.settings())
    (item,) = (f for f in connector.discover(None) if isinstance(f, Item))
    assert ROME.encode() in connector.fetch(item).data
    imap.client.select("INBOX")
    assert imap.client.uid("FETCH", id_.rpartition("/")[2], "(FLAGS)")[1][0].count(b"Seen") == 0
    _, _, cursor = listed(connector)
    imap.client.uid("STORE", id_.rpartition("/")[2], "+FLAGS", "(\\Seen \\Flagged)")
    assert listed(connector, cursor) == ([], [], cursor)
    connector.close()


def test_messages_expunged_in_the_middle_or_at_the_end_are_removed(imap: ImapHarness) -> None:
    ids = [imap.put(key, ROME) for key in "abcdef"]
    connector = ImapConnector(imap.server.settings())
    _, _, cursor = listed(connector)
    imap.delete("c")
    imap.delete("f")
    new = imap.put("g", ADA)
    items, gone, cursor = listed(connector, cursor)
    assert (items, gone) == ([new], [ids[2], ids[5]])
    for key in "abdeg":
        imap.delete(key)
    assert listed(connector, cursor)[:2] == ([], [ids[0], ids[1], ids[3], ids[4], new])
    connector.close()


def test_all_folders_are_listed_except_trash(imap: ImapHarness) -> None:
    names = {"Entw&APw-rfe": "Entwürfe", "a/b": "a/b", 'say \\"hi\\"': 'say "hi"', "R&-D": "R&D"}
    for raw in (*names, "Trash", "Papierkorb"):
        imap.client.create(f'"{raw}"')
        imap.client.append(f'"{raw}"', "", "", message("x", ADA).as_bytes())
    settings = imap.server.settings(folders=("*",))
    connector = ImapConnector(settings)
    items, _, cursor = listed(connector)
    assert sorted(items) == sorted(f"{name}/1" for name in names.values())
    for item in connector.discover(None):
        if isinstance(item, Item):
            assert ADA.encode() in connector.fetch(item).data
    assert [f.id for f in connector.discover(None, ["a"]) if isinstance(f, Item)] == ["a/b/1"]
    imap.client.delete('"R&-D"')
    assert listed(connector, cursor)[:2] == ([], ["R&D/1"])
    connector.close()
    trash = ImapConnector(imap.server.settings(folders=("Papierkorb",)))
    assert listed(trash)[0] == ["Papierkorb/1"]
    with pytest.raises(CursorExpired):
        list(trash.discover(cursor))
    trash.close()


def test_a_recreated_folder_has_new_message_ids(imap: ImapHarness) -> None:
    imap.client.create("work")
    for key in "ab":
        imap.client.append("work", "", "", message(key, ROME).as_bytes())
    connector = ImapConnector(imap.server.settings())
    first = {f.id: f for f in connector.discover(None) if isinstance(f, Item)}
    _, _, cursor = listed(connector)
    imap.client.delete("work")
    imap.client.create("work")
    imap.client.append("work", "", "", message("c", ADA).as_bytes())
    found = list(connector.discover(cursor))
    assert [f.id for f in found if isinstance(f, Gone)] == ["work/2"]
    (item,) = (f for f in found if isinstance(f, Item))
    assert item.id == "work/1"
    assert item.revision != first["work/1"].revision
    connector.close()


def test_a_lost_connection_is_opened_again(imap: ImapHarness) -> None:
    imap.put("a", ROME)
    connector = ImapConnector(imap.server.settings())
    (item,) = (f for f in connector.discover(None) if isinstance(f, Item))
    imap.server.stop()
    imap.server.start()
    assert ROME.encode() in connector.fetch(item).data
    imap.client = imap.server.client()
    imap.delete("a")
    with pytest.raises(ItemVanished):
        connector.fetch(item)
    connector.close()


def test_only_new_messages_of_a_large_folder_are_listed(imap: ImapHarness) -> None:
    imap.put("a", ROME)
    # Delivered behind the server's back, as a mail system does.
    inbox = imap.server.base / "mail/ann/cur"
    for number in range(1200):
        (inbox / f"{number}.M1P1.host:2,S").write_bytes(message(str(number), "x").as_bytes())
    connector = ImapConnector(imap.server.settings())
    items, _, cursor = listed(connector)
    assert len(items) == 1201
    assert len(cursor) < 200
    connector.close()
    new = imap.put("b", ADA)
    assert listed(connector, cursor)[:2] == ([new], [])
    connector.close()
    whole, since = sent_bytes(imap.server, 2)
    assert whole > 1200 * 20
    assert since < 3000


def sent_bytes(server: Dovecot, sessions: int) -> list[int]:
    """What the server sent in each session that ended, by its own account."""
    deadline_s = time.monotonic() + 60
    while True:
        found = re.findall(r"Logged out in=\d+ out=(\d+)", (server.base / "log").read_text())
        if len(found) == sessions or time.monotonic() > deadline_s:
            return [int(sent) for sent in found]
        time.sleep(0.05)


class TestSafety:
    def test_an_unknown_certificate_is_refused(self, imap: ImapHarness) -> None:
        connector = ImapConnector(imap.server.settings(ca_file=None))
        with pytest.raises(SourceUnavailable, match=r"certificate|SSL"):
            list(connector.discover(None))

    def test_starttls_comes_before_the_password(self, imap: ImapHarness) -> None:
        id_ = imap.put("a", ROME)
        settings = imap.server.settings(tls="starttls", port=imap.server.starttls_port)
        connector = ImapConnector(settings)
        assert listed(connector)[0] == [id_]
        connector.close()

    def test_a_missing_password_says_where_it_is_wanted(self, imap: ImapHarness) -> None:
        del os.environ[PASSWORD_ENV]
        connector = ImapConnector(imap.server.settings())
        with pytest.raises(SourceUnavailable, match=PASSWORD_ENV):
            list(connector.discover(None))

    def test_the_cursor_and_errors_hold_no_password(self, imap: ImapHarness) -> None:
        os.environ[PASSWORD_ENV] = "open sesame"
        connector = ImapConnector(imap.server.settings(password_env=PASSWORD_ENV))
        with pytest.raises(SourceUnavailable) as caught:
            list(connector.discover(None))
        assert "sesame" not in str(caught.value)

    def test_a_message_that_grows_over_the_limit_is_not_taken_in(self, imap: ImapHarness) -> None:
        imap.put("a", "word " * 15_000)
        connector = ImapConnector(imap.server.settings())
        (item,) = (f for f in connector.discover(None) if isinstance(f, Item))
        small = ImapConnector(imap.server.settings(max_bytes=10_000))
        with pytest.raises(Exception, match="too large"):
            small.fetch(item)
        assert len(connector.fetch(item).data) < MAX_BYTES
        connector.close()
        small.close()
