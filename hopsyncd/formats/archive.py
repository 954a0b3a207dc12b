"""Documents that are archives of XML: opening them in bounds, their members and relations."""

import io
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from xml.etree import ElementTree
from zipfile import ZipFile

from hopsyncd.errors import DocumentUnreadable

_MAX_BYTES = 256 << 20
_MAX_MEMBERS = 10_000
_RELATION_ID = "}id"


def opened(data: bytes) -> ZipFile:
    """Open an archive. Raises DocumentUnreadable if it declares too large a content.

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
    """The id of the relation that an element names; empty without one."""
    return next((value for key, value in element.items() if key.endswith(_RELATION_ID)), "")


def targets_of(archive: ZipFile, name: str) -> dict[str, tuple[str, str]]:
    """The targets of the relations of a member: id to (kind, name of the member).

    The empty name asks for those of the file itself.
    """
    folder, _, base = name.rpartition("/")
    relations = f"{folder}/_rels/{base}.rels".lstrip("/")
    if relations not in archive.NameToInfo:
        return {}
    return {
        one.get("Id", ""): (
            one.get("Type", "").rpartition("/")[2],
            normpath(join("/" + dirname(name), one.get("Target", ""))).lstrip("/"),
        )
        for one in tree_of(archive, relations)
    }


def link_targets_of(archive: ZipFile, name: str) -> dict[str, str]:
    """The addresses outside the file that a member refers to, by the ids of the relations."""
    folder, _, base = name.rpartition("/")
    relations = f"{folder}/_rels/{base}.rels".lstrip("/")
    if relations not in archive.NameToInfo:
        return {}
    return {
        one.get("Id", ""): one.get("Target", "")
        for one in tree_of(archive, relations)
        if one.get("TargetMode") == "External"
    }


def attribute(element: ElementTree.Element, name: str) -> str:
    """The value of an attribute, whatever its namespace; empty without it."""
    for key, value in element.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


def child_of(element: ElementTree.Element, *path: str) -> ElementTree.Element | None:
    """The first element below this one by the names along the path, whatever their namespaces."""
    for name in path:
        end = "}" + name
        for one in element:
            if one.tag.endswith(end) or one.tag == name:
                element = one
                break
        else:
            return None
    return element


def local_name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def outermost(parent: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of that name below this one, but none inside another of them."""
    for child in parent:
        if local_name(child) == name:
            yield child
        else:
            yield from outermost(child, name)
