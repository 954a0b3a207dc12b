"""The scan: a completed listing of one source, or of parts of it. What it does not name is gone."""

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.protocol import Connector, Item, Problem


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source has now. `under` is None for the whole source, else the parts listed."""

    items: dict[str, Item]
    problems: tuple[Problem, ...]
    under: tuple[str, ...] | None

    def covers(self, path: str) -> bool:
        """Whether the listing would have named this item if it were there."""
        return self.under is None or any(is_under(path, part) for part in self.under)


def is_under(path: str, part: str) -> bool:
    """Whether an item is `part` itself or stands below it; everything is below the empty part."""
    return not part or path == part or path.startswith(part + "/")


def scan(connector: Connector, under: Sequence[str] | None) -> Listing:
    """List to the end. Raises SourceUnavailable when the listing cannot be completed."""
    items: dict[str, Item] = {}
    problems: list[Problem] = []
    for found in connector.discover(under):
        if isinstance(found, Item):
            items[found.id] = found
        else:
            problems.append(found)
    return Listing(items, tuple(problems), None if under is None else tuple(under))
