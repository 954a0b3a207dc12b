"""docs/reference/configuration.md is what the schema and config.toml say."""

import pytest

from hopsyncd.config.configuration import read_shipped_text
from scripts import config_docs
from scripts.config_docs import PAGE, meanings_in, page_text


def test_the_configuration_page_matches_the_schema() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_text(), "run `python scripts/config_docs.py`"
    assert "| `k` | 1 to 1,000, default `5` | How many passages to return. |" in page


def test_each_meaning_is_a_sentence_of_the_comment_above_the_key() -> None:
    found = meanings_in(read_shipped_text())
    assert len(found) > 80 and all(text.endswith(".") and len(text) > 3 for text in found.values())
    assert found["imap", "timeout_s"] != found["web", "timeout_s"]


def test_a_key_that_the_file_does_not_explain_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    text = read_shipped_text().replace("log_level = ", "log_label = ")
    monkeypatch.setattr(config_docs, "read_shipped_text", lambda: text)
    with pytest.raises(LookupError, match="log_level"):
        page_text()
