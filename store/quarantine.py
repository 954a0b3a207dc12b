"""Contents that no reader is given again: operational records beside the versioned ones."""

from store.database import Connection, transaction

_MOST = 10_000


def quarantined(connection: Connection, rules: str) -> dict[bytes, str]:
    """Why each content in quarantine under these rules is there."""
    rows = connection.execute("SELECT content, why FROM quarantine WHERE rules = ?", [rules])
    return dict(rows)


def count_quarantined(connection: Connection) -> int:
    """How many contents are in quarantine."""
    return int(connection.execute("SELECT count(*) FROM quarantine").fetchone()[0])


def put_quarantined(
    connection: Connection, content: bytes, rules: str, why: str, now_ms: int
) -> None:
    """Take a content into quarantine; beyond ten thousand the oldest leave it."""
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO quarantine VALUES (?, ?, ?, ?)", [content, rules, why, now_ms]
        )
        connection.execute(
            "DELETE FROM quarantine WHERE content IN (SELECT content FROM quarantine"
            " ORDER BY since_ms DESC, content LIMIT -1 OFFSET ?)",
            [_MOST],
        )


def end_quarantine(connection: Connection, rules: str) -> bool:
    """End what other rules began: whatever could not be read is then tried again, everywhere.

    False where there was nothing to end.
    """
    with transaction(connection):
        ended = connection.execute("DELETE FROM quarantine WHERE rules <> ?", [rules]).rowcount
        if ended:
            connection.execute(
                "UPDATE source_state SET cursor = NULL WHERE source IN"
                " (SELECT source FROM seen WHERE why IS NOT NULL)"
            )
            connection.execute("UPDATE seen SET revision = '' WHERE why IS NOT NULL")
    return bool(ended)
