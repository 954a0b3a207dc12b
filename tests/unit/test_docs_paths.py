"""The pages in docs/ name only modules that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
ROOMS = (ROOT, ROOT / "hopsyncd")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_module_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`([\w./]+/[\w.]+\.py)`", page.read_text(encoding="utf-8")))
    missing = [path for path in named if not any((room / path).is_file() for room in ROOMS)]
    assert sorted(missing) == []


def test_the_architecture_names_modules() -> None:
    assert len(re.findall(r"`[\w/]+/\w+\.py`", (ROOT / "docs/ARCHITECTURE.md").read_text())) > 30
