"""Encodes, decodes and combines access rules. An access rule says who may see a source.

This module imports no database code, so any module may import it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from store.visibility import HiddenFolders, is_pattern

Viewers: TypeAlias = tuple[str, ...]
"""Entries like "user:ann". A caller who matches any of them may see the documents."""


@dataclass(frozen=True, slots=True)
class FolderClause:
    """Who may see the documents of a source, depending on the document's path.

    The last pattern in `paths` that matches a document's path applies to it. `rest` applies to the
    documents that no pattern matches. None in place of a list of users and groups means all
    members.
    """

    rest: Viewers | None
    paths: tuple[tuple[str, Viewers | None], ...]


Clause: TypeAlias = Viewers | FolderClause

AccessRule: TypeAlias = tuple[Clause, ...]
"""Who may see a source: callers who satisfy every clause. No clauses: all members."""

OPEN: AccessRule = ()
"""The rule that lets all members see a source."""

NOBODY: AccessRule = ((),)
"""The rule that lets only admins see a source."""

RESTORED = FolderClause(None, ())
"""A clause that hides nothing. It marks a rule that came with a restored backup: a configuration
without `visible_to` does not open the source."""


def encode_access_rule(rule: AccessRule) -> str:
    """Encode a rule as text for the database."""

    def encode(clause: Clause) -> object:
        if not isinstance(clause, FolderClause):
            return clause
        return {"rest": clause.rest, "paths": clause.paths}

    return json.dumps([encode(clause) for clause in rule])


def read_access_rule(text: str) -> AccessRule:
    """Decode a stored rule. If the text is invalid, the returned rule admits only admins."""
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
        raise ValueError("a clause has unknown or missing keys")
    paths = []
    for pattern, viewers in value["paths"]:
        if not isinstance(pattern, str) or not is_pattern(pattern):
            raise ValueError("a path pattern is not a string")
        paths.append((pattern, None if viewers is None else _read_viewers(viewers)))
    rest = value["rest"]
    return FolderClause(None if rest is None else _read_viewers(rest), tuple(paths))


def _read_viewers(value: Any) -> Viewers:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError("a clause is not a list of users and groups")
    return tuple(value)


def list_entries(rule: AccessRule) -> list[str]:
    """Return every user and group that the rule names, possibly more than once."""
    lists = list[Viewers | None]()
    for clause in rule:
        if isinstance(clause, FolderClause):
            lists += [clause.rest, *(viewers for _, viewers in clause.paths)]
        else:
            lists.append(clause)
    return [entry for viewers in lists for entry in viewers or ()]


def find_hidden_folders(
    source: str, rule: AccessRule, matches: Callable[[Viewers], object]
) -> list[HiddenFolders] | None:
    """Return the folders that the rule hides from a caller, or None if the rule hides the whole
    source.

    `matches` returns whether the caller is one of the given users or in one of the given groups.
    """
    folders = list[HiddenFolders]()
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
            folders.append(HiddenFolders(source, patterns, decisions))
    return folders


def narrow(rule: AccessRule, further: AccessRule) -> AccessRule:
    """Return a rule that admits only callers whom both rules admit."""
    return tuple(dict.fromkeys([*rule, *further]))


def mark_restored(rule: AccessRule) -> AccessRule:
    """Mark a rule as coming from a restored backup, unless the rule hides nothing or admits only
    admins."""
    needs_no_mark = rule == OPEN or NOBODY[0] in rule
    return rule if needs_no_mark else narrow(rule, (RESTORED,))


def unmark_restored(rule: AccessRule) -> AccessRule:
    """Return the rule without the mark that `mark_restored` adds."""
    return tuple(clause for clause in rule if clause != RESTORED)


def make_rule_for_removed(recorded_rule: AccessRule | None) -> AccessRule:
    """Return the access rule for a source that was removed from the configuration.
    `recorded_rule` is the last rule recorded for the source, or None if there is none.

    If `recorded_rule` admits all members, so does the result. Otherwise only admins may see the
    source.
    """
    if recorded_rule is None:
        return NOBODY
    return OPEN if recorded_rule == OPEN else narrow(recorded_rule, NOBODY)
