"""The files around the code agree with each other."""

import re
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def test_the_lock_file_has_a_version_for_each_requirement() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text, "the lock file names packages, and no server to take them from"
    locked = {need.name: need.specifier for need in map(Requirement, text.splitlines())}
    extras = PROJECT["optional-dependencies"].values()
    for need in map(Requirement, [*PROJECT["dependencies"], *chain(*extras)]):
        if need.name != PROJECT["name"]:
            (version,) = locked[canonicalize_name(need.name)]
            assert need.specifier.contains(version.version), f"{need}: run scripts/lock"
