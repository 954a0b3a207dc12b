"""Removes the ASCII armor of OpenPGP (RFC 9580) from text: signatures, keys and encrypted
messages."""

import re
from collections import Counter

_ARMOR = re.compile(
    r"^-----BEGIN PGP (SIGNED MESSAGE|SIGNATURE|MESSAGE|PUBLIC KEY BLOCK|PRIVATE KEY BLOCK)"
    r"(?:, PART \d+/\d+)?-----[ \t]*$"
)
_HEADER = re.compile(r"[A-Za-z][\w-]*: ")
_KINDS = {"SIGNATURE": "PGP signatures", "MESSAGE": "encrypted texts"}
_KEYS = "PGP keys"


def remove_armor(text: str) -> tuple[str, dict[str, int]]:
    """Return the text without armor, and the number of removed blocks by kind.

    Signed text stays, but the lines around the text and the dashes that signing adds are removed.
    An unclosed block stays as it is.
    """
    if "-----BEGIN PGP " not in text:
        return text, {}
    lines = text.split("\n")
    kept: list[str] = []
    counts: Counter[str] = Counter()
    unended: set[str] = set()  # the kinds of blocks without a further end line
    is_signed = False
    index = 0
    while index < len(lines):
        line = lines[index].rstrip("\r")
        found = _ARMOR.match(line)
        index += 1
        if not found:
            kept.append(
                lines[index - 1][2:] if is_signed and line.startswith("- ") else lines[index - 1]
            )
        elif found[1] == "SIGNED MESSAGE":
            is_signed = True
            while index < len(lines) and _HEADER.match(lines[index]):
                index += 1
        elif found[1] not in unended and (end := _end(lines, index, found[1])):
            is_signed = False
            counts[_KINDS.get(found[1], _KEYS)] += 1
            index = end
        else:
            unended.add(found[1])
            kept.append(line)
    return "\n".join(kept), dict(counts)


def _end(lines: list[str], start: int, kind: str) -> int:
    """Return the number of the line after the end of a block, or 0 if the block has no end."""
    last = f"-----END PGP {kind}"
    return next(
        (index + 1 for index in range(start, len(lines)) if lines[index].startswith(last)), 0
    )
