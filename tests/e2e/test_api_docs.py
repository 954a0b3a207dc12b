"""Every example in docs/reference/http-api.md and docs/reference/client.md does what it says."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.films import FILMS
from tests.fakes import retrievers

DOCS = Path(__file__).parents[2] / "docs"


def blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a page in that language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(), re.M | re.S)
    assert found, f"{name} has no {language}"
    return [str(one) for one in found]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        made.configure("[watch]\nenabled = false\n" + source("notes", made.notes))
        made.start()
        made.sync()
        yield made


@pytest.fixture
def libraries() -> Iterator[None]:
    """LangChain and LlamaIndex, or what stands for them where they are not installed."""
    stubs = retrievers.modules()
    missing = {
        name: module for name, module in stubs.items() if find_spec(name.partition(".")[0]) is None
    }
    sys.modules.update(missing)
    yield
    for name in missing:
        del sys.modules[name]


@pytest.mark.parametrize("command", blocks("reference/http-api.md", "sh"))
def test_each_command_is_answered_in_json(place: Place, command: str) -> None:
    (passage,) = place.get("/v1/document?source=notes&document=films/bronze-door.md")["passages"]
    environment = {
        **os.environ,
        "HOPSYNCD_SOCKET": str(place.socket),
        "ID": passage["id"],
    }
    ran = subprocess.run(
        ["sh", "-c", command.replace("curl ", "curl -sS -w '\\n' ")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line]
    assert answers
    assert all("error" not in answer for answer in answers)


def test_the_tables_name_every_endpoint_and_no_other(place: Place) -> None:
    text = (DOCS / "reference/http-api.md").read_text()
    named = set(re.findall(r"(GET|POST|DELETE) (/v1/[\w{}/.-]*\w}?)", text))
    served = {
        (method.upper(), path)
        for path, methods in place.get("/v1/openapi.json")["paths"].items()
        for method in methods
    }
    assert named == served


@pytest.mark.parametrize("example", blocks("reference/client.md", "python"))
@pytest.mark.usefixtures("libraries")
def test_each_python_example_runs(
    place: Place, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"SOCKET": str(place.socket), "__name__": "example"}
    exec(compile(example, "docs/reference/client.md", "exec"), names)
    if "documents" in names:
        assert names["documents"][0].metadata["document"].endswith(".md")
        assert names["documents"][0].page_content in str(FILMS)
    elif "nodes" in names:
        assert names["nodes"][0].node.text in str(FILMS)
        assert names["nodes"][0].score > 0
    else:
        assert capsys.readouterr().out
