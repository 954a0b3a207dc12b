"""The sources and folders that a caller may see. `api/access_rules.py` decides which.

This is separate from `acl_view_cache.py`, because the MCP server must not load NumPy.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from store.visibility import HiddenFolders, Mask


@dataclass(frozen=True, slots=True)
class Acl:
    """The sources that a caller may see, with all or some of their folders.

    `visible` lists visible sources instead of hidden sources, so that a source added later is
    hidden. If `visible` is None, all sources are visible. `folders` lists the hidden folders of
    visible sources.
    """

    visible: frozenset[str] | None = None
    folders: frozenset[HiddenFolders] = frozenset()

    def shows(self, source: str) -> bool:
        """Return whether the caller may see the source or some of its folders."""
        return self.visible is None or source in self.visible

    def shows_whole(self, source: str) -> bool:
        """Return whether the caller may see the source with all its folders."""
        return self.shows(source) and all(folders.source != source for folders in self.folders)

    def shows_document(self, source: str, path: str) -> bool:
        """Return whether the caller may see the document at this path of the source."""
        of_source = (folders for folders in self.folders if folders.source == source)
        return self.shows(source) and not any(folders.hides(path) for folders in of_source)

    def select_hidden(self, sources: Iterable[str]) -> Mask:
        """Select the sources and folders that the caller may not see."""
        if self.visible is None:
            return frozenset()
        known_sources = frozenset(sources)
        folders = (
            folder for folder in self.folders if folder.source in known_sources & self.visible
        )
        return frozenset([*(known_sources - self.visible), *folders])

    def limit_to(self, sources: Iterable[str]) -> "Acl":
        """Return a copy of these rights that shows no source except `sources`."""
        return Acl(frozenset(name for name in sources if self.shows(name)), self.folders)


EVERYTHING = Acl()
NOTHING = Acl(frozenset())
