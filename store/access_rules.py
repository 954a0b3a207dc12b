"""Access rules as the record keeps them: who may see a source. Pure, so that all may use it."""

import json

AccessRule = tuple[tuple[str, ...], ...]
"""Who may see a source: whoever matches an entry of each clause. Without clauses: all members."""

OPEN: AccessRule = ()
"""The rule of a source that all members may see."""

NOBODY: AccessRule = ((),)
"""The rule of a source that only admins may see."""


def read_access_rule(text: str) -> AccessRule:
    """The rule in a recorded text. A text that is not a rule closes the source."""
    try:
        clauses = json.loads(text)
    except (ValueError, RecursionError):
        return NOBODY
    valid = isinstance(clauses, list) and all(
        isinstance(clause, list) and all(isinstance(entry, str) for entry in clause)
        for clause in clauses
    )
    return tuple(tuple(clause) for clause in clauses) if valid else NOBODY


def narrow(rule: AccessRule, further: AccessRule) -> AccessRule:
    """Combine two rules: only those who match both see the source."""
    return tuple(dict.fromkeys([*rule, *further]))


def left_rule(known: AccessRule | None) -> AccessRule:
    """The rule of a source that leaves the configuration: closed to all, unless it is open."""
    if known is None:
        return NOBODY
    return OPEN if known == OPEN else narrow(known, NOBODY)
