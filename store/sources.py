"""Stores the configured sources and the results of their last scans. This state is not
versioned."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from store.access_rules import AccessRule, encode_access_rule, read_access_rule
from store.contract import Connection
from store.records import ALIVE, Seen
from store.transactions import transaction
from store.visibility import (
    Mask,
    hides,
    list_hidden_folders,
    list_hidden_sources,
    list_partly_hidden,
)

_NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source with its state. `scanned_ms` is the time of the last complete scan (Unix ms), or
    None if there was none.

    `problem` says what is wrong with the source, and `hint` what to do. Both are None while the
    source is healthy. `left_out` is a JSON object with the number of files that no pattern
    includes, by suffix.
    """

    id: int
    name: str
    kind: str
    location: str
    scanned_ms: int | None
    problem: str | None
    hint: str | None
    documents: int
    problems: int
    pinned: int
    left_out: str = "{}"


@dataclass(frozen=True, slots=True)
class ListingState:
    """The point from which the next listing of a source continues.

    Only the connector interprets `cursor`. `listed_ms` (Unix time) is the time of the last complete
    listing; None before the first.
    """

    cursor: str | None
    listed_ms: int | None


def register_source(
    connection: Connection, name: str, kind: str, location: str, settings: str = ""
) -> int:
    """Create the source, or update its kind and location. Returns the source's id.

    If the kind or location has changed, all items are reloaded, because revisions at different
    locations cannot be compared. `settings` is a string that identifies the source's settings. If
    it has changed, the next listing is complete.
    """
    with transaction(connection):
        connection.execute(
            "UPDATE seen SET revision = '' WHERE source IN"
            " (SELECT id FROM source WHERE name = ? AND (kind, location) <> (?, ?))",
            [name, kind, location],
        )
        connection.execute(
            "INSERT INTO source (name, kind, location) VALUES (?, ?, ?) ON CONFLICT (name)"
            " DO UPDATE SET kind = excluded.kind, location = excluded.location",
            [name, kind, location],
        )
        row = connection.execute("SELECT id FROM source WHERE name = ?", [name]).fetchone()
        connection.execute(
            "INSERT INTO source_state (source) VALUES (?) ON CONFLICT DO NOTHING", [row[0]]
        )
        connection.execute(
            "UPDATE source_state SET cursor = NULL, listed_ms = NULL, settings = ?2"
            " WHERE source = ?1 AND settings <> ?2",
            [row[0], settings],
        )
    return int(row[0])


def read_listing_state(connection: Connection, source: int) -> ListingState:
    row = connection.execute(
        "SELECT cursor, listed_ms FROM source_state WHERE source = ?", [source]
    ).fetchone()
    return ListingState(*row) if row else ListingState(None, None)


def put_listing_state(connection: Connection, source: int, state: ListingState) -> None:
    """Record the state after a listing. Call this function once all listed items are indexed."""
    with transaction(connection):
        connection.execute(
            "UPDATE source_state SET cursor = ?, listed_ms = ? WHERE source = ?",
            [state.cursor, state.listed_ms, source],
        )


def forget_cursor(connection: Connection, source: int) -> None:
    """Make the next listing complete. Call this function inside a transaction."""
    connection.execute(
        "UPDATE source_state SET cursor = NULL, listed_ms = NULL WHERE source = ?", [source]
    )


def is_read_by(connection: Connection, source: int, rules: str) -> bool:
    """Whether all items of the source were read with `rules`, the version of the reading code,
    except the items that the next complete listing fetches again."""
    row = connection.execute(
        "SELECT 1 FROM source_state WHERE source = ? AND rules <> ?", [source, rules]
    ).fetchone()
    return row is None


def begin_rules(connection: Connection, source: int, rules: str) -> None:
    """Record that the items of the source are read with these rules from now on.

    The next listing is complete, and fetches every item again.
    """
    with transaction(connection):
        connection.execute("UPDATE source_state SET rules = ? WHERE source = ?", [rules, source])
        connection.execute("UPDATE seen SET revision = '' WHERE source = ?", [source])
        forget_cursor(connection, source)


def forget_source(connection: Connection, source: int) -> None:
    """Mark the source as never scanned, drop its pins, and end its pause. The source's documents
    stay."""
    with transaction(connection):
        for table in ("seen", "pin"):
            connection.execute(f"DELETE FROM {table} WHERE source = ?", [source])
        connection.execute(
            "UPDATE source_state SET scanned_ms = NULL, problem = NULL, hint = NULL,"
            " cursor = NULL, listed_ms = NULL, settings = '', held_ms = NULL WHERE source = ?",
            [source],
        )


def put_source_state(
    connection: Connection,
    source: int,
    scanned_ms: int | None,
    problem: str | None,
    hint: str | None,
) -> None:
    """Record how a scan ended. If `scanned_ms` is None, the time of the last complete
    scan is kept."""
    with transaction(connection):
        connection.execute(
            "UPDATE source_state SET scanned_ms = coalesce(?, scanned_ms), problem = ?, hint = ?"
            " WHERE source = ?",
            [scanned_ms, problem, hint, source],
        )


def set_source_paused(connection: Connection, source: int, held_ms: int | None) -> None:
    """Pause the source at a user's request. `held_ms` is the time of the request (Unix ms). None
    resumes the source."""
    with transaction(connection):
        connection.execute(
            "UPDATE source_state SET held_ms = ? WHERE source = ?", [held_ms, source]
        )


def is_paused(connection: Connection, source: int) -> bool:
    row = connection.execute(
        "SELECT 1 FROM source_state WHERE source = ? AND held_ms IS NOT NULL", [source]
    ).fetchone()
    return row is not None


def read_source_names(connection: Connection) -> dict[int, str]:
    """Return the name of every source ever configured, by id."""
    return dict(connection.execute("SELECT id, name FROM source"))


def read_access_rules(connection: Connection) -> dict[str, AccessRule | None]:
    """Return the recorded access rule of every source by name, or None for a source without a
    rule."""
    rows = connection.execute(
        "SELECT s.name, t.access FROM source AS s LEFT JOIN source_state AS t ON t.source = s.id"
    )
    return {name: None if rule is None else read_access_rule(rule) for name, rule in rows}


def put_access_rules(connection: Connection, rules: Mapping[str, AccessRule]) -> None:
    """Record the access rules of these sources in one transaction."""
    with transaction(connection):
        connection.executemany(
            "UPDATE source_state SET access = ? WHERE source ="
            " (SELECT id FROM source WHERE name = ?)",
            [(encode_access_rule(rule), name) for name, rule in rules.items()],
        )


def list_sources(connection: Connection) -> list[SourceRow]:
    """Return every source ever configured, with the numbers of its documents and of its items with
    problems."""
    rows = connection.execute(
        "SELECT s.id, s.name, s.kind, s.location, t.scanned_ms, t.problem, t.hint,"
        f" (SELECT count(*) FROM document WHERE source = s.id AND died = {ALIVE}),"
        " (SELECT count(*) FROM seen WHERE source = s.id AND why IS NOT NULL),"
        " (SELECT count(*) FROM pin WHERE source = s.id), coalesce(t.left_out, '{}')"
        " FROM source AS s JOIN source_state AS t ON t.source = s.id ORDER BY s.name"
    )
    return [SourceRow(*row) for row in rows]


def read_rows_under(
    connection: Connection,
    select: str,
    source: int,
    under: Collection[str] | None,
    where: str = "",
) -> Iterator[Any]:
    """Yield the rows of a source, or only those at or below the paths `under`.

    `select` is the beginning of the statement, up to its FROM clause with one table that has a
    column `path`. The cost grows with the number of rows found.
    """
    if under is None or "" in under:
        yield from connection.execute(f"{select} AS t WHERE t.source = ?1{where}", [source])
        return
    begin, _, table = select.rpartition(" FROM ")
    listed = f"{connection.dialect.list_rows('?2', 'part')} {connection.dialect.first_join}"
    joined = f"{begin} FROM {listed} {table} AS t ON t.source = ?1{where}"
    parts = [source, json.dumps(sorted(under))]
    yield from connection.execute(f"{joined} WHERE t.path = part.value", parts)
    # "0" follows "/" in ASCII, so this is the range of all paths that begin with "part/".
    below = "t.path > part.value || '/' AND t.path < part.value || '0'"
    yield from connection.execute(f"{joined} WHERE {below}", parts)


def read_seen_items(
    connection: Connection, source: int, under: Collection[str] | None = None
) -> dict[str, Seen]:
    """Return the state of each item of the source at its last scan, by path. If `under` is given,
    only items at or below these paths are returned."""
    select = "SELECT t.source, t.path, t.revision, t.content, t.why, t.hint FROM seen"
    return {row[1]: Seen(*row) for row in read_rows_under(connection, select, source, under)}


def knows_item(connection: Connection, source: int, path: str) -> bool:
    """Whether the source has or had an item at that path."""
    return any(
        connection.execute(
            f"SELECT 1 FROM {table} WHERE source = ? AND path = ? LIMIT 1", [source, path]
        ).fetchone()
        for table in ("document", "seen", "excluded")
    )


def read_pins(
    connection: Connection, source: int, under: Collection[str] | None = None
) -> dict[str, bytes | None]:
    """Return the content hash of the file of each pinned document, by path."""
    return dict(read_rows_under(connection, "SELECT t.path, t.disk FROM pin", source, under))


def release_pins(connection: Connection, source: int) -> int:
    """Unpin all documents of the source. The next scan reads their files. Returns the number of
    unpinned documents."""
    with transaction(connection):
        connection.execute(
            "UPDATE seen SET revision = '' WHERE source = ?1 AND path IN"
            " (SELECT path FROM pin WHERE source = ?1)",
            [source],
        )
        forget_cursor(connection, source)
        return int(connection.execute("DELETE FROM pin WHERE source = ?", [source]).rowcount)


def list_item_problems(
    connection: Connection, limit: int, hidden: Mask = frozenset()
) -> list[tuple[str, str, str, str]]:
    """Return at most `limit` items that cannot be used, as (source name, path, why, hint).

    Hidden items are left out.
    """
    rows = connection.execute(
        "SELECT s.name, i.path, i.why, coalesce(i.hint, '') FROM seen AS i"
        " JOIN source AS s ON s.id = i.source WHERE i.why IS NOT NULL"
        f" AND s.name NOT IN {connection.dialect.select_names('?2')}"
        " ORDER BY s.name, i.path LIMIT ?1",
        [compute_row_limit(hidden, limit), encode_names(hidden)],
    )
    visible_rows = (tuple(row) for row in rows if not _hides_item(hidden, row[0], row[1]))
    return [*islice(visible_rows, limit)]


def count_problems(connection: Connection, source: str, hidden: Mask) -> int:
    """Count the items of a source that cannot be used, without hidden items."""
    rows = connection.execute(
        "SELECT i.path FROM seen AS i JOIN source AS s ON s.id = i.source"
        " WHERE i.why IS NOT NULL AND s.name = ?",
        [source],
    )
    return sum(not _hides_item(hidden, source, path) for (path,) in rows)


def _hides_item(hidden: Mask, source: str, path: str) -> bool:
    """Whether an item is hidden. The item may be a folder: it is hidden too if the documents in it
    are hidden."""
    return hides(hidden, source, path) or hides(hidden, source, f"{path}/\0")


def count_pins(connection: Connection, source: str, hidden: Mask) -> int:
    """Count the documents of a source kept at a restored state, without hidden documents."""
    rows = connection.execute(
        "SELECT p.path FROM pin AS p JOIN source AS s ON s.id = p.source WHERE s.name = ?",
        [source],
    )
    return sum(not hides(hidden, source, path) for (path,) in rows)


def read_skipped_of_item(connection: Connection, source: str, path: str) -> dict[str, int]:
    """Return the number of parts that the reader of an item omitted on purpose, by kind."""
    row = connection.execute(
        "SELECT i.skipped FROM seen AS i JOIN source AS s ON s.id = i.source"
        " WHERE s.name = ? AND i.path = ?",
        [source, path],
    ).fetchone()
    return parse_counts(row and row[0])


def count_skipped_by_kind(
    connection: Connection, hidden: Mask = frozenset()
) -> list[tuple[str, int, int]]:
    """Return, for each kind of part omitted on purpose, (kind, parts, documents). Hidden documents
    are not counted."""
    partly = list_partly_hidden(hidden)
    names = json.dumps(sorted({*list_hidden_sources(hidden), *partly}))
    rows = connection.execute(
        "SELECT i.skipped, count(*) FROM seen AS i JOIN source AS s ON s.id = i.source"
        f" WHERE i.skipped IS NOT NULL AND s.name NOT IN {connection.dialect.select_names()}"
        " GROUP BY i.skipped",
        [names],
    ).fetchall()
    for name in sorted(partly):
        item_rows = connection.execute(
            "SELECT i.skipped, i.path FROM seen AS i JOIN source AS s ON s.id = i.source"
            " WHERE i.skipped IS NOT NULL AND s.name = ?",
            [name],
        )
        rows += [(text, 1) for text, path in item_rows if not hides(hidden, name, path)]
    parts, documents = Counter[str](), Counter[str]()
    for text, items in rows:
        for kind, count in parse_counts(text).items():
            parts[kind] += count * items
            documents[kind] += items
    return [(kind, parts[kind], documents[kind]) for kind in sorted(parts)]


def parse_counts(text: object) -> dict[str, int]:
    """Return the counts in a JSON object. Anything else, such as a damaged row, returns an empty
    dict.

    >>> parse_counts('{".log": 3}'), parse_counts(None), parse_counts("no JSON")
    ({'.log': 3}, {}, {})
    """
    try:
        fields = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    counts = fields if isinstance(fields, dict) else {}
    return {kind: count for kind, count in counts.items() if isinstance(count, int)}


def put_left_out(connection: Connection, source: int, counts: Mapping[str, int]) -> None:
    """Record how many files a complete listing left out, by suffix."""
    with transaction(connection):
        connection.execute(
            "UPDATE source_state SET left_out = ? WHERE source = ?",
            [json.dumps(dict(counts), sort_keys=True), source],
        )


def read_excluded_paths(
    connection: Connection, source: int, under: Collection[str] | None = None
) -> set[str]:
    """Return the paths that scans skip because they were purged."""
    select = "SELECT t.path FROM excluded"
    return {row[0] for row in read_rows_under(connection, select, source, under)}


def read_excluded_items(connection: Connection) -> set[tuple[str, str]]:
    """Return all purged items, as (source name, path)."""
    return {
        (name, path)
        for name, path in connection.execute(
            "SELECT s.name, e.path FROM excluded AS e JOIN source AS s ON s.id = e.source"
        )
    }


def exclude(connection: Connection, source: int, path: str, now_ms: int) -> None:
    with transaction(connection):
        connection.execute(
            "INSERT INTO excluded VALUES (?, ?, ?) ON CONFLICT DO NOTHING", [source, path, now_ms]
        )


def include_again(connection: Connection, source: int, path: str) -> bool:
    """Let the next scan index a purged item again. Returns False if the item was not purged."""
    with transaction(connection):
        deletion = connection.execute(
            "DELETE FROM excluded WHERE source = ? AND path = ?", [source, path]
        )
        forget_cursor(connection, source)
    return bool(deletion.rowcount)


def compute_row_limit(hidden: Mask, limit: int) -> int:
    """Return the LIMIT for a statement whose rows are then filtered with `hides`, to get `limit`
    rows or more."""
    return _NO_LIMIT if list_hidden_folders(hidden) else limit


def encode_names(hidden: Mask) -> str:
    """Return the names of the completely hidden sources as a JSON array, to use as an SQL
    parameter.

    SQL cannot filter by hidden folders, so also filter the statement's rows with `hides`.
    """
    return json.dumps(list_hidden_sources(hidden))
