"""The sources that a caller may see, as `api/access.py` decides.

This module is apart from `hidden_sources.py`, because the MCP server must not load NumPy.
"""

from collections.abc import Iterable
from dataclasses import dataclass

Mask = frozenset[str]
"""The names of hidden sources."""


@dataclass(frozen=True, slots=True)
class Acl:
    """The sources that a caller may see. None: all sources.

    It lists what is visible, not what is hidden, so that a source which appears later is hidden.
    """

    visible: frozenset[str] | None = None

    def shows(self, source: str) -> bool:
        """Whether the caller may see the source."""
        return self.visible is None or source in self.visible

    def hidden_among(self, sources: Iterable[str]) -> Mask:
        """The given sources that the caller may not see."""
        return frozenset() if self.visible is None else frozenset(sources) - self.visible

    def limit_to(self, sources: Iterable[str]) -> "Acl":
        """The same rights for these sources alone."""
        return Acl(frozenset(name for name in sources if self.shows(name)))


EVERYTHING = Acl()
NOTHING = Acl(frozenset())
