"""Splits text in any script into words in the same way as full-text search."""

import re
import threading
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial

from store.contract import Connection
from store.open_database import open_memory_database
from store.records import UNSPACED, WORD, split_unspaced
from store.transactions import snapshot

_SPELLED = re.compile(r"(?<![^\W_])[^\W\d_]{4,32}(?![^\W_])")

TOKENIZER = "porter unicode61 remove_diacritics 2"
_TOKENIZERS = threading.local()
_MAX_CACHED = 1 << 14
_SHORT_CACHED, _MOST_CHARACTERS = 1 << 12, 256  # texts whose sorted terms are cached
_TERM_CACHE: dict[str, tuple[str, ...]] = {}  # terms by text


def list_spellings(text: str) -> list[str]:
    """Return the distinct words to which a typo may be corrected: only letters, at least four, in
    lower case.

    >>> list_spellings("The tyre of car 0815x, the TYRE")
    ['tyre']
    """
    return [*dict.fromkeys(map(_lower, _SPELLED.findall(split_unspaced(_compose_accents(text)))))]


def correct_spelling(text: str, corrections: Mapping[str, str]) -> str:
    """Replace misspelled words with their corrections, and keep the case in the text. The keys of
    `corrections` have the form that `list_spellings` returns.

    >>> correct_spelling("Hotkyes of Obsidain?", {"hotkyes": "hotkeys", "obsidain": "obsidian"})
    'Hotkeys of Obsidian?'
    """
    if not corrections:
        return text
    replace = partial(_SPELLED.sub, partial(_correct_word, corrections=corrections))
    return "".join(map(replace, UNSPACED.split(_compose_accents(text))))


def _correct_word(match: re.Match[str], corrections: Mapping[str, str]) -> str:
    typed = match[0]
    word = corrections.get(_lower(typed), typed)
    if word == typed or typed.islower():
        return word
    if typed.isupper():
        return word.upper()
    return word.capitalize() if typed[0].isupper() else word


def _lower(word: str) -> str:
    # The lower case of \u0130 is two characters: it has a separate dot.
    return word.lower().replace("i\u0307", "i")


def _compose_accents(text: str) -> str:
    """Join letters with their accents, because a separate accent would end a word."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


class _Plain(dict[int, str]):
    """Maps each character to its form in full-text search. Characters that end words are not
    changed."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        terms = list_index_terms(f"a{character}b")
        self[code] = plain = terms[0][1:-1] if len(terms) == 1 else character
        return plain


_PLAIN = _Plain()


def normalise_text(text: str) -> str:
    """Return the text in lower case. Its words are normalized as in full-text search, but not
    stemmed.

    >>> normalise_text("Éclairs in Łódź")
    'eclairs in łodz'
    """
    return text.lower() if text.isascii() else text.lower().translate(_PLAIN)


def list_index_terms(text: str) -> tuple[str, ...]:
    """Return the distinct terms of full-text search in the text, sorted.

    >>> list_index_terms("The dogs, the dog")
    ('dog', 'the')
    """
    return _find_short_terms(text) if len(text) <= _MOST_CHARACTERS else _find_terms(text)


def _find_terms(text: str) -> tuple[str, ...]:
    if not text.isascii():
        return map_texts_to_terms([text])[text]
    # The words of ASCII texts are mostly cached, and WORD splits ASCII like the tokenizer.
    terms = map_texts_to_terms(WORD.findall(text.lower()))
    return tuple(sorted(frozenset().union(*terms.values())))


_find_short_terms = lru_cache(_SHORT_CACHED)(
    _find_terms
)  # a question's terms are needed several times


def map_texts_to_terms(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the index terms of each text, by text, computed together."""
    by_text = {text: _TERM_CACHE.get(text) for text in texts}
    cached = {text: terms for text, terms in by_text.items() if terms is not None}
    if len(cached) < len(by_text):
        new = [text for text in by_text if text not in cached]
        computed = {
            text: tuple(sorted(counts)) for text, counts in zip(new, count_terms(new), strict=True)
        }
        if len(_TERM_CACHE) > _MAX_CACHED:
            _TERM_CACHE.clear()
        _TERM_CACHE.update(computed)
        cached |= computed
    return cached


def count_terms(texts: Sequence[str]) -> list[dict[str, int]]:
    """Count the terms of each text.

    SQLite has no function for this, so an in-memory index does it.

    >>> count_terms(["The dogs, the dog"])
    [{'dog': 2, 'the': 2}]
    """
    memory = _make_tokenizer()
    counts: list[dict[str, int]] = [{} for _ in texts]
    with snapshot(memory):  # one transaction takes a fifth of the time per text
        memory.execute("INSERT INTO body (body) VALUES ('delete-all')")
        memory.executemany(
            "INSERT INTO body (rowid, text) VALUES (?, ?)",
            [(number, split_unspaced(text)) for number, text in enumerate(texts, 1)],
        )
        for number, term, count in memory.execute(
            "SELECT doc, term, count(*) FROM term GROUP BY term, doc"
        ):
            counts[number - 1][term] = count
    return counts


def _make_tokenizer() -> Connection:
    memory: Connection | None = getattr(_TOKENIZERS, "memory", None)
    if memory is None:
        memory = _TOKENIZERS.memory = open_memory_database()
        memory.execute(
            f"CREATE VIRTUAL TABLE body USING fts5(text, content = '', tokenize = '{TOKENIZER}')"
        )
        memory.execute("CREATE VIRTUAL TABLE term USING fts5vocab(body, 'instance')")
    return memory
