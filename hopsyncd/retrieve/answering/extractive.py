"""An answer without an LLM: a few sentences of the passages found.

The sentences are chosen one by one. Each time, the sentence with the highest score is chosen:

    COSINE * cos(question, sentence) + NEW * new - RANK * log(1 + rank) + JOINED * joined
        + ABOUT * about + HAS_VALUE * has_value + FOLLOWS * follows

`rank` is the rank of the sentence's passage, counted from 0. The other terms are these:

- `new`: the idf-weighted share of the question's words that the sentence or its heading contains
  and the chosen sentences do not.
- `joined`: 1 if the sentence shares a name with another passage that a chosen sentence is from.
- `about`: 1 if a heading above the sentence is a name that a chosen sentence mentions and the
  question does not, such as the director of a film in the question.
- `has_value`: 1 if the sentence contains a value of the kind asked for, such as a number or a date.
- `follows`: 1 if the sentence begins with a pronoun, and the sentence before it is chosen.

A sentence with few new words is not shown in two cases. In the first case, the first chosen
sentence contains a value of the kind asked for, and the new sentence does not. In the second case,
the new sentence shares no name with the chosen sentences, and the question is short or hardly
resembles the new sentence. A short answer is shown only with the sentence that contains it.

If a question has several clauses, at most two sentences are chosen by their score. The next is
chosen differently. For each clause, the gain of a sentence is its cosine minus the best cosine of
the chosen sentences. The sentence with the largest gain for any clause is added, even if it has few
new words.

Questions, headers, front matter, markup and lines that only introduce a list do not count as
sentences, unless they contain a value of the kind asked for.

While the answer stays short, further sentences are added. The first is the sentence most like the
question, if it is not chosen yet. The others are chosen by their score as before.

The term `has_value` makes the sentences contain more correct answers on each of four collections.
Small changes to the other weights hardly change the result.
"""

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from hopsyncd.retrieve.answering.reply import Evidence
from hopsyncd.retrieve.sentences import Sentence, list_function_terms
from hopsyncd.text.words import list_index_terms
from store.records import PassageId

_COSINE = 0.5
_NEW = 2.0
_RANK = 0.3
_JOINED = 0.3
_ABOUT = 0.2
_HAS_VALUE = 0.7
_FOLLOWS = 0.15
_SENTENCES = 3
_MOST_SENTENCES = 5  # if they have at most _SHORT_ANSWER characters together
_SHORT_ANSWER = 500
_FEW_NEW = 0.1  # a share of the question's idf
_SHORT_QUESTION = 6  # terms
_UNLIKE = 0.4  # a cosine
_PRONOUN = re.compile(r"(?:He|She|It|They|His|Her|Its|Their)\b")
_LEAST_WORDS = 4  # the least words of a sentence without a full stop. Web addresses do not count.
# Headers of mails, the line before their text, properties of notes, the first character of markup.
_MARKUP = re.compile(
    r"(?:from|to|cc|bcc|subject|sent|reply-to|message-id|in-reply-to|x-[\w-]+|content-[\w-]+"
    r"|mime-version|received):\s|from\s[^\n,]{1,200}@[^\n]{1,300},\sdate\s|[\w-]+::\s"
    r"|[<{|:]|\[(?![^\t\n\[\],{}()=]{1,60}\][ \t])",  # `[lovelace1843] Ada …` is no markup
    re.IGNORECASE,
)


def is_prose(text: str) -> bool:
    """Return whether the text reads like a statement, and not like a question, markup or a header.

    >>> is_prose("The gate closes at ten."), is_prose("Example questions that are asked:")
    (True, False)
    >>> is_prose("From Ann <a@x.org> to b@x.org, date Tue, 3 Mar 2026 09:12 +0100")
    False
    >>> is_prose("type:: Feature"), is_prose("Docs: https://example.org/a")
    (False, False)
    >>> is_prose("[ ] Order the big tent (Ann)"), is_prose("How do I fix this error?")
    (True, False)
    >>> is_prose("[0:01:30] Nora reached the ferry.")  # from subtitles
    True
    >>> is_prose("[lovelace1843] Ada Lovelace (1843): Notes on the Analytical Engine.")
    True
    >>> is_prose("[Install the daemon](install.md)"), is_prose("[core]\\nno_color = true")
    (False, False)
    """
    bare = text.strip()
    if bare.endswith((":", "\\", "?")) or _MARKUP.match(bare):
        return False
    words = [word for word in bare.split() if "://" not in word]
    if len(words) == 1 and not words[0].isascii():  # a script without spaces
        return True
    count = sum(any(map(str.isalpha, word)) for word in words)
    return count >= _LEAST_WORDS or (count > 1 and bare.endswith((".", "!", "?")))


def choose_sentences(
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    with_value: AbstractSet[Sentence] = frozenset(),
    leading: AbstractSet[Sentence] = frozenset(),
) -> list[Sentence]:
    """Choose the sentences that together answer the question, most helpful first.

    `weights` is the idf of the question's terms. The sentences in `with_value` contain a value of
    the kind asked for. If `leading` is not empty, the best sentence in `leading` comes first.
    """
    choice = _Choice(sentences, weights, with_value)
    leaders = [sentence for sentence in sentences if sentence in leading]
    has_clauses = any(sentence.clause_cosines for sentence in choice.left)
    while choice.left and len(choice.chosen) + has_clauses < _SENTENCES:
        best = max((leaders if not choice.chosen else ()) or choice.left, key=choice.compute_value)
        if choice.chosen and choice.is_padding(best):
            break
        choice.add(best)
    if has_clauses and choice.left:
        choice.add(_choose_for_clause(choice.left, choice.chosen))
    choice.add_while_short()
    return [_shorten(sentence) for sentence in choice.chosen]


class _Choice:
    """The sentences chosen so far, and those left to choose from."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        weights: Mapping[str, float],
        with_value: AbstractSet[Sentence],
    ) -> None:
        self.chosen: list[Sentence] = []
        self.left = [
            sentence for sentence in sentences if sentence in with_value or is_prose(sentence.text)
        ] or [*sentences]
        self._weights = weights
        self._total = max(sum(weights.values()), 1e-9)
        self._with_value = with_value
        self._covered = frozenset[str]()
        self._mentioned = frozenset[str]()
        self._names = _unite_names(sentences)
        self._before = _find_antecedents(sentences)

    def add(self, sentence: Sentence) -> None:
        self.chosen.append(sentence)
        self.left = [other for other in self.left if other.text != sentence.text]
        self._covered |= sentence.terms
        in_question = self._weights.keys() | list_function_terms()
        self._mentioned |= {
            name
            for name in sentence.names - sentence.headings
            if not in_question.issuperset(list_index_terms(name))
        }

    def add_while_short(self) -> None:
        """Add further sentences as long as the answer stays short.

        The first is the sentence most like the question, unless one as similar is chosen.
        """
        if not self.left:
            return
        nearest = max(self.left, key=lambda sentence: sentence.cosine)
        is_nearer = nearest.cosine > max(sentence.cosine for sentence in self.chosen)
        if is_nearer and self._stays_short(nearest):
            self.add(nearest)
        while self.left:
            best = max(self.left, key=self.compute_value)
            if self.is_padding(best) or not self._stays_short(best):
                return
            self.add(best)

    def compute_value(self, sentence: Sentence) -> float:
        return (
            _COSINE * sentence.cosine
            + _NEW * self._share_new(sentence)
            - _RANK * math.log1p(sentence.rank)
            + _JOINED * self._is_joined(sentence)
            + _ABOUT * (not self._mentioned.isdisjoint(sentence.headings))
            + _HAS_VALUE * (sentence in self._with_value)
            + _FOLLOWS * (self._before.get(sentence) in self.chosen)
        )

    def is_padding(self, sentence: Sentence) -> bool:
        if sentence in self._with_value or self._share_new(sentence) >= _FEW_NEW:
            return False
        is_far = len(self._weights) <= _SHORT_QUESTION or sentence.cosine < _UNLIKE
        return self.chosen[0] in self._with_value or (is_far and not self._is_joined(sentence))

    def _share_new(self, sentence: Sentence) -> float:
        new = sentence.terms - self._covered
        return sum(self._weights[term] for term in new) / self._total

    def _is_joined(self, sentence: Sentence) -> bool:
        return any(
            previous.passage != sentence.passage and self._names[previous.passage] & sentence.names
            for previous in self.chosen
        )

    def _stays_short(self, sentence: Sentence) -> bool:
        shown = sum(len(_shorten(chosen).text) for chosen in self.chosen)
        return len(self.chosen) < _MOST_SENTENCES and shown + len(sentence.text) <= _SHORT_ANSWER


def _unite_names(sentences: Sequence[Sentence]) -> dict[PassageId, frozenset[str]]:
    names: dict[PassageId, frozenset[str]] = {}
    for sentence in sentences:
        names[sentence.passage] = names.get(sentence.passage, frozenset()) | sentence.names
    return names


def _choose_for_clause(left: Sequence[Sentence], chosen: Sequence[Sentence]) -> Sentence:
    """Choose the sentence that improves the best cosine with a clause of the question most."""
    by_clause = zip(*(sentence.clause_cosines for sentence in chosen), strict=True)
    best: list[float] = [max(cosines) for cosines in by_clause]

    def improvement(sentence: Sentence) -> float:
        cosines = sentence.clause_cosines
        return max(cosine - known for cosine, known in zip(cosines, best, strict=True))

    return max(left, key=improvement)


def _find_antecedents(sentences: Sequence[Sentence]) -> dict[Sentence, Sentence]:
    """Map each sentence that begins with a pronoun to the sentence before it."""
    return {
        later: earlier
        for earlier, later in pairwise(sentences)
        if earlier.rank == later.rank and _PRONOUN.match(later.text)
    }


def _shorten(sentence: Sentence) -> Sentence:
    """Cut a sentence to the line that has all words that the sentence shares with the question.

    Such a line exists where short list items or table rows were joined into one sentence. If no
    line of prose has all the words, the sentence is returned unchanged.
    """
    terms = sentence.terms.intersection(list_index_terms(sentence.text))
    for line in map(str.strip, sentence.text.splitlines()):
        if terms and terms.issubset(list_index_terms(line)) and is_prose(line):
            return replace(sentence, text=line)
    return sentence


def collect_evidence(chosen: Sequence[Sentence]) -> tuple[Evidence, ...]:
    return tuple(Evidence(sentence.passage, sentence.text) for sentence in chosen)


def list_cited_passages(chosen: Sequence[Sentence]) -> tuple[PassageId, ...]:
    """Return the passages that the sentences come from, without duplicates."""
    return tuple(dict.fromkeys(sentence.passage for sentence in chosen))


Kind = Literal[
    "name", "date", "moment", "weekday", "duration", "frequency", "number", "version", "code"
]

_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|must|may|should)"
_PLACES = "city|country|state|county|town|village|continent|province|territory|place|region|island"
_AMOUNTS = "limit|number|percent(?:age)?|share|amount|size|port|level|maximum|minimum|population"
_IDENTIFIERS = "option|flag|property|key|setting|variable|function|macro"
_CODES = rf"command|{_IDENTIFIERS}|file|path|expression"
_TEXTS = (
    "(?:pass|file|user)?names?|lines?|titles?|subjects?|summar(?:y|ies)|messages?|passwords?|texts?"
    "|descriptions?|abstracts?|paragraphs?|sentences?|words?|strings?|identifiers?|slugs?|labels?"
)
# The length of a text: "How long may a title be?", but not "How long are titles kept?".
_TEXT_LENGTH = (
    rf" (?:(?:is|are|was|were) (?:[\w'-]+ ){{0,4}}(?:{_TEXTS})(?= (?:in|of|for|on|at)\b|$)"
    rf"|(?:can|could|may|must|should|will|would) (?:[\w'-]+ ){{0,4}}(?:{_TEXTS})"
    r" (?:[\w'-]+ ){0,5}be(?= (?:in|at|for|on|before|when|if)\b|$))"
)
_QUESTION_PATTERNS: tuple[tuple[Kind, str], ...] = (
    (
        "duration",
        rf"how (?:long(?! (?:is|are) the|{_TEXT_LENGTH})|soon|early|late|quickly)\b"
        r"|how much (?:more |longer )?time\b"
        r"|(?:after|within|for|in) (?:what|which) (?:amount of |length of |period of )?time\b"
        r"|(?:shortest|longest|minimum|maximum) (?:interval|time|period|duration|that|someone)\b",
    ),
    ("frequency", r"how (?:often|frequently)\b|at (?:what|which) (?:rhythm|rate|interval)s?\b"),
    ("version", r"(?:what|which) (?:\w+ )?(?:version|release)s?\b"),
    ("weekday", r"(?:what|which) day of the week\b"),
    (
        "number",
        rf"how (?:many|much|old|far|tall|high|large|big|long(?: (?:is|are) the\b|{_TEXT_LENGTH}))\b"
        rf"|(?:what|which) (?:is the |are the )?(?:\w+ ){{0,2}}(?:{_AMOUNTS})s?\b",
    ),
    ("date", r"(?:which|what) (?:\w+ )?(?:year|date|day|month|century|decade)s?\b"),
    ("date", r"when (?:was|were|did|had)\b"),
    ("moment", rf"when {_AUXILIARY}\b"),
    ("moment", r"when$"),
    ("name", rf"(?:which|what) (?:\w+ )?(?:{_PLACES})\b"),
    ("name", rf"where {_AUXILIARY}\b"),
    ("name", r"where$"),
    ("code", rf"(?:what|which) (?!(?:kind|sort|type)s? of )(?:\w+ ){{0,2}}(?:{_CODES})\b"),
    ("name", rf"(?<!\w )who(?:m|se)? {_AUXILIARY}\b"),
    ("name", r"^who(?:m|se)?\b"),
    ("name", r"who(?:m|se)?$"),
)
_COMPILED = tuple(
    (kind, re.compile(pattern if pattern[0] == "^" else rf"\b(?:{pattern})", re.IGNORECASE))
    for kind, pattern in _QUESTION_PATTERNS
)
# An initial, as in "E. B. White", or a title does not end a sentence.
_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\b(?:Dr|Mr|Ms|St|Jr|Sr|vs)\.)(?<!\bMrs\.)\s+(?=[A-Z])"
)
_ASKS_IDENTIFIER = re.compile(
    rf"\b(?:what|which) (?:\w+ ){{0,2}}(?:{_IDENTIFIERS})\b", re.IGNORECASE
)
_TWO_THINGS = re.compile(
    r"\band (?:\w+ ){0,2}(?:what|which|how|when|where)\b|\b(?:what|which) \w+ to (?:what|which)\b"
    r"|\bto how (?:many|much)\b|\b(?:in turn|respectively)\b",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(rf"{_AUXILIARY}\b", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\b(?:which|what) (?:\w+ )?"
    rf"(?:(?:version|release|date|day|year|month|{_CODES})s|properties)\b",
    re.IGNORECASE,
)
_KEYWORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("duration", re.compile(r"\b(?:lifetime|timeout|duration|grace period)\b", re.IGNORECASE)),
    ("number", re.compile(rf"^(?:\w+ ){{0,2}}(?:{_AMOUNTS})s? of\b", re.IGNORECASE)),
    ("number", re.compile(rf"\b(?:{_AMOUNTS})$", re.IGNORECASE)),
    ("code", re.compile(rf"\b(?:{_CODES}|location)$", re.IGNORECASE)),
)
_SECOND = frozenset(
    list_index_terms("second")
)  # a unit of time here, although also a function word
_COUNTED = re.compile(
    rf"\bhow many (?!(?:{_AUXILIARY}|of (?:them|these|those|us|you))\b)((?:[\w-]+ ?){{1,4}})",
    re.IGNORECASE,
)


_SHARE = re.compile(r"\b(?:percent(?:age)?|share|proportion|fraction)\b", re.IGNORECASE)
_NO_MONEY = re.compile(r"\bhow (?:far|old|tall|long)\b", re.IGNORECASE)
_MONEY = re.compile(
    r"\bhow much (?:money|.*\b(?:cost|paid|pay|spend|earn))\b"
    r"|\b(?:prices?|salar(?:y|ies)|fees?|costs?|(?:monthly|annual|yearly|daily) amount)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QuestionNeeds:
    """The kind of value that answers a question, such as a number or a date.

    counted: the terms of the counted noun, such as `hour` for `How many hours`. unit: "money" or
    "share" if the number must be an amount of money or a percentage. is_identifier: True if the
    code must be the name of an option, a property, a key, a setting, a variable, a function or a
    macro, and cannot be the path of a file.
    """

    kind: Kind
    counted: frozenset[str] = frozenset()
    unit: Literal["money", "share"] | None = None
    is_identifier: bool = False


def find_needs(question: str) -> QuestionNeeds | None:
    """Find out what kind of value answers a question.

    Returns None for questions that can have any answer (`which`), for yes-or-no questions, and for
    questions that ask for two things.

    Only the last sentence with a question mark is parsed, because earlier sentences usually give
    context. If the sentence ends with a question phrase (`... of the mayor of what city?`), that
    phrase decides. Otherwise the first question word decides. A query without a question mark may
    name the kind of value instead (`timeout`).

    >>> find_needs("Ada left. Where does she live?")
    QuestionNeeds(kind='name', counted=frozenset(), unit=None, is_identifier=False)
    >>> find_needs("How many hours can be saved?").counted
    frozenset({'hour'})
    """
    words = find_asked_sentence(question).strip().rstrip(" ?!.")
    if _YES_OR_NO.match(words) or _TWO_THINGS.search(words):
        return None
    kinds = [
        (match.end() < len(words), match.start(), kind)
        for kind, pattern in _COMPILED
        for match in pattern.finditer(words)
    ]
    if not kinds:
        asked = (kind for kind, pattern in _KEYWORDS if pattern.search(words))
        kind = None if question.rstrip().endswith("?") else next(asked, None)
        return QuestionNeeds(kind) if kind else None
    kind = min(kinds, key=lambda match: match[:2])[2]
    if kind == "code":
        return QuestionNeeds(kind, is_identifier=_ASKS_IDENTIFIER.search(words) is not None)
    if kind != "number":
        return QuestionNeeds(kind)
    unit: Literal["money", "share"] | None = "share" if _SHARE.search(words) else None
    return QuestionNeeds(
        kind,
        _find_counted_terms(words),
        "money" if _MONEY.search(words) and not _NO_MONEY.search(words) else unit,
    )


def find_asked_sentence(question: str) -> str:
    """Return the last sentence with a question mark. Without one, return the whole question.

    >>> find_asked_sentence("Ada left. Where does she live?")
    'Where does she live?'
    >>> find_asked_sentence("Where did E. B. White meet Dr. Ross?")
    'Where did E. B. White meet Dr. Ross?'
    """
    sentences = reversed(_SENTENCE.split(question))
    return next((sentence for sentence in sentences if "?" in sentence), question)


def asks_for_several(question: str) -> bool:
    """Return whether a question asks for several values, such as dates or options.

    >>> asks_for_several("Which versions read it?"), asks_for_several("Which version reads it?")
    (True, False)
    """
    return _SEVERAL.search(question) is not None


def _find_counted_terms(words: str) -> frozenset[str]:
    """Return the terms of the words after `how many`, up to the next function word."""
    match = _COUNTED.search(words)
    terms: list[str] = []
    for word in match[1].split() if match else ():
        found = frozenset(list_index_terms(word)) - (list_function_terms() - _SECOND)
        if not found and terms:
            break
        terms += found
    return frozenset(terms)
