"""Questions about an item of a numbered list: "What is step 3 of the startup?"."""

from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.numbered_items import list_items, read_item_reference
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

BOILER = b"""# Boiler

## Startup procedure

1. Check the water.
2. Open the gas valve.
   - Wait for 2 bar.
3. Switch on the pump.
4. Press the ignition button.

## Shutdown procedure

1. Lower the setpoint.
2. Wait for twenty minutes.
3. Close the gas valve.
   1. Turn the lever.
   2. Seal the lever.
   3. Sign the tag.
   4. Hang up the tag.
4. Switch off the pump.
"""
FILES = {
    "boiler.md": BOILER,
    "log.md": b"# Log of the boiler\n\nStep 3 of the startup procedure took long.\n",
    "rules.html": b"<h1>House rules</h1><ol><li>Be quiet.<li>Store bicycles in the shed.</ol>",
    "fair.md": b"# Fair\n\nOn the day before:\n\n1. Buy paint.\n2. Paint signs.\n\nOn the day:\n\n"
    b"1. Put up the tent.\n2. Hang up the signs.\n",
}


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Asker:
    folder: Path = tmp_path_factory.mktemp("items")
    stack = Stack(folder / "s.db", MemoryConnector(FILES), passage_tokens=200)
    stack.sync()
    engine = Engine(folder / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    stack.close()
    return Asker(engine, FakeEncoder(), FakeLanguage())


@pytest.mark.parametrize(
    ("question", "item"),
    [
        ("What is step 3 of the startup procedure?", "3. Switch on the pump."),
        ("Startup procedure step 4", "4. Press the ignition button."),
        ("What comes as the second step of the shutdown?", "2. Wait for twenty minutes."),
        ("Shutdown procedure, step 4", "4. Switch off the pump."),
        ("What is rule no. 2 of the house rules?", "2. Store bicycles in the shed."),
        ("Which is the 2nd step on the day before the fair?", "2. Paint signs."),
    ],
)
def test_an_item_is_found_by_its_number_below_its_heading(
    asker: Asker, question: str, item: str
) -> None:
    found, reply = asker.ask(question, 8, Search())
    assert found is not None
    assert [piece.text for piece in reply.evidence] == [item]
    assert item in found.passages[found.ranked[0].passage].text, "its passage comes first"


def test_an_item_is_quoted_with_the_items_nested_in_it(asker: Asker) -> None:
    (whole,) = asker.ask("What is step 2 of the startup procedure?", 8, Search())[1].evidence
    assert whole.text == "2. Open the gas valve.\n  Wait for 2 bar."


def test_a_number_that_no_such_list_has_is_not_made_up(asker: Asker) -> None:
    _, reply = asker.ask("What is step 9 of the startup procedure?", 8, Search())
    assert not any(piece.text.startswith(("3.", "9.")) for piece in reply.evidence)


@pytest.mark.parametrize(
    "question", ["How many steps are there?", "Is step 3 or step 4 longer?", "What is version 3?"]
)
def test_a_question_whose_number_means_no_item_has_no_item_reference(question: str) -> None:
    assert read_item_reference(question) is None


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("1. a\n  1. b\n  2. c\n2. d", [(1, 0), (1, 1), (2, 1), (2, 0)]),
        ("1. a\n1. b\n2. c\n3. d\n2. e", [(1, 0), (1, 1), (2, 1), (3, 1), (2, 0)]),
        ("1. a\n\nThen:\n\n1. b\n2. c", [(1, 0), (1, 0), (2, 0)]),
        ("9. a\n10. b", [(9, 0), (10, 0)]),
        ("It has\nno items.", []),
    ],
)
def test_nested_items_are_told_by_indentation_or_numbers(
    text: str, places: list[tuple[int, int]]
) -> None:
    assert [(item.number, item.depth) for item in list_items(text)] == places
