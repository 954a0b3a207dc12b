"""Zip archives, of which office files and books are made, opened with a bound on their size."""

import io
from xml.etree import ElementTree
from zipfile import ZipFile

from hopsyncd.errors import DocumentUnreadable

_MAX_BYTES = 256 << 20
_MAX_MEMBERS = 10_000
_RELATION_ID = "}id"


def opened(data: bytes) -> ZipFile:
    """Open an archive. Raises DocumentUnreadable for one that says it unpacks to too much.

    A member is never read beyond the size that the archive states for it.
    """
    archive = ZipFile(io.BytesIO(data))
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if size > _MAX_BYTES or len(members) > _MAX_MEMBERS:
        raise DocumentUnreadable(
            "the document",
            f"it unpacks to {size >> 20} MiB in {len(members)} files; the limits are"
            f" {_MAX_BYTES >> 20} MiB and {_MAX_MEMBERS}",
            "Leave it out by an ignore pattern, or save it in smaller parts",
        )
    return archive


def tree_of(archive: ZipFile, name: str) -> ElementTree.Element:
    """Parse one member as XML."""
    return ElementTree.fromstring(archive.read(name))


def relation_of(element: ElementTree.Element) -> str:
    """The id of the relation that an element of an office file names; empty without one."""
    return next((value for key, value in element.items() if key.endswith(_RELATION_ID)), "")
