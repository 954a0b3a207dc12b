# ruff: noqa: RUF001
"""Character sets: what a document declares, what its bytes tell, and what cannot be told."""

import time
from contextlib import suppress

import pytest

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.decode import decode
from hopsyncd.formats.readers import extract

POLISH = "Gdańsk: łódź odpływa o świcie, jeżeli wiatr pozwoli. Źródło mówi, że będzie późno."
SAMPLES = {
    "cp1250": POLISH,
    "iso8859-2": "Pożyczył narzędzia sąsiadowi; że też mu się chciało!",
    "cp1251": "Ключ от склада хранится у дежурного, второй ключ лежит в сейфе.",
    "koi8-r": "Ключ от склада хранится у дежурного, второй ключ лежит в сейфе.",
    "cp866": "Ключ от склада хранится у дежурного, второй ключ лежит в сейфе.",
    "iso8859-5": "Ключ от склада хранится у дежурного, второй ключ лежит в сейфе.",
    "cp1253": "Το κλειδί της αποθήκης είναι στο γραφείο του φύλακα.",
    "iso8859-7": "Το κλειδί της αποθήκης είναι στο γραφείο του φύλακα.",
    "cp1254": "Deponun anahtarı İzmir'deki bürodadır; ışıkları söndürün.",
    "cp1255": "המפתח של המחסן נמצא אצל השומר בכניסה.",
    "cp1256": "مفتاح المخزن عند الحارس في المدخل الرئيسي.",
    "cp1257": "Sandėlio raktas yra pas budėtoją, o atsarginis guli seife šalia įėjimo, žinoma.",
    "cp874": "กุญแจคลังสินค้าอยู่ที่เวรยาม",
    "cp932": "倉庫の鍵は当番が保管しています。予備は金庫にあります。",
    "euc_jp": "倉庫の鍵は当番が保管しています。予備は金庫にあります。",
    "iso2022_jp": "倉庫の鍵は当番が保管しています。予備は金庫にあります。",
    "euc_kr": "창고 열쇠는 당직자가 보관하고 있습니다. 여분은 금고에 있습니다.",
    "iso2022_kr": "창고 열쇠는 당직자가 보관하고 있습니다.",
    "gb18030": "仓库的钥匙由值班人员保管。备用钥匙在保险柜里。",
    "big5": "倉庫的鑰匙由值班人員保管。備用鑰匙在保險櫃裡。",
    "utf-16-le": "The key of the store is with the guard at the gate — as ever.",
    "utf-16-be": "Der Schlüssel für das Lager liegt beim Pförtner.",
    "cp1252": "Le château était fermé, mais la clé se trouvait là où le gardien l’avait laissée.",
}


@pytest.mark.parametrize("charset", SAMPLES)
def test_text_in_a_common_character_set_is_read_though_nothing_declares_it(charset: str) -> None:
    text = SAMPLES[charset]
    assert decode(text.encode(charset)) == text


@pytest.mark.parametrize("charset", [c for c in SAMPLES if not c.startswith("utf-16")])
def test_the_charset_that_a_source_declares_is_used(charset: str) -> None:
    word = SAMPLES[charset].split()[1] if " " in SAMPLES[charset] else SAMPLES[charset][:4]
    assert decode(word.encode(charset), charset) == word


@pytest.mark.parametrize(
    ("data", "media_type", "text"),
    [
        (
            '<meta charset="iso-8859-2"><p>Klucz wisi przy wejściu.</p>'.encode("iso8859-2"),
            "text/html",
            "Klucz wisi przy wejściu.",
        ),
        (
            "<head><META http-equiv='Content-Type' content='text/html; charset=Shift_JIS'></head>"
            "<p>倉庫の鍵</p>".encode("cp932"),
            "text/html",
            "倉庫の鍵",
        ),
        (
            '<?xml version="1.0" encoding="windows-1251"?><html><p>Ключ у нас</p></html>'.encode(
                "cp1251"
            ),
            "text/html",
            "Ключ у нас",
        ),
        # A comment declares nothing.
        (
            '<!-- <meta charset="koi8-r"> --><meta charset=gb2312><p>钥匙</p>'.encode("gb18030"),
            "text/html",
            "钥匙",
        ),
        ("# -*- coding: koi8-r -*-\nx = 'Расчёт'".encode("koi8-r"), "text/x-python", "Расчёт"),
        ("/* vim: set fileencoding=cp1254 : */ ışık".encode("cp1254"), "text/x-source", "ışık"),
        (
            "\\documentclass{article}\n\\usepackage[latin2]{inputenc}\nŻółw".encode("iso8859-2"),
            "text/plain",
            "Żółw",
        ),
    ],
    ids=["meta", "http-equiv", "prolog", "comment", "cookie", "modeline", "latex"],
)
def test_the_charset_that_a_document_declares_is_used(
    data: bytes, media_type: str, text: str
) -> None:
    assert text in "\n".join(block.text for block in extract(data, media_type))


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        (b"Schl+APw-ssel", "utf-7", "Schlüssel"),
        ("“Quoted”".encode("cp1252"), "iso-8859-1", "“Quoted”"),
        ("열쇠".encode("cp949"), "ks_c_5601-1987", "열쇠"),
        # UTF-8 is declared as something else by many programs, and looks like nothing else.
        ("Größe und Übermaß".encode(), "iso-8859-1", "Größe und Übermaß"),
        ("café".encode(), "windows-1252", "café"),
        # What does not decode as it is declared is told by its bytes.
        (SAMPLES["cp1251"].encode("cp1251"), "utf-8", SAMPLES["cp1251"]),
        (SAMPLES["koi8-r"].encode("koi8-r"), "us-ascii", SAMPLES["koi8-r"]),
        (b"plain", "punycode", "plain"),
        (b"plain", "unicode_escape", "plain"),
        (b"plain", "utf-16", "plain"),
        (b"plain", "base64", "plain"),
    ],
)
def test_charset_labels_are_read_as_browsers_read_them(
    data: bytes, charset: str, text: str
) -> None:
    assert decode(data, charset) == text


def test_a_few_accents_in_a_long_text_are_not_taken_for_another_alphabet() -> None:
    text = "The ferry leaves at eight and the café opens at nine. " * 20
    assert decode(text.encode("cp1252")) == text


def test_a_byte_that_is_damaged_far_below_costs_no_more_than_itself() -> None:
    data = (SAMPLES["cp932"] * 5000).encode("cp932")
    text = decode(data + b"\xff" + data)
    assert text.startswith(SAMPLES["cp932"]) and text.endswith(SAMPLES["cp932"])


@pytest.mark.parametrize(
    "data",
    [
        bytes(0x80 + (index * index * 7919 + index * 31) % 127 for index in range(4000)),
        b"\x80\x81\x82\x00\x01" * 400,
    ],
    ids=["no language", "binary"],
)
def test_an_undetectable_character_set_is_a_problem(data: bytes) -> None:
    with pytest.raises(DocumentUnreadable):
        decode(data)


@pytest.mark.parametrize(
    "piece", [b"a\xe9", b"\x81", b"+AAA-\xe9", b"\x1b$B\xff", b"<meta \xe9", b"~{\xe9", b"\0\xe9"]
)
def test_detecting_the_character_set_takes_bounded_time(piece: bytes) -> None:
    data = piece * ((4 << 20) // len(piece))
    begun = time.process_time()
    for kind in ("text/plain", "text/html"):
        with suppress(DocumentUnreadable):
            decode(data, None, kind)
    assert time.process_time() - begun < 2
