"""`show` and `open`: what was found, whole, here or in the editor."""

from pathlib import Path

import pytest

from tests.e2e.daemon import Place

pytestmark = pytest.mark.models


def test_a_hit_is_shown_whole_with_the_words_of_the_question_marked(daemon: Place) -> None:
    (best, *_) = daemon.query("Bergen clocks")
    for named in (best["id"], best["id"][:10], f"notes: {best['document']}", best["document"]):
        shown = daemon.run("show", named, "--mark", "clock Bergen")
        assert shown.returncode == 0, shown.stderr
        assert best["id"] in shown.stdout and "**Bergen**" in shown.stdout
    heading = best["heading"][-1]
    below = daemon.run("show", f"{best['document']}#{heading}")
    assert best["id"] in below.stdout and "**" not in below.stdout
    no_heading = daemon.run("show", f"{best['document']}#No such")
    assert no_heading.returncode == 1 and heading in no_heading.stderr


def test_a_document_is_named_by_its_path_on_this_machine(daemon: Place) -> None:
    folder = Path(
        {source["name"]: source for source in daemon.get("/v1/sources")["sources"]}["notes"][
            "location"
        ]
    )
    by_name = daemon.run("show", "people/lindqvist.md")
    by_path = daemon.run("show", str(folder / "people/lindqvist.md"))
    assert (by_path.returncode, by_path.stdout) == (0, by_name.stdout)
    assert daemon.run("show", str(folder.parent / "people/lindqvist.md")).returncode == 1


def test_skipped_parts_of_a_document_are_reported(daemon: Place) -> None:
    shown = daemon.run("show", "people/lindqvist.md", "--skipped")
    assert (shown.returncode, shown.stdout) == (0, "Nothing in this file was skipped.\n")
    found = daemon.post("/v1/query", {"question": "Lindqvist", "k": 1})["passages"][0]["id"]
    refused = daemon.run("show", found, "--skipped")
    assert refused.returncode == 2 and "--skipped needs a document" in refused.stderr


def test_a_mistyped_path_gets_a_suggestion(daemon: Place) -> None:
    wrong = daemon.run("show", "people/lindqist.md")
    assert wrong.returncode == 1
    assert "Did you mean notes: people/lindqvist.md?" in wrong.stderr


@pytest.mark.parametrize(
    ("editor", "opened"),
    [
        ("vim", "vim +3 {file}"),
        ("code --wait", "code --wait -g {file}:3"),
        ("true {line} {path}", "true 3 {file}"),
        ("obsidian://open?path={path}", "'obsidian://open?path={file}'"),
        ("", "{file}"),
    ],
)
def test_a_hit_is_opened_at_its_line(
    daemon: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, editor: str, opened: str
) -> None:
    for program in ("vim", "code"):
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.delenv("EDITOR", raising=False)
    sources = {source["name"]: source for source in daemon.get("/v1/sources")["sources"]}
    done = daemon.run("open", "people/lindqvist.md:3", "--print")
    assert done.returncode == 0, done.stderr
    file = Path(sources["notes"]["location"]) / "people/lindqvist.md"
    assert done.stdout.strip() == opened.format(file=file)
