"""Why the walk has not found a passage that a question needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import Encoder
from hopsyncd.retrieve.engine import Answer, Engine
from hopsyncd.retrieve.walk import WalkSettings
from store.records import PassageId

Gold = Mapping[str, frozenset[PassageId]]
"""By the name of each gold passage: those that will do, any of them. None do if it was not read."""

Cause = Literal["not read", "not seeded", "not walked to", "ranked out"]

_NEAR = 20  # a passage among the first 20 counts as seeded, or as reached by the walk
_DEEP = 200
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Miss:
    """A gold passage that is not among the first five, and how far up the seeds and the walk have
    it; None: not among the first 200.

    - not read: no passage holds its quote;
    - not seeded: neither this nor another gold passage of the question is among the first 20 seeds;
    - not walked to: another is, and no walk leads from it to this one's place among the first 20;
    - ranked out: it is among the first 20 of the seeds or of the walk, behind others.
    """

    gold: str
    cause: Cause
    seed_rank: int | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class Missing:
    """What is missing, and what stands in its place: the first five passages."""

    missing: tuple[Miss, ...]
    behind: tuple[str, ...]


def rank_of(found: Sequence[PassageId], wanted: frozenset[PassageId]) -> int | None:
    """The rank of the first passage that is wanted, from 1; None if none was found."""
    return next((rank for rank, passage in enumerate(found, 1) if passage in wanted), None)


def missing_of(
    database: Path,
    served: Snapshot,
    gold: Gold,
    questions: Sequence[GoldQuestion],
    encoder: Encoder,
    settings: WalkSettings,
) -> Mapping[str, Missing]:
    """What the default search misses, by the ids of the questions that miss something."""
    seeds, walk = (
        Engine(database, encoder, walking) for walking in (replace(settings, hops=0), settings)
    )
    found = {}
    for engine in (seeds, walk):
        engine.publish(served)
    for question in questions:
        first = seeds.query(question.question, _DEEP, Search())
        last = walk.query(question.question, _DEEP, Search())
        assert first is not None and last is not None
        misses = tuple(_misses(question, gold, _passages(first), _passages(last)))
        if misses:
            found[question.id] = Missing(misses, _shown(last))
    return found


def _passages(answer: Answer) -> list[PassageId]:
    return [one.passage for one in answer.ranked]


def _misses(
    question: GoldQuestion, gold: Gold, seeds: Sequence[PassageId], walk: Sequence[PassageId]
) -> list[Miss]:
    seeded = {name: rank_of(seeds, gold[name]) for name in sorted(question.gold)}
    ranked = {name: rank_of(walk, gold[name]) for name in sorted(question.gold)}
    begun = any(_is_near(rank) for rank in seeded.values())
    misses = []
    for name, rank in ranked.items():
        if rank is not None and rank <= _SHOWN:
            continue
        cause: Cause = "not walked to" if begun else "not seeded"
        if not gold[name]:
            cause = "not read"
        elif _is_near(seeded[name]) or _is_near(rank):
            cause = "ranked out"
        misses.append(Miss(name, cause, seeded[name], rank))
    return misses


def _is_near(rank: int | None) -> bool:
    return rank is not None and rank <= _NEAR


def _shown(answer: Answer) -> tuple[str, ...]:
    """Each as its document with the headings above it."""
    shown = []
    for one in answer.ranked[:_SHOWN]:
        places, heading = answer.places.get(one.passage), answer.passages[one.passage].heading
        shown.append(" > ".join((places[0].document if places else "", *heading)))
    return tuple(shown)
