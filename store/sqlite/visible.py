"""What is visible to a caller at a version, and the links and names in it.

A passage is visible while a document of a visible source holds it.

The store does not resolve a link to a document, since that depends on all the others. Documents of
`hidden` sources (names) count as absent.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from store.records import Link, PassageId, SetId
from store.sqlite.database import Connection

# ?1 is the version, ?2 a JSON array with the names of the hidden sources.
SEEN_DOCUMENTS = (
    "document AS d JOIN source AS s ON s.id = d.source"
    " WHERE s.name NOT IN (SELECT value FROM json_each(?2))"
)
VISIBLE_DOCUMENTS = f"{SEEN_DOCUMENTS} AND d.born <= ?1 AND ?1 < d.died"


def placed_in(documents: str) -> str:
    """A SELECT of the passages that these documents hold."""
    return (
        f"SELECT p.passage FROM placement AS p WHERE p.document IN (SELECT d.id FROM {documents})"
    )


VISIBLE_LIVES = (
    "SELECT id FROM life WHERE born <= ?1 AND ?1 < died"
    f" AND passage IN ({placed_in(VISIBLE_DOCUMENTS)})"
)


def names_json(hidden: Collection[str]) -> str:
    """The hidden names as one SQL argument."""
    return json.dumps(sorted(hidden))


def visible_sets(connection: Connection, version: int, hidden: Collection[str]) -> list[SetId]:
    """The question sets of the visible passages at a version."""
    rows = connection.execute(
        f"SELECT question_set FROM life WHERE id IN ({VISIBLE_LIVES})",
        [version, names_json(hidden)],
    )
    return [SetId(row[0]) for row in rows]


def visible_documents(connection: Connection, version: int, hidden: Collection[str]) -> int:
    """How many documents of visible sources are in force at a version."""
    row = connection.execute(
        f"SELECT count(*) FROM {VISIBLE_DOCUMENTS}", [version, names_json(hidden)]
    ).fetchone()
    return int(row[0])


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """A document in force, by its row id, and what it may be called."""

    id: int
    source: str
    path: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacedLink:
    """A link with the document and the passage that it stands in."""

    document: int
    passage: PassageId
    link: Link


@dataclass(frozen=True, slots=True)
class HeadedPassage:
    """A passage of a document under its heading path."""

    passage: PassageId
    heading: tuple[str, ...]


def links_text(links: Sequence[Link]) -> str:
    """Links as the column `placement.links` stores them."""
    return json.dumps([(link.target, link.shown) for link in links], ensure_ascii=False)


def read_links(column: str) -> tuple[Link, ...]:
    """What the column `placement.links` holds."""
    return tuple(Link(target, shown) for target, shown in json.loads(column))


def read_names(column: str) -> tuple[str, ...]:
    """What the column `document.names` holds."""
    return tuple(json.loads(column))


def links_at(
    connection: Connection, version: int, hidden: Collection[str] = ()
) -> list[PlacedLink]:
    """The links of all documents at a version, by source, path and position."""
    rows = connection.execute(
        "SELECT d.id, p.passage, p.links FROM placement AS p INDEXED BY placement_with_links,"
        f" {VISIBLE_DOCUMENTS} AND d.id = p.document AND p.links <> '[]'"
        " ORDER BY s.name, d.path, p.ordinal",
        [version, names_json(hidden)],
    )
    return [
        PlacedLink(document, PassageId(passage), link)
        for document, passage, links in rows
        for link in read_links(links)
    ]


def named_documents_at(
    connection: Connection, version: int, hidden: Collection[str] = ()
) -> list[NamedDocument]:
    """All documents at a version, by source and path."""
    rows = connection.execute(
        f"SELECT d.id, s.name, d.path, d.names FROM {VISIBLE_DOCUMENTS} ORDER BY s.name, d.path",
        [version, names_json(hidden)],
    )
    return [
        NamedDocument(id_, source, path, read_names(names)) for id_, source, path, names in rows
    ]


def opening_passages_at(
    connection: Connection, version: int, count: int, hidden: Collection[str] = ()
) -> list[tuple[str, str, PassageId]]:
    """The first `count` passages of each document at a version: path, column `names`, passage."""
    rows = connection.execute(
        f"SELECT d.path, d.names, p.passage FROM placement AS p, {VISIBLE_DOCUMENTS}"
        " AND p.document = d.id AND p.ordinal < ?3",
        [version, names_json(hidden), count],
    )
    return [(path, names, PassageId(passage)) for path, names, passage in rows]


def passages_of(connection: Connection, documents: Iterable[int]) -> dict[int, list[HeadedPassage]]:
    """The passages of these documents (row ids), in document order."""
    rows = connection.execute(
        "SELECT p.document, p.passage, a.heading FROM placement AS p"
        " JOIN passage AS a ON a.id = p.passage"
        " WHERE p.document IN (SELECT value FROM json_each(?)) ORDER BY p.document, p.ordinal",
        [json.dumps(sorted(documents))],
    )
    found: dict[int, list[HeadedPassage]] = {}
    for document, passage, heading in rows:
        headed = HeadedPassage(PassageId(passage), tuple(json.loads(heading)))
        found.setdefault(document, []).append(headed)
    return found
