"""Chooses the excerpts of passages to show an LLM, within a budget of tokens.

Twenty short excerpts contain the needed sentences more often than eight whole passages of the same
total size. The first chosen sentence of each passage is the sentence that fits the question best.
The rest of the budget goes to further sentences of the same passages, one by one, by this score:

(COSINE * cos(question, sentence) + TERMS * terms) * (1 + NEAR * near) / (1 + rank / HALF)

`terms` is the idf-weighted share of the question's words in the sentence, its headings and its
path. `near` is 1 if a sentence beside this sentence is chosen, else 0. `rank` is the rank of the
passage.

Small changes to the weights hardly change the result.

If only a few words of a passage would be left out, the passage is shown whole, because the mark for
the gap costs nearly as many tokens. Passages that are nearly empty, or fit far worse than the other
passages, are left out, and the next passages replace them. Sections of one document are shown
together, in the document's order.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from hopsyncd.models.questions import find_sentence_spans
from hopsyncd.retrieve.sentences import PassageTexts, Sentence
from store.records import PassageId

MAX_PASSAGES = 20
GAP = " … "
_COSINE = 1.0
_TERMS = 0.8
_NEAR = 0.3
_HALF = 10.0
_LEAST_WORDS = 3
_FAR_BELOW = 0.25  # a passage below this share of the best score is left out
# An excerpt gets at least this. More but shorter excerpts answer fewer questions.
_LEAST_TOKENS = 100
_SHORT_REST = 20  # A passage that would lack up to this number of tokens is shown whole.
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The chosen sentences of a passage.

    text: the sentences, with `GAP` where sentences were skipped. sentences: the chosen sentences in
    order. is_whole: True if no sentence was skipped.
    """

    passage: PassageId
    text: str
    sentences: tuple[str, ...]
    is_whole: bool


@dataclass(slots=True)
class _Part:
    """A passage to show, with the score and the token count of each sentence.

    chosen: the positions of the chosen sentences.
    """

    rank: int
    passage: PassageId
    scores: list[float]
    tokens: list[int]
    chosen: set[int]

    def choose(self, position: int, budget: int) -> int:
        """Choose the sentence at this position, and the rest of the passage if the rest is short.
        Returns how many of the `budget` tokens remain.
        """
        self.chosen.add(position)
        return self.complete(budget - self.tokens[position])

    def complete(self, budget: int) -> int:
        """Choose the rest of the passage if the rest is short and fits into the budget.

        Returns how many of the `budget` tokens remain.
        """
        missing = [position for position in range(len(self.tokens)) if position not in self.chosen]
        missing_tokens = sum(self.tokens[position] for position in missing)
        if missing_tokens > min(_SHORT_REST, budget):
            return budget
        self.chosen.update(missing)
        return budget - missing_tokens


def choose_excerpts(
    texts: PassageTexts,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    budget_tokens: int,
    frame_tokens: Callable[[PassageId, bool], int],
    count_tokens: Callable[[str], int],
    required: Collection[PassageId] = (),
) -> list[Excerpt]:
    """Choose excerpts of at most `MAX_PASSAGES` passages and `budget_tokens` tokens, including the
    numbers, headings and titles.

    Passages of one document are together, in document order. weights: the idf of the question's
    terms. frame_tokens: returns the tokens of a passage's number and headings; if its second
    argument is True, the tokens of the document's title and path are added. required: passages that
    are always considered, however badly they fit.
    """
    parts = _list_parts(sentences, weights, texts, count_tokens, required)
    left = budget_tokens
    documents: set[object] = set()
    joined: list[_Part] = []
    most = min(MAX_PASSAGES, max(budget_tokens // _LEAST_TOKENS, 1))
    for part in parts:
        if len(joined) == most:
            break
        best = max(range(len(part.scores)), key=lambda position: part.scores[position])
        document = find_document(texts, part.passage)
        cost = frame_tokens(part.passage, document not in documents) + part.tokens[best]
        if cost > left:
            continue
        left -= cost
        part.chosen.add(best)
        documents.add(document)
        joined.append(part)
    if parts and not joined:
        first = parts[0].passage
        return [_cut(texts, first, budget_tokens - frame_tokens(first, True), count_tokens)]
    _fill(joined, left)
    return [
        _make_excerpt(texts, part) for part in sorted(joined, key=_make_place_key(texts, joined))
    ]


def find_document(texts: PassageTexts, passage: PassageId) -> tuple[str, str]:
    """Return the source and path where a passage first occurs, or empty strings if it has no
    place.
    """
    places = texts.places.get(passage, ())
    return (places[0].source, places[0].document) if places else ("", "")


def _list_parts(
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    texts: PassageTexts,
    count_tokens: Callable[[str], int],
    required: Collection[PassageId],
) -> list[_Part]:
    """List the passages that fit well enough to be shown, best first."""
    by_passage: dict[PassageId, list[Sentence]] = defaultdict(list)
    for sentence in sentences:
        by_passage[sentence.passage].append(sentence)
    total = max(sum(weights.values()), 1e-9)

    def score(sentence: Sentence) -> float:
        return (
            _COSINE * sentence.cosine
            + _TERMS * sum(weights[term] for term in sentence.terms) / total
        )

    scores = {
        id_: [score(sentence) for sentence in sentences] for id_, sentences in by_passage.items()
    }
    best = max((max(values) for values in scores.values()), default=0.0)
    return [
        _Part(
            rank,
            id_,
            scores[id_],
            [count_tokens(sentence.text) for sentence in by_passage[id_]],
            set(),
        )
        for rank, id_ in enumerate(texts.ranked)
        if id_ in scores
        and (
            id_ in required
            or (
                len(_WORD.findall(texts.passages[id_].text)) >= _LEAST_WORDS
                and max(scores[id_]) >= _FAR_BELOW * best
            )
        )
    ]


def _fill(parts: Sequence[_Part], budget: int) -> None:
    """Choose further sentences, best first, within a budget of `budget` tokens."""
    for part in parts:
        budget = part.complete(budget)

    def priority(part: _Part, position: int) -> float:
        near = position - 1 in part.chosen or position + 1 in part.chosen
        return part.scores[position] * (1 + _NEAR * near) / (1 + part.rank / _HALF)

    waiting = [
        (-priority(part, position), part.rank, position, part)
        for part in parts
        for position in range(len(part.scores))
        if position not in part.chosen
    ]
    heapq.heapify(waiting)
    while waiting:
        _, rank, position, part = heapq.heappop(waiting)
        if position in part.chosen or part.tokens[position] > budget:
            continue
        budget = part.choose(position, budget)
        for beside in (position - 1, position + 1):
            if 0 <= beside < len(part.scores) and beside not in part.chosen:
                heapq.heappush(waiting, (-priority(part, beside), rank, beside, part))


def _make_place_key(
    texts: PassageTexts, parts: Sequence[_Part]
) -> Callable[[_Part], tuple[int, int, int]]:
    """Return a sort key: documents by their best passage, then passages in document order."""
    first: dict[object, int] = {}
    for part in parts:
        first.setdefault(find_document(texts, part.passage), part.rank)

    def key(part: _Part) -> tuple[int, int, int]:
        places = texts.places.get(part.passage, ())
        line = places[0].first_line if places else 0
        return first[find_document(texts, part.passage)], line, part.rank

    return key


def _cut(
    texts: PassageTexts, passage: PassageId, room: int, count_tokens: Callable[[str], int]
) -> Excerpt:
    """Return the beginning of a passage whose best sentence is too long, cut to `room` tokens."""
    text = texts.passages[passage].text
    while text and (tokens := count_tokens(text)) > room:
        text = text[: len(text) * max(room, 0) // tokens]
    return Excerpt(passage, f"{text}{GAP.rstrip()}", (text,), False)


def _make_excerpt(texts: PassageTexts, part: _Part) -> Excerpt:
    text = texts.passages[part.passage].text
    spans = find_sentence_spans(text)
    chosen = sorted(part.chosen)
    sentences = tuple(text[slice(*spans[position])] for position in chosen)
    if len(chosen) == len(spans):
        return Excerpt(part.passage, text, sentences, True)
    runs: list[list[int]] = []
    for position in chosen:
        if runs and runs[-1][-1] == position - 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    shown = GAP.join(text[spans[run[0]][0] : spans[run[-1]][1]] for run in runs)
    before = GAP.lstrip() if chosen[0] else ""
    after = GAP.rstrip() if chosen[-1] < len(spans) - 1 else ""
    return Excerpt(part.passage, f"{before}{shown}{after}", sentences, False)
