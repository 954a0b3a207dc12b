"""Each row of docs/reference/crashes.md names its test, and each kill has a row."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/crashes.md"


def test_every_row_of_the_crash_table_is_a_test_and_every_kill_a_row() -> None:
    rows = re.findall(r"^\|.*\| `(test_\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    defined = {
        name
        for file in HERE.glob("test_*_kill.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(rows) == len(set(rows)) > 15
    assert defined - set(rows) == {"test_the_first_schema_is_that_of_its_file"}
    assert set(rows) <= defined
