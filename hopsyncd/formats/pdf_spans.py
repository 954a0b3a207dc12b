"""Values that describe the text of a PDF page."""

from dataclasses import dataclass, field

Box = tuple[float, float, float, float]
"""Left, bottom, right and top in points, as the page is shown."""


@dataclass(slots=True)
class PlacedText:
    """Text with its position on the page, in points."""

    text: str
    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        """The height of the line's type, in points."""
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        """The vertical position of the line's middle on the page, in points."""
        return (self.top + self.bottom) / 2


@dataclass(slots=True)
class Span(PlacedText):
    """Words on one line without a wide gap between them. `order` is the span's position in the
    file."""

    order: int = 0
    size: float = 0.0  # the smallest font size in points; 0 if unknown
    is_bold: bool = False
    is_broken: bool = False  # whether its last word continues in the next line
    is_value: bool = False  # whether leader dots precede it or a form field contains it
    first: int = 0  # the position of its first character in the page's text
    last: int = 0
    shade: int = 0  # the background colour; 0 for white
    gaps: list[tuple[int, float, float]] = field(default_factory=list)
    """For each space: its offset in the text, and its left and right end on the page."""


@dataclass(slots=True)
class PageText:
    """The spans of a page in file order. Rotated spans are in a separate list."""

    spans: list[Span] = field(default_factory=list)
    turned: list[Span] = field(default_factory=list)
