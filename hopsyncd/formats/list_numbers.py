"""Writes the numbers of items in numbered lists."""

from dataclasses import dataclass

from hopsyncd.formats.blocks import Links

_MAX_ROMAN = 4000
_MAX_LETTERS = 26 * 40
_MAX_DIGITS = 9  # longer numbers in a document are ignored
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


@dataclass(slots=True)
class ItemNumbers:
    """Counts the items of a numbered list.

    `style` is "1", "a", "A", "i", "I" or "01". `step` is -1 in a list that counts down.
    """

    next: int = 1
    style: str = "1"
    step: int = 1

    def take(self, given: str = "") -> str:
        """Return the next item's number and a period. `given` is the number that the document
        states, or ""."""
        number = parse_number(given, self.next)
        self.next = number + self.step
        return f"{format_number(number, self.style)}."


def parse_number(text: str, otherwise: int) -> int:
    """Parse an integer of up to nine digits. Returns `otherwise` for other text."""
    digits = text.strip().removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
    return int(text) if is_number else otherwise


def format_number(number: int, style: str) -> str:
    """Format a number in the style of a sample: "1", "a", "A", "i", "I" or "01".

    >>> [format_number(28, style) for style in ("a", "I", "01", "?")]
    ['bb', 'XXVIII', '28', '28']
    """
    if style in ("a", "A") and 0 < number <= _MAX_LETTERS:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters if style == "a" else letters.upper()
    if style in ("i", "I") and 0 < number < _MAX_ROMAN:
        roman = _format_roman(number)
        return roman if style == "i" else roman.upper()
    return f"{number:02}" if style == "01" else str(number)


def _format_roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        count, number = divmod(number, value)
        text += letters * count
    return text


def add_label(label: str, text: str, links: Links) -> tuple[str, Links]:
    """Put an item's number before its text, and move its links accordingly."""
    if not label:
        return text, links
    shift = len(label) + 1
    return f"{label} {text}", tuple((offset + shift, link) for offset, link in links)
