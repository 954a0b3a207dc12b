"""Makes untrusted text safe to show at a terminal, in a log and in the web interface.

Control characters can move the cursor, clear the screen or set the window's title. Bidirectional
control characters make text look different: `invoice\\u202efdp.exe` looks like `invoiceexe.pdf`.
"""

from collections.abc import Mapping
from functools import cache

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_SEPARATORS = (0x2028, 0x2029)
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))


def make_printable(text: str, keep: str = "") -> str:
    """Escape the control characters in `text`, except the characters in `keep`.

    >>> make_printable("a\\x1b[2J\\n"), make_printable("b\\u202e\\n", keep="\\n")
    ('a\\\\x1b[2J\\\\n', 'b\\\\u202e\\n')
    """
    return text if text.isprintable() else text.translate(_make_escapes(keep))


@cache
def _make_escapes(keep: str) -> Mapping[int, str]:
    return {
        code: chr(code).encode("unicode_escape").decode()
        for code in (*_CONTROLS, *_SEPARATORS, *_DIRECTIONS)
        if chr(code) not in keep
    }
