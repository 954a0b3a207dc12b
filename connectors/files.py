"""What can be chosen about which files of a tree are documents, wherever the tree is."""

from dataclasses import dataclass

from connectors.ignore import DEFAULT_INCLUDE, Rules

DEFAULT_MAX_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The patterns are those of .gitignore, relative to the top of the tree."""

    include: tuple[str, ...] = DEFAULT_INCLUDE
    ignore: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    index_secrets: bool = False
    max_bytes: int = DEFAULT_MAX_BYTES

    def rules(self) -> Rules:
        """Raises ValueError for a pattern that is none."""
        return Rules(self.include, self.ignore, self.deny, self.index_secrets)
