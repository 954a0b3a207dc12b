"""The code samples of the documentation, and which of them cannot run in a test."""

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


class Sample(NamedTuple):
    page: str
    line: int
    language: str
    text: str
    reason: str | None  # why it does not run

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All pages by their names below docs/."""
    return sorted(str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md"))


def samples_of(page: str) -> list[Sample]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        Sample(
            page,
            text.count("\n", 0, match.start()) + 1,
            match["language"],
            match["text"],
            match["reason"],
        )
        for match in _FENCE.finditer(text)
    ]
