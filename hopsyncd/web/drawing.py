"""Pictures of the graph: boxes in columns joined by curves, laid out on the server."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hopsyncd.display import document_name, title_of

_BOX_WIDTH, _BOX_HEIGHT = 190, 52
_GAP_X, _GAP_Y, _MARGIN = 90, 18, 8
_TITLE_CHARACTERS = 26
_THINNEST, _THICKEST = 1.2, 5.0
_MOST_BESIDE = 9  # neighbours drawn on each side; the list below the picture has them all

Kind = Literal["asks", "links", "name"]
_KINDS: Mapping[str, Kind] = {
    "from": "asks",
    "to": "asks",
    "follow_up": "asks",
    "link": "links",
    "backlink": "links",
    "both": "name",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A passage in a picture; `rank` is its rank in the search results."""

    id: str
    title: str
    whole_title: str
    document: str
    x: int
    y: int
    rank: int | None = None
    is_centre: bool = False
    width: int = _BOX_WIDTH
    height: int = _BOX_HEIGHT


@dataclass(frozen=True, slots=True)
class Curve:
    """A hop in a picture. `path` is SVG path data; `number` is its number in the list below."""

    path: str
    kind: Kind
    tips: Collection[Literal["start", "end"]]
    width: float
    number: int
    x: int
    y: int
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and the curves between them."""

    width: int
    height: int
    boxes: Sequence[Box]
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class _End:
    id: str
    title: str
    document: str


def unique_hops(passages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The hops that led to the passages, without repetitions, in the order of the passages."""
    hops: dict[tuple[str, str], Mapping[str, Any]] = {}
    for passage in passages:
        for hop in passage["hops"]:
            hops.setdefault((hop["from"]["id"], hop["to"]["id"]), hop)
    return list(hops.values())


def way_found(passages: Sequence[Mapping[str, Any]]) -> Picture:
    """Draw how passages were found: direct matches on the left, each hop a column further right."""
    hops = unique_hops(passages)
    ends = {one["id"]: _end(one) for one in passages}
    for hop in hops:
        for end in (hop["from"], hop["to"]):
            ends.setdefault(end["id"], _end(end))
    depth = dict.fromkeys(ends, 0)
    for passage in passages:
        for at, hop in enumerate(passage["hops"], 1):
            depth[hop["to"]["id"]] = max(depth[hop["to"]["id"]], at)
    columns: dict[int, list[_End]] = defaultdict(list)
    for id_, end in ends.items():
        columns[depth[id_]].append(end)
    before = {hop["to"]["id"]: hop["from"]["id"] for hop in hops}
    ordered: list[list[_End]] = []
    for at in sorted(columns):
        above = {end.id: row for row, end in enumerate(ordered[-1])} if ordered else {}
        ordered.append(
            sorted(columns[at], key=lambda end: above.get(before.get(end.id, ""), len(above)))
        )
    ranks = {one["id"]: rank for rank, one in enumerate(passages, 1)}
    return _picture(ordered, hops, ranks)


def neighbourhood(near: Mapping[str, Any]) -> tuple[Picture, list[Mapping[str, Any]]]:
    """Draw a passage between the passages that lead to it (left) and those it leads to (right).

    Also returns all edges. The edges of the passage itself come first; the picture numbers them.
    """
    centre, *others = near["passages"]
    edges = [one for one in near["edges"] if centre["id"] in (one["from"], one["to"])]
    further = [one for one in near["edges"] if one not in edges]
    leads_here = {
        _beyond(one, centre["id"])
        for one in edges
        if _target(one, one["from"], one["to"]) == centre["id"]
    }
    left, right = list[_End](), list[_End]()
    joined = {_beyond(one, centre["id"]) for one in edges}
    for one in others:
        if one["id"] in joined:
            side = left if one["id"] in leads_here else right
            side.append(_end(one))
    left, right = left[:_MOST_BESIDE], right[:_MOST_BESIDE]
    ends = {one["id"]: one for one in near["passages"]}
    hops = [{**one, "from": ends[one["from"]], "to": ends[one["to"]]} for one in edges]
    columns = [column for column in (left, [_end(centre)], right) if column]
    return _picture(columns, hops, {}, centre["id"]), [*edges, *further]


def _target(hop: Mapping[str, Any], start: str, end: str) -> str | None:
    """The end that answers what the other raises, or that it links to; None for a shared name."""
    targets = {"from": end, "follow_up": end, "link": end, "to": start, "backlink": start}
    return targets.get(hop["asked_by"])


def _beyond(edge: Mapping[str, Any], centre: str) -> str:
    return str(edge["from"] if edge["to"] == centre else edge["to"])


def _end(passage: Mapping[str, Any]) -> _End:
    return _End(passage["id"], title_of(passage), _document(passage))


def _document(passage: Mapping[str, Any]) -> str:
    """The name of the document, without folders."""
    if passage["document"] is None:
        return ""
    name = document_name(passage)
    return name.rpartition("/")[2] if name == passage["document"] else name


def _picture(
    columns: Sequence[Sequence[_End]],
    hops: Sequence[Mapping[str, Any]],
    ranks: Mapping[str, int],
    centre: str = "",
) -> Picture:
    tallest = max(map(len, columns), default=0)
    height = tallest * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    width = len(columns) * (_BOX_WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    boxes: dict[str, Box] = {}
    for at, column in enumerate(columns):
        taken = len(column) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y
        top = (height - taken) // 2
        for row, end in enumerate(column):
            boxes[end.id] = Box(
                end.id,
                _cut(end.title.rpartition(" > ")[2]),
                end.title,
                _cut(end.document),
                _MARGIN + at * (_BOX_WIDTH + _GAP_X),
                top + row * (_BOX_HEIGHT + _GAP_Y),
                ranks.get(end.id),
                end.id == centre,
            )
    # One curve per pair of passages: more would cover each other.
    first: dict[frozenset[str], Curve] = {}
    targets: dict[frozenset[str], set[str]] = defaultdict(set)
    for hop in hops:
        if target := _target(hop, hop["from"]["id"], hop["to"]["id"]):
            targets[frozenset((hop["from"]["id"], hop["to"]["id"]))].add(target)
    for number, hop in enumerate(hops, 1):
        ends = frozenset((hop["from"]["id"], hop["to"]["id"]))
        if ends <= boxes.keys() and ends not in first:
            pair = boxes[hop["from"]["id"]], boxes[hop["to"]["id"]]
            first[ends] = _curve(*pair, hop, number, targets[ends])
    return Picture(width, height, list(boxes.values()), list(first.values()))


def _curve(
    start: Box, end: Box, hop: Mapping[str, Any], number: int, targets: Collection[str]
) -> Curve:
    """A curve between the facing sides of two boxes. Within a column it bends to the right."""
    y1, y2 = start.y + _BOX_HEIGHT // 2, end.y + _BOX_HEIGHT // 2
    if start.x == end.x:
        x1 = x2 = start.x + _BOX_WIDTH
        bend1 = bend2 = x1 + _GAP_X * 2 // 3
    else:
        forward = start.x < end.x
        x1 = start.x + (_BOX_WIDTH if forward else 0)
        x2 = end.x + (0 if forward else _BOX_WIDTH)
        bend1 = bend2 = (x1 + x2) // 2
    tips: list[Literal["start", "end"]] = ["start"] if start.id in targets else []
    tips += ["end"] if end.id in targets else []
    share = hop.get("share")
    weight = share if share is not None else hop.get("similarity") or 0.3
    return Curve(
        f"M{x1} {y1}C{bend1} {y1} {bend2} {y2} {x2} {y2}",
        _KINDS.get(hop["asked_by"], "asks"),
        tips,
        round(_THINNEST + (_THICKEST - _THINNEST) * min(max(weight, 0.0), 1.0), 1),
        number,
        (x1 + x2 + 3 * (bend1 + bend2)) // 8,
        (y1 + y2) // 2,
        hop["question"],
    )


def _cut(text: str) -> str:
    """
    >>> _cut("A title that is longer than its box")
    'A title that is longer th…'
    """
    return text if len(text) <= _TITLE_CHARACTERS else text[: _TITLE_CHARACTERS - 1] + "…"
