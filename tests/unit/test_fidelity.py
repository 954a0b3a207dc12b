"""The comparison of what was read with a reference tells right cells from all others."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from fidelity import judge

HEADER = [["Hut"], ["2025", "Low"], ["2025", "High"]]
REFERENCE = {
    "text": ["Prices of huts", "\x01Skarvbu 110 1,310"],
    "tables": [{"header": HEADER, "rows": [["Skarvbu", "110", "1,310"]]}],
}


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("Hut: Skarvbu | 2025 > Low: 110 | 2025 > High: 1,310", {"right": 3}),
        ("Hut: Skarvbu | Low: 110 | High: 1,310", {"right": 3}),
        ("Hut: Skarvbu | High: 110 | 1,310", {"right": 1, "wrong": 1, "unnamed": 1}),
        ("Hut | Low | High\nSkarvbu | 110 | 1,310", {"unnamed": 3}),
        ("Hut | Low | High\nSkarvbu |  | 110 | 1,310", {"unnamed": 1, "shifted": 2}),
        ("Hut: Skarvbu | Low: 110 | High: 1310.0", {"right": 2, "reformed": 1}),
        ("Hut: Skarvbu | Low: 110\nHigh\n1,310", {"right": 2, "apart": 1}),
        ("Hut: Skarvbu | Low: 110", {"right": 2, "missing": 1}),
    ],
)
def test_cells_are_judged_by_their_labels(text: str, cells: dict[str, int]) -> None:
    assert judge(REFERENCE, [(("Prices",), text)]).cells == cells


def test_a_label_that_the_reference_does_not_have_is_invented() -> None:
    plain = {"text": [], "tables": [{"header": [], "rows": [["Tove", "44"]]}]}
    assert judge(plain, [((), "Name: Tove | Age: 44")]).cells == {"invented": 2}
    assert judge(plain, [((), "Tove | 44")]).cells == {"plain": 2}


def test_words_are_counted_once_for_each_place() -> None:
    reference = {"text": ["the mill grinds the corn"], "tables": []}
    told = judge(reference, [(("Mill",), "The mill grinds corn today.")])
    assert told.recall == 0.8
    assert told.extra == 1 / 6
    assert told.order == 1 / 3
    assert judge({"text": ["one"], "tables": []}, []).recall is None
