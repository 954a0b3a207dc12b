"""The store's errors.

StoreError
├── NewerSchema        written by a newer hopsyncd: refused, untouched
├── OlderSchema        written by an older hopsyncd: a writer must migrate it first
├── NotADatabase       the file is not a hopsyncd database, or it is damaged
├── Unreadable         the database file was found to be damaged while it was read
├── VersionsLost       an acknowledged change is missing from the database
├── NotAcknowledged    a committed change cannot be recorded as acknowledged, so do not confirm it
├── DatabaseGone       the file was deleted, replaced or cut short while open
├── ServerLost         the database server cannot be reached
├── Deposed            another daemon has become the writer
├── NoSuchVersion      the version was never written, or has expired
├── WriterBusy         another process holds the store for writing
├── DiskFailure        the disk is full or failing
├── BackupFailed       a backup cannot be written or restored
├── PurgeRefused       the document cannot be purged
├── TagRefused         the tag cannot be set or deleted
└── ContentConflict    two different contents have the same id
"""


class StoreError(Exception):
    """The base class of the store's errors: what failed (`what`), why (`why`) and what to do
    (`hint`).
    """

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. {hint}")
        self.what = what
        self.why = why
        self.hint = hint


class NewerSchema(StoreError):
    """The database's schema is newer than the newest schema that this hopsyncd supports."""


class OlderSchema(StoreError):
    """The database's schema is older than the schema of this hopsyncd, and only a writer can
    migrate it."""


class NotADatabase(StoreError):
    """The file is not a hopsyncd database, or is too damaged to be opened."""


class Unreadable(StoreError):
    """The database file turned out to be damaged while it was read."""


class VersionsLost(StoreError):
    """The database is older than its acknowledged state: the write-ahead log was lost or
    damaged."""


class NotAcknowledged(StoreError):
    """A change was committed, but the record of acknowledged changes cannot be written. Do not
    confirm the change to a client."""


class DatabaseGone(StoreError):
    """The database file was deleted, replaced or truncated while it was open."""


class ServerLost(StoreError):
    """The database server cannot be reached, or has closed the connection."""


class Deposed(StoreError):
    """Another daemon has written the version that this daemon was about to write."""


class NoSuchVersion(StoreError):
    """The requested version never existed or has expired."""


class WriterBusy(StoreError):
    """Another process holds the writer lock."""


class DiskFailure(StoreError):
    """The disk is full, or cannot be read or written. Committed data is kept."""


class TagRefused(StoreError):
    """A tag cannot be set or deleted: its name is taken, unknown or ambiguous."""


class BackupFailed(StoreError):
    """A backup cannot be written or restored. No incomplete backup is left under the final name."""


class PurgeRefused(StoreError):
    """A document cannot be purged: it is still in the newest version, or was never in any
    version."""


class ContentConflict(StoreError):
    """Two passages with different texts have the same id."""
