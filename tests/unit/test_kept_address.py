"""The address in the kept file opens the page, whatever befalls the file."""

from pathlib import Path

import pytest

from hopsyncd.web.listener import Door, read_kept_address


def test_a_page_address_that_cannot_be_replaced_stays_valid(tmp_path: Path) -> None:
    kept = tmp_path / "data/page.html"
    kept.parent.mkdir()
    door = Door("127.0.0.1:1", address_file=kept)
    token = door.create_address().partition("=")[2]
    aside = kept.parent.rename(tmp_path / "aside")
    with pytest.raises(OSError, match="No such file"):
        door.open_session(token)
    aside.rename(kept.parent)
    assert (read_kept_address(kept) or "").endswith(token)
    session = door.open_session(token)
    assert session and door.is_open_to(session) and door.open_session(token) is None
    assert not (read_kept_address(kept) or "").endswith(token)
