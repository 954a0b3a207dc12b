"""Draws keyword, phrase, code and nonsense queries from a folder of documents.

The rules and the seed are fixed, so the same folder always gives the same queries. The draw
does not depend on search results: each query is a text that a few files contain, or none.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_SEED = 20261126
_MOST_FILES = 3  # a rare text stands in at most this many files
_SUFFIXES = frozenset((".md", ".rst", ".txt", ".html"))
_PATTERNS = {
    "option": r"(?<![\w-])--[a-z][a-z]+(?:-[a-z]+)*(?![\w-])",
    "snake_case": r"(?<![\w./])[a-z][a-z0-9]+(?:_[a-z0-9]+)+(?![\w./])",
    "camelCase": r"(?<![\w./])[a-z]{2,}(?:[A-Z][a-z]{2,})+(?![\w./])",
    "version": r"(?<![\w.-])v?[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}(?![\w.-])",
    "file name": r"(?<![\w./-])[a-z][\w-]{2,}\.(?:py|toml|yml|json|sh|ini|exe|dll|c|h)(?![\w.])",
    "date": r"(?<![\w-])(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?![\w-])",
    "money": r"(?<![\w$])[$€£][0-9]+(?:[.,][0-9]+)*(?![\w])",
    "code": r"(?<![\w/.-])[A-Z]{2,}[_-][A-Z0-9_-]*[A-Z0-9](?![\w/-])",
}
_COUNTS = {
    "option": 12,
    "snake_case": 12,
    "camelCase": 8,
    "version": 8,
    "file name": 8,
    "date": 3,
    "money": 2,
    "code": 6,
}
_PHRASES, _WORDS, _PAIRS, _PARTS = 8, 5, 4, 3
_ABSENT_WORDS, _ABSENT_IN_QUESTIONS, _ABSENT_PHRASES, _ABSENT_CODES = 10, 10, 5, 5
_TOKEN = re.compile(r"\w+")
_QUESTIONS = (
    "What is the {} of a repository?",
    "How do I configure {}?",
    "Who maintains {} in the core team?",
    "Why does {} fail on Windows?",
    "When was {} added?",
)


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """A query, and the texts that a literal hit contains.

    or_phrase: a hit with this phrase is literal too. is_absent: no file has the texts.
    """

    kind: str
    query: str
    literals: tuple[str, ...]
    or_phrase: str = ""
    is_absent: bool = False


def contains(text: str, literal: str) -> bool:
    """Whether the text has the literal as typed, except for case and white space.

    >>> contains("Use --no-cache  here", "--no-cache"), contains("Use --no-caches", "--no-cache")
    (True, False)
    """
    pattern = r"\s+".join(map(re.escape, literal.split()))
    start = r"(?<!\w)" if literal[0].isalnum() else ""
    return re.search(rf"{start}{pattern}(?!\w)", text, re.IGNORECASE) is not None


def draw(folder: Path) -> list[KeywordQuery]:
    """Draw 100 queries; fewer if the folder has too few texts of a kind."""
    chance = random.Random(_SEED)
    texts = {
        path: path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.suffix in _SUFFIXES and path.parent != folder
    }
    queries: list[KeywordQuery] = []
    for kind, pattern in _PATTERNS.items():
        found = _sample(chance, _rare(texts, re.compile(pattern).findall), _COUNTS[kind])
        queries += [KeywordQuery(kind, one, (one,)) for one in found]
    phrases = _sample(chance, _rare(texts, _phrases_of), _PHRASES)
    queries += [KeywordQuery("phrase", f'"{phrase}"', (phrase,)) for phrase in phrases]
    rare = _rare(texts, _words_of)
    queries += [KeywordQuery("word", one, (one,)) for one in _sample(chance, rare, _WORDS)]
    pairs = _rare(texts, _pairs_of)
    queries += [
        KeywordQuery("words", one, tuple(one.split())) for one in _sample(chance, pairs, _PAIRS)
    ]
    joined = _rare(texts, re.compile(_PATTERNS["camelCase"]).findall)
    queries += [
        KeywordQuery("parts of camelCase", _split_camel_case(one), (one,), _split_camel_case(one))
        for one in _sample(chance, joined, _PARTS)
    ]
    known = {word for text in texts.values() for word in _TOKEN.findall(text.lower())}
    return queries + list(_absent(chance, known, phrases))


def _rare(texts: Mapping[Path, str], find: Callable[[str], list[str]]) -> list[str]:
    """The texts found in at most three files, sorted."""
    files = defaultdict(set)
    for path, text in texts.items():
        for one in find(text):
            files[one].add(path)
    return sorted(one for one, found in files.items() if len(found) <= _MOST_FILES)


def _sample(chance: random.Random, among: list[str], count: int) -> list[str]:
    return chance.sample(among, min(count, len(among)))


def _phrases_of(text: str) -> list[str]:
    """Phrases of four consecutive words in one line of prose."""
    lines = re.findall(r"^[ \t]*([A-Za-z][a-z ,]{40,})", text, re.MULTILINE)
    words = [re.findall(r"\b[a-z]+ [a-z]+ [a-z]+ [a-z]+\b", line) for line in lines]
    return [found[0] for found in words if found]


def _words_of(text: str) -> list[str]:
    return re.findall(r"(?<![\w./<&-])[a-z]{7,12}(?![\w./>;-])", text)


def _pairs_of(text: str) -> list[str]:
    """Pairs of long words from one line."""
    lines = (re.findall(r"(?<![\w<&/-])[a-z]{8,12}(?![\w>;-])", one) for one in text.splitlines())
    return [f"{words[0]} {words[-1]}" for words in lines if len(set(words)) > 1]


def _split_camel_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _absent(chance: random.Random, known: set[str], phrases: list[str]) -> Iterator[KeywordQuery]:
    """Words, phrases and codes that no file has."""

    def invent() -> str:
        while True:
            syllables = chance.choices("zor qui vlam xeb nuph grok jiv wup dath kry".split(), k=3)
            if (word := "".join(syllables)) not in known:
                return word

    for _ in range(_ABSENT_WORDS):
        word = invent()
        yield KeywordQuery("absent word", word, (word,), is_absent=True)
    for number in range(_ABSENT_IN_QUESTIONS):
        word = invent()
        question = _QUESTIONS[number % len(_QUESTIONS)].format(word)
        yield KeywordQuery("absent word in a question", question, (word,), is_absent=True)
    for phrase in phrases[:_ABSENT_PHRASES]:
        turned = " ".join(reversed(phrase.split()))
        yield KeywordQuery("absent phrase", f'"{turned}"', (turned,), is_absent=True)
    for number in range(_ABSENT_CODES):
        code = (f"--{invent()}-{invent()}", f"{invent()}_{invent()}", f"9{number}.87.65")[
            number % 3
        ]
        yield KeywordQuery("absent code", code, (code,), is_absent=True)
