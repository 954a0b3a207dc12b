"""The links of a version: which passage leads to which."""

from collections.abc import Collection, Iterator, Sequence

from hopsyncd.graph.directory import Directory, Named, is_heading
from hopsyncd.graph.links import Linked
from store.database import Connection
from store.links import HeadedPassage, links_at, named_documents_at, passages_of
from store.records import PassageId


def linked_passages(
    connection: Connection, version: int, hidden: Collection[str] = ()
) -> list[Linked]:
    """From which passage a link leads to which, and what it shows, in the order they are written.

    A link leads to the first passage of the document it means, or to the first one under the
    heading that it names. One that means no document, or might mean two, is left out. Documents of
    `hidden` sources have no links, are meant by none and make none ambiguous.
    """
    placed = links_at(connection, version, hidden)
    if not placed:
        return []
    documents = {
        one.id: Named(one.id, one.source, one.path, one.names)
        for one in named_documents_at(connection, version, hidden)
    }
    directory = Directory(documents.values())
    found = [(one, *directory.find(one.link.target, documents[one.document])) for one in placed]
    passages = passages_of(connection, {key for _, key, _ in found if key is not None})
    return [
        (one.passage, target, one.link.shown)
        for one, key, heading in found
        if key is not None
        for target in _first(passages.get(key, ()), heading)
    ]


def _first(passages: Sequence[HeadedPassage], heading: str) -> Iterator[PassageId]:
    """The passage that a link leads to; none where its document has no text."""
    under = (
        one.passage for one in passages if any(is_heading(heading, part) for part in one.heading)
    )
    first = next(under, None) if heading else None
    if first is not None or passages:
        yield first if first is not None else passages[0].passage
