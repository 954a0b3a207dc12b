"""Access rules as the record keeps them: who may see a source. Pure, so that all may use it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from store.visibility import HiddenFolders, is_pattern

Viewers: TypeAlias = tuple[str, ...]
"""Entries like "user:ann"; whoever matches one of them may see."""


@dataclass(frozen=True, slots=True)
class FolderClause:
    """Who may see which documents of a source, by their paths. None stands for all members.

    The last pattern in `paths` that matches a path decides; `rest` is for all other paths.
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
    """Encode a rule for the record."""

    def encode(clause: Clause) -> object:
        if not isinstance(clause, FolderClause):
            return clause
        return {"rest": clause.rest, "paths": clause.paths}

    return json.dumps([encode(clause) for clause in rule])


def read_access_rule(text: str) -> AccessRule:
    """The rule in a recorded text. A text that is not a rule closes the source."""
    try:
        clauses = json.loads(text)
        if not isinstance(clauses, list):
            return NOBODY
        return tuple(_read_clause(clause) for clause in clauses)
    except (ValueError, TypeError, RecursionError):
        return NOBODY


def _read_clause(value: Any) -> Clause:
    """Raises ValueError or TypeError if it is no clause."""
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
    """Every entry that the rule names."""
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

    `matches` says whether the caller matches one of these entries.
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
    """The rule of a source that leaves the configuration: closed to all, unless it is open."""
    if known is None:
        return NOBODY
    return OPEN if known == OPEN else narrow(known, NOBODY)
