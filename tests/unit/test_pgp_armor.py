"""OpenPGP armor in mail: the signed text stays, signatures, keys and encrypted texts do not."""

from time import process_time

from hopsyncd.formats.blocks import count_skipped
from hopsyncd.formats.media_types import MAIL
from hopsyncd.formats.pgp_armor import remove_armor
from hopsyncd.formats.readers import extract

_HEAD = "From: Ada <ada@example.org>\nSubject: Keys\n\n"
_SIGNED = """-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

The meeting is on Tuesday.
- - bring the key
-----BEGIN PGP SIGNATURE-----

iQEzBAEBCAAdFiEE4
-----END PGP SIGNATURE-----
"""


def test_the_text_of_a_signed_mail_is_read() -> None:
    blocks = extract((_HEAD + _SIGNED).encode(), MAIL)
    texts = [block.text for block in blocks if block.text][2:]
    assert texts == ["The meeting is on Tuesday.\n- bring the key"]
    assert count_skipped(blocks) == {"PGP signatures": 1}


def test_keys_and_encrypted_texts_are_counted() -> None:
    text, counts = remove_armor(
        "See:\n-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n"
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENB\n-----END PGP PUBLIC KEY BLOCK-----\nBye"
    )
    assert (text, counts) == ("See:\nBye", {"encrypted texts": 1, "PGP keys": 1})


def test_a_block_without_an_end_stays() -> None:
    text = "-----BEGIN PGP MESSAGE-----\nSo begins such a text."
    assert remove_armor(text) == (text, {})


def test_many_blocks_without_an_end_take_linear_time() -> None:
    text = "-----BEGIN PGP MESSAGE-----\n" * 100_000
    begin = process_time()
    assert remove_armor(text)[0] == text
    assert process_time() - begin < 20
