"""Makes an invented collection with the properties of real ones.

A few names are in many documents and many names in few; documents share headings, have links, and
have 1 to 40 passages. The same numbers give the same collection.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

_MOST_PASSAGES = 40
_SENTENCES = 4  # of a passage: with the passage itself five texts
_A_FOLDER = 20  # documents
_SHARED = ("Overview", "History", "People", "Sources", "Open questions", "Log", "Notes", "Costs")
_SYLLABLES = "ba cor del fin gar hul is jo kel lor mar nes or pel quin ros sul tar ven wil".split()
_DEEDS = (
    "founded a mill near",
    "wrote long letters to",
    "sold the old bridge of",
    "painted the harbour of",
    "mapped the upper river at",
    "married into the house of",
    "kept the accounts of",
    "quarrelled for years with",
)
_THINGS = "ledger garden engine survey harvest treaty archive lantern orchard canal".split()


@dataclass(frozen=True, slots=True)
class Invented:
    """A document: its path in the collection, its text, and a question about two of its names."""

    path: str
    text: str
    question: str


class Names:
    """A pool of names whose frequency falls with their rank, like that of words (Zipf)."""

    def __init__(self, count: int) -> None:
        chance = random.Random(count)
        self._names = [_name(chance, number) for number in range(count)]
        self._weights = list(accumulate(1 / rank for rank in range(1, count + 1)))

    def some(self, chance: random.Random, count: int) -> list[str]:
        return chance.choices(self._names, cum_weights=self._weights, k=count)


def collection(passages: int) -> Iterator[Invented]:
    """Yield documents with `passages` passages in total."""
    names = Names(max(200, passages // 4))
    left, number = passages, 0
    while left:
        chance = random.Random(number)
        held = min(left, max(1, round(_MOST_PASSAGES ** chance.random())))
        yield _document(number, held, names, chance)
        left, number = left - held, number + 1


def _document(number: int, passages: int, names: Names, chance: random.Random) -> Invented:
    title = " ".join([*names.some(chance, 1), chance.choice(_THINGS), str(number)])
    parts = [f"# {title}\n"]
    asked = ""
    for part in range(passages):
        used = names.some(chance, 2 * _SENTENCES)
        asked = asked or f"What did {used[0]} have to do with {used[1]}?"
        heading = chance.choice(_SHARED) if part % 3 else f"{used[0]} and {used[2]}"
        parts.append(f"## {heading}\n\n{_paragraph(number, used, chance)}\n")
    return Invented(f"{number // _A_FOLDER}/{number}.md", "\n".join(parts), asked)


def _paragraph(number: int, used: list[str], chance: random.Random) -> str:
    sentences = []
    for index in range(0, len(used), 2):
        deed, year = chance.choice(_DEEDS), chance.randrange(1700, 1990)
        sentences.append(
            f"{used[index]} {deed} {used[index + 1]}, where the {chance.choice(_THINGS)} had been"
            f" since {year}."
        )
    if number and not chance.randrange(4):
        other = chance.randrange(number)
        sentences[-1] += f" See [[{other}]]."
    return " ".join(sentences)


def _name(chance: random.Random, number: int) -> str:
    """A unique name of one or two words; its last syllables encode the number."""
    first = "".join(chance.choices(_SYLLABLES, k=2)).capitalize()
    own = ""
    while number or not own:
        number, digit = divmod(number, len(_SYLLABLES))
        own += _SYLLABLES[digit]
    return f"{first} {own.capitalize()}" if chance.randrange(3) else f"{first}{own}"
