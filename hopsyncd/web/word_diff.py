"""Changed sentences as HTML, with the changed words marked."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from markupsafe import Markup

_ALIKE = 0.5  # sentences less alike than this are shown one after the other
_MOST_WORDS = 300


def word_diff(other: str, text: str, is_new: bool) -> Markup:
    """The text as HTML, with the words marked that another text does not have.

    >>> word_diff("He died in 1824.", "He died in 1825.", True)
    Markup('He died in <ins>1825.</ins>')
    """
    before, after = re.findall(r"\S+\s*", other), re.findall(r"\S+\s*", text)
    element = "ins" if is_new else "del"
    parts = list[Markup]()
    for kind, _, _, start, end in SequenceMatcher(None, before, after, False).get_opcodes():
        words = "".join(after[start:end])
        if kind == "equal":
            parts.append(Markup("{}").format(words))
        elif words:
            parts.append(Markup(f"<{element}>{{}}</{element}>{{}}").format(
                words.rstrip(), words[len(words.rstrip()) :]
            ))  # fmt: skip
    return Markup("").join(parts)


def changed_lines(lines: Sequence[str]) -> Iterator[tuple[str, Markup]]:
    """The lines of a diff, each with its sign. A sentence and the similar one that replaces it
    become one line.

    >>> list(changed_lines(["@@ Ada", "-She died in 1852.", "+She died in London in 1852."]))
    [('@', Markup('Ada')), ('+', Markup('She died in <ins>London in</ins> 1852.'))]
    """
    old, new = list[str](), list[str]()
    for line in [*lines, ""]:
        if line[:1] == "-" and not new:
            old.append(line[1:])
        elif line[:1] == "+":
            new.append(line[1:])
        else:
            yield from _pair(old, new)
            old, new = [line[1:]] if line[:1] == "-" else [], []
            if line[:1] == "@":
                yield "@", Markup("{}").format(line[3:])
            elif line and line[0] == " ":
                yield " ", Markup("{}").format(line[1:])


def _pair(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, Markup]]:
    """Removed and added sentences; those that pair up in order and are alike are merged."""
    for at in range(max(len(old), len(new))):
        before, after = old[at : at + 1], new[at : at + 1]
        if before and after and (merged := _merge(before[0], after[0])):
            yield "+", merged
            continue
        if before:
            yield "-", Markup("<del>{}</del>").format(before[0])
        if after:
            yield "+", Markup("<ins>{}</ins>").format(after[0])


def _merge(old: str, new: str) -> Markup | None:
    """Both sentences as one, with the removed and the added words; None if they differ much."""
    before, after = old.split(), new.split()
    if max(len(before), len(after)) > _MOST_WORDS:
        return None
    matcher = SequenceMatcher(None, before, after, False)
    if matcher.ratio() < _ALIKE:
        return None
    parts = list[Markup]()
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            parts.append(Markup("{}").format(" ".join(after[first:last])))
            continue
        if start < end:
            parts.append(Markup("<del>{}</del>").format(" ".join(before[start:end])))
        if first < last:
            parts.append(Markup("<ins>{}</ins>").format(" ".join(after[first:last])))
    return Markup(" ").join(parts)
