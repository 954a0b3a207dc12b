"""A passage is named by its id, or by as much of its beginning as only it has."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopsyncd.api.passages import find_passage_row
from hopsyncd.errors import BadRequest, NotFound

IDS = ("0000000000000001", "1234500000000000", "1234600000000000", "7fffffffffffffff")
HEAD: Any = SimpleNamespace(
    version=SimpleNamespace(id=3),
    passage_ids=np.array([0, *(int(id_, 16) for id_ in IDS)]),
    passage_rows=np.arange(1, 5),  # the first is not visible
)


@pytest.mark.parametrize("given", [*IDS, "0000", "12345", "12346", "7fff"])
def test_an_id_or_its_own_beginning_finds_the_passage(given: str) -> None:
    assert IDS[find_passage_row(HEAD, given) - 1].startswith(given)


def test_a_beginning_that_several_have_is_refused() -> None:
    with pytest.raises(BadRequest, match="2 passages begin with 1234"):
        find_passage_row(HEAD, "1234")


@pytest.mark.parametrize("given", ["1235", "0000000000000002", "7ffe"])
def test_an_id_that_no_passage_has_is_not_found(given: str) -> None:
    with pytest.raises(NotFound, match="no passage"):
        find_passage_row(HEAD, given)
    with pytest.raises(NotFound, match="nothing is indexed yet"):
        find_passage_row(None, given)
