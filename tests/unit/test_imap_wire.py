"""Answers of an IMAP server, as its library gives them."""

import imaplib

import pytest

from connectors.mail.imap_session import parse_folders


def test_folders_are_named_in_quotes_bare_or_as_literals() -> None:
    rows = [b'(\\Sent) "/" "a \\"b\\""', b"() NIL INBOX", (b'() "/" {5}', b"lit&-1"), b"", None]
    assert [folder.name for folder in parse_folders(rows)] == ['a "b"', "INBOX", "lit&1"]


@pytest.mark.parametrize("row", [b'(\\Sent) "/" ', b'(\\Sent "/" Work', b"\xff\x00", b"Work"])
def test_a_folder_that_cannot_be_inspected_is_not_taken_for_removed(row: bytes) -> None:
    with pytest.raises(imaplib.IMAP4.abort, match="has an unreadable line"):
        parse_folders([b'() "/" INBOX', row])
