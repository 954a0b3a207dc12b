"""Corrects words of a question that no visible passage has.

A correction is applied only if the typed word is very probably a typo. Otherwise it is suggested,
and the question stays as typed. A correction is only suggested in these cases: a passage has
another form of the word ("objection" for "objector") or a longer word that begins with it; the word
may be a name; or the question is not in English.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hopsyncd.index.snapshot import Snapshot
from hopsyncd.models.encoder import is_usual
from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.retrieve.query_context import find_names
from hopsyncd.retrieve.query_words import read_query_words
from hopsyncd.retrieve.term_matches import Read, look_up_terms
from hopsyncd.text.question_language import list_foreign_function_words
from hopsyncd.text.words import (
    correct_spelling,
    list_index_terms,
    list_spellings,
    map_texts_to_terms,
)
from store.content import build_full_text
from store.records import PassageId

_FEW_UNKNOWN = 2  # A short question with more unknown words is taken for another language.
_MOST_UNKNOWN = 10  # The same limit for a long question.
_LONG = 8  # From this length, two letters of a word may be wrong; in a shorter word, one.
_READ = 256  # The most passages that are read to find a word.
_LEAST_ROOT = 4  # The least letters of a word without its ending.
_LEAST_PREFIX = 5  # The least letters of a word that is the beginning of a longer word.
_ENDING = re.compile(
    r"(?:ations?|ions?|ors?|ers?|ings?|ed|es|s|al|ive|ity|ments?|ness|able|ible|ists?|isms?|ly"
    r"|ances?|ences?|ants?|ents?|ful|less|e|y)$"
)


@dataclass(frozen=True, slots=True)
class Spelling:
    """The corrections of a question, as typed words with their replacements.

    question: the question after the applied corrections. applied: corrections that were applied.
    offered: corrections that are only suggested.
    """

    question: str
    applied: Mapping[str, str] = field(default_factory=dict)
    offered: Mapping[str, str] = field(default_factory=dict)


NOTHING_CORRECTED = Spelling("")


def find_corrections(snapshot: Snapshot, question: str, read: Read) -> Spelling:
    """Replace words that no visible passage has with the nearest words that a passage has, or only
    suggest the replacements.
    Quoted words, codes and usual English words are not corrected. If many words of a question are
    unknown, no word is corrected.
    """
    foreign = list_foreign_function_words(question)
    usual = STOP_WORDS | {spelling for word in foreign for spelling in list_spellings(word)}
    plain = " ".join(read_query_words(question).words)
    words = [word for word in list_spellings(plain) if word not in usual]
    known_words = {word for word, count in _count_passages(snapshot, words).items() if count}
    unknown = [word for word in words if word not in known_words]
    if not unknown or len(unknown) > max(_FEW_UNKNOWN, min(len(words) // 3, _MOST_UNKNOWN)):
        return Spelling(question)
    named = {
        part
        for name in find_names(question, snapshot.select_mentioned_names)
        for part in name.split()
    }
    typos = [word for word in unknown if word not in named and not is_usual(word)]
    near = {word: _find_nearest(snapshot, word, read) for word in typos}
    corrections = {word: other for word, other in near.items() if other}
    offered = {
        word: other
        for word, other in corrections.items()
        if foreign or _is_name(question, word) or _has_relative(snapshot, word, read)
    }
    applied = {word: other for word, other in corrections.items() if word not in offered}
    return Spelling(correct_spelling(question, applied), applied, offered)


def _is_name(question: str, word: str) -> bool:
    """Return whether the question capitalises every occurrence of the word, and does not begin with
    the word."""
    typed = [
        (match.start(), match[0])
        for match in re.finditer(r"[^\W\d_]+", unicodedata.normalize("NFC", question))
        if word in list_spellings(match[0])
    ]
    return bool(typed) and all(start and word.istitle() for start, word in typed)


def _has_relative(snapshot: Snapshot, word: str, read: Read) -> bool:
    """Return whether a visible passage has a word with the same root or a longer word.

    A longer word must begin with this word.
    """
    root = _ENDING.sub("", word)
    relatives = [
        other
        for other in snapshot.index.vocabulary
        if (len(word) >= _LEAST_PREFIX and other.startswith(word))
        or (
            len(root) >= _LEAST_ROOT
            and root != word
            and other.startswith(root)
            and _ENDING.sub("", other) == root
        )
    ]
    counts = _count_passages(snapshot, sorted(relatives))
    return any(count and _is_written(snapshot, other, read) for other, count in counts.items())


def _count_passages(snapshot: Snapshot, words: Sequence[str]) -> dict[str, int]:
    """Count the visible passages that have each word, in any of its forms."""
    terms_by_word = map_texts_to_terms(words)
    terms = [terms_by_word[word][0] if terms_by_word[word] else word for word in words]
    return {
        word: term_rows.df
        for word, term_rows in zip(words, look_up_terms(snapshot, terms), strict=True)
    }


def _find_nearest(snapshot: Snapshot, word: str, read: Read) -> str | None:
    """Return the word of the documents nearest to a mistyped word, or None if no word is near.

    Ties go to the word in more passages. A different first letter counts as an additional mistake,
    because people rarely mistype it.
    """
    from rapidfuzz import process  # only for mistyped words
    from rapidfuzz.distance import OSA

    most = 1 + (len(word) >= _LONG)
    near = {
        other: distance + (word[0] != other[0] and word[:2] != other[1::-1])
        for other, distance, _ in process.extract(
            word, [*snapshot.index.vocabulary], scorer=OSA.distance, score_cutoff=most, limit=None
        )
    }
    count = _count_passages(snapshot, [*near])
    good = [candidate for candidate in near if count[candidate] and near[candidate] <= most]
    good.sort(key=lambda candidate: (near[candidate], -count[candidate], candidate))
    return next((candidate for candidate in good if _is_written(snapshot, candidate, read)), None)


def _is_written(snapshot: Snapshot, word: str, read: Read) -> bool:
    """Return whether a visible passage has the word in exactly this form.

    The vocabulary cannot tell, because it also has words of hidden sources.
    """
    rows = [term_rows.passage_rows for term_rows in look_up_terms(snapshot, list_index_terms(word))]
    passages = np.sort(snapshot.passage_ids[np.concatenate(rows)])[:_READ]
    texts = read([PassageId(id_) for id_ in passages.tolist()])
    return any(word in list_spellings(build_full_text(passage)) for passage in texts.values())
