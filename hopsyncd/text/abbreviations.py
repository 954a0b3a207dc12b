"""Finds abbreviations and other names that a text defines: "Enterprise Support Team (EST)".

These patterns are recognized: "long form (SF)" and "SF (long form)" by the algorithm of Schwartz &
Hearst (2003), "NPM, the Node package manager", "EST: Enterprise Support Team" at the start of a
line, "EST stands for ...", and the aliases of a note.

All index terms of this module contain a space, so they never equal a word.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hopsyncd.text.words import map_texts_to_terms

ALIASES_OF_FILE = "aliases of file"  # the term of passages whose note has aliases and no heading.
MOST_WORDS = 8  # the most words of a long form.
_MOST_LETTERS = 10  # the most letters of a short form.
_LEAST_LONG = 5  # the minimum number of letters in a long form.
_MOST_LOWER = 5  # the most lower-case letters of a short form.
_INITIALS = 0.6  # the minimum share of a short form's letters that begin words of the long form.
_MOST_ALIASES = 8  # the most aliases of a note that are read.
_MOST_PAIRS = 64  # the most pairs that are read from a text.

# The patterns are bounded, so that no part of a long text costs more than another.
_IN_BRACKETS = re.compile(r"[^\S\n]?[*_`]{0,3}\(([^()\n]{2,100})\)")
_SHORT = re.compile(r"[^\W_](?:[\w&/+.-]{0,14}[^\W_])?\.?")
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_TOKEN = re.compile(r"(?<![\w&/+.-])[^\W\d_][\w&/+-]{1,14}(?![\w&/+-])")
_APPOSITION = re.compile(
    r"(?<![\w&/+.-])([A-Z][A-Za-z0-9&]{1,9})[\"\u201d*_`]{0,3}"
    r"(?:,?\s{1,2}(?:(?:which\s)?stands\sfor|(?:is\s)?short\sfor|means)|,(?:\sor)?)\s{1,2}"
    r"(?:[Tt]he\s|[Aa]n?\s|[\"\u201c*_]{1,3})?([^\n.;:()]{5,100})"
)
_LINE = re.compile(
    r"(?m)^[^\S\n]{0,8}(?:[-*+|>#]{1,6}[^\S\n]{1,4})?[*_`]{0,3}([^\W_][\w&/+-]{1,9})[*_`]{0,3}"
    r"[^\S\n]{0,4}(?:[:=|\u2013\u2014]|--?[^\S\n])[*_`]{0,3}[^\S\n]{0,4}[*_`]{0,3}"
    r"([^\W_][^\n|.;:()]{4,100})"
)
_ALIASES = re.compile(r"(?m)^alias(?:es)?: ([^\n]{1,500})$")
_NUMERONYM = re.compile(r"([A-Za-z])([0-9]{1,2})([A-Za-z])")
_LINKING_WORDS = frozenset(
    "a an the of and or for in to on at by with from as is are was it its that this which"
    " de la le les des du et en del el los las y und der die das den für von vom zur e di".split()
)
_NO_NAME = re.compile(r"[,%<>{}=\\]")
_SENTENCE_END = re.compile(r"[.!?;:]\s|\n\s*\n|[|\u2022]|[()]")


class Pair(NamedTuple):
    """A short form and its long form in a text, or two names in a note."""

    short: str
    long: str


def find_pairs(headings: Sequence[str], text: str, title: str = "") -> list[Pair]:
    """Return the distinct pairs that a passage defines. `title` is the title of the passage's file,
    for a passage without a heading.

    >>> find_pairs((), "Ask the Enterprise Support Team (EST).")
    [Pair(short='EST', long='Enterprise Support Team')]
    >>> find_pairs((), "It uses NPM, the Node package manager.")
    [Pair(short='NPM', long='Node package manager')]
    >>> find_pairs(("Kubernetes",), "aliases: k8s")
    [Pair(short='k8s', long='Kubernetes')]
    >>> find_pairs((), "It was late (it rained).")
    []
    """
    pairs: dict[Pair, None] = {}
    for part in (*headings[-1:], text):
        for pair in _find_in(unicodedata.normalize("NFC", part)):
            pairs[pair] = None
            if len(pairs) == _MOST_PAIRS:
                return [*pairs]
    name = headings[0] if headings else title
    for alias in _find_aliases(text):
        if name and alias.lower() != name.lower():
            pairs[Pair(alias, name)] = None
    return [*pairs]


def _find_in(text: str) -> Iterator[Pair]:
    if "(" in text:
        for match in _IN_BRACKETS.finditer(text):
            yield from _read_brackets(text, match)
    for pattern in (_APPOSITION, _LINE):
        for match in pattern.finditer(text):
            if _is_short(match[1]) and (long := _match_initials(match[1], match[2])):
                yield Pair(match[1], long)


def _read_brackets(text: str, match: re.Match[str]) -> Iterator[Pair]:
    inside = _strip(re.split("[,;]| or ", match[1])[0])
    start = max(match.start() - 200, 0)
    before = _SENTENCE_END.split(text[start : match.start()])[-1].rstrip("*_`\"' \u201d")
    if _is_short(inside) or _is_lower_case(inside):
        if long := _find_long_form(inside, before):
            yield Pair(inside, long)
        return
    tokens = _TOKEN.findall(before[-24:])
    last = tokens[-1] if tokens and before.endswith(tokens[-1]) else ""
    for short, long in ((inside, last), (last, inside)):
        if _is_numeronym(short, long):
            yield Pair(short, long)
    if _is_short(last) or _is_lower_case(last):
        long = _match_initials(last, inside)
        if not long and _is_short(last):
            long = _find_long_form(last, inside)
        if long:
            yield Pair(last, long)


def _strip(text: str) -> str:
    return text.strip("*_`\"' \u201c\u201d")


def _is_short(text: str) -> bool:
    """Return whether the text looks like an abbreviation because of its capitals."""
    letters = [character for character in text if character.isalpha()]
    return (
        2 <= len(letters) <= _MOST_LETTERS
        and sum(letter.isupper() for letter in letters) >= 2
        and _SHORT.fullmatch(text) is not None
    )


def _is_lower_case(text: str) -> bool:
    """Return whether the text may be an abbreviation in lower case, such as `npm`."""
    return 3 <= len(text) <= _MOST_LOWER and text.isalpha() and text.islower()


def _is_numeronym(short: str, long: str) -> bool:
    """Return whether a short form is the first and last letter of `long`, with the number of
    omitted letters between them, such as `K8s` and `i18n`."""
    match = _NUMERONYM.fullmatch(short)
    return (
        match is not None
        and long.isalpha()
        and len(long) == int(match[2]) + 2
        and (long[0].lower(), long[-1].lower()) == (match[1].lower(), match[3].lower())
    )


def _find_long_form(short: str, before: str) -> str:
    """Return the last words of `before` that contain the letters of the short form (Schwartz &
    Hearst), or "" if there are none.

    The first letter must begin a word other than a linking word such as "of". Most other letters
    must begin a word too. If the short form is in lower case, all other letters must.
    """
    letters = [character for character in _make_singular(short).lower() if character.isalnum()]
    most = min(len(letters) + 5, 2 * len(letters), MOST_WORDS)
    words = [*_WORD.finditer(before)][-most:]
    lower = before.lower()
    if not words or len(lower) != len(before):  # a letter whose lower case is longer
        return ""
    starts = {word.start() for word in words}
    begins = {word.start() for word in words if word[0].lower() not in _LINKING_WORDS}
    for word in reversed(words):
        if word.start() not in begins:
            continue
        long = _match_initials(short, before[word.start() :])
        if long and _collapse(before[word.start() :]) == long:
            return long
    position, initials = len(lower), 0
    for number in range(len(letters) - 1, -1, -1):
        position -= 1
        while position >= words[0].start() and (
            lower[position] != letters[number] or (number == 0 and position not in begins)
        ):
            position -= 1
        if position < words[0].start():
            return ""
        initials += position in starts
    long = _collapse(before[position:])
    least = len(letters) if short.islower() else _INITIALS * len(letters)
    return long if initials >= least and _is_long(short, long) else ""


def _match_initials(short: str, after: str) -> str:
    """Return the first words of `after` whose initials are the letters of the short form, or "".

    Linking words such as "of" may be skipped.
    """
    letters = [character for character in _make_singular(short).lower() if character.isalnum()]
    words = [*_WORD.finditer(after)][: MOST_WORDS + 2]
    matched = 0
    for word in words:
        begins = word[0].lower()
        if matched < len(letters) and begins[0] == letters[matched]:
            matched += 1
        elif begins not in _LINKING_WORDS or not matched:
            return ""
        if matched == len(letters):
            long = _collapse(after[words[0].start() : word.end()])
            return long if _is_long(short, long) else ""
    return ""


def _make_singular(short: str) -> str:
    return short[:-1] if len(short) > 2 and short[-1] == "s" and short[-2].isupper() else short


def _collapse(text: str) -> str:
    return " ".join(text.split())


def _is_long(short: str, long: str) -> bool:
    words = _WORD.findall(long)
    return (
        len(words) <= MOST_WORDS
        and not _NO_NAME.search(long)
        and len(long) >= max(_LEAST_LONG, len(short) + 2)
        and short.lower() not in {word.lower() for word in words}
        and (len(words) > 1 or "-" not in short)
    )


def _find_aliases(text: str) -> list[str]:
    """Return the aliases that the first passage of a note lists."""
    match = _ALIASES.search(text)
    aliases = match[1].split(", ")[:_MOST_ALIASES] if match else []
    return [alias for alias in aliases if 0 < len(_WORD.findall(alias)) <= MOST_WORDS]


def split_stems(text: str) -> tuple[str, ...]:
    """Return the terms of the text in order, one for each word.

    >>> split_stems("Requests for quotation")
    ('request', 'for', 'quotat')
    """
    words = [word.lower() for word in _WORD.findall(unicodedata.normalize("NFC", text))]
    terms = map_texts_to_terms(words)
    return tuple(term for word in words for term in terms[word])


def make_form_term(stems: Sequence[str]) -> str:
    """Return the index term for passages that define a short or long form with these stems."""
    return f"form {' '.join(stems)}"


def list_form_terms(headings: Sequence[str], text: str) -> set[str]:
    """Return the index terms of all pairs that a passage defines.

    >>> sorted(list_form_terms((), "the Enterprise Support Team (EST)"))
    ['form enterpris support team', 'form est']
    """
    forms = {form for pair in find_pairs(headings, text) for form in pair}
    aliases = [] if headings else _find_aliases(text)
    stems = {split_stems(form) for form in forms.union(aliases)}
    terms = {make_form_term(stem) for stem in stems if stem}
    return terms | {ALIASES_OF_FILE} if aliases else terms
