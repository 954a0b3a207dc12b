"""A long section is split into several passages, which share a part of their score."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopsyncd.config.values import Search
from hopsyncd.retrieve.results import answer_json
from hopsyncd.retrieve.sections import PART_SHARE
from store.records import PassageId
from tests.unit.test_second_ask import FAR, Asking

QUESTION = "What does the brass gauge of the harbour mill show?"
FILLER = " ".join(f"Plate{index} covers rivet{index} well." for index in range(40))
LAST = "Red means that nobody may enter."
MANUAL = "\n\n".join(
    [
        "# Mill\n\n## Gauges",
        f"The brass gauge of the harbour mill hangs beside the door. {FILLER}",
        f"{FILLER.replace('late', 'anel')} {LAST}",
        FILLER.replace("late", "ipe"),
        "## Belts\n\nBelts are oiled.\n",
    ]
)
FILES = {"mill.md": MANUAL.encode(), **FAR}


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path, FILES)


def rows_of(asking: Asking, heading: str) -> list[int]:
    """The visible rows with this heading, in the order of their text in the manual."""
    context = asking.context(QUESTION)
    rows = context.snapshot.passage_rows
    ids = [PassageId(id_) for id_ in context.snapshot.passage_ids[rows].tolist()]
    passages = context.read(ids)
    found = [
        (MANUAL.find(passages[id_].text[-40:]), row)
        for id_, row in zip(ids, rows.tolist(), strict=True)
        if passages[id_].heading[-1] == heading
    ]
    return [row for _, row in sorted(found)]


def test_the_other_part_of_the_section_found_comes_next_and_says_why(asking: Asking) -> None:
    search = Search()
    reply = answer_json(asking.engine.query(QUESTION, 3, search), search)
    first, second = reply["passages"][:2]
    assert first["text"].startswith("The brass gauge")
    assert second["text"].endswith(LAST)
    (hop,) = second["hops"]
    assert hop["asked_by"] == "section"
    assert hop["question"] == "The same section"
    assert (hop["from"]["id"], hop["to"]["id"]) == (first["id"], second["id"])
    assert 0.5 < hop["share"] <= 1


def test_a_part_gains_up_to_a_share_of_the_score_beside_it(asking: Asking) -> None:
    found = asking.search(QUESTION)
    before = found.second_ask.add_scores(found.walked.scores)
    parts = rows_of(asking, "Gauges")
    assert len(parts) >= 3
    assert found.scores[parts[0]] == before[parts[0]]
    expected = max(PART_SHARE * before[parts[0]], before[parts[1]])
    assert found.scores[parts[1]] == pytest.approx(expected)
    (belts,) = rows_of(asking, "Belts")
    others = np.setdiff1d(np.arange(len(before)), parts)
    assert belts in others
    assert np.array_equal(found.scores[others], before[others])


def test_parts_are_found_in_the_document_that_the_passage_belongs_to(asking: Asking) -> None:
    snapshot, parts = asking.context(QUESTION).snapshot, rows_of(asking, "Gauges")
    found, positions = snapshot.find_other_parts(np.array(parts))
    pairs = set(zip(found.tolist(), positions.tolist(), strict=True))
    following = {(row, index) for index, row in enumerate(parts[1:])}
    assert pairs == following | {(row, index + 1) for index, row in enumerate(parts[:-1])}
    none, _ = snapshot.find_other_parts(np.array(rows_of(asking, "Belts")))
    assert not len(none)


def test_a_watched_question_is_asked_again_when_its_section_gets_another_part(
    asking: Asking,
) -> None:
    dependencies = asking.dependencies(QUESTION)
    only_parts = replace(
        dependencies, queries=(), names=dependencies.names[:0], rows=dependencies.rows[:0]
    )
    asking.put("far/7.md", "# Topic7\n\nTopic7 has no valve.\n")
    assert not asking.touches(only_parts)
    more = FILLER.replace("late", "eel")
    asking.put("mill.md", MANUAL.replace("\n\n## Belts", f"\n\n{more}\n\n## Belts"))
    assert asking.touches(only_parts)
