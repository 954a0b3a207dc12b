"""The files around the code agree with each other."""

import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

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


def test_the_lock_file_is_that_of_the_project() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    (own,) = [package for package in lock["package"] if package["name"] == "hopsyncd"]
    assert own["version"] == PROJECT["version"], "run `uv lock`"
    locked = {(need["name"], SpecifierSet(need.get("specifier", ""))) for need in _needs(own)}
    extras = PROJECT["optional-dependencies"].values()
    wanted = map(Requirement, [*PROJECT["dependencies"], *chain(*extras)])
    assert {(need.name, need.specifier) for need in wanted} == locked, "run `uv lock`"


def test_the_lock_file_has_versions_that_fit_from_the_public_registry_alone() -> None:
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    hosts = set(re.findall(r"https?://([^/\"]+)", text))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    versions = {
        package["name"]: package["version"]
        for package in tomllib.loads(text)["package"]
        if "version" in package
    }
    for need in map(Requirement, PROJECT["dependencies"]):
        assert need.specifier.contains(versions[need.name]), need


def _needs(package: dict[str, Any]) -> list[dict[str, str]]:
    needs: list[dict[str, str]] = package["metadata"]["requires-dist"]
    return needs
