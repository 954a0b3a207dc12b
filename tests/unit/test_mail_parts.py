"""Mail: where the text stands, what hangs on it, what is forwarded, and who is told."""

import base64
from collections.abc import Iterator
from email.message import EmailMessage
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from time import perf_counter

import pytest

from connectors.html_tokens import Token, tokenize_html
from hopsyncd.cli.output import format_place
from hopsyncd.formats import mail_text
from hopsyncd.formats.blocks import Block, count_skipped, list_names
from hopsyncd.formats.mail_text import is_stub
from hopsyncd.formats.media_types import MBOX, OUTLOOK
from hopsyncd.formats.readers import extract

MAIL = "message/rfc822"
INVITATION = """BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VTIMEZONE
TZID:Europe/Oslo
BEGIN:STANDARD
DTSTART:19701025T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
SUMMARY:Mast stepping\\, main
  quay
DTSTART;TZID=Europe/Oslo:20260701T080000
DTEND:20260701T100000Z
LOCATION:Crane quay
ORGANIZER;CN="Astrid Lunde":mailto:astrid@fjord.example
ATTENDEE;CN=Rune Vik;PARTSTAT=ACCEPTED:mailto:rune@fjord.example
ATTENDEE:MAILTO:olve@fjord.example
DESCRIPTION:Bring gloves.\\n\\nThe crane is booked.
RRULE:FREQ=WEEKLY;BYDAY=WE
BEGIN:VALARM
DESCRIPTION:Alarm
END:VALARM
END:VEVENT
END:VCALENDAR
"""


def head(message: EmailMessage | MIMEMultipart, subject: str) -> None:
    message["From"] = "Astrid Lunde <astrid@fjord.example>"
    message["To"] = "crew@fjord.example"
    message["Subject"] = subject
    message["Date"] = "Tue, 3 Mar 2026 09:12:00 +0100"


def texts(data: bytes, media_type: str = MAIL) -> list[str]:
    return [block.text for block in extract(data, media_type) if block.text]


def shown(blocks: tuple[Block, ...]) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in blocks if block.text]


@pytest.mark.parametrize("subtype", ["mixed", "related"])
def test_attachments_of_an_alternative_part_are_read(subtype: str) -> None:
    message = MIMEMultipart("alternative")
    head(message, "The invoice")
    message.attach(MIMEText("Please see the invoice.", "plain"))
    inner = MIMEMultipart(subtype)
    inner.attach(MIMEText("<p>Please see the invoice.</p>", "html"))
    notes = MIMEApplication(b"# Invoice 88\n\nDue on Friday.", "octet-stream")
    notes.add_header("Content-Disposition", "inline", filename="invoice.md")
    inner.attach(notes)
    message.attach(inner)
    assert texts(message.as_bytes())[2:] == [
        "Please see the invoice.",
        "invoice.md",
        "Invoice 88",
        "Due on Friday.",
    ]


def test_the_html_part_is_read_where_the_plain_one_is_a_stub() -> None:
    message = EmailMessage()
    head(message, "Regatta")
    message.set_content("This message requires an HTML capable mail reader.")
    message.add_alternative("<p>The regatta moved to Sunday 14 June.</p>", subtype="html")
    assert texts(message.as_bytes())[2:] == ["The regatta moved to Sunday 14 June."]


def test_an_invitation_is_an_event_beside_the_text() -> None:
    message = MIMEMultipart("alternative")
    head(message, "Invitation")
    message.attach(MIMEText("You are invited.", "plain"))
    message.attach(MIMEText("<p>You are invited.</p>", "html"))
    for _ in range(2):  # many programs attach it too
        message.attach(MIMEText(INVITATION.replace("\n", "\r\n"), "calendar"))
    assert shown(extract(message.as_bytes(), MAIL))[2:] == [
        (0, "You are invited."),
        (2, "Mast stepping, main quay"),
        (0, "Start: 2026-07-01 08:00 Europe/Oslo"),
        (0, "End: 2026-07-01 10:00 UTC"),
        (0, "Repeats: every week, on Wednesday"),
        (0, "Place: Crane quay"),
        (0, "Organiser: Astrid Lunde <astrid@fjord.example>"),
        (0, "Attendees: Rune Vik <rune@fjord.example> (accepted), olve@fjord.example"),
        (0, "Bring gloves."),
        (0, "The crane is booked."),
    ]


def test_header_fields_in_raw_utf_8_give_author_and_date() -> None:
    data = (
        "From: Søren Ågård <soren@port.example>\r\nTo: crew@port.example\r\n"
        "Subject: Møte på Ærøy\r\nDate: Tue, 3 Mar 2026 09:12:00 +0100\r\n\r\nVi møtes.\r\n"
    ).encode()
    first, line, body = extract(data, MAIL)
    assert (first.text, body.text) == ("Møte på Ærøy", "Vi møtes.")
    assert line.text == (
        "From Søren Ågård <soren@port.example> to crew@port.example,"
        " date Tue, 3 Mar 2026 09:12:00 +0100"
    )
    assert dict(first.properties) == {
        "author": "Søren Ågård <soren@port.example>",
        "modified": "2026-03-03T08:12:00+00:00",
    }


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("ISO-2022-JP", "倉庫の鍵は当番が保管します。"),
        ("iso-2022-kr", "창고 열쇠는 당직자가 보관."),
        ("Shift_JIS", "倉庫の鍵は当番が保管します。"),
        ("ks_c_5601-1987", "창고 열쇠는 당직자가 보관."),
        ("utf-7", "Schlüssel für Gröÿe."),
        ("windows-1251", "Ключ в сейфе."),
    ],
)
def test_bodies_and_fields_are_in_the_character_set_that_they_declare(
    charset: str, text: str
) -> None:
    codec = {"ks_c_5601-1987": "cp949"}.get(charset, charset)
    subject = text.encode(codec).hex("=").upper()
    data = f"Subject: =?{charset}?Q?={subject}?=\r\nContent-Type: text/plain; charset={charset}"
    assert texts(data.encode() + b"\r\n\r\n" + text.encode(codec)) == [text, text]


def test_names_of_attachments_are_decoded() -> None:
    for name in (
        "filename*=utf-8''Gr%C3%B6%C3%9Fe.md",
        "filename*0*=utf-8''Gr%C3%B6;\r\n filename*1*=%C3%9Fe.md",
        'filename="=?utf-8?q?Gr=C3=B6=C3=9Fe=2Emd?="',
    ):
        data = (
            "Subject: a\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n"
            f"Content-Type: text/markdown\r\nContent-Disposition: attachment; {name}\r\n\r\n"
            "Text.\r\n--x--\r\n"
        ).encode()
        assert texts(data) == ["a", "Größe.md", "Text."]


FORWARDED = """Please read.

---------- Forwarded message ---------
From: Rune Vik <rune@fjord.example>
Date: Mon, 2 Mar 2026 at 10:00
Subject: The mast
To: <astrid@fjord.example>

The mast is cracked below the spreaders.
"""


def test_an_inline_forwarded_message_stands_under_its_own_sender_and_date() -> None:
    message = EmailMessage()
    head(message, "Fwd: The mast")
    message.set_content(FORWARDED)
    assert shown(extract(message.as_bytes(), MAIL))[2:] == [
        (0, "Please read."),
        (2, "The mast"),
        (
            0,
            "From Rune Vik <rune@fjord.example> to <astrid@fjord.example>,"
            " date Mon, 2 Mar 2026 at 10:00",
        ),
        (0, "The mast is cracked below the spreaders."),
    ]


def test_original_message_is_a_quotation_in_a_reply_and_not_in_what_is_forwarded() -> None:
    text = (
        "See below.\n\n-----Original Message-----\nFrom: Rune Vik\nSent: Monday\n\nIt is cracked."
    )
    for subject, own in (("RE: The mast", ["See below."]), ("FW: The mast", None)):
        message = EmailMessage()
        head(message, subject)
        message.set_content(text)
        found = texts(message.as_bytes())[2:]
        assert found == (
            own
            or ["See below.", "Forwarded message", "From Rune Vik, date Monday", "It is cracked."]
        )


def test_a_uuencoded_file_in_the_text_is_an_attachment() -> None:
    text = "Attached.\n\nbegin 644 tide.md\n#0V%T\n \nend\nbegin 644\n#0V%T\n \nend\n\nAnn\n"
    message = EmailMessage()
    head(message, "Tide")
    message.set_content(text)
    assert texts(message.as_bytes())[2:] == ["Attached.", "Ann", "tide.md", "Cat"]


def test_omitted_parts_are_counted() -> None:
    message = EmailMessage()
    head(message, "Re: The quay")
    message.set_content("Yes.\n\nOn 3 May 2026, Bob wrote:\n> Wet?\n")
    message.add_attachment(b"\x89PNG\0", maintype="image", subtype="png", filename="quay.png")
    message.add_attachment(b"\0\1", maintype="application", subtype="x-thing", filename="a.bin")
    found = extract(message.as_bytes(), MAIL)
    assert count_skipped(found) == {"quotes": 1, "pictures": 1, "attachments": 1}


def test_an_mbox_file_keeps_quotations_of_messages_that_it_does_not_have() -> None:
    first = "From: Ann <a@x>\n\nThe quay is wet and slippery.\n-- \nAnn, harbour office\n"
    reply = (
        "From: Bob <b@x>\n\nIndeed.\n\nAnn wrote at 10:00:\n> The quay is wet and slippery.\n"
        "\nOlve wrote at 9:00:\n> The crane has a new cable.\n-- \nAnn, harbour office\n"
    )
    data = "".join(f"From a@x Mon Nov  2 10:00:00 2026\n{one}\n" for one in (first, reply))
    found = extract(data.encode(), MBOX)
    text = "\n".join(block.text for block in found)
    assert text.count("wet and slippery") == 1
    assert "The crane has a new cable." in text and "Olve wrote" in text
    assert text.count("harbour office") == 1
    assert count_skipped(found) == {"quotes": 1, "signatures": 1}


def test_messages_of_an_mbox_file_may_have_no_fields() -> None:
    start = "From sender Mon Jun 01 10:00:00 2009\n\n"
    data = f"{start}First text\n\n{start}Second text\nFrom here to 10:00 2009\n\nAnd on.\n"
    found = [(b.first_line, b.text) for b in extract(data.encode(), MBOX) if b.text]
    assert found == [(1, "First text"), (2, "Second text\nFrom here to 10:00 2009"), (2, "And on.")]


def test_a_plain_line_in_a_script_without_capitals_is_no_heading() -> None:
    for line in ("倉庫の鍵", "القفز فوق الكلب", "המפתח של המחסן"):
        assert [b.kind for b in extract(f"{line}\n\nText.\n".encode(), "text/plain")] == [
            "paragraph",
            "paragraph",
        ]


def test_a_mail_is_named_by_its_subject_where_results_are_printed() -> None:
    passage = {
        "source": "work",
        "document": "CAJ12345@mail.example",
        "lines": [3, 5],
        "heading": ["The mast", "Spreaders"],
        "origin": {
            "author": "Rune Vik",
            "date": "2026-03-02T09:00:00+00:00",
            "message_id": "CAJ12345@mail.example",
        },
    }
    assert format_place(passage) == "work: The mast (Rune Vik, 2026-03-02)"
    del passage["origin"]
    assert format_place(passage) == "work: CAJ12345@mail.example:3-5"


def test_two_texts_that_say_the_same_are_compared_without_parsing_the_html(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []

    def noted(html: str, unseen: frozenset[str]) -> Iterator[Token]:
        parsed.append(html)
        return tokenize_html(html, unseen)

    monkeypatch.setattr(mail_text, "tokenize_html", noted)
    head = f"<html><head><style>{' '.join(f'.style{n}' for n in range(200))}</style></head>"
    said = "The regatta moved to Sunday &amp; starts at noon."
    assert not is_stub(said.replace("&amp;", "&"), f"{head}<body><p>{said}</p></body></html>")
    assert not parsed
    assert is_stub("See the HTML.", f"{head}<body><p>{said}</p></body></html>")
    assert len(parsed) == 1


def test_the_lines_of_outlook_above_an_answered_message_name_its_own_sender() -> None:
    html = (
        "<div class=WordSection1><p>The invoice follows.</p><div><p><b>From:</b> Ole Vik"
        " &lt;ole@harbour.example&gt;<br><b>Sent:</b> Friday, 31 May 2024 08:00<br><b>To:</b> Kari"
        "<br><b>Subject:</b> Delivery</p></div><p>When do you send the invoice?</p></div>"
    )
    message = MIMEText(html, "html")
    message["Subject"], message["From"] = "RE: Delivery", "kari@winch.example"
    found = [(block.kind, block.text) for block in extract(message.as_bytes(), MAIL)]
    assert found[-3:] == [
        ("heading", "Delivery"),
        ("paragraph", "From Ole Vik <ole@harbour.example> to Kari, date Friday, 31 May 2024 08:00"),
        ("paragraph", "When do you send the invoice?"),
    ]


@pytest.mark.parametrize("first", ["the question of old", "something else"])
def test_an_mbox_file_keeps_quotations_in_html_that_it_does_not_have(first: str) -> None:
    answer = (
        "<p>Here is the answer.</p><div class=gmail_quote>On Monday Ann wrote:<blockquote>"
        "<p>the question of old</p></blockquote></div>"
    )
    data = b""
    for html in (f"<p>{first}</p>", answer):
        message = MIMEText(html, "html")
        message["From"] = "ann@fjord.example"
        data += b"From ann@fjord.example Mon Jun  1 09:00:00 2026\n" + message.as_bytes() + b"\n\n"
    blocks = extract(data, MBOX)
    said = " ".join(block.text for block in blocks)
    assert said.count("the question of old") == 1
    assert count_skipped(blocks).get("quotes", 0) == (first == "the question of old")


def test_a_reply_between_quotations_keeps_the_paragraph_that_it_answers() -> None:
    said = (
        "On 3 May 2026, Bob wrote:\n> The season begins soon.\n>\n> Which day is the boat free?\n"
        "\nFriday.\n\n> And who pays?\nThe club pays.\n\n> Thanks, Bob\n-- \nTove\n"
    )
    written = mail_text.separate_quotes(said, None)
    assert list(filter(None, written.parts[0].text.split("\n"))) == [
        "> Which day is the boat free?", "Friday.", "> And who pays?", "The club pays.", "Tove",
    ]  # fmt: skip
    assert written.quotes == 3


def test_a_thousand_replies_and_blank_lines_are_read_at_once() -> None:
    said = ("> Why?\n" + "\n" * 200 + "Because.\n") * 1000
    began = perf_counter()
    assert mail_text.separate_quotes(said, None).quotes == 1000
    assert perf_counter() - began < 5


def test_parts_are_found_where_the_declared_boundary_does_not_occur() -> None:
    body = "This is a multi-part message.\n\n{0}\nContent-Type: text/plain\n\n{1}\n{0}--\n"
    folded = 'Content-Type: multipart/mixed; boundary="=_Part\n 0002"\n\n'
    said = folded + body.format("--=_Part 0002", "The quay is closed.")
    assert texts(said.encode()) == ["The quay is closed."]
    missing = "Content-Type: multipart/mixed\n\n" + body.format("--x1", "The quay is open.")
    assert texts(missing.encode()) == ["The quay is open."]
    alone = "Content-Type: multipart/mixed; boundary=x\n\nThe quay is wet.\n"
    assert texts(alone.encode()) == ["The quay is wet."]


def test_multiparts_without_boundaries_in_each_other_are_read_at_once() -> None:
    said = "".join(
        f"Content-Type: multipart/mixed\n\n--x{index}\n\n--x{index}\n" for index in range(10_000)
    )
    began = perf_counter()
    texts(said.encode())
    assert perf_counter() - began < 5


def test_a_single_message_that_is_named_like_a_mailbox_or_for_outlook_is_read() -> None:
    said = b"Return-Path: <a@fjord.example>\nSubject: Berth\n\nThe berth is free.\n"
    assert texts(said, MBOX) == ["Berth", "The berth is free."]
    assert texts(said, OUTLOOK) == ["Berth", "The berth is free."]
    assert texts(b"From a Mon Mar  2 09:12:00 2026\n" + said, OUTLOOK)[0] == "Berth"


def test_an_attached_message_in_base64_is_decoded() -> None:
    inner = base64.encodebytes(b"Subject: Berth 7\n\nIt is free.\n").decode()
    head = "Subject: Fwd\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n"
    assert texts((head + inner).encode()) == ["Fwd", "Berth 7", "It is free."]


def test_a_header_field_in_the_text_names_no_message() -> None:
    message = b"Subject: Need help\n\nMIME-Version: 1.0\nSubject: Mast\nFrom: Ann\n\nIt fell.\n"
    assert list_names(extract(message, MAIL), None) == ("Need help",)


def exported(sender: str, labels: str, day: int, text: str) -> str:
    """Return a message as Google Takeout exports it."""
    return (
        "From 1600000000000000001@xxx Mon Nov 02 10:00:00 +0000 2026\n"
        f"X-GM-THRID: 1\nX-Gmail-Labels: {labels}\nFrom: {sender}\n"
        f"Date: Mon, {day} Nov 2026 10:00:00 +0000\nMessage-ID: <{day}@x>\n\n{text}\n\n"
    )


def test_an_mbox_file_has_the_authors_and_labels_of_its_messages() -> None:
    data = "".join(
        (
            exported("Ann Lee <ann@example.org>", "Inbox,House", 2, "The roof leaks."),
            exported("Bo Ek <bo@example.org>", "Sent,=?UTF-8?Q?H=C3=A4user?=", 4, "Call them."),
            exported("Win <w@example.org>", "Spam", 5, "You have won."),
            exported("Ann Lee <ann@example.org>", "Trash,House", 6, "Old price."),
        )
    )
    found = extract(data.encode(), MBOX)
    assert {pair for block in found if block.kind != "skipped" for pair in block.properties} == {
        ("author", "Ann Lee <ann@example.org>"),
        ("author", "Bo Ek <bo@example.org>"),
        ("modified", "2026-11-04T10:00:00+00:00"),
        ("tag", "House"),
        ("tag", "Häuser"),
    }
    text = "\n".join(block.text for block in found)
    assert "The roof leaks." in text and "won" not in text and "Old price" not in text
    assert count_skipped(found) == {"deleted notes and spam": 2}


def test_an_mbox_file_of_spam_only_has_no_text() -> None:
    found = extract(exported("Win <w@x>", "Spam", 5, "You have won.").encode(), MBOX)
    assert not any(block.text for block in found)
    assert count_skipped(found) == {"deleted notes and spam": 1}
