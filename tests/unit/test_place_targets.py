"""What a place leads to on this machine."""

from pathlib import Path
from typing import Any

import pytest

from hopsyncd.client.opening import find_target
from hopsyncd.errors import NotFound


def test_a_file_that_the_user_cannot_inspect_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    sources = {"notes": {"location": str(tmp_path)}}
    place: dict[str, Any] = {"id": "1", "source": "notes", "origin": None, "lines": [1, 1]}
    assert find_target({**place, "document": "a.md"}, sources) == (str(tmp_path / "a.md"), True)
    with pytest.raises(NotFound):  # the system refuses so long a name, as it does a folder's rights
        find_target({**place, "document": "a" * 300}, sources)
