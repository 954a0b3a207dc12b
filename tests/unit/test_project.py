"""The files around the code agree with each other."""

import re
import tomllib
from pathlib import Path

import hopsyncd

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    assert sections[0] == "Unreleased"
    released = [section.split(" - ") for section in sections[1:]]
    versions = [tuple(map(int, version.split("."))) for version, _ in released]
    assert versions == sorted(versions, reverse=True)
    assert [date for _, date in released] == sorted((date for _, date in released), reverse=True)
    assert released[0][0] == PROJECT["version"] == hopsyncd.__version__


def test_the_package_says_what_the_program_does() -> None:
    assert hopsyncd.__doc__ == PROJECT["description"] + "."
