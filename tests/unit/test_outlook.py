"""Outlook messages: the same as the mail that they were."""

import struct
from contextlib import closing, suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest

from connectors.media_type import guess_media_type, is_document_name
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.media_types import OUTLOOK
from hopsyncd.formats.outlook import decompress_rtf
from hopsyncd.formats.readers import extract
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from tests.fakes.outlook_message import compound_file, embedded, message, reverse_sectors

SUBJECT, HEADERS, BODY, HTML, RTF = 0x0037, 0x007D, 0x1000, 0x1013, 0x1009
SENDER, SENDER_ADDRESS, SENT, INTERNET_ID, ANSWERED = 0x0C1A, 0x5D01, 0x0039, 0x1035, 0x1042
NAME, ADDRESS, KIND = 0x3001, 0x39FE, 0x0C15
FILE, FILE_TYPE, FILE_DATA = 0x3707, 0x370E, 0x3701
PAGE, HTML_PAGE, LOCALE = 0x3FFD, 0x3FDE, 0x3FF1

MAST: dict[int, Any] = {
    SUBJECT: "Mast stepping - moved",
    SENDER: "Åstrid Lunde",
    SENDER_ADDRESS: "astrid@fjord.example",
    SENT: datetime(2026, 3, 3, 8, 12, tzinfo=UTC),
}
CREW: list[dict[int, Any]] = [
    {NAME: "Rune Vik", ADDRESS: "rune@fjord.example", KIND: 1},
    {NAME: "Olve", ADDRESS: "/O=FJORD/CN=OLVE", KIND: 2},
    {NAME: "Hidden", ADDRESS: "hidden@fjord.example", KIND: 3},
]
HEAD = (
    "From Åstrid Lunde <astrid@fjord.example> to Rune Vik <rune@fjord.example>, cc Olve,"
    " date Tue, 03 Mar 2026 08:12:00 +0000"
)


def shown(blocks: tuple[Block, ...]) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in blocks if block.text]


def read(*parts: Any, codec: str = "") -> tuple[Block, ...]:
    return extract(compound_file(message(*parts, codec=codec)), OUTLOOK)


def test_a_message_has_its_head_its_properties_and_its_text() -> None:
    ids = {INTERNET_ID: "<mast-2@fjord.example>", ANSWERED: "<mast-1@fjord.example>"}
    text = {BODY: "The crane comes on Thursday.\r\n\r\nBring gloves.\r\n"}
    blocks = read({**MAST, **ids, **text}, CREW)
    assert shown(blocks) == [
        (1, "Mast stepping - moved"),
        (0, HEAD),
        (0, "The crane comes on Thursday."),
        (0, "Bring gloves."),
    ]
    assert blocks[0].names == ("mast-2@fjord.example",)
    assert dict(blocks[0].properties)["author"] == "Åstrid Lunde <astrid@fjord.example>"
    assert dict(blocks[0].properties)["modified"].startswith("2026-03-03T08:12")
    assert [link.target for _, link in blocks[0].links] == ["mast-1@fjord.example"]


def test_the_header_fields_of_the_mail_as_it_came_come_first() -> None:
    came = (
        "Received: from x\r\nFrom: =?utf-8?q?=C3=85strid?= <a@fjord.example>\r\n"
        "To: crew@fjord.example\r\nDate: Tue, 3 Mar 2026 09:12:00 +0100\r\n"
        "Message-ID: <mast-2@fjord.example>\r\n\r\n"
    )
    blocks = read({**MAST, HEADERS: came, BODY: "Text."}, CREW)
    line = "From Åstrid <a@fjord.example> to crew@fjord.example, cc Olve, date Tue, 3 Mar 2026 "
    assert blocks[1].text == f"{line}09:12:00 +0100"
    assert blocks[0].names == ("mast-2@fjord.example",)


def test_quotes_are_left_out_and_counted_as_in_other_mail() -> None:
    blocks = read({**MAST, BODY: "Yes.\r\n\r\nOn 3 May 2026, Bob wrote:\r\n> Shall we?\r\n"})
    assert shown(blocks)[2:] == [(0, "Yes.")]
    assert count_skipped(blocks) == {"quotes": 1}


def test_the_html_text_is_read_where_the_plain_one_is_a_stub_or_absent() -> None:
    html = "<p>The crane comes on <b>Thursday</b>, smørbrød at ten.</p>"
    for charset, page in (("utf-8", 65001), ("cp1252", 1252)):
        blocks = read({**MAST, HTML: html.encode(charset), HTML_PAGE: page})
        assert shown(blocks)[-1][1] == "The crane comes on Thursday, smørbrød at ten."
    stub = {BODY: "Your mail program cannot show HTML.", HTML: (html * 20).encode()}
    assert "crane" in shown(read({**MAST, **stub}))[-1][1]


def test_text_of_old_outlook_is_in_its_code_page() -> None:
    said = {SUBJECT: "Подъём мачты", BODY: "Кран придёт в четверг.", PAGE: 1251}
    texts = [text for _, text in shown(read(said, codec="cp1251"))]
    assert texts == ["Подъём мачты", "Кран придёт в четверг."]


@pytest.mark.parametrize(
    ("locale", "codec", "word"),
    [
        (1049, "cp1251", "Кран"),
        (1028, "cp950", "測試"),
        (2052, "gbk", "测试"),
        (1033, "cp1252", "œuf"),
    ],
)
def test_text_without_a_code_page_is_in_that_of_its_language(
    locale: int, codec: str, word: str
) -> None:
    blocks = read({SUBJECT: word, BODY: word, LOCALE: locale}, codec=codec)
    assert [text for _, text in shown(blocks)] == [word, word]


def test_html_of_old_outlook_is_in_the_code_page_of_the_mail() -> None:
    page = "<p>Кран придёт</p>".encode("cp1251").decode("cp1252")
    blocks = read({SUBJECT: "Mast", HTML: page, HTML_PAGE: 1251}, codec="cp1252")
    assert [text for _, text in shown(blocks)] == ["Mast", "Кран придёт"]


def test_attachments_are_read_under_their_names_and_others_are_counted() -> None:
    attachments = [
        {FILE: "prices.csv", FILE_DATA: b"Berth,Price\nNorth,310\n"},
        {FILE: "plan.html", FILE_TYPE: "text/html", FILE_DATA: b"<h1>Plan</h1><p>Step it.</p>"},
        {FILE: "logo.png", FILE_TYPE: "image/png", FILE_DATA: b"\x89PNG" + bytes(5000)},
        {FILE: "plan.bin", FILE_DATA: b"\0\1"},
    ]
    blocks = read({**MAST, BODY: "See below."}, (), attachments)
    assert shown(blocks)[2:] == [
        (0, "See below."),
        (2, "prices.csv"),
        (0, "Berth: North | Price: 310"),
        (2, "plan.html"),
        (3, "Plan"),
        (0, "Step it."),
    ]
    assert count_skipped(blocks) == {"pictures": 1, "attachments": 1}


def test_a_message_in_a_message_stands_under_its_own_subject_and_sender() -> None:
    inner = message({**MAST, BODY: "The crane comes on Thursday."}, CREW)
    outer = {SUBJECT: "FW: mast", SENDER: "Bob", BODY: "See below."}
    blocks = read(outer, (), [{NAME: "Mast stepping", FILE_DATA: embedded(inner)}])
    assert shown(blocks) == [
        (1, "FW: mast"),
        (0, "From Bob"),
        (0, "See below."),
        (2, "Mast stepping - moved"),
        (0, HEAD),
        (0, "The crane comes on Thursday."),
    ]


def test_a_signed_message_is_read_from_the_mail_that_is_stored_in_it() -> None:
    mail = EmailMessage()
    mail.set_content("The crane comes on Thursday.")
    mail.add_attachment(b"signature", "application", "pkcs7-signature", filename="smime.p7s")
    signed = {FILE: "smime.p7m", FILE_TYPE: "multipart/signed", FILE_DATA: bytes(mail)}
    blocks = read({**MAST, 0x001A: "IPM.Note.SMIME.MultipartSigned"}, (), [signed])
    assert shown(blocks)[-1][1] == "The crane comes on Thursday."


def test_many_attachments_are_all_read() -> None:
    many = [{FILE: f"{number}.txt", FILE_DATA: f"Text {number}.".encode()} for number in range(200)]
    texts = [text for _, text in shown(read(MAST, (), many))]
    assert texts[-2:] == ["199.txt", "Text 199."]
    assert len(texts) == 402


def test_messages_that_are_nested_too_deeply_are_refused_with_the_reason() -> None:
    inner = message({**MAST, BODY: "The crane comes on Thursday."})
    for _ in range(300):
        inner = message(MAST, (), [{FILE_DATA: embedded(inner)}])
    with pytest.raises(DocumentUnreadable, match="nested too deeply"):
        extract(compound_file(inner), OUTLOOK)


# The example of MS-OXRTFCP, 3.2.
COMPRESSED = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a80"
    "0fa0"
)
PLAIN_RTF = b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"


def test_a_message_that_has_only_rich_text_is_read() -> None:
    assert decompress_rtf(COMPRESSED) == PLAIN_RTF
    assert shown(read({**MAST, RTF: COMPRESSED}))[-1][1] == "hello world"


@pytest.mark.parametrize("length", range(0, len(COMPRESSED), 5))
def test_damaged_rich_text_costs_only_itself(length: int) -> None:
    blocks = read({**MAST, RTF: COMPRESSED[:length] + b"\xff\xff"})
    assert shown(blocks)[0] == (1, "Mast stepping - moved")


def test_a_file_that_is_no_message_is_refused_with_a_reason() -> None:
    whole = compound_file(message(MAST))
    for data in (b"Shopping: x\n\nText.", whole[:600], compound_file({"Workbook": b"text"})):
        with pytest.raises(DocumentUnreadable):
            extract(data, OUTLOOK)
    for length in range(1600, len(whole), 512):  # damaged: refused or read, but nothing else
        with suppress(DocumentUnreadable):
            extract(whole[:length], OUTLOOK)


def test_a_message_that_is_cut_off_is_refused() -> None:
    data = reverse_sectors(compound_file(message({**MAST, BODY: "The crane comes. " * 400}, CREW)))
    assert "The crane comes." in shown(extract(data, OUTLOOK))[-1][1]
    for length in range(1024, len(data) - 512, 512):
        with pytest.raises(DocumentUnreadable):
            extract(data[:length], OUTLOOK)


def test_messages_are_documents_and_are_read_by_the_confined_worker() -> None:
    assert guess_media_type("mast.msg") == OUTLOOK
    assert is_document_name("Mast.MSG")
    data = compound_file(message({**MAST, BODY: "The crane comes."}, CREW))
    with closing(ExtractionProcess()) as worker:
        assert shown(worker.extract(data, OUTLOOK))[-1][1] == "The crane comes."


@pytest.mark.parametrize(
    ("kind", "names", "lines"),
    [
        (
            "IPM.Appointment",
            (0x820D, 0x820E, 0x8208),
            "Start: 2026-06-14 09:00 UTC\nEnd: 2026-06-14 10:30 UTC\nPlace: Quay 7, north",
        ),
        ("IPM.Task", (0x8104, 0x8105, 0x8208), "Start: 2026-06-14\nDue: 2026-06-14"),
        ("IPM.Note", (0x820D, 0x820E, 0x8208), ""),
    ],
)
def test_appointments_and_tasks_have_their_time_and_place(
    kind: str, names: tuple[int, ...], lines: str
) -> None:
    start, end = (
        datetime(2026, 6, 14, hour, minute, tzinfo=UTC) for hour, minute in ((9, 0), (10, 30))
    )
    said = {0x001A: kind, SUBJECT: "Crane", BODY: "Bring gloves.", 0x8000: start, 0x8001: end}
    entries = b"".join(struct.pack("<IHH", name, 6, index) for index, name in enumerate(names))
    storage = {
        **message({**said, 0x8002: "Quay 7, north"}),
        "__nameid_version1.0": {"__substg1.0_00030102": entries},
    }
    texts = [text for _, text in shown(extract(compound_file(storage), OUTLOOK))]
    assert texts[:2] == ["Crane", "Bring gloves."]
    assert "\n".join(texts[3:]).startswith(lines) if lines else texts[2:] == []


def test_a_task_without_a_date_has_no_time() -> None:
    never = datetime(4501, 1, 1, tzinfo=UTC)
    storage = {
        **message({0x001A: "IPM.Task", SUBJECT: "Crane", BODY: "Bring gloves.", 0x8000: never}),
        "__nameid_version1.0": {"__substg1.0_00030102": struct.pack("<IHH", 0x8105, 6, 0)},
    }
    texts = [text for _, text in shown(extract(compound_file(storage), OUTLOOK))]
    assert texts == ["Crane", "Bring gloves."]
