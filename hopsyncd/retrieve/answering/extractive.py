"""An answer without an LLM: the sentences that carry it, or that there is none.

The sentences are taken one by one, each time the one of highest

    COSINE * cos(question, sentence) + NEW * new - RANK * log(1 + rank) + JOINED * joined

where `new` is the idf-weighted share of the question's words that the sentence or its heading has
and those before it have not, and `joined` says that it shares a name with one of them from another
passage. The first two come from different passages: what one passage says whole is taken once.

"Not found" is a threshold on support, (words + 3 * cosine) / 4: the idf-weighted share of the
question's words that the first five passages have, and the cosine of their best sentence. Function
words are none of its words: in a small collection of statements, `does` and `when` are rare.

Up to 1,000 passages the threshold grows with the logarithm of their number: the best of many
foreign sentences is more like a question than the best of few. Both numbers were set on the
HotpotQA and MuSiQue samples, whole and in cuts, each asked its own questions and the other's;
`python benchmarks/answers.py` prints how often each is wrong. It tells foreign subjects, no more:
of questions whose gold passages alone were taken out, many are answered.
"""

import math
import re
from collections.abc import Mapping, Sequence

from hopsyncd.models.keywords import normalise
from hopsyncd.models.language import EntityKind, Language
from hopsyncd.retrieve.answering.reply import Evidence
from hopsyncd.retrieve.answering.sentences import Sentence
from store.records import PassageId
from store.words import index_terms

_PLACES = "city|country|state|county|town|village|continent|province|territory|place|region|island"
_PATTERNS: tuple[tuple[EntityKind, re.Pattern[str]], ...] = (
    (
        "number",
        re.compile(
            r"\bhow (?:many|much|old|long|far|tall|high|large|big)\b|\bpopulation\b"
            r"|\bwhat (?:number|percent(?:age)?)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "date",
        re.compile(
            r"\bwhen\b|\b(?:which|what) (?:\w+ )?(?:year|date|day|month|century|decade)\b",
            re.IGNORECASE,
        ),
    ),
    ("place", re.compile(rf"\bwhere\b|\b(?:which|what) (?:\w+ )?(?:{_PLACES})\b", re.IGNORECASE)),
    ("person", re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE)),
)
_YES_OR_NO = re.compile(
    r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE
)


def asked_kind(question: str) -> EntityKind | None:
    """The kind of the answer; None where it may be anything, such as of `which` and of yes or no.

    What ends the question decides (`... of the mayor of what city?`), else the first question word:
    what comes after that mostly says which thing is meant.

    >>> [asked_kind(q) for q in ("Where does she live?", "Is that so?", "Who lives where she did?")]
    ['place', None, 'person']
    """
    if _YES_OR_NO.match(question.strip()):
        return None
    words = question.rstrip(" ?!.")
    found = [
        (match.end() < len(words), match.start(), kind)
        for kind, pattern in _PATTERNS
        for match in pattern.finditer(words)
    ]
    return min(found, key=lambda one: one[:2], default=(False, 0, None))[2]


_COSINE = 0.5
_NEW = 2.0
_RANK = 0.3
_JOINED = 0.3
_SENTENCES = 3
_SUPPORT_DEPTH = 5
_COSINE_SUPPORT = 3.0
_MIN_SUPPORT = 0.535  # of _MANY passages or more
_MANY = 1000
_LESS_OF_FEW = 0.03  # with each e-fold below that
_PLACE_BEFORE = re.compile(r"\b(?:in|at|near|into) (?:the )?$", re.IGNORECASE)


def support(sentences: Sequence[Sentence], weights: Mapping[str, float]) -> float:
    """How well the first passages bear on the question: about 0 to 1.

    `weights` are the idf of the question's terms, also of those that no passage has.
    """
    first = [sentence for sentence in sentences if sentence.rank < _SUPPORT_DEPTH]
    if not first:
        return 0.0
    had = frozenset().union(*(sentence.terms for sentence in first))
    covered = sum(weights[term] for term in had) / max(sum(weights.values()), 1e-9)
    best = max(sentence.cosine for sentence in first)
    return (covered + _COSINE_SUPPORT * best) / (1 + _COSINE_SUPPORT)


def min_support(passages: int) -> float:
    """The support below which a collection of so many passages does not hold the answer.

    >>> [round(min_support(n), 3) for n in (20, 1000, 20_000)]
    [0.418, 0.535, 0.535]
    """
    return _MIN_SUPPORT - _LESS_OF_FEW * max(math.log(_MANY / max(passages, 1)), 0.0)


def carrying(sentences: Sequence[Sentence], weights: Mapping[str, float]) -> list[Sentence]:
    """Up to three sentences that carry the answer together, the most helpful first."""
    total = max(sum(weights.values()), 1e-9)
    left, chosen = list(sentences), list[Sentence]()
    covered: frozenset[str] = frozenset()

    def value(sentence: Sentence) -> float:
        new = sum(weights[term] for term in sentence.terms - covered) / total
        joined = any(
            one.passage != sentence.passage and one.names & sentence.names for one in chosen
        )
        return (
            _COSINE * sentence.cosine
            + _NEW * new
            - _RANK * math.log1p(sentence.rank)
            + _JOINED * joined
        )

    while left and len(chosen) < _SENTENCES:
        others = [one for one in left if one.passage != chosen[0].passage] if chosen else left
        best = max(others if len(chosen) == 1 and others else left, key=value)
        chosen.append(best)
        left.remove(best)
        covered |= best.terms
    return chosen


def short_answer(question: str, chosen: Sequence[Sentence], language: Language) -> str | None:
    """The first thing in the sentences that is of the kind asked for and not in the question."""
    kind = asked_kind(question)
    if kind is None:
        return None
    asked, words = f" {normalise(question)} ", set(index_terms(question))
    for sentence in chosen:
        for entity in language.entities(sentence.text):
            text = sentence.text[entity.start : entity.end]
            known = f" {normalise(text)} " in asked or words.issuperset(index_terms(text))
            # The language model takes many a town for a person; nobody is born in one.
            misread = kind == "person" and _PLACE_BEFORE.search(sentence.text[: entity.start])
            if entity.kind == kind and not known and not misread:
                return text
    return None


def evidence(chosen: Sequence[Sentence]) -> tuple[Evidence, ...]:
    return tuple(Evidence(sentence.passage, sentence.text) for sentence in chosen)


def cited(chosen: Sequence[Sentence]) -> tuple[PassageId, ...]:
    """Their passages, each once."""
    return tuple(dict.fromkeys(sentence.passage for sentence in chosen))
