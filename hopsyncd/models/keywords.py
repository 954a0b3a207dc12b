"""Finds keywords: the names that a text mentions, each in one spelling.

A keyword is a normalised name. Two mentions have the same keyword if `normalise` returns the same
text for both.

In the language of the configured spaCy model, names are the named entities and proper nouns that
the model finds. In other languages, names are sequences of capitalised words, quoted phrases and
codes. In scripts without spaces they are sequences of characters of one script, and in scripts
without capitals they are long words. Options, identifiers, numbered things and versions are names
in every language. A heading is the topic of the text below it, except for generic headings such as
"Introduction".
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from hopsyncd.models.name_rules import is_value, label_spans, remove_labels

_PARENTHESES = re.compile(r"\s*\([^)]*\)")
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")
_OPEN_PARENTHESIS = re.compile(r"\s*\([^()]*$")
_NOT_WORD = re.compile(r"[\W_]+")
_DETERMINER = re.compile(r"^(?:the|a|an|this|that|these|those|his|her|its|their) ")

STOP_WORDS = frozenset(
    "the a an this that these those his her its their he she it they we i you in on at of for and "
    "or but with by from as is was are were be been to not no who what which when where why how "
    "also after before during since while however there then once upon most many some several all "
    "both each other another one two three first second new early late later following".split()
)

# Words in headings that name a part of a page, not a subject.
_OF_PARTS = frozenset(
    "about abstract acknowledgements additional advanced answers appendix arguments author authors "
    "background basic basics bugs caveats changelog changes code commands comments conclusion "
    "configuration content contents copyright credits definition definitions description detail "
    "details discussion environment example examples faq features files footnotes frequently asked "
    "functionality further general getting started goals guide guidelines help history "
    "implementation important information installation instructions intro introduction key learn "
    "licence license limitations links list main miscellaneous more motivation name note notes "
    "open other options output overview parameters preface prerequisites process purpose questions "
    "quick rationale read reading reference references related remarks requirements resources "
    "rules scope section see setup settings specification stages step steps summary support "
    "synopsis syntax table terminology tips tools topics troubleshooting usage use warning "
    "warnings what".split()
)
_MAX_NAME_CHARACTERS = 500  # Some patterns take quadratic time in the length of a name.
_SECTION_NUMBER = re.compile(r"(?:\d+\.)+\s+")


@dataclass(frozen=True, slots=True)
class Mention:
    """A name at text[start:end] and its normalised form."""

    start: int
    end: int
    keyword: str


def normalise(name: str) -> str:
    """Normalise a name: drop its determiner, possessive, parenthesis, punctuation and capitals.

    >>> normalise("The Beatles' (band)")
    'beatles'
    >>> normalise("World War II")
    'world war ii'
    """
    name = name[:_MAX_NAME_CHARACTERS]
    bare = _OPEN_PARENTHESIS.sub("", _PARENTHESES.sub("", name))
    plain = _POSSESSIVE.sub("", bare.lower().replace("\u2019", "'"))
    return _DETERMINER.sub("", _NOT_WORD.sub(" ", plain).strip())


def find_topic(heading: str) -> str:
    """Return the topic that a heading gives to the text below it, or "" if it names no subject.

    >>> find_topic("2.3. Write-Ahead Logging"), find_topic("See also")
    ('write ahead logging', '')
    """
    name = normalise(_SECTION_NUMBER.sub("", heading[:_MAX_NAME_CHARACTERS]))
    is_informative = any(word not in _OF_PARTS and word not in STOP_WORDS for word in name.split())
    return name if is_informative else ""


def find_mentions(text: str, spans: Iterable[tuple[int, int]]) -> tuple[Mention, ...]:
    """Convert spans, and the codes in the text, to mentions in order of appearance.

    Skips function words, numbers, amounts, the names of table columns, and a second mention of the
    same keyword at the same position. A name that occurs again later is kept.
    """
    codes = (match.span() for match in _CODE.finditer(text))
    found = {
        Mention(start, end, keyword)
        for start, end in remove_labels([*spans, *codes], label_spans(text))
        if len(keyword := normalise(text[start:end])) > 1
        and keyword not in STOP_WORDS
        and not is_value(text, start, end, keyword)
    }
    first: dict[tuple[str, int], Mention] = {}
    for mention in sorted(found, key=lambda m: (m.start, m.end, m.keyword)):
        first.setdefault((mention.keyword, mention.start), mention)
    return tuple(first.values())


_CODE = re.compile(
    r"""
    (?<![\w-])--[a-zA-Z][\w-]*\w                            # options
    | (?<![\w.])[A-Za-z_]\w+(?:\.[a-z_]\w+)+                # dotted identifiers and files
    | (?<![\w.])[A-Za-z]\w*_\w+                             # identifiers of several words
    | \b[a-z]+[A-Z]\w+ | \b(?:[A-Z][a-z0-9]+){2,}\b
    | \b[A-Z]{2,}[ -]\d+\b                                  # what is numbered: PEP 693
    | (?:(?<![\w.-])|(?<=\bv))\d+(?:\.\d+)+(?![\w%-]|\s%)  # versions
    """,
    re.VERBOSE,
)


@cache  # Compiling takes long, and most texts do not need this pattern.
def _compile_neutral() -> re.Pattern[str]:
    # `re` has no class for capitals. Only rare scripts have capitals above U+FFFF.
    capitals = (c for c in map(chr, range(0x10000)) if c.isupper() or c.istitle())
    capital = "[" + "".join(capitals) + "]"
    return re.compile(
        rf"(?:\b{capital}\w*(?:[ '\u2019-](?={capital})\w+)*)"  # runs of capitalised words
        r"""
        | (?<=["\u201c\u00ab\u300c\u300e])[^"\u201d\u00bb\u300d\u300f\n]{2,60}
          (?=["\u201d\u00bb\u300d\u300f])                      # what stands in quotes
        | \b(?=\w*\d)(?=\w*[^\W\d_])\w[\w-]+\b                 # codes: a letter and a digit
        | \b\d{3,4}\b                                          # years
        """,
        re.VERBOSE,
    )


_UNSPACED_RUN = re.compile(
    "[\u30a0-\u30ff]{2,}|[\u3400-\u4dbf\u4e00-\u9fff]{2,8}|[\u0e00-\u0e7f]{4,20}"
)
# Hebrew, Arabic, the scripts of India, and Korean have words, but no capitals that mark names.
_UNCASED_WORD = re.compile("[\u0590-\u08ff\u0900-\u0dff]{4,}|[\uac00-\ud7af]{2,}")


def find_neutral_spans(text: str) -> list[tuple[int, int]]:
    """Find names without knowing the language. Returns their (start, end).

    >>> [t[a:b] for t in ["Die Firma Siemens baut X100"] for a, b in find_neutral_spans(t)]
    ['Die Firma Siemens', 'X100']
    """
    return [
        match.span()
        for pattern in (_compile_neutral(), _UNSPACED_RUN, _UNCASED_WORD)
        for match in pattern.finditer(text)
    ]


# Titles of these words, with or without a number, name no subject. The verbs begin questions.
_NO_NAMES = STOP_WORDS | set(
    "chapter compare contents copy describe document draft explain file find give home index list "
    "main misc name new note notes page part readme section show tell todo untitled".split()
)


def normalise_document_names(names: Iterable[str]) -> frozenset[str]:
    """Return a document's file name, title and aliases as keywords, except meaningless names.

    >>> sorted(normalise_document_names(("Ada Lovelace", "Countess of Lovelace")))
    ['ada lovelace', 'countess of lovelace']
    >>> normalise_document_names(("2026-11-01", "Untitled 2", "<1@example.org>"))
    frozenset()
    """
    normalised = (normalise(name) for name in names if "@" not in name)
    return frozenset(name for name in normalised if _is_distinctive(name))


def _is_distinctive(name: str) -> bool:
    words = " ".join(word for word in name.split() if not word.isdecimal())
    return len(words) > 1 and words not in _NO_NAMES
