"""Restoring: a new version whose documents are those of an earlier one.

Nothing on disk is touched. The restored documents are pinned: as long as a document's file stays as
it was at the restore (or stays missing), scans leave the restored state; an edit made later, a file
that appears or a deletion is taken in as always, and ends that document's pin. Releasing the pins
brings every document back to its file at the next scan.

Worked example. Version 4 has a.md ("one"), version 7 has a.md ("two") and b.md. Restoring 4 makes
version 8 with a.md ("one") and no b.md, though the files still say otherwise. Touching a.md changes
nothing; writing "three" into it makes version 9 with a.md ("three") and, still, no b.md.
"""

from hopsyncd.ingest.commit import Batch
from hopsyncd.ingest.read import ReadDocument
from store.records import Pin
from store.sqlite.content import known_passages
from store.sqlite.database import Connection
from store.sqlite.reads import documents_at, live_documents
from store.sqlite.sources import seen_items
from store.sqlite.versions import version


def restoration(connection: Connection, number: int, sources: dict[int, str]) -> Batch:
    """What brings the named sources (id to name) back to version `number`: a batch to apply.

    No question is made for it: every passage of a stored version has its questions.
    Raises NoSuchVersion.
    """
    version(connection, number)
    read: list[ReadDocument] = []
    gone: list[tuple[int, str]] = []
    pins: list[Pin] = []
    for source in sources:
        then = {document.path: document for document in documents_at(connection, number, source)}
        now, seen = live_documents(connection, source), seen_items(connection, source)
        for path in sorted(then.keys() | now.keys()):
            document = then.get(path)
            if document is not None and document.content == now.get(path):
                continue
            if document is None:
                gone.append((source, path))
            else:
                passages = known_passages(connection, (p.passage for p in document.placements))
                held = tuple(passages[place.passage] for place in document.placements)
                read.append(ReadDocument(document, held))
            pins.append(Pin(source, path, seen[path].content if path in seen else None))
    names = ", ".join(sources.values())
    return Batch(
        f"restored {names} to version {number}", tuple(read), tuple(gone), pins=tuple(pins)
    )
