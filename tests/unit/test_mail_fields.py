"""Fields of a message, encoded as mail programs do and as attackers do."""

import time

import pytest

from connectors.mail.message import MAX_FIELD_CHARACTERS, decode_words, make_fetched


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Plain text", "Plain text"),
        ("=?iso-8859-1?Q?Keld_J=F8rn?= <k@dk.example>", "Keld Jørn <k@dk.example>"),
        ("=?utf-8?b?Q2Fmw6k=?=", "Café"),
        ("=?utf-8?b?Q2Fmw6k?= at 8", "Café at 8"),
        ("=?utf-8?q?a?=\n =?utf-8?q?b?= c", "ab c"),
        ("=?utf-8?q?a?= and =?utf-8?q?b?=", "a and b"),
        ("=?utf-8?q?=C3?= =?utf-8?q?=A9?=", "é"),
        ("=?ISO-2022-JP?B?GyRCRnxLXBsoQg==?=", "日本"),
        ("=?utf-8*en?q?hi?=", "hi"),
        ("=?utf-8?q?Who did it??=", "Who did it?"),
        ("=?no-such-charset?q?ab?= c", "=?no-such-charset?q?ab?= c"),
        ("=?utf-8?b?w?= x", "=?utf-8?b?w?= x"),
        ("=?utf-8?q?a", "=?utf-8?q?a"),
        ("=?utf-8?q?a =?utf-8?q?b?=", "=?utf-8?q?a b"),
    ],
)
def test_encoded_words_are_decoded(raw: str, text: str) -> None:
    assert decode_words(raw) == text


def test_a_mail_of_openings_is_read_at_once() -> None:
    subject = "=?a?q? " * (240 * 1024 // 7)
    began_s = time.process_time()
    read = make_fetched(f"From: {subject}\nSubject: {subject}\n\nHello.\n".encode(), "r")
    assert time.process_time() - began_s < 0.5
    assert read.title is not None and len(read.title) <= MAX_FIELD_CHARACTERS
