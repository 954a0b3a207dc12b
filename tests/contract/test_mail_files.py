"""Maildir and mbox: what is peculiar to them."""

import mailbox
import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from connectors.mail.maildir import MaildirConnector
from connectors.mail.mbox import MboxConnector
from connectors.protocol import (
    Connector,
    Item,
    ItemUnreadable,
    ItemVanished,
    Problem,
    SourceUnavailable,
)
from tests.contract.mailboxes import message
from tests.fakes.listing import named


def items(connector: Connector, under: list[str] | None = None) -> dict[str, Item]:
    return {f.id: f for f in connector.discover(None, under) if isinstance(f, Item)}


class TestMaildir:
    def test_flags_and_the_move_out_of_new_change_nothing(self, tmp_path: Path) -> None:
        box = mailbox.Maildir(tmp_path / "mail")
        key = box.add(message("a", "The tide."))
        connector = MaildirConnector(tmp_path / "mail")
        before = items(connector)
        assert list(before) == [key]
        seen = mailbox.MaildirMessage(box[key])
        seen.set_subdir("cur")
        seen.set_flags("SF")
        (moved,) = (tmp_path / "mail/new").iterdir()
        moved = moved.rename(tmp_path / "mail/cur" / f"{key}:2,S")
        assert items(connector) == before
        moved.rename(moved.with_name(f"{key}:2,FS"))
        assert items(connector) == before
        assert b"The tide." in connector.fetch(before[key]).data

    def test_a_message_says_its_title_its_thread_and_its_date(self, tmp_path: Path) -> None:
        box = mailbox.Maildir(tmp_path / "mail")
        answer = message("b", "Yes.", In_Reply_To="<a@x.org>", References="<0@x.org> <a@x.org>")
        answer.replace_header("Subject", "Über die Flut")
        box.add(answer)
        connector = MaildirConnector(tmp_path / "mail")
        (item,) = items(connector).values()
        fetched = connector.fetch(item)
        assert fetched.title == "Über die Flut"
        assert fetched.links == ("0@x.org", "a@x.org")
        assert fetched.media_type == "message/rfc822"
        assert fetched.origin["date"] == "2026-11-02T10:00:00+00:00"
        assert fetched.origin["message_id"] == "b@example.org"

    def test_a_time_without_a_zone_is_the_same_everywhere(self, tmp_path: Path) -> None:
        sent = message("a", "x")
        sent.replace_header("Date", "Mon, 02 Nov 2026 10:00:00 -0000")
        mailbox.Maildir(tmp_path / "mail").add(sent)
        connector = MaildirConnector(tmp_path / "mail")
        (item,) = items(connector).values()
        with pytest.MonkeyPatch.context() as elsewhere:
            elsewhere.setenv("TZ", "Asia/Tokyo")
            time.tzset()
            date = connector.fetch(item).origin["date"]
        time.tzset()
        assert date == "2026-11-02T10:00:00+00:00"

    def test_all_folders_are_listed_except_excluded_folders(self, tmp_path: Path) -> None:
        box = mailbox.Maildir(tmp_path / "mail")
        keys = {name: box.add_folder(name).add(message(name, "x")) for name in ("Work", "Trash")}
        (tmp_path / "mail/Lists").mkdir()
        verbatim = mailbox.Maildir(tmp_path / "mail/Lists/python")
        keys["python"] = verbatim.add(message("python", "x"))
        found = items(MaildirConnector(tmp_path / "mail"))
        assert sorted(found) == sorted([f".Work/{keys['Work']}", f"Lists/python/{keys['python']}"])
        assert list(items(MaildirConnector(tmp_path / "mail", ("Trash",)))) == [
            f".Trash/{keys['Trash']}"
        ]
        assert list(items(MaildirConnector(tmp_path / "mail"), ["Lists"])) == [
            f"Lists/python/{keys['python']}"
        ]

    def test_a_folder_without_a_maildir_is_not_treated_as_empty(self, tmp_path: Path) -> None:
        with pytest.raises(SourceUnavailable, match="no Maildir"):
            items(MaildirConnector(tmp_path))

    def test_links_and_odd_files_are_no_messages(self, tmp_path: Path) -> None:
        mailbox.Maildir(tmp_path / "mail")
        (tmp_path / "secret").write_text("not mail")
        (tmp_path / "mail/cur/1:2,").symlink_to(tmp_path / "secret")
        os.mkfifo(tmp_path / "mail/cur/2:2,")
        (tmp_path / "mail/cur/3").mkdir()
        os.close(os.open(os.fsencode(tmp_path / "mail/cur") + b"/\xff:2,", os.O_CREAT))
        connector = MaildirConnector(tmp_path / "mail")
        found = list(connector.discover(None))
        assert all(isinstance(one, Problem) for one in found)
        assert len(found) == 4
        with pytest.raises(ItemVanished):
            connector.fetch(Item("1", ""))

    def test_a_folder_that_may_not_be_read_makes_its_messages_unreadable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = mailbox.Maildir(tmp_path / "mail").add(message("a", "x"))

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        connector = MaildirConnector(tmp_path / "mail")
        monkeypatch.setattr("connectors.regular_file.OpenFolders.enter", refuse)
        with pytest.raises(ItemUnreadable, match="permission denied"):
            connector.fetch(Item(key, ""))

    def test_many_messages_are_fetched_in_linear_time(self, tmp_path: Path) -> None:
        mailbox.Maildir(tmp_path / "mail")
        for number in range(3000):
            (tmp_path / f"mail/cur/{number}:2,S").write_bytes(b"Subject: x\n\ny\n")
        connector = MaildirConnector(tmp_path / "mail")
        began_s = time.process_time()
        for item in items(connector).values():
            connector.fetch(item)
        assert time.process_time() - began_s < 2


class TestMbox:
    def test_flags_that_programs_write_change_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "Inbox"
        with closing(mailbox.mbox(path)) as box:
            for key in ("a", "b"):
                box.add(message(key, f"{key} tides."))
        connector = MboxConnector(path)
        before = items(connector)
        with closing(mailbox.mbox(path)) as box:
            for number, one in box.items():
                one.set_flags("RO")
                one["X-Mozilla-Status"] = "0001"
                box[number] = one
        assert {i: f.revision for i, f in items(connector).items()} == {
            i: f.revision for i, f in before.items()
        }
        assert b"a tides." in connector.fetch(before["a@example.org"]).data

    def test_a_line_that_begins_with_from_is_kept_and_starts_no_message(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "Inbox"
        text = "One.\n\nFrom here the tide rises.\n\n> quoted\n"
        with closing(mailbox.mbox(path)) as box:
            box.add(message("a", text))
        path.write_bytes(path.read_bytes() + b"\nFrom x Mon Nov  2 10:00:00 2026\nSubject: b\n\n"
                         b"Two.\n\nFrom now on there is no more.\n")  # fmt: skip
        connector = MboxConnector(path)
        found = items(connector)
        assert len(found) == 2
        datas = [connector.fetch(item).data for item in found.values()]
        assert b"\nFrom here the tide" in datas[0]
        assert datas[1] == b"Subject: b\n\nTwo.\n\nFrom now on there is no more.\n"

    def test_messages_with_equal_or_missing_ids_stay_separate(self, tmp_path: Path) -> None:
        path = tmp_path / "Inbox"
        with closing(mailbox.mbox(path)) as box:
            box.add(message("a", "First."))
            box.add(message("a", "Second."))
            box.add(b"Subject: none\n\nThird.\n")
        connector = MboxConnector(path)
        found = items(connector)
        ids = list(found)
        assert ids[:2] == ["a@example.org", "a@example.org#2"]
        assert ids[2].startswith("sha256-")
        assert b"Second." in connector.fetch(found["a@example.org#2"]).data
        with closing(mailbox.mbox(path)) as box:
            box.remove(box.keys()[0])
        left = items(connector)
        assert list(left) == ["a@example.org", ids[2]]
        assert left["a@example.org"].revision == found["a@example.org#2"].revision

    @pytest.mark.parametrize("size", [1 << 20, (1 << 20) - 40, (1 << 20) - 20, 3 << 20])
    def test_messages_are_found_across_the_blocks_of_a_big_file(
        self, tmp_path: Path, size: int
    ) -> None:
        path = tmp_path / "Inbox"
        line = b"word word word word word word word word word word word word word\r\n"
        first = b"From a Mon Nov  2 10:00:00 2026\r\nMessage-ID: <a@x>\r\n\r\n"
        first += (line * (size // len(line) + 1))[: size - len(first) - 2] + b"\r\n"
        with path.open("wb") as file:
            for key in (b"a", b"b", b"c"):
                file.write(first.replace(b"<a@x>", b"<%s@x>" % key) + b"\r\n")
        found = items(MboxConnector(path))
        assert list(found) == ["a@x", "b@x", "c@x"]
        small = list(named(MboxConnector(path, max_bytes=1000).discover(None)))
        assert [item.id for item in small] == ["a@x", "b@x", "c@x"]
        assert all(isinstance(one, Problem) for one in small)

    def test_a_file_that_is_not_an_mbox_has_no_messages(self, tmp_path: Path) -> None:
        (tmp_path / "Inbox").write_bytes(b"\x89PNG\0From \n\nFrom\n")
        assert items(MboxConnector(tmp_path / "Inbox")) == {}
        with pytest.raises(SourceUnavailable, match="not a file"):
            items(MboxConnector(tmp_path))
