"""The regular expressions of gitignore patterns, so that no pattern can take for ever.

An ignore file comes with the folder or the repository that it is in, from whoever made that. A few
`*` in one pattern and a long name make Python's engine try every way to share the name out, for
hours, while nothing else in the process runs.

What stands between two wildcards may be taken where it comes first: if the rest fits after a later
place, it fits after that one too. So each wildcard but the last is put into an atomic group with
what follows it, and is not tried again. As in git, a class like `[!a]` fits no `/`.
"""

import re

_STARS = re.compile(r"(?:\[\^/\]\*){2,}")
_CLASS = r"\[\^?\]?(?:\\.|[^\]\\])*\]"
_CLASSES = re.compile(rf"\\.|\[\^/\]|({_CLASS})")
_ONE = rf"\[\^/\](?![*+])|\\.|\(\?!/\)(?:{_CLASS})|[^\\\[/(]"  # what fits one letter of a name
_BETWEEN = re.compile(rf"\[\^/\]\*((?:{_ONE})+)(?=\[\^/\]\*)")
_ANYWHERE, _FOLDERS = "(?:.+/)?", "(?:/.+)?"  # `**` at the beginning, and between two folders
_PARTS = re.compile(rf"\^({re.escape(_ANYWHERE)})?(.*)")


def linear(regex: str) -> str:
    r"""The same for an expression that pathspec makes.

    >>> linear("^[^/]*a[^/]*b$")
    '^(?>[^/]*?a)[^/]*b$'
    """
    within = _CLASSES.sub(lambda one: f"(?!/){one[1]}" if one[1] else one[0], regex)
    found = _PARTS.fullmatch(_BETWEEN.sub(r"(?>[^/]*?\1)", _STARS.sub("[^/]*", within)))
    if found is None:
        return regex
    first, *others = found[2].split(_FOLDERS)
    if not others:
        return found[0]
    *inner, last = others
    begin = f"^(?>{'(?:.+?/)??' if found[1] else ''}{first}(?=/))"
    return begin + "".join(f"(?>(?:/.+?)??{part}(?=/))" for part in inner) + _FOLDERS + last
