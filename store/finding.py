"""What a check finds, and what to do about it."""

from dataclasses import dataclass

REBUILD = "`hopsyncd rebuild` makes it anew from the stored content, without new questions"
RESTORE = (
    "Restore a backup; without one, stop the daemon, move the database away and start it:"
    " it indexes the files again"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken invariant: which one, where (a table and a key), what is there, what to do."""

    invariant: str
    where: str
    detail: str
    hint: str

    def __str__(self) -> str:
        return f"{self.where}: {self.detail} (it must hold that {self.invariant}). {self.hint}"
