"""Finds the item of a numbered list that a question names, such as "step 3 of the startup".

The item must be in a list below a heading, or after a line, that has the other words of the
question. An item of a nested list counts only if the outer list has no item of this number.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from hopsyncd.text.words import list_index_terms
from store.records import Passage, PassageId

_NOUNS = (
    "step|item|point|rule|number|stage|phase|task|entry|instruction|requirement|clause|bullet"
    "|schritt|punkt|regel|\u00e9tape|paso|punto|passo|stap"
)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth"
    " fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_NAMED = re.compile(
    rf"\b(?:{_NOUNS})\s(?:no\.?\s|number\s|#)?(\d{{1,3}})(?![\w%]|[.,:]\d)"
    rf"|\b(?:({'|'.join(_ORDINALS)})|(\d{{1,3}})(?:st|nd|rd|th))\s(?:{_NOUNS})\b",
    re.IGNORECASE,
)
_LABEL = re.compile(
    rf"^([ \t]*)(?:(?:{_NOUNS})\s)?\(?(\d{{1,3}})[.):](?=\s+\S)", re.IGNORECASE | re.MULTILINE
)
# Words of a question about an item that its list need not have.
_ASKING = frozenset(
    list_index_terms("come comes say says said follow follows next read go done tell show")
)
_LEAST_COVERED = 0.5  # the least share of the question's other words that the list's headings have
_OF_INTRODUCTION = 0.8  # a word of the line before a list counts less than a word of a heading
_MOST_CHARACTERS = 400
_DEEPEST = 99


@dataclass(frozen=True, slots=True)
class ItemReference:
    """An item that a question names by its number. subject: the rest of the question."""

    number: int
    subject: str


@dataclass(frozen=True, slots=True)
class NumberedItem:
    """An item of a numbered list.

    depth: the number of lists around its list. introduction: the line before its list.
    """

    number: int
    depth: int
    text: str
    introduction: str


@dataclass(frozen=True, slots=True)
class FoundItem:
    passage: PassageId
    text: str


def read_item_reference(question: str) -> ItemReference | None:
    """Return the item that a question names, or None if the question names no item or several
    items.

    >>> read_item_reference("What is step 3 of the startup?")
    ItemReference(number=3, subject='What is of the startup?')
    >>> read_item_reference("third step of the startup").number
    3
    >>> read_item_reference("How many steps has version 3?") is None
    True
    """
    references = [*_NAMED.finditer(question)]
    if len(references) != 1:
        return None
    digits, ordinal, numeral = references[0].groups()
    number = _ORDINALS.index(ordinal.lower()) + 1 if ordinal else int(digits or numeral)
    other_words = f"{question[: references[0].start()]}{question[references[0].end() :]}"
    return ItemReference(number, " ".join(other_words.split()))


@dataclass(slots=True)
class _OpenList:
    indent: int
    last: int
    introduction: str


def list_items(text: str) -> Iterator[NumberedItem]:
    """Yield the items of the numbered lists in a passage.

    Nested items are indented. If a reader did not indent nested items, the numbers show the
    nesting.

    >>> items = list_items("1. A\\n1. B\\n2. C\\n3. D\\n2. E\\n3. F")
    >>> [(item.number, item.depth) for item in items]
    [(1, 0), (1, 1), (2, 1), (3, 1), (2, 0), (3, 0)]
    """
    labels = [*_LABEL.finditer(text)]
    lists: list[_OpenList] = []
    before = 0
    for index, label in enumerate(labels):
        indent, number, start = len(label[1]), int(label[2]), label.start()
        lists = [open_list for open_list in lists if open_list.indent <= indent]
        continued = [
            position
            for position, open_list in enumerate(lists)
            if (open_list.indent, open_list.last + 1) == (indent, number)
        ]
        if continued:
            del lists[continued[-1] + 1 :]
        elif number == 1 or not lists or lists[-1].indent < indent:
            if "\n\n" in text[before:start]:  # another list, not one inside the last item
                lists = [open_list for open_list in lists if open_list.indent < indent]
            introduction = text[:start].rstrip().rpartition("\n")[2].strip()
            lists.append(_OpenList(indent, number, introduction))
        lists[-1].last = number
        before = label.end()
        later = islice(labels, index + 1, None)
        end = next((next_.start() for next_ in later if len(next_[1]) <= indent), len(text))
        yield NumberedItem(number, len(lists) - 1, _cut(text[start:end]), lists[-1].introduction)


def _cut(text: str) -> str:
    """Return the item at the start of the text. A long item is cut at the end of a line."""
    bare = text.partition("\n\n")[0].strip()
    if len(bare) <= _MOST_CHARACTERS:
        return bare
    return bare[:_MOST_CHARACTERS].rpartition("\n")[0] or bare.partition("\n")[0]


def find_item(
    reference: ItemReference,
    weights: Mapping[str, float],
    passages: Sequence[tuple[PassageId, Passage]],
) -> FoundItem | None:
    """Find the item that a question names in the passages, best first.

    weights: the idf of the question's terms. If several lists match, the list is chosen whose
    headings have the most weight of these terms. Ties go to the list whose nearest heading has more
    weight, then to an outer list, then to an earlier passage.
    """
    terms = set(list_index_terms(reference.subject)) - _ASKING
    subject = {term: worth for term, worth in weights.items() if term in terms}
    total = sum(subject.values())
    if not total:
        return None
    best: tuple[float, float, int] = (_LEAST_COVERED, 0.0, -_DEEPEST)
    best_item: FoundItem | None = None
    for id_, passage in passages:
        above = frozenset(list_index_terms(" ".join(passage.heading)))
        nearest = frozenset(list_index_terms(" ".join(passage.heading[-1:])))
        for item in list_items(passage.text):
            if item.number != reference.number:
                continue
            introduced = frozenset(list_index_terms(item.introduction)) - above
            covered = _sum(subject, above) + _OF_INTRODUCTION * _sum(subject, introduced)
            rank = (round(covered / total, 9), round(_sum(subject, nearest), 9), -item.depth)
            if rank > best:
                best, best_item = rank, FoundItem(id_, item.text)
    return best_item


def _sum(weights: Mapping[str, float], terms: frozenset[str]) -> float:
    return sum(worth for term, worth in weights.items() if term in terms)
