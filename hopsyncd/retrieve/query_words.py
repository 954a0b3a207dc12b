"""Finds the parts of a query that are searched as typed: quoted phrases, codes and words.

A keyword query has at most six words, not counting words such as *the* and *of*, and no question
mark, question word or auxiliary verb. It is searched mainly by its words. A question is searched
mainly by its meaning, and only its phrases and codes are searched as typed.
"""

import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.retrieve.numbered_items import ItemReference, read_item_reference
from hopsyncd.text.dates import WRITTEN_DATE
from hopsyncd.text.question_language import list_foreign_function_words
from store.records import UNSPACED

Kind = Literal["phrase", "code", "word"]

_MOST_KEYWORDS = 6
_KEPT_PATTERNS = 512
_LEAST_SHOUTED = 3  # in a shorter query, a word in capitals is an abbreviation
_LEAST_WHOLE = 2  # a shorter query is not also searched as one phrase
_QUOTED = re.compile(
    '"([^"]+)"|\u201c([^\u201c\u201d]+)\u201d|\u201e([^\u201c\u201d\u201e]+)[\u201c\u201d]|\u00ab([^\u00ab\u00bb]+)\u00bb|`([^`]+)`'
)
_SPACED_CODES = re.compile(
    # Each pattern has a bound, so that no place of a long query costs more than another.
    r"(?<![\w()])\+?\(?\d[\d()]{0,20}(?:[ /-]\d[\d()]{0,20}){2,8}(?!\w)"  # phone numbers
    r"|(?<!\w)\d{1,2}(?:st|nd|rd|th|\.)?\s(?:\w{3,9}\.?)\s(?:1|2)\d{3}(?!\w)"  # 7 May 2025
    r"|(?<!\w)[A-Z]\w{2,8}\.?\s\d{1,2}(?:st|nd|rd|th)?,\s(?:1|2)\d{3}(?!\w)"  # May 7, 2025
    r"|(?<![\w.,])\d[\d.,]{0,30}\s?[€$£¥%](?!\w)"
)
_PUNCTUATION = "?!,;:()[]{}<>\"'\u2018\u2019\u201c\u201d\u2026"
_CODE = re.compile(
    r"""
    --?[A-Za-z][\w-]*(?:=\S+)?      # an option
    | v?\d++(?:[.:/-]\d++)++[\w.-]*  # a version, date or time
    | [$€£¥]\d[\d.,]*               # money
    | \.[A-Za-z]\w+                 # .NET, .gitignore
    | [A-Za-z]\w*(?:\+\+|\#)        # C++, C#
    | (?=\w+_\w|_\w)\w++           # snake_case
    | [a-z]+\d*[A-Z]\w*             # camelCase
    | (?!Ma?c[A-Z]|D[ei][A-Z]|L[ae][A-Z]|Van[A-Z])(?:[A-Z][a-z0-9]+){2,}[A-Z]?  # PascalCase
    | \w[\w.-]*@[\w.-]+             # an address
    | [A-Za-z]+://\S+
    | (?=\S*\d)(?=\S*[A-Za-z])\w+(?:[-=]\w+)*   # letters and digits
    | \w+=\S+
    | \w+(?:::\w+)+(?:\(\))?
    | [\w-]{2,}(?:\.[\w-]{2,})+     # a file name or a dotted name
    | [\w.-]*/[\w.-]*/[\w./-]*      # a path
    | \w+\(\)
    """,
    re.VERBOSE,
)
_INITIALS = re.compile(r"(?:\w\.)+\w?")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|er|e|\u00e8me)|v?\d+", re.IGNORECASE)
# Quantities in a question are no codes, because passages can write them differently.
_UNITS = (
    r"%|[kKMGT]i?[Bb]|[km\u00b5n]?s|min|hrs?|h|am|pm|[ckm]?m|[mk]?g|m?l|[kMG]?Hz|px|pt|ft|lbs?|oz"
    r"|[kx]|mph"
)
_QUANTITY = re.compile(
    rf"\d[\d.,]{{0,30}}\s?(?:{_UNITS})"
    r"|\d{1,2}-\d{1,2}|\d{3}-\d{3}|[12]\d{3}-[12]\d{3}"  # 10-15, 2020-2024
)
_DECIMAL = re.compile(rf"(?<![\w.])(\d{{1,9}}\.\d{{1,9}})\s(?:{_UNITS}|[a-z]{{2,12}}s)(?![\w%])")
# Words that only link others. Words that negate or compare are kept: they say what is meant.
_KEPT_WORDS = frozenset(
    "no not before after during since while first second early late later most many some several "
    "all both each two three once".split()
)
FUNCTION_WORDS = STOP_WORDS - _KEPT_WORDS
_OF_QUESTIONS = frozenset(
    word
    for words in (
        "who whom whose what which when where why how is are am was were be been being do does did",
        "has have had can could will would should shall may might must i you he she it they we me",
        "my your tell explain describe compare",
        "wer was wie wann wo warum wieso welche welcher welches ist sind war waren hat haben kann",
        "wird qui que quoi quel quelle quand comment pourquoi est sont",
        "quién quien qué cuál cuándo cuando cómo como dónde donde es son",
        "chi cosa quale quando perché dove sono",
    )
    for word in words.split()
)
_ASKS = ("?", "\uff1f", "\u061f")
_WORD = re.compile(r"\w+(?:['\u2019]\w+)?")
# The text before and after a code that its line defines, and around a cell that has only a code.
_TERM_START = re.compile(
    r"[ \t]*(?:[-*+\u2022]\s+|\d+[.)]\s+)?(?:(?:[Ee]rror|[Ff]ault|[Ss]tatus)(?: code)? )?"
    r"(?:[\w-]+(?:, | / | or )){0,3}[`'\"(\[]?"
)
_TERM_END = re.compile(
    r"[`'\")\]]?(?:=\S{1,40}| <[^>\n]{1,40}>)?(?:, \S{1,40}){0,3}"
    r"(?:\s?[:=|\u2013\u2014]\s|\s-\s|[ \t]*(?:\n|\Z)"
    r"|\s(?:means|indicates|signals|stands for|refers to|denotes|occurs|appears (?:if|when)"
    r"|is (?:a|an|the|raised|returned|reported|caused|set|shown (?:if|when)))\b)"
)
_CELL_START = re.compile(r"(?:^|\| )[^|:\n]{1,60}: \Z")
_CELL_END = re.compile(r" \||[ \t]*(?:\n|\Z)")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A part of a query as typed, without its quotes."""

    text: str
    kind: Kind


@dataclass(frozen=True)
class QueryWords:
    """The parts of a query that are searched as typed.

    parts: its phrases, codes and content words. is_keywords: True for a keyword query, False for a
    question.
    """

    text: str
    parts: tuple[QueryPart, ...]
    is_keywords: bool

    @cached_property
    def literals(self) -> tuple[QueryPart, ...]:
        """The phrases and codes of the query."""
        return tuple(part for part in self.parts if part.kind != "word")

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The content words of the query that are in no phrase or code."""
        return tuple(part.text for part in self.parts if part.kind == "word")

    @cached_property
    def item(self) -> ItemReference | None:
        """The item of a numbered list that the query names, or None."""
        return read_item_reference(self.text)

    @property
    def whole(self) -> str | None:
        """The whole query as one phrase, or None for a question and for a single word."""
        text = self.text.strip()
        is_phrase = len(_WORD.findall(text)) >= _LEAST_WHOLE and not text.endswith(_ASKS)
        return text if is_phrase and not _QUOTED.search(text) else None


def read_query_words(query: str) -> QueryWords:
    """Split a query into the parts that are searched as typed.

    >>> [(part.text, part.kind) for part in read_query_words('"dry run" of --no-cache').parts]
    [('dry run', 'phrase'), ('--no-cache', 'code')]
    >>> read_query_words("spare key flat").is_keywords
    True
    >>> read_query_words("Where is the spare key?").is_keywords
    False
    >>> read_query_words("WHO report").words
    ('WHO', 'report')
    """
    query = unicodedata.normalize("NFC", query)
    parts: list[QueryPart] = []

    def take_phrase(match: re.Match[str]) -> str:
        text = next(filter(None, match.groups()))
        parts.append(QueryPart(" ".join(text.split()), "phrase"))
        return " "

    def take_code(match: re.Match[str]) -> str:
        parts.append(QueryPart(" ".join(match[0].split()), "code"))
        return " "

    remaining = WRITTEN_DATE.sub(take_code, _QUOTED.sub(take_phrase, query))
    remaining = _SPACED_CODES.sub(take_code, remaining)
    words: list[str] = []
    for token in remaining.split():
        bare = token.strip(_PUNCTUATION).rstrip(".")
        if _is_code(bare):
            parts.append(QueryPart(bare, "code"))
        elif _INITIALS.fullmatch(bare):
            words.append(bare)
        else:
            words += _WORD.findall(bare)
    plain = [word for word in words if not _is_abbreviation(word, words)]
    linking = list_foreign_function_words(query) or FUNCTION_WORDS
    links = {word for word in plain if word.lower() in linking}
    content = [word for word in words if word not in links]
    if not content and not parts:
        content = words
    parts += [QueryPart(word, "word") for word in content]
    is_question = query.rstrip().endswith(_ASKS) or any(
        word.lower() in _OF_QUESTIONS and word != "May" for word in plain
    )
    is_keywords = bool(parts) and not is_question and len(content) <= _MOST_KEYWORDS
    if not is_keywords:
        parts = [*_relabel_quantities(parts, {*_DECIMAL.findall(query)})]
    return QueryWords(query, tuple(dict.fromkeys(parts)), is_keywords)


def _relabel_quantities(
    parts: Iterable[QueryPart], decimals: Container[str]
) -> Iterator[QueryPart]:
    """Turn the codes that are quantities into words. `decimals` are numbers before a unit.

    >>> codes = [QueryPart(text, "code") for text in ("10-15", "5kg", "555-1234", "3.5", "3.12")]
    >>> [part.text for part in _relabel_quantities(codes, {"3.5"}) if part.kind == "code"]
    ['555-1234', '3.12']
    """
    for part in parts:
        is_quantity = part.text in decimals or _QUANTITY.fullmatch(part.text)
        yield replace(part, kind="word") if part.kind == "code" and is_quantity else part


def _is_code(token: str) -> bool:
    return bool(_CODE.fullmatch(token)) and not _ORDINAL.fullmatch(token)


def _is_abbreviation(word: str, words: Sequence[str]) -> bool:
    """Return whether a word is an abbreviation like WHO or IT.

    An abbreviation must be in capitals. A query of several words must not be all in capitals.
    """
    is_in_capitals = len(word) > 1 and word.isupper()
    return is_in_capitals and (len(words) < _LEAST_SHOUTED or not "".join(words).isupper())


def split_humps(name: str) -> list[str]:
    """Split a camelCase or snake_case name into its parts.

    >>> split_humps("parseHTTPHeader"), split_humps("no_cache")
    (['parse', 'HTTP', 'Header'], ['no', 'cache'])
    """
    return [part for part in _HUMP.split(name) if part]


def contains_literal(text: str, literal: str) -> bool:
    """Return whether the text has the literal as typed, ignoring case and extra white space.

    >>> contains_literal("Use --no-cache  here", "--no-cache here")
    True
    >>> contains_literal("--no-cache-dir", "--no-cache"), contains_literal("1.2.3", "1.2")
    (False, False)
    """
    return _compile_pattern(literal).search(normalise(text)) is not None


def defines(heading: Sequence[str], text: str, code: str) -> bool:
    """Return whether a passage says what a code means.

    A passage defines a code if its last heading has the code, or if a line, a cell or a definition
    begins with the code. A log line, which has the code after a time, does not define the code.

    >>> defines((), "Code: E-417 | Remedy: Vent the pump", "E-417")
    True
    >>> defines((), "- E-417: blocked", "E-417"), defines(("Error E-417",), "Vent it.", "E-417")
    (True, True)
    >>> defines((), "06:10 panel: E-417 raised", "E-417"), defines((), "E-417 again", "E-417")
    (False, False)
    """
    if heading and contains_literal(heading[-1], code):
        return True
    text = normalise(text)
    for match in _compile_pattern(code).finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        before = text[start : match.start()]
        if _TERM_START.fullmatch(before) and _TERM_END.match(text, match.end()):
            return True
        if _CELL_START.search(before) and _CELL_END.match(text, match.end()):
            return "|" in before or text[match.end() : match.end() + 2] == " |"
    return False


def normalise(text: str) -> str:
    """Compose letters with their accents, and straighten apostrophes."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).replace("\u2019", "'")


@lru_cache(_KEPT_PATTERNS)
def _compile_pattern(literal: str) -> re.Pattern[str]:
    literal = normalise(literal)
    body = r"\s+".join(map(re.escape, literal.split()))
    first, last = literal[0], literal[-1]
    start = end = ""
    if first == "-":
        start = r"(?<![\w-])"
    elif (first.isalnum() or first == "_") and not UNSPACED.match(first):
        start = r"(?<!\w)(?<!\d\.)" if first.isdigit() else r"(?<!\w)"
    if last in "+#":
        end = r"(?![\w+#])"
    elif (last.isalnum() or last == "_") and not UNSPACED.match(last):
        end = r"(?!-?\w)" if first == "-" else r"(?!\w)"
        end += r"(?![.,]\d)" if last.isdigit() else ""
    return re.compile(f"{start}{body}{end}", re.IGNORECASE)


def contains_as_part(text: str, word: str) -> bool:
    """Return whether the text has a camelCase or snake_case name with this word as a part.

    >>> contains_as_part("use libFuzzer", "fuzzer"), contains_as_part("concatenate", "cat")
    (True, False)
    """
    lower, part = text.lower(), word.lower()
    if len(lower) != len(text):  # positions differ, because the lower case of a letter is longer
        return False
    position = lower.find(part)
    while position >= 0:
        end = position + len(part)
        before, after = text[position - 1 : position], text[end : end + 1]
        begins = not before.isalnum() or (text[position].isupper() and not before.isupper())
        ends = not after.isalnum() or (after.isupper() and not text[end - 1].isupper())
        if begins and ends:
            return True
        position = lower.find(part, position + 1)
    return False


def contains_joined(text: str, words: tuple[str, ...]) -> bool:
    """Return whether the text has the words as one name, such as noCache, no-cache or no_cache.

    >>> contains_joined("set noCache", ("no", "cache"))
    True
    """
    pattern = r"[-_ ]?".join(map(re.escape, words))
    return re.search(rf"(?<![^\W_]){pattern}(?![^\W_])", text, re.IGNORECASE) is not None
