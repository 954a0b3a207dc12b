"""What kind of thing a question asks for, where its words say so plainly."""

import re

from hopsyncd.text.language import EntityKind

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
