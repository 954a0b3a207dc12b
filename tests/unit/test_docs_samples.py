"""Each sample in the pages runs in a test, or says why not; configurations are valid."""

import grp
import pwd
from pathlib import Path

import pytest

from hopsyncd.config.configuration import check_config
from tests.samples import Sample, pages, samples_of

SAMPLES = [sample for page in pages() for sample in samples_of(page)]
CONFIGURATIONS = [
    sample for sample in SAMPLES if sample.language == "toml" and sample.reason is None
]


def test_no_command_hides_in_a_block_of_another_language() -> None:
    languages = {sample.language for sample in SAMPLES}
    assert languages <= {"sh", "python", "toml", "json", "yaml", "sql"}
    assert sum(sample.language == "sh" and sample.reason is None for sample in SAMPLES) > 15


def test_a_mark_belongs_to_a_block() -> None:
    docs = Path(__file__).parents[2] / "docs"
    marks = sum((docs / page).read_text("utf-8").count("<!-- not run:") for page in pages())
    assert marks == sum(sample.reason is not None for sample in SAMPLES) > 5


@pytest.mark.parametrize("sample", CONFIGURATIONS, ids=str)
def test_a_configuration_in_a_page_is_valid(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grp, "getgrnam", lambda _: grp.getgrgid(0))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: pwd.getpwuid(0))
    assert check_config(tmp_path / "config.toml", sample.text)
