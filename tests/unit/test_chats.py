"""Chats of WhatsApp and clippings of a Kindle, which are plain text."""

import pytest

from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.chats import find_chat_title
from hopsyncd.formats.readers import extract


def read(text: str) -> tuple[Block, ...]:
    return extract(text.encode(), "text/plain")


def told(blocks: tuple[Block, ...]) -> list[tuple[int, str]]:
    return [(block.first_line, block.text) for block in blocks if block.text]


ANDROID = """13/05/2026, 18:03 - Messages and calls are end-to-end encrypted. Learn more.
13/05/2026, 18:04 - Anders: The storage costs 310 euros
and a key.
13/05/2026, 18:09 - Kofi: <Media omitted>
02/06/2026, 09:15 - Liv Moen: Launch at: ten
"""


def test_a_chat_of_whatsapp_has_a_section_for_each_day() -> None:
    blocks = read(ANDROID)
    assert told(blocks) == [
        (2, "2026-05-13"),
        (2, "Anders (18:04): The storage costs 310 euros\nand a key."),
        (5, "2026-06-02"),
        (5, "Liv Moen (09:15): Launch at: ten"),
    ]
    assert blocks[0].properties == (
        ("author", "Anders"),
        ("author", "Liv Moen"),
        ("created", "2026-05-13T18:04"),
        ("modified", "2026-06-02T09:15"),
    )
    assert count_skipped(blocks) == {"attachments": 1, "notices": 1}


@pytest.mark.parametrize(
    ("start", "day", "clock"),
    [
        ("[02.05.26, 18:05:40] ", "2026-05-02", "18:05"),
        ("[2026-05-02, 18:05:40] ", "2026-05-02", "18:05"),
        ("\u200e[5/2/26, 6:05:40\u202fPM] ", "2026-05-02", "18:05"),
        ("5/2/26, 12:05 AM - ", "2026-05-02", "00:05"),
        ("[2.5.2026 klo 18.05.40] ", "2026-05-02", "18:05"),
        ("5/14/26, 18:05 - ", "2026-05-14", "18:05"),
    ],
)
def test_whatsapp_writes_times_as_the_phone_does(start: str, day: str, clock: str) -> None:
    assert told(read(f"{start}Ines: The dentist moved.\n")) == [
        (1, day),
        (1, f"Ines ({clock}): The dentist moved."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-02 18:03:11 - ERROR: disk full\n",
        "13/05/2026, a day in May\n\nAnders: hello\n",
        "13/05/2026, 18:03 - Messages are encrypted.\n",
        "13/05/2026, 18:03 - Rain.\n14/05/2026, 09:00 - A call: yes.\n15/05/2026, 09:00 - Sun.\n",
        "33/33/2026, 18:03 - Ann: hello\n",
        "13/05/2026, 25:03 - Ann: hello\n",
        "Header\n========\n\nText.\n",
        "Book (Ann)\n- milk\n\nand eggs\n==========\n",
        "Team (Rowing)\n- Ann Lee | chair\n- Bo | treasurer\n==========\n",
        "Team (Rowing)\n- Ann Lee | chair\n\nSince May\n==========\n\nNext page\n",
    ],
)
def test_other_text_is_no_chat_and_no_clippings(text: str) -> None:
    blocks = read(text)
    assert blocks and not any(block.properties for block in blocks)


CLIPPINGS = """\ufeffThe Lamp (Ruth Amsel)
- Your Highlight on page 31 | Location 471-473 | Added on Saturday, March 1, 2025 8:14:02 PM

A lamp that is never cleaned
==========
\ufeffThe Lamp (Ruth Amsel)
- Your Bookmark on page 40 | Location 600 | Added on Saturday, March 1, 2025 8:20:10 PM


==========
Deep Soil (Okonkwo, Ben)
- Ihre Notiz bei Position 12 | Hinzugef\u00fcgt am Sonntag, 6. April 2025 09:00:00

For the talk.
==========
The Lamp (Ruth Amsel)
- Your Highlight on page 31 | Location 471-474 | Added on Saturday, March 1, 2025 8:15:02 PM

A lamp that is never cleaned gives no light.
==========
"""


def test_clippings_are_grouped_by_book_and_said_once() -> None:
    blocks = read(CLIPPINGS)
    assert told(blocks) == [
        (16, "The Lamp (Ruth Amsel)"),
        (16, "Page 31: A lamp that is never cleaned gives no light."),
        (11, "Deep Soil (Okonkwo, Ben)"),
        (11, "Note: For the talk."),
    ]
    assert blocks[0].properties == (("author", "Ruth Amsel"), ("author", "Okonkwo, Ben"))
    assert count_skipped(blocks) == {"bookmarks": 1}


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("chats/WhatsApp Chat with Boat Club.txt", "WhatsApp Chat with Boat Club"),
        ("chats/Boat Club/_chat.txt", "Boat Club"),
        ("export/kitchen/2026-02-03.json", "kitchen"),
    ],
)
def test_a_chat_without_a_title_is_named_by_its_file_or_folder(path: str, title: str) -> None:
    assert find_chat_title(path, read(ANDROID)) == title
    assert find_chat_title(path, read("2026-05-13\n\nText.\n")) == ""
