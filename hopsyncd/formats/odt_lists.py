"""Writes the numbers of items in the lists of OpenDocument texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import get_attribute, get_local_name
from hopsyncd.formats.list_numbers import format_number, parse_number

_MAX_AFFIX_CHARACTERS = 20
_DEPTHS = 10  # the maximum list depth in OpenDocument


@dataclass(frozen=True, slots=True)
class _Level:
    """How a list style numbers the items of one depth."""

    style: str  # a sample: "1", "a", "A", "i" or "I"
    prefix: str
    suffix: str
    start: int
    shown: int  # the number of depths whose numbers are shown, as 2 in "3.1"


@dataclass(frozen=True, slots=True)
class OpenList:
    """A list that is being read. `counts` has the last number at each depth."""

    style: str
    depth: int
    counts: list[int]


class ListNumbers:
    """Counts the items of a document's lists, including lists that continue an earlier list."""

    def __init__(self, *trees: Element | None) -> None:
        self._styles: dict[str, list[Element]] = {}
        for tree in trees:
            for element in () if tree is None else tree.iter():
                if element.tag.endswith("}list-style"):
                    self._styles.setdefault(get_attribute(element, "name"), []).append(element)
        self._levels: dict[str, dict[int, _Level]] = {}  # by style and depth, when first used
        self._known: dict[str, list[int]] = {}  # the counts of lists, by their ids and styles

    def _find_level(self, style: str, depth: int) -> _Level | None:
        if style not in self._levels:
            found = self._styles.get(style, ())
            self._levels[style] = dict(chain.from_iterable(map(_list_levels, found)))
        return self._levels[style].get(depth)

    def open(self, element: Element, around: OpenList | None) -> OpenList:
        """Enter a list. `around` is the list that contains it, or None for an outermost list."""
        style = get_attribute(element, "style-name") or (around.style if around else "")
        depth = min(around.depth + 1, _DEPTHS - 1) if around else 0
        is_continued = get_attribute(element, "continue-numbering") == "true"
        before = get_attribute(element, "continue-list") or (style if is_continued else "")
        if around and around.style == style:
            counts = around.counts
        else:
            counts = [*self._known.get(before, [0] * _DEPTHS)]
        if before not in self._known:
            level = self._find_level(style, depth)
            counts[depth] = level.start - 1 if level else 0
        for name in filter(None, (style, get_attribute(element, "id"))):
            self._known[name] = counts
        return OpenList(style, depth, counts)

    def make_next_label(self, around: OpenList, item: Element) -> str:
        """Count an item and return its number, or an empty string in a list without numbers."""
        depth, counts = around.depth, around.counts
        counts[depth] = parse_number(get_attribute(item, "start-value"), counts[depth] + 1)
        level = self._find_level(around.style, depth)
        if level is None:
            return ""
        numbers = []
        for above in range(max(0, depth + 1 - level.shown), depth + 1):
            style = (self._find_level(around.style, above) or level).style
            numbers.append(format_number(counts[above], style))
        return f"{level.prefix}{'.'.join(numbers)}{level.suffix}".strip()


def _list_levels(style: Element) -> Iterator[tuple[int, _Level]]:
    for element in style:
        number_style = get_attribute(element, "num-format")
        if get_local_name(element) == "list-level-style-number" and number_style:
            yield (
                parse_number(get_attribute(element, "level"), 1) - 1,
                _Level(
                    number_style,
                    get_attribute(element, "num-prefix")[:_MAX_AFFIX_CHARACTERS],
                    get_attribute(element, "num-suffix")[:_MAX_AFFIX_CHARACTERS],
                    parse_number(get_attribute(element, "start-value"), 1),
                    parse_number(get_attribute(element, "display-levels"), 1),
                ),
            )
