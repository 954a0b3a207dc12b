"""Opens Office documents, which are ZIP archives of XML, within size limits, and finds their parts
and relationships."""

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from posixpath import dirname, join, normpath
from xml.etree import ElementTree
from zipfile import ZipFile

from hopsyncd.errors import DocumentUnreadable

_MAX_BYTES = 256 << 20
_MAX_MEMBERS = 10_000
_MAX_TAG_BYTES = 4096
_RELATION_ID = "}id"
_ATTRIBUTES = rb"""((?>[^>"']|"[^"]*"|'[^']*')*+)"""
_ROOT = re.compile(rb"<(?![?!])([\w.:-]+)" + _ATTRIBUTES + rb">")
_OTHER_ENCODING = re.compile(
    rb"""<\?xml[^>]*\sencoding\s*=\s*["'](?!utf-8["']|us-ascii["'])""", re.IGNORECASE
)


def open_archive(data: bytes) -> ZipFile:
    """Open a ZIP archive. Raises DocumentUnreadable if the archive has too many members, or members
    that are too large in total.

    The total is the sum of the declared sizes. ZipFile reads no member beyond its declared size.
    """
    archive = ZipFile(io.BytesIO(data))
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    if size > _MAX_BYTES or len(members) > _MAX_MEMBERS:
        raise DocumentUnreadable(
            "the document",
            f"the file unpacks to {size >> 20} MiB in {len(members)} parts; the limits are"
            f" {_MAX_BYTES >> 20} MiB and {_MAX_MEMBERS} parts",
            "Split the file, or add it to `ignore`",
        )
    return archive


def parse_member(archive: ZipFile, name: str) -> ElementTree.Element:
    """Parse the member `name` of an archive as XML, and return its root element."""
    return ElementTree.fromstring(archive.read(name))


class Children:
    """Finds the child elements with a given tag in an XML part by the value of an attribute.

    Each element is parsed at its first use, because a Word document has hundreds of styles and uses
    few of them.
    """

    def __init__(self, data: bytes, name: str, key: str) -> None:
        self._data, self._key = data, key.encode()
        self._parsed: dict[str, ElementTree.Element | None] = {}
        self._root = _ROOT.search(data)
        self._short_root: tuple[bytes, bytes] | None = None
        self._begin = re.compile(rb"<((?:[\w.-]+:)?%s)(?=\s)%s>" % (name.encode(), _ATTRIBUTES))
        # Comments, CDATA and entities can contain text that looks like an element.
        if data and (b"<!" in data or not self._root or _OTHER_ENCODING.match(data)):
            self._root = None
            for child in ElementTree.fromstring(data):
                if get_local_name(child) == name:
                    self._parsed[get_attribute(child, key)] = child

    def get(self, key: str) -> ElementTree.Element | None:
        """Return the element whose attribute has the value `key`, or None if there is no such
        element."""
        if key not in self._parsed:
            self._parsed[key] = self._find(key)
        return self._parsed[key]

    def _find(self, key: str) -> ElementTree.Element | None:
        if self._root is None or not key:
            return None
        value = key.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").encode()
        for attributes in (b'%s="%s"' % (self._key, value), b"%s='%s'" % (self._key, value)):
            offset = -1
            while (offset := self._data.find(attributes, offset + 1)) >= 0:
                opened_at = self._data.rfind(b"<", max(0, offset - _MAX_TAG_BYTES), offset)
                start = self._begin.match(self._data, max(opened_at, 0))
                if start is None or start.end() < offset:
                    continue
                closing = b"" if start[2].endswith(b"/") else b"</" + start[1] + b">"
                end = self._data.find(closing, start.end())
                inside = self._data[start.start() : max(end, start.end()) + len(closing)]
                return self._parse(inside, start[1].rpartition(b":")[0])
        return None

    def _parse(self, inside: bytes, prefix: bytes) -> ElementTree.Element:
        """Parse the element in the bytes `inside`.

        At first, only the namespace of `prefix` is declared, because parsing all thirty namespaces
        of a Word document for each element takes too long. If the element uses another namespace,
        all are declared.
        """
        root = self._root
        assert root is not None
        if self._short_root is None:
            name = b"xmlns:" + prefix if prefix else b"xmlns"
            found = re.search(rb"\s" + name + rb"""\s*=\s*("[^"]*"|'[^']*')""", root[2])
            declared = b" " + name + b"=" + found[1] if found else b""
            self._short_root = (b"<root" + declared + b">", b"</root>")
        with suppress(ElementTree.ParseError):  # the element uses another namespace
            return ElementTree.fromstring(inside.join(self._short_root))[0]
        return ElementTree.fromstring(inside.join((root[0], b"</" + root[1] + b">")))[0]


def get_relation_id(element: ElementTree.Element) -> str:
    """Return the relationship id in an element's attributes, or an empty string."""
    return next((value for key, value in element.items() if key.endswith(_RELATION_ID)), "")


def read_targets(archive: ZipFile, name: str) -> dict[str, tuple[str, str]]:
    """Return the type and the target's member name for each relationship id of the member `name`.

    An empty `name` selects the relationships of the archive itself.
    """
    return read_all_targets(archive, name)[0]


def link_targets_of(archive: ZipFile, name: str) -> dict[str, str]:
    """Return the external addresses to which the member `name` refers, by relationship id."""
    return read_all_targets(archive, name)[1]


def read_all_targets(
    archive: ZipFile, name: str
) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Return the results of `read_targets` and `link_targets_of`."""
    parts: dict[str, tuple[str, str]] = {}
    links: dict[str, str] = {}
    folder = "/" + dirname(name)
    for relation in _list_relations(archive, name):
        key, target = relation.get("Id", ""), relation.get("Target", "")
        kind = relation.get("Type", "").rpartition("/")[2]
        parts[key] = (kind, normpath(join(folder, target)).lstrip("/"))
        if relation.get("TargetMode") == "External":
            links[key] = target
    return parts, links


def _list_relations(archive: ZipFile, name: str) -> Iterable[ElementTree.Element]:
    folder, _, base = name.rpartition("/")
    relations = f"{folder}/_rels/{base}.rels".lstrip("/")
    return parse_member(archive, relations) if relations in archive.NameToInfo else ()


def get_attribute(element: ElementTree.Element, name: str) -> str:
    """Return the value of an attribute in any namespace, or an empty string."""
    end = "}" + name
    for key, value in element.items():
        if key.endswith(end) or key == name:
            return value
    return ""


def find_child(element: ElementTree.Element, *path: str) -> ElementTree.Element | None:
    """Return the descendant at `path`, or None if it is missing. `path` has one tag for each level,
    without namespaces."""
    for name in path:
        end = "}" + name
        for child in element:
            if child.tag.endswith(end) or child.tag == name:
                element = child
                break
        else:
            return None
    return element


def get_local_name(element: ElementTree.Element) -> str:
    """Return the tag of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def find_outermost(parent: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """Yield the elements with the tag `name` below `parent`, except elements nested in another such
    element."""
    for child in parent:
        if get_local_name(child) == name:
            yield child
        else:
            yield from find_outermost(child, name)
