"""Access rules in their stored form: who may see a source. Imports no database, so any module may
use it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from store.visibility import HiddenFolders, is_pattern

Viewers: TypeAlias = tuple[str, ...]
"""Entries like "user:ann"; whoever matches one of them may see."""


@dataclass(frozen=True, slots=True)
class FolderClause:
    """Who may see which documents of a source, by path. None means all members.

    The last pattern in `paths` that matches a path decides; `rest` applies to all other paths.
    """

    rest: Viewers | None
    paths: tuple[tuple[str, Viewers | None], ...]


Clause: TypeAlias = Viewers | FolderClause

AccessRule: TypeAlias = tuple[Clause, ...]
"""Who may see a source: whoever matches each clause. Without clauses: all members."""

OPEN: AccessRule = ()
"""The rule of a source that all members may see."""

NOBODY: AccessRule = ((),)
"""The rule of a source that only admins may see."""


def access_rule_text(rule: AccessRule) -> str:
    """Encode a rule for the database."""

    def encode(clause: Clause) -> object:
        if not isinstance(clause, FolderClause):
            return clause
        return {"rest": clause.rest, "paths": clause.paths}

    return json.dumps([encode(clause) for clause in rule])


def read_access_rule(text: str) -> AccessRule:
    """Decode a stored rule. If the text is not a valid rule, nobody may see the source."""
    try:
        clauses = json.loads(text)
        if not isinstance(clauses, list):
            return NOBODY
        return tuple(_read_clause(clause) for clause in clauses)
    except (ValueError, TypeError, RecursionError):
        return NOBODY


def _read_clause(value: Any) -> Clause:
    """Decode one clause. Raises ValueError or TypeError if the value is not a clause."""
    if not isinstance(value, dict):
        return _read_viewers(value)
    if value.keys() != {"rest", "paths"} or not isinstance(value["paths"], list):
        raise ValueError("not the keys of a clause")
    paths = []
    for pattern, viewers in value["paths"]:
        if not isinstance(pattern, str) or not is_pattern(pattern):
            raise ValueError("not a pattern")
        paths.append((pattern, None if viewers is None else _read_viewers(viewers)))
    rest = value["rest"]
    return FolderClause(None if rest is None else _read_viewers(rest), tuple(paths))


def _read_viewers(value: Any) -> Viewers:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError("not a list of entries")
    return tuple(value)


def entries_of(rule: AccessRule) -> list[str]:
    """All users and groups that the rule names."""
    lists = list[Viewers | None]()
    for clause in rule:
        if isinstance(clause, FolderClause):
            lists += [clause.rest, *(viewers for _, viewers in clause.paths)]
        else:
            lists.append(clause)
    return [entry for viewers in lists for entry in viewers or ()]


def hidden_by_rule(
    source: str, rule: AccessRule, matches: Callable[[Viewers], object]
) -> list[HiddenFolders] | None:
    """The folders that the rule hides from a caller; None if it hides the whole source.

    `matches` says whether the caller is one of the given users or groups.
    """
    found = list[HiddenFolders]()
    for clause in rule:
        if not isinstance(clause, FolderClause):
            if not matches(clause):
                return None
            continue
        lists = [*(viewers for _, viewers in clause.paths), clause.rest]
        decisions = tuple(not (viewers is None or matches(viewers)) for viewers in lists)
        if all(decisions):
            return None
        if any(decisions):
            patterns = tuple(pattern for pattern, _ in clause.paths)
            found.append(HiddenFolders(source, patterns, decisions))
    return found


def narrow(rule: AccessRule, further: AccessRule) -> AccessRule:
    """Combine two rules: only those who match both see the source."""
    return tuple(dict.fromkeys([*rule, *further]))


def left_rule(known: AccessRule | None) -> AccessRule:
    """The rule for a source that was removed from the configuration: nobody, unless it was open to
    all."""
    if known is None:
        return NOBODY
    return OPEN if known == OPEN else narrow(known, NOBODY)
