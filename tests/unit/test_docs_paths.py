"""The pages name only modules, pages and headings that exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FRONT = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
ROOMS = (ROOT, ROOT / "hopsyncd")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_module_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`([\w./]+/[\w.]+\.py)`", page.read_text(encoding="utf-8")))
    missing = [path for path in named if not any((room / path).is_file() for room in ROOMS)]
    assert sorted(missing) == []


def test_every_module_in_the_architecture_page_exists() -> None:
    assert len(re.findall(r"`[\w/]+/\w+\.py`", (ROOT / "docs/ARCHITECTURE.md").read_text())) > 30


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).strip() for heading in headings)
    return {re.sub(r"[ -]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", [*FRONT, *PAGES], ids=lambda page: page.stem)
def test_each_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


@pytest.mark.parametrize(("text", "status"), [("# A\n", 0), ("# A\n\n[b](b.md)\n", 1)])
def test_the_build_fails_for_a_broken_link(tmp_path: Path, text: str, status: int) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text(text, encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\nplugins: []\n", encoding="utf-8")
    ran = subprocess.run(
        ["sh", ROOT / "scripts/docs", "--config-file", tmp_path / "mkdocs.yml"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == status
    assert ("b.md" in ran.stderr) == bool(status)


def test_each_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r"[\w/-]+\.md", navigation))
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in PAGES}


def test_a_page_that_the_code_names_exists() -> None:
    files = [*ROOT.glob("*.toml"), *(ROOT / "scripts").glob("*")]
    files += [file for room in ("hopsyncd", "store", "connectors", "benchmarks")
              for file in (ROOT / room).rglob("*.py")]  # fmt: skip
    named = {
        name
        for file in files
        if file.is_file()
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []
