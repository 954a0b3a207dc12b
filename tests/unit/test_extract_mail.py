"""Mail to blocks: what a reader of the message would say it says."""

from email.message import EmailMessage

import pytest

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.media_types import MBOX, find_unit
from hopsyncd.formats.readers import extract, is_light

MAIL = "message/rfc822"
HEAD = "From Ann Lee <ann@example.org> to bob@example.org, date Mon, 02 Nov 2026 10:00:00 +0000"


def mail(body: str = "Hello.", **fields: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "The harbour"
    message["From"] = "Ann Lee <ann@example.org>"
    message["To"] = "bob@example.org"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0000"
    for name, value in fields.items():
        message[name.replace("_", "-")] = value
    message.set_content(body)
    return message


def blocks(message: EmailMessage | bytes) -> tuple[Block, ...]:
    return extract(message if isinstance(message, bytes) else message.as_bytes(), MAIL)


def body(message: EmailMessage | bytes) -> list[str]:
    """The texts after the subject and the lines of the head."""
    return [block.text for block in blocks(message) if block.kind != "skipped"][2:]


def raw(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode("latin-1")


def test_a_message_is_its_subject_its_head_and_its_text() -> None:
    found = blocks(mail("The quay is wet.\n\nBring boots."))
    assert [(b.kind, b.level, b.text) for b in found] == [
        ("heading", 1, "The harbour"),
        (
            "paragraph",
            0,
            HEAD,
        ),
        ("paragraph", 0, "The quay is wet."),
        ("paragraph", 0, "Bring boots."),
    ]
    assert [(b.first_line, b.last_line) for b in found] == [(1, 1), (3, 3), (5, 5), (7, 7)]


def test_encoded_words_and_bodies_are_decoded() -> None:
    message = mail("Grüße aus Köln.\n", X_Note="nothing")
    message.replace_header("Subject", "Köln im Frühling")
    found = blocks(message)
    assert found[0].text == "Köln im Frühling"
    assert found[-1].text == "Grüße aus Köln."
    latin = raw("Subject: =?iso-8859-1?q?K=F6ln?=\nContent-Type: text/plain; charset=iso-8859-1\n"
                "\nK\xf6ln am Rhein.\n")  # fmt: skip
    assert [b.text for b in blocks(latin)] == ["Köln", "Köln am Rhein."]


@pytest.mark.parametrize(
    ("written", "own"),
    [
        ("Yes.\n\nOn Mon, 2 Nov 2026 at 10:00, Bob wrote:\n> Shall we?\n> Soon?\n", ["Yes."]),
        ("Yes.\n\nOn Mon, 2 Nov 2026 at 10:00, Bob <bob@example.org>\nwrote:\n> Soon?", ["Yes."]),
        ("Am 02.11.26 um 10:00 schrieb Bob:\n> Bald?\n\nJa, bald.\n", ["Ja, bald."]),
        ("\n\n> One?\nFirst.\n\n> Two?\nSecond.\n", ["> One?\nFirst.", "> Two?\nSecond."]),
        ("Three things:\n> all of them\nfine.", ["Three things:\nfine."]),
        ("Fine.\n\n-----Original Message-----\nFrom: Bob\nSent: today\n\nOld.", ["Fine."]),
        ("Fine.\n-- \nAnn Lee, Harbour Office\n> Old.", ["Fine.", "Ann Lee, Harbour Office"]),
    ],
)
def test_what_a_reply_quotes_is_left_out_and_counted(written: str, own: list[str]) -> None:
    assert body(mail(written)) == own
    assert count_skipped(blocks(mail(written)))["quotes"] == max(written.count("\n\n>"), 1)


def test_a_message_that_only_quotes_keeps_it() -> None:
    assert body(mail("> The quay is wet.\n")) == ["> The quay is wet."]


def test_the_plain_one_of_two_alternatives_is_read() -> None:
    message = mail("Plain words.")
    message.add_alternative("<p>Plain <b>words</b> here.</p>", subtype="html")
    assert body(message) == ["Plain words."]


def test_a_message_with_only_html_is_read_without_its_quotations() -> None:
    message = mail()
    message.set_content(
        "<html><head><title>x</title></head><body><h1>News</h1><p>Ships <b>came</b>.</p>"
        '<div class="gmail_quote">On Mon Bob wrote: <blockquote>Old.</blockquote></div></body>',
        subtype="html",
    )
    found = blocks(message)
    assert [(b.kind, b.level, b.text) for b in found[2:-1]] == [
        ("heading", 2, "News"),
        ("paragraph", 0, "Ships came."),
    ]


def test_a_forwarded_html_message_is_kept() -> None:
    message = mail()
    message.set_content(
        '<div class="gmail_quote">---------- Forwarded message ---------<br>The tide.</div>',
        subtype="html",
    )
    assert "The tide." in " ".join(body(message))


def test_attachments_are_read_by_their_type_and_others_passed_over() -> None:
    message = mail("See the notes.")
    message.add_attachment("# Tides\n\nHigh at noon.\n", subtype="markdown", filename="tides.md")
    message.add_attachment(
        b"ships,berth\nArgo,3\n", maintype="application", subtype="octet-stream",
        filename="berths.csv",
    )  # fmt: skip
    message.add_attachment(b"\x89PNG\0", maintype="image", subtype="png", filename="quay.png")
    message.add_attachment(b"%PDF-broken", maintype="application", subtype="pdf", filename="b.pdf")
    found = blocks(message)
    headings = [(b.level, b.text) for b in found if b.kind == "heading"]
    assert headings[:3] == [(1, "The harbour"), (2, "tides.md"), (3, "Tides")]
    assert (2, "berths.csv") in headings
    texts = " ".join(b.text for b in found)
    assert "High at noon." in texts and "Argo" in texts
    assert "quay.png" not in texts and "b.pdf" not in texts


def test_a_message_attached_to_a_message_is_read() -> None:
    message = mail("See below.")
    message.add_attachment(mail("The crane is broken."))
    assert [(b.level, b.text) for b in blocks(message)][2:] == [
        (0, "See below."),
        (2, "The harbour"),
        (0, HEAD),
        (0, "The crane is broken."),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n\r\n",
        b"no header at all",
        b"Subject: =?utf-8?b?!!!?=\r\nFrom: \xff\xfe\r\nDate: never\r\n\r\nText.",
        b"Content-Type: text/plain; charset=klingon\r\n\r\nText \xff.",
        b"Content-Type: multipart/mixed\r\n\r\nText without a boundary.",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n--x\r\n--x",
        b"Content-Transfer-Encoding: base64\r\n\r\nnot base64 at all ===",
        b"Subject: a\0b\r\n\r\nc\0d",
    ],
)
def test_damaged_messages_are_read_as_far_as_they_go(data: bytes) -> None:
    extract(data, MAIL)


def test_parts_nested_without_end_are_refused() -> None:
    nested = "".join(
        f"Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n" for n in range(2000)
    )
    with pytest.raises(DocumentUnreadable, match="nested"):
        extract(nested.encode(), MAIL)


def test_mail_is_read_in_the_confined_process() -> None:
    assert not is_light(MAIL)


def test_a_message_has_its_id_as_name_and_links_to_those_it_answers() -> None:
    message = mail(
        Message_ID="<c@x>", In_Reply_To="<b@x>", References="<a@x> <b@x>", Subject2="ignored"
    )
    message.add_attachment(
        b"---\ntitle: Not the message\n---\ntext", maintype="text", subtype="markdown",
        filename="n.md",
    )  # fmt: skip
    first, *others = blocks(message)
    assert first.names == ("c@x",)
    assert [link.target for _, link in first.links] == ["b@x", "a@x"]
    assert not any(block.names or block.links for block in others)


def mbox(*messages: EmailMessage) -> bytes:
    start = b"From ann@example.org Mon Nov  2 10:00:00 2026\n"
    return b"".join(start + message.as_bytes() + b"\n" for message in messages)


def test_an_mbox_file_is_one_document_with_a_section_for_each_message() -> None:
    untitled = mail("It is.", Message_ID="<b@x>", In_Reply_To="<a@x>")
    del untitled["Subject"]
    data = mbox(mail("The quay is wet.\n>From here on.", Message_ID="<a@x>"), untitled)
    found = extract(data, MBOX)
    assert [(b.level, b.text.split("\n")[0], b.first_line) for b in found] == [
        (1, "", 1),
        (1, "The harbour", 1),
        (0, HEAD, 1),
        (0, "The quay is wet.", 1),
        (1, "", 2),
        (1, "Mail from Ann Lee", 2),
        (0, HEAD, 2),
        (0, "It is.", 2),
    ]
    assert not any(block.names or block.links for block in found)
    assert find_unit(MBOX) == "message"


def test_a_file_that_is_no_mbox_file_is_refused() -> None:
    with pytest.raises(DocumentUnreadable, match="no line begins with"):
        extract(b"Dear all,\nnothing.\n", MBOX)
    assert extract(b"", MBOX) == ()


def test_the_title_of_html_is_no_text_of_a_mail() -> None:
    message = mail()
    message.set_content("<title>Untitled document</title><p>Ships came.", subtype="html")
    assert body(message) == ["Ships came."]
