r"""Groups blocks into passages. An edit moves passage boundaries only near the edit.

A section (the blocks between two headings) is a sequence of units: its blocks, or the sentences of
a block that is too long. Between two units lies a boundary; its *rank* is a hash of the two units.
A boundary is a cut if it has the lowest rank of all boundaries nearer than GAP = 0.3 x target
tokens on either side, and is no nearer than GAP to the ends of the section.

Worked example, with GAP 60; units of 50 tokens, ranks below the boundaries:

    units        A    B    C    D    E    F    G
    offsets        50  100  150  200  250  300
    ranks           7    4    9    2    8    5

The boundaries at 100 (4 is below 7 and 9) and 200 (2 is below 9 and 8) are cuts. 300 is not: it is
only 50 before the end. The passages are AB, CD, EFG. Insert X (50 tokens) between E and F:
8 (between E and F) is replaced by, say, 6 and 1; 1 lies at 300 and is a cut. The passages are AB,
CD, EX, FG: two new ones.

Why an edit makes at most three new passages: assume that all ranks in a section differ. Two cuts
are at least GAP apart, because the higher-ranked of two nearer boundaries is not a cut. Whether a
boundary is a cut depends only on the boundaries nearer than GAP. So an edit of a unit adds or
removes cuts only within GAP of the edit. Afterwards there is at most one cut p within GAP to its
left (its left edge included) and at most one cut q to its right. No cut lies between p and q. At
most three passages are new: the passage that ends at p, the passage from p to q, and the passage
that begins at q.

The proof has three exceptions. (1) A stretch of more than 2 x target tokens may have no cut.
`_find_split` divides it and reads only that stretch, so the effect of an edit stays inside it. With
random paragraphs of 1 to 120 words, 1 stretch in 100,000 is that long; with paragraphs of equal
length, at worst 1 in 100. (2) Repeated text has equal ranks. Comparing four units instead of two
distinguishes most of them. Boundaries that are still equal are not cuts. In a long run of one
repeated text, however, every boundary is a cut. The run becomes equal passages, and text inserted
into it does not shift the rest. tests/property/test_chunk_stability.py tests (1) and (2). (3) A
passage that begins inside a list, or below a term, repeats its leads. An edit of a lead changes
those passages. An edit that changes which passages a lead applies to changes them too.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, pairwise

from hopsyncd.formats.blocks import Block, WrittenLink
from hopsyncd.formats.fields import lead_of
from hopsyncd.formats.units import Unit, estimate_tokens, split_into_units

_REACH = 6  # A lead is not repeated after this many passages of the target's size.
_INDENT = "  "  # before a nested list item, for each item around it
_END = b""  # sorts before every hash


@dataclass(frozen=True, slots=True)
class Chunk:
    """The content of a future passage: the heading path, outermost first, and the text below it.

    Lines are 1-based and inclusive, and refer to the file on disk. `links` are in text order; the
    links of a heading belong to the first passage below it.
    """

    heading: tuple[str, ...]
    text: str
    first_line: int
    last_line: int
    links: tuple[WrittenLink, ...] = ()


def split_into_passages(blocks: Sequence[Block], target_tokens: int = 200) -> tuple[Chunk, ...]:
    """Split a document into passages of about `target_tokens`, never across headings.

    A passage has 0.3 to 2 times the target. Only a shorter section, or a section that repeats
    itself, gives shorter passages. A block of up to 1.5 times the target stays whole. Blocks are
    joined by a blank line, list items and table rows by a newline; wrapped lines are joined, except
    in code. Headings with nothing below them become a passage of their own, under their parent
    heading. In a document that has only headings, all headings are listed under the first heading.
    Text before the first heading gets the document's title, if there is exactly one heading of
    level 1. A passage begins with the leads of its first block, each on its own line.

    Inserting, editing or deleting one block makes at most 3 new passages (see the module's
    docstring). The result is the same on every platform. Raises ValueError for a target under 1.
    """
    return tuple(yield_passages(blocks, target_tokens))


def yield_passages(blocks: Sequence[Block], target_tokens: int) -> Iterator[Chunk]:
    """Yield the passages of `split_into_passages` one by one, so that other threads can work in
    between."""
    if target_tokens < 1:
        raise ValueError(f"target_tokens is {target_tokens}; it must be at least 1")
    if not any(block.kind != "heading" and block.text.strip() for block in blocks):
        yield from _join_headings(blocks, target_tokens)
        return
    for path, body in _split_into_sections(_move_links_to_text(blocks)):
        yield from _split_section(path, body, target_tokens)


def _move_links_to_text(blocks: Sequence[Block]) -> list[Block]:
    """Move the links of headings and of blocks without text to the next block of text, or else to
    the previous block of text."""
    moved: list[Block] = []
    waiting: list[WrittenLink] = []
    last = None
    for block in blocks:
        if block.kind == "heading" or not block.text.strip():
            waiting += (link for _, link in block.links)
            moved.append(block)
            continue
        last = len(moved)
        links = (*((0, link) for link in waiting), *block.links)
        moved.append(replace(block, links=links) if waiting else block)
        waiting = []
    if waiting and last is not None:
        end = len(moved[last].text)
        links = (*moved[last].links, *((end, link) for link in waiting))
        moved[last] = replace(moved[last], links=links)
    return moved


def _split_into_sections(blocks: Sequence[Block]) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
    """Yield the heading path and the blocks of each section.

    Consecutive headings with nothing below them become the text of a section below the heading
    above them. Text before the first heading is placed below the document's title.
    """
    title = _find_title(blocks)
    bare: list[Block] = []
    above: tuple[str, ...] = ()
    sections = [*_group_by_heading(blocks), ((), [])]
    for (path, body), (next_path, _) in pairwise(sections):
        is_bare = bool(path) and not body and next_path[: len(path)] != path
        if bare and (body or (is_bare and above != _list_texts(path[:-1]))):
            yield above, bare
            bare = []
        if body:
            yield _list_texts(path) or title, body
        elif is_bare and path[-1].text not in _list_texts(path[:-1]):
            above = _list_texts(path[:-1])
            bare.append(replace(path[-1], kind="list_item", level=0))
        title = ()
    if bare:
        yield above, bare


def _group_by_heading(blocks: Sequence[Block]) -> Iterator[tuple[tuple[Block, ...], list[Block]]]:
    """Yield the headings above each run of blocks, outermost first, and the run, which may be
    empty."""
    path: list[Block] = []
    body: list[Block] = []
    for block in blocks:
        if block.kind != "heading":
            body += [block] if block.text.strip() else []
            continue
        yield tuple(path), body
        body = []
        while path and path[-1].level >= block.level:
            path.pop()
        if block.text:
            path.append(block)
    yield tuple(path), body


def _list_texts(path: Iterable[Block]) -> tuple[str, ...]:
    return tuple(heading.text for heading in path)


def _find_title(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the level-1 heading as a path, or an empty path unless there is exactly one such
    heading."""
    tops = [block.text for block in blocks if block.level == 1 and block.text]
    return (tops[0],) if len(tops) == 1 else ()


def _join_headings(blocks: Sequence[Block], target: int) -> Iterator[Chunk]:
    body = [replace(block, kind="paragraph", level=0) for block in blocks if block.text]
    return _split_section((body[0].text,), body, target) if body else iter(())


def _split_section(path: tuple[str, ...], body: list[Block], target: int) -> Iterator[Chunk]:
    for first, *others in _group_units(_join_blocks(body, target), target):
        text = "".join([first.text, *(unit.glue + unit.text for unit in others)])
        indent = first.glue.lstrip("\n") if first.leads and first.glue[:1] == "\n" else ""
        text = "\n".join([*first.leads, indent + text])
        links = tuple(link for unit in (first, *others) for link in unit.links)
        yield Chunk(path, text, first.first_line, [first, *others][-1].last_line, links)


def _join_blocks(body: list[Block], target: int) -> Iterator[Unit]:
    """Yield the units of a section's blocks, each with the separator before it. `target` is the
    desired number of tokens in a passage."""
    before: Block | None = None
    leads: list[tuple[str, int]] = []
    offset = 0
    items: list[str] = []
    for block in body:
        items = _list_open_items(items, before, block)
        glue = "\n" if before and _is_run(before, block) else "\n\n"
        glue += _INDENT * max(len(items) - 1, 0)
        pieces = split_into_units(block, whole=target * 3 // 2, sentence=target)
        leads = _mark_starts(block.leads, leads, offset)
        near = tuple(lead for lead, start in leads if offset - start <= _REACH * target)
        for index, unit in enumerate(pieces):
            shortened = unit._replace(leads=near)
            if index == 0:
                shortened = shortened._replace(glue=glue, tokens=estimate_tokens(glue + unit.text))
            offset += shortened.tokens
            yield shortened
        before = block


def _mark_starts(
    leads: tuple[str, ...], known: list[tuple[str, int]], offset: int
) -> list[tuple[str, int]]:
    """Return the leads of a block, each with the token offset at which the lead began. Leads that
    the block shares with the block before it, whose result is `known`, keep their offsets. Other
    leads begin at `offset`."""
    same = 0
    while same < min(len(leads), len(known)) and leads[same] == known[same][0]:
        same += 1
    return known[:same] + [(lead, offset) for lead in leads[same:]]


def _list_open_items(items: list[str], before: Block | None, block: Block) -> list[str]:
    """Return the first sentences of the list items around a block and of the block itself,
    outermost first. The result is empty if the block is not a list item.

    `items` is the result for the block `before`. An open item is around the block if the item, or
    the item without its number, is one of the block's leads.
    """
    if block.kind != "list_item":
        return []
    if not before or not _is_run(before, block):
        items = []
    numbered = tuple(f" {lead}" for lead in block.leads)
    is_around = [item in block.leads or item.endswith(numbered) for item in items]
    depth = max((level for level, is_lead in enumerate(is_around, 1) if is_lead), default=0)
    return [*items[:depth], lead_of(block.text)]


def _is_run(before: Block, block: Block) -> bool:
    return before.kind == block.kind and block.kind in ("list_item", "table")


@dataclass(slots=True)
class _Boundary:
    """The position before a unit, after `offset` tokens. The last boundary has no unit.

    If `is_beaten`, another boundary nearer than the gap has a lower or equal rank.
    """

    offset: int
    rank: bytes
    unit: Unit | None
    is_beaten: bool = False


def _group_units(units: Iterable[Unit], target: int) -> Iterator[list[Unit]]:
    """Yield the units of each passage. A long section is never in memory as a whole."""
    gap, limit = max(1, target * 3 // 10), 2 * target
    row: list[_Boundary] = []  # the boundaries since the last cut
    for place in _compare_neighbors(_rank_boundaries(units, gap), gap):
        is_cut = not place.is_beaten
        # A stretch of this length is split in the same way wherever it ends.
        longest = limit if is_cut else limit + gap - 1
        while len(row) > 1 and place.offset - row[0].offset > longest:
            end = _find_split(row, place.offset, target)
            yield _list_units(row[:end])
            del row[:end]
        if is_cut and row:
            yield _list_units(row)
            row = []
        row.append(place)


def _list_units(row: Iterable[_Boundary]) -> list[Unit]:
    return [place.unit for place in row if place.unit]


def _rank_boundaries(units: Iterable[Unit], gap: int) -> Iterator[_Boundary]:
    """Yield the boundary before each unit, with its rank, and the boundary after the last unit.

    The rank is the hash of the two units at the boundary, followed by the hash of the four units
    around the boundary, which distinguishes boundaries in repeated text. If the two units are equal
    and each has at least half of `gap` tokens, the first hash is used twice. The first and last
    boundary rank lowest.
    """
    offset = 0
    above, before, current = b"", b"", b""  # digests of the units before the boundary, and after it
    for unit, following in pairwise(chain(units, [None])):
        if unit is None:
            break
        current = current or _digest_unit(unit)
        below = _digest_unit(following) if following else b""
        rank = _END
        if before:
            near = _compute_digest(before + current)
            is_twin = before == current and 2 * unit.tokens >= gap
            rank = near + (near if is_twin else _compute_digest(above + before + current + below))
        yield _Boundary(offset, rank, unit)
        offset += unit.tokens
        above, before, current = before, current, below
    yield _Boundary(offset, _END, None)


def _is_twin(rank: bytes) -> bool:
    return rank[:8] == rank[8:]


def _digest_unit(unit: Unit) -> bytes:
    return _compute_digest(unit.text.encode("utf-8", "surrogatepass"))


def _compute_digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def _compare_neighbors(places: Iterable[_Boundary], gap: int) -> Iterator[_Boundary]:
    """Yield the boundaries in order. Sets `is_beaten` if another boundary nearer than `gap` has a
    lower rank, or an equal rank outside a run of one repeated text.

    Each boundary enters and leaves both queues once, so the time is linear. Neither queue contains
    more than `gap` tokens. `ascending` contains the boundaries with no lower rank after them.
    """
    waiting: deque[_Boundary] = deque()
    ascending: deque[_Boundary] = deque()
    for place in places:
        while waiting and place.offset - waiting[0].offset >= gap:
            yield waiting.popleft()
        while ascending and place.offset - ascending[0].offset >= gap:
            ascending.popleft()
        while ascending and ascending[-1].rank > place.rank:
            ascending.pop().is_beaten = True
        if ascending and ascending[-1].rank == place.rank and not _is_twin(place.rank):
            ascending[-1].is_beaten = place.is_beaten = True
        elif ascending and ascending[0].rank < place.rank:
            place.is_beaten = True
        waiting.append(place)
        ascending.append(place)
    yield from waiting


def _find_split(row: Sequence[_Boundary], end: int, target: int) -> int:
    """Return the index at which to split an overlong stretch that ends after `end` tokens.

    The result is the boundary in `row` with the lowest rank that leaves both parts long enough;
    among equal ranks (repeated text), the boundary nearest to the target. Each step reads 2 x
    target tokens and advances by at least a seventh of that.
    """
    start, gap = row[0].offset, max(1, target * 3 // 10)
    reach = bisect_right(row, start + 2 * target, key=lambda place: place.offset)
    inner = range(1, max(reach, 2))
    fair = [n for n in inner if row[n].offset - start >= gap <= end - row[n].offset] or inner
    lowest = min(row[n].rank for n in fair)
    best = [n for n in fair if row[n].rank == lowest]
    return min(best, key=lambda n: abs(row[n].offset - start - target))
