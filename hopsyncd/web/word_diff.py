"""Shows changed sentences as HTML, with the changed words marked."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from markupsafe import Markup

_ALIKE = 0.5  # less similar sentences are not merged
_MOST_WORDS = 300
_PUNCTUATION = ".,;:!?"


def mark_word_diff(other_text: str, text: str, is_new: bool) -> Markup:
    """Convert `text` to HTML, and mark the words that `other_text` lacks.

    >>> mark_word_diff("He died in 1824.", "He died in 1825.", True)
    Markup('He died in <ins>1825</ins>.')
    """
    before, after = _split_words(other_text), _split_words(text)
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


def mark_changed_lines(lines: Sequence[str]) -> Iterator[tuple[str, Markup]]:
    """Return the lines of a diff, each with its sign.

    A sentence and the similar sentence that replaces it become one line.

    >>> list(mark_changed_lines(["@@ Ada", "-She died in 1852.", "+She died in London in 1852."]))
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
    """Merge removed sentences with similar added sentences, in order.

    Sentences without a similar counterpart stay separate.
    """
    for index in range(max(len(old), len(new))):
        before, after = old[index : index + 1], new[index : index + 1]
        if before and after and (merged := _merge(before[0], after[0])):
            yield "+", merged
            continue
        if before:
            yield "-", Markup("<del>{}</del>").format(before[0])
        if after:
            yield "+", Markup("<ins>{}</ins>").format(after[0])


def _merge(old: str, new: str) -> Markup | None:
    """Merge two sentences with the removed and added words. Returns None if they differ too much.

    >>> _merge("She was born in Oslo.", "She was born in Oslo, by the fjord.")
    Markup('She was born in Oslo<ins>, by the fjord</ins>.')
    >>> _merge("He died there in 1824 of fever.", "He died there on 19 April 1824.")
    Markup('He died there <del>in</del> <ins>on 19 April</ins> 1824 <del>of fever</del>.')
    """
    before, after = _split_words(old), _split_words(new)
    if max(len(before), len(after)) > _MOST_WORDS:
        return None
    bare_before, bare_after = ([word.strip() for word in words] for words in (before, after))
    matcher = SequenceMatcher(None, bare_before, bare_after, False)
    if matcher.ratio() < _ALIKE:
        return None
    html, opcodes = Markup(""), matcher.get_opcodes()
    for index, (kind, start, end, first, last) in enumerate(opcodes):
        removed, added = "".join(before[start:end]), "".join(after[first:last])
        if kind == "equal":
            is_before_removed = index + 1 < len(opcodes) and opcodes[index + 1][0] == "delete"
            html += added.rstrip() + _get_space_after(removed if is_before_removed else added)
            continue
        if removed:
            html += Markup("<del>{}</del>").format(removed.rstrip())
        if removed and added:
            html += " "
        if added:
            html += Markup("<ins>{}</ins>").format(added.rstrip())
        html += _get_space_after(added or removed)
    return html


def _get_space_after(words: str) -> str:
    return words[len(words.rstrip()) :]


def _split_words(text: str) -> list[str]:
    """Split the text into words, each with the space after it. Punctuation after a word is a
    separate item.

    >>> _split_words("Of 1.5 m, or so.")
    ['Of ', '1.5 ', 'm', ', ', 'or ', 'so', '.']
    """
    words = list[str]()
    for word, space in re.findall(r"(\S+)(\s*)", text):
        stem = word.rstrip(_PUNCTUATION)
        words += [stem, word[len(stem) :] + space] if stem and stem != word else [word + space]
    return words
