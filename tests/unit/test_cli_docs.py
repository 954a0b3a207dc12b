"""docs/reference/cli.md is what the commands say."""

from scripts.cli_docs import PAGE, page_text


def test_the_command_reference_matches_the_commands() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_text(), "run `python scripts/cli_docs.py`"
    for command in ("query", "service install", "doctor", "completion"):
        assert f"## hopsyncd {command}\n" in page


def test_an_option_of_many_commands_is_explained_once() -> None:
    page = page_text()
    assert page.count("Print one JSON object.") == 1
    assert page.count("`--json`") > 10
