r"""Blocks to passages, with boundaries that an edit moves only where it happens.

A section (the blocks between two headings) is a row of units: its blocks, or the sentences of a
block that is too long. Between two units lies a boundary; its *rank* is a hash of the two units.
A boundary is a cut if it has the lowest rank of all boundaries nearer than GAP = 0.3 x target
tokens on either side, and is no nearer than GAP to the ends of the section.

Worked example, with GAP 60; units of 50 tokens, ranks below the boundaries:

    units        A    B    C    D    E    F    G
    offsets        50  100  150  200  250  300
    ranks           7    4    9    2    8    5

The boundary at 100 is a cut: 4 is below 7 and 9. So is that at 200 (2 below 9 and 8), and not 300:
it is only 50 before the end. The passages are AB, CD, EFG. Insert X (50 tokens) between E and F:
8 (between E and F) makes way for, say, 6 and 1; 1 lies at 300 and is a cut. The passages are AB,
CD, EX, FG: two new ones.

Why at most three. Take a section in which no two boundaries rank the same. Two cuts lie at least
GAP apart, as the higher-ranked of two nearer ones is none. Whether a boundary is a cut depends
only on what is nearer than GAP. So inserting, editing or deleting a unit turns cuts on or off only
nearer than GAP to the place: left of it (its left edge included) at most one cut p stands there
afterwards, and right of it at most one, q. Between p and q there is no other. Every passage that
ends before p or begins after q is as before, save the one that p ends and the one that q begins;
the third is the passage between p and q.

Where the proof ends. (1) A stretch in which the ranks rise and then fall for more than 2 x target
tokens holds no cut and must be split all the same: `_split` sees that stretch alone, so that the
harm stays in it. Of stretches of random paragraphs of 1 to 120 words 1 in 100,000 is so long, of
paragraphs of one equal length at worst 1 in 100; a fourth new passage needs a further coincidence.
(2) Repeated text has equal ranks. Four units instead of two tell most of them apart; equals that
remain are no cuts, except inside a run of one text of some length: there all of them are, so that
the run gives one passage many times over, and does not shift when something comes to stand in it.
tests/property/test_chunk_stability.py tries both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate, islice, pairwise

from hopsyncd.text.blocks import Block
from hopsyncd.text.link import Link
from hopsyncd.text.units import Unit, tokens, units_of

_END = b""  # sorts before every hash


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage to be: the heading path, outermost first, and the text below it.

    Lines are 1-based and inclusive, in the file as it is on disk. `links` stand in it, in order;
    those of a heading stand in the first passage below it.
    """

    heading: tuple[str, ...]
    text: str
    first_line: int
    last_line: int
    links: tuple[Link, ...] = ()


def chunk(blocks: Sequence[Block], target_tokens: int = 200) -> tuple[Chunk, ...]:
    """Cut a document into passages of about `target_tokens`, never across headings.

    Passages have 0.3 to 2 times the target, less only where a section has less or repeats itself.
    A block of up to 1.5 times the target stays whole. Blocks are joined by a blank line, list items
    and table rows by a newline; wrapped lines are joined, except in code. A section without text
    gives nothing, but in a document of headings alone they are the text, below the first of them.

    One block inserted, edited or deleted makes at most 3 passages that were not there before
    (see the module's docstring). The result is the same on every platform.
    Raises ValueError for a target under 1.
    """
    if target_tokens < 1:
        raise ValueError(f"target_tokens is {target_tokens}, and must be at least 1")
    passages = [
        passage
        for path, body in _sections(_with_links_in_text(blocks))
        for passage in _passages(path, body, target_tokens)
    ]
    return tuple(passages or _headings_alone(blocks, target_tokens))


def _with_links_in_text(blocks: Sequence[Block]) -> list[Block]:
    """Move the links of headings and of blocks without text to the next text, or the one before."""
    moved: list[Block] = []
    waiting: list[Link] = []
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


def _sections(blocks: Sequence[Block]) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
    path: list[Block] = []
    body: list[Block] = []
    for block in blocks:
        if block.kind != "heading":
            body += [block] if block.text.strip() else []
            continue
        if body:
            yield tuple(heading.text for heading in path), body
            body = []
        while path and path[-1].level >= block.level:
            path.pop()
        if block.text:
            path.append(block)
    if body:
        yield tuple(heading.text for heading in path), body


def _headings_alone(blocks: Sequence[Block], target: int) -> Iterator[Chunk]:
    body = [replace(block, kind="paragraph", level=0) for block in blocks if block.text]
    return _passages((body[0].text,), body, target) if body else iter(())


def _passages(path: tuple[str, ...], body: list[Block], target: int) -> Iterator[Chunk]:
    units = _joined(body, target)
    for start, end in pairwise(_cuts(units, target)):
        first, *others = units[start:end]
        text = "".join([first.text, *(unit.glue + unit.text for unit in others)])
        links = tuple(link for unit in units[start:end] for link in unit.links)
        yield Chunk(path, text, first.first_line, units[end - 1].last_line, links)


def _joined(body: list[Block], target: int) -> list[Unit]:
    """Turn a section's blocks into its units, each with the glue to the unit before it."""
    units: list[Unit] = []
    before: Block | None = None
    for block in body:
        glue = "\n" if before and _is_run(before, block) else "\n\n"
        pieces = units_of(block, whole=target * 3 // 2, sentence=target)
        units += (replace(u, glue=glue, tokens=tokens(glue + u.text)) for u in islice(pieces, 1))
        units += pieces
        before = block
    return units


def _is_run(before: Block, block: Block) -> bool:
    return before.kind == block.kind and block.kind in ("list_item", "table")


def _cuts(units: Sequence[Unit], target: int) -> list[int]:
    """Return where passages begin, as indices of units, and the number of units at the end."""
    offsets = list(accumulate((unit.tokens for unit in units), initial=0))
    gap = max(1, target * 3 // 10)
    ranks = _ranks(units, gap)
    cuts = [0, *_lowest(offsets, ranks, gap), len(units)]
    for start, end in pairwise(cuts.copy()):
        if offsets[end] - offsets[start] > 2 * target:
            cuts += _split(offsets, ranks, start, end, target)
    return sorted(cuts)


def _ranks(units: Sequence[Unit], gap: int) -> list[bytes]:
    """Return for each unit the rank of the boundary before it; the two ends rank lowest.

    The hash of the two units at the boundary decides; where two boundaries have equal ones
    (repeated text), that of the four units around it. Between two identical units of half a gap
    or more the first alone stands, twice: a run of one text has one rank.
    """
    digests = [_digest(unit.text.encode("utf-8", "surrogatepass")) for unit in units]
    ranks = [_END]
    for place in range(1, len(units)):
        near = _digest(digests[place - 1] + digests[place])
        twin = digests[place - 1] == digests[place] and 2 * units[place].tokens >= gap
        wide = near if twin else _digest(b"".join(digests[max(0, place - 2) : place + 2]))
        ranks.append(near + wide)
    return [*ranks, _END]


def _is_twin(rank: bytes) -> bool:
    return rank[:8] == rank[8:]


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def _lowest(offsets: list[int], ranks: list[bytes], gap: int) -> Iterator[int]:
    """Yield the inner boundaries that no other within `gap` tokens ranks below or equals."""
    left = _nearest_lower(ranks)
    right = [len(ranks) - 1 - place for place in reversed(_nearest_lower(ranks[::-1]))]
    for place in range(1, len(ranks) - 1):
        here = offsets[place]
        if here - offsets[left[place]] >= gap and offsets[right[place]] - here >= gap:
            yield place


def _nearest_lower(ranks: list[bytes]) -> list[int]:
    """Return for each place the nearest earlier one of no higher rank (of the first, itself).

    Each place is pushed and popped once: [0, 7, 4, 9] gives [0, 0, 0, 2].
    """
    nearest = [0] * len(ranks)
    rising = [0]
    for place in range(1, len(ranks)):
        rank, twin = ranks[place], _is_twin(ranks[place])
        while len(rising) > 1 and (
            ranks[rising[-1]] > rank or (twin and ranks[rising[-1]] == rank)
        ):
            rising.pop()
        nearest[place] = rising[-1]
        rising.append(place)
    return nearest


def _split(
    offsets: list[int], ranks: list[bytes], start: int, end: int, target: int
) -> Iterator[int]:
    """Split an over-long stretch from its start: at the lowest rank that leaves a fair size.

    Of equal ranks (repeated text) the one nearest to the target is taken. Each step looks at
    2 x target tokens and moves on by a seventh of that at least.
    """
    gap, limit = max(1, target * 3 // 10), 2 * target
    while offsets[end] - offsets[start] > limit:
        reach = start + 1
        while offsets[reach + 1] - offsets[start] <= limit:
            reach += 1
        inner = range(start + 1, reach + 1)
        fair = [n for n in inner if offsets[n] - offsets[start] >= gap <= offsets[end] - offsets[n]]
        wanted = offsets[start] + target
        start = min(fair or inner, key=lambda n: (ranks[n], abs(offsets[n] - wanted)))
        yield start
