"""What a new user meets: renames told as such, commands that need no daemon, hints that help."""

from collections.abc import Iterator
from typing import Any

import pytest

from hopsyncd.client import Client
from tests.e2e.daemon import SMALL, Place, new_place, source


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for name in ("ada", "rome", "cork"):
            made.write(f"{name}.md", f"# {name}\n\nAda Byron met Charles Babbage in {name}.\n")
        made.configure("[watch]\nenabled = false\n" + source("notes", made.notes))
        made.start()
        made.sync()
        (made.notes / "deep").mkdir()
        (made.notes / "ada.md").rename(made.notes / "deep/ada.md")
        (made.notes / "rome.md").rename(made.notes / "roma.md")
        (made.notes / "cork.md").unlink()
        made.write("bonn.md", "# Bonn\n\nCharles Babbage never saw Bonn.\n")
        made.sync()
        yield made


def test_a_rename_is_shown_as_a_rename(place: Place) -> None:
    client = Client(place.socket)
    found = client.diff("1")
    assert found["documents"]["renamed"] == [
        {"source": "notes", "document": "deep/ada.md", "was": "ada.md"},
        {"source": "notes", "document": "roma.md", "was": "rome.md"},
    ]
    assert [document["document"] for document in found["documents"]["added"]] == ["bonn.md"]
    assert [document["document"] for document in found["documents"]["removed"]] == ["cork.md"]
    assert found["counts"]["documents"] == {"added": 1, "changed": 0, "removed": 1, "renamed": 2}
    kinds = ("documents_added", "documents_changed", "documents_removed", "documents_renamed")
    log = client.log()["versions"]
    assert [sum(entry[kind] for entry in log[:-1]) for kind in kinds] == [1, 0, 1, 2]
    output = place.run("diff", "1").stdout
    assert "documents +1 -1 >2" in output
    assert "> notes: rome.md -> roma.md" in output


def test_without_graph_a_diff_only_counts_passages_and_edges(place: Place) -> None:
    whole, counted = (Client(place.socket).diff("1", graph=graph) for graph in (True, False))
    assert whole["passages"]["added"] and whole["edges"]["added"]
    nothing: dict[str, list[Any]] = {"added": [], "removed": []}
    assert counted == {**whole, "passages": nothing, "edges": nothing}


def test_why_shows_the_hops_to_each_passage(place: Place) -> None:
    ran = place.run("why", "Where did Ada Byron meet Charles Babbage?", "1", "--verbose")
    assert ran.returncode == 0, ran.stderr
    assert "another way" not in ran.stdout
    compared = place.printed("why", "Where did Ada Byron meet Charles Babbage?", "1")["passages"]
    differ = sum(not one["same_hops"] for one in compared)
    assert ran.stdout.count("before: ") == ran.stdout.count("now:    ") == differ


def test_why_names_a_passage_without_a_heading_by_its_document(place: Place) -> None:
    place.write("bare.md", "Charles Babbage kept a bare notebook.\n")
    place.sync()
    rows = place.printed("why", "Who kept a bare notebook?", "1")["passages"]
    assert {row["title"] for row in rows if row["document"] == "bare.md"} == {"bare.md"}


@pytest.mark.parametrize(("given", "meant"), [("search", "query"), ("index", "sync")])
def test_another_word_for_a_command_is_understood(place: Place, given: str, meant: str) -> None:
    ran = place.run(given, "x")
    assert ran.returncode == 2
    assert f"Did you mean '{meant}'?" in ran.stderr and "service" not in ran.stderr


def test_an_address_without_a_host_is_refused_with_no_line(place: Place) -> None:
    ran = place.run("add", "https://")
    assert ran.returncode == 1
    assert "has no host" in ran.stderr and "line" not in ran.stderr


def test_files_are_chosen_when_a_source_is_added(place: Place) -> None:
    ran = place.run("add", str(place.base), "--include", "*.md", "--ignore", "home/", "--dry-run")
    assert 'include = ["*.md"]\nignore = ["home/"]' in ran.stdout
    ran = place.run("add", "https://example.org/", "--ignore", "x", "--dry-run")
    assert ran.returncode == 1 and "do not apply" in ran.stderr


def test_a_typo_in_a_document_names_nothing_that_only_a_program_can_ask(place: Place) -> None:
    response = place.request("GET", "/v1/document?source=notes&document=Ada.md")
    assert response.status_code == 404
    assert "/v1/" not in response.json()["error"]["hint"]


def test_a_check_needs_no_daemon() -> None:
    with new_place(SMALL) as made:
        made.configure(source("notes", made.notes))
        ran = made.run("check")
        assert ran.returncode == 1 and "There is nothing to check" in ran.stderr
        made.write("ada.md", "# Ada\n\nAda Byron met Charles Babbage.\n")
        made.start()
        made.sync()
        made.stop()
        ran = made.run("check", "--deep")
        assert ran.returncode == 0, ran.stderr
        assert "has no errors (deep check)" in ran.stdout
