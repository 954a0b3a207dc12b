"""What can go wrong in the store.

StoreError
├── NewerSchema        written by a newer hopsyncd: refused untouched
├── OlderSchema        written by an older hopsyncd: a writer must bring it up to date first
├── NotADatabase       the file is no database of ours, or is damaged
├── VersionsLost       something that was acknowledged is not in the database
├── NotAcknowledged    what was committed cannot be noted, so nobody is told that it is kept
├── DatabaseGone       the database went away under the process that has it open
├── NoSuchVersion      the version was never written, or has expired
├── WriterBusy         another process holds the store for writing
├── DiskFailure        the disk is full, or failing
├── BackupFailed       a backup cannot be written
├── PurgeRefused       the document cannot be purged
├── TagRefused         a tag cannot be set or deleted
└── ContentConflict    one id stands for two different contents
"""


class StoreError(Exception):
    """Base: `what` failed on which thing, `why`, and a `hint` on what to do."""

    def __init__(self, what: str, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. {hint}")
        self.what = what
        self.why = why
        self.hint = hint


class NewerSchema(StoreError):
    """The database's schema is newer than this program."""


class OlderSchema(StoreError):
    """The database's schema is older than this program, and a reader cannot change it."""


class NotADatabase(StoreError):
    """The file cannot be opened as a hopsyncd database."""


class VersionsLost(StoreError):
    """The database is older than what was acknowledged of it: its log was lost or damaged."""


class NotAcknowledged(StoreError):
    """The note of what was acknowledged cannot be written; the commit itself is done."""


class DatabaseGone(StoreError):
    """The file was deleted, replaced or cut short while it was open."""


class NoSuchVersion(StoreError):
    """The requested version does not exist (any more)."""


class WriterBusy(StoreError):
    """The single writer's place is taken."""


class DiskFailure(StoreError):
    """The disk has no room, or could not be read or written; what was committed stays."""


class TagRefused(StoreError):
    """The tag's name is taken, missing or misleading."""


class BackupFailed(StoreError):
    """No backup was written; nothing is left under its name."""


class PurgeRefused(StoreError):
    """The document is in force, or nothing is known of it."""


class ContentConflict(StoreError):
    """Two different contents claim the same id."""
