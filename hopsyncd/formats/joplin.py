"""Parses the items of Joplin: a title, a text, and below them a field on each line.

Joplin's synchronisation folders, its exports as "RAW" and its archives (`.jex`) have such items.
Only some of them are notes: notebooks, tags, attachments and settings have the same form.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hopsyncd.formats.blocks import RECORDS, Block, add_properties, make_skipped_block, with_title

NOTE = "1"
_FIELD = re.compile(r"([a-z_]{1,40}):(?: (.*))?\Z")
_MAX_FIELDS = 60
_ID = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class JoplinItem:
    """An item. `kind` is its type number."""

    title: str
    body: str
    kind: str
    fields: Mapping[str, str]

    @property
    def created(self) -> str:
        return self.fields.get("user_created_time") or self.fields.get("created_time", "")

    @property
    def modified(self) -> str:
        return self.fields.get("user_updated_time") or self.fields.get("updated_time", "")


def parse_item(text: str) -> JoplinItem | None:
    """Parse an item. Returns None for text that does not end with the fields of Joplin."""
    if "\ntype_: " not in text[-100:]:
        return None
    lines = text.rstrip().rsplit("\n", _MAX_FIELDS)
    fields: dict[str, str] = {}
    while lines and (found := _FIELD.match(lines[-1])):
        fields[found[1]] = found[2] or ""
        lines.pop()
    if "type_" not in fields or not _ID.match(fields.get("id", "")):
        return None
    title, _, body = "\n".join(lines).rstrip().partition("\n")
    return JoplinItem(title.strip(), body, fields["type_"], fields)


def make_joplin_blocks(
    item: JoplinItem, read_text: Callable[[str], tuple[Block, ...]]
) -> tuple[Block, ...]:
    """Return the blocks of a note in a file of its own. Other items of Joplin have no text.

    The address of a note is its id, which is also the name of its file.
    """
    if item.kind != NOTE:
        return (make_skipped_block({RECORDS: 1}),)
    body = item.body.replace("](:/", "](")
    blocks = with_title(read_text(f"\n{body}"), item.title, 1)
    author = item.fields.get("author", "")
    dates = (("created", item.created), ("modified", item.modified))
    return add_properties(blocks, (("author", author), *dates))
