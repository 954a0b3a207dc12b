"""An mbox file among documents: one document, a section for each message.

A mail source makes each message a document, with its author and date (connectors/mail/mbox.py).
"""

from collections.abc import Iterator
from dataclasses import replace

from connectors.mail.mbox import messages_of
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.mail import Extract, mail_blocks


def mbox_blocks(data: bytes, extract: Extract) -> tuple[Block, ...]:
    """Read all messages; the lines of their blocks number the messages, from 1.

    Raises DocumentUnreadable for a file in which no message begins.
    """
    blocks = tuple(_blocks(data, extract))
    if not blocks and data.strip():
        raise DocumentUnreadable(
            "the document",
            "it is not what its name says: no message begins in it with a `From ` line",
            "Give it the ending of what it is, or leave it out by an ignore pattern",
        )
    return blocks


def _blocks(data: bytes, extract: Extract) -> Iterator[Block]:
    for number, message in enumerate(messages_of(data), 1):
        # A message without a subject must not stand under the one before.
        yield Block("heading", "", number, number, level=1)
        for at, block in enumerate(mail_blocks(message, extract)):
            # What the first says of ids would join the document with itself.
            told = replace(block, names=(), links=()) if at == 0 else block
            yield replace(told, first_line=number, last_line=number)
