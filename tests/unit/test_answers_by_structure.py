"""Answers that the structure of documents gives: dated sections, defined codes, owners of tasks."""

from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.retrieve.answering.asker import Asker, collect_texts
from hopsyncd.retrieve.answering.section_date import keep_asked_time
from hopsyncd.retrieve.answering.structure import find_by_structure
from hopsyncd.retrieve.answering.support import Judgement
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_words import defines
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.stack import Stack

FILES = {
    "minutes.md": b"# Minutes\n\n## 2026-02-03 Canteen prices\n\nPrices rise for two years.\n\n"
    b"## 2026-02-24 Night shift\n\nTwo people are needed. The trial lasts six months.\n",
    "2026-03-12 Crane.md": b"# Meeting about the crane\n\nThe cable is worn. It lasts two days.\n",
    "budget.md": b"# Budget meeting\n\nDate: 17 February 2026\n\nThe budget for 2027 is frozen.\n",
    "faults.md": b"# Faults\n\n| Code | Remedy |\n|---|---|\n"
    b"| E-401 | Clean the sensor of the burner |\n| E-417 | Vent the pump of the burner |\n",
    "chat.txt": b"06:10 ann: E-417 again, how do I fix E-417?\n\n"
    b"06:15 bo: I come to fix E-417 soon\n",
    "log.txt": b"06:40 ERROR E-417 raised, nobody could fix E-417 so far\n",
    "tasks.md": b"# Fair\n\n- [ ] Order the marquee (Ann)\n- [x] Book the brass band (Piet)\n",
    "plan.md": b"# Plan\n\n| Task | Owner |\n|---|---|\n| Migrate the database | Karl |\n"
    b"| Replace the badges | Ines |\n",
    "corer.md": b"# Kestrel-3 corer\n\nThe Kestrel-3 takes long cores out of the mud. "
    b"Serial number 0417.\n",
    "radio.md": b"# Radio\n\nThe licence was renewed at the counter. The renewal took six hours.\n",
}


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Asker:
    return open_asker(tmp_path_factory.mktemp("structure"), FILES)


def open_asker(folder: Path, files: dict[str, bytes]) -> Asker:
    stack = Stack(folder / "s.db", MemoryConnector(files), passage_tokens=200)
    stack.sync()
    engine = Engine(folder / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    stack.close()
    return Asker(engine, FakeEncoder(), FakeLanguage())


@pytest.mark.parametrize(
    ("question", "day", "text"),
    [
        ("When did we talk about the canteen prices?", "2026-02-03", "2026-02-03 Canteen prices"),
        ("When was the meeting on the night shift?", "2026-02-24", "2026-02-24 Night shift"),
        ("When was the meeting about the crane?", "2026-03-12", "2026-03-12 Crane"),
        ("When was the budget meeting?", "17 February 2026", "Date: 17 February 2026"),
    ],
)
def test_a_dated_section_answers_when_it_was(
    asker: Asker, question: str, day: str, text: str
) -> None:
    _, reply = asker.ask(question, 8, Search())
    assert reply.short == day
    assert [piece.text for piece in reply.evidence] == [text]


MINUTES = {
    "2026-01-12 Choir.md": b"# Choir\n\nThe choir wants nine robes. Ann buys the robes.\n",
    "minutes.md": b"# Minutes\n\n## 2026-03-24\n\nThe choir wants twelve robes. Bo sews robes.\n\n"
    b"## 3 February 2026\n\nThe choir wants ten robes. Cy dyes robes.\n",
    "choir.md": b"# Shop\n\nThe choir robes shop sells scarves.\n",
    "2026-04-01 Boat.md": b"# Boat\n\nThe boat leaks.\n",
}


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Asker:
    return open_asker(tmp_path_factory.mktemp("minutes"), MINUTES)


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("When did we last talk about the choir robes?", "2026-03-24"),
        ("When was the first meeting about the choir robes?", "2026-01-12"),
        ("When did the choir robes meeting in February take place?", "3 February 2026"),
    ],
)
def test_the_last_the_first_or_the_named_meeting_tells_its_day(
    minutes: Asker, question: str, day: str
) -> None:
    assert minutes.ask(question, 8, Search())[1].short == day


def test_a_day_is_shown_with_the_sentence_that_its_heading_does_not_say(tmp_path: Path) -> None:
    files = {
        f"{day}.md": f"# {day}\n\nThe tyres are old.\n\nI changed the water filter.\n".encode()
        for day in ("2026-10-02", "2026-11-20")
    }
    daily = open_asker(tmp_path, files | {"boat.md": b"# Boat\n\nThe boat leaks.\n"})
    _, reply = daily.ask("When did we last change the water filter?", 8, Search())
    texts = [piece.text for piece in reply.evidence]
    assert texts == ["2026-11-20", "I changed the water filter."]


@pytest.mark.parametrize(
    ("question", "wanted", "unwanted"),
    [
        ("Which robes did the choir want in the latest minutes?", "twelve", "nine ten"),
        ("Which robes did the choir want in February 2026?", "ten", "nine twelve"),
        ("Which robes did the choir want on 12 January 2026?", "nine", "ten twelve"),
        ("Which robes did the choir want at the first meeting?", "nine", "ten twelve"),
        # No section is of that time, so none is left out.
        ("Which robes did the choir want in May 2026?", "nine ten twelve", ""),
        ("Which robes does the choir want at the latest?", "nine ten twelve", ""),
        ("How long do the robes of the choir last?", "nine ten twelve", ""),
    ],
)
def test_sections_of_other_times_are_not_used(
    minutes: Asker, question: str, wanted: str, unwanted: str
) -> None:
    found, _ = minutes.ask(question, 8, Search())
    assert found is not None
    sentences, weights = minutes.rate_sentences(found)
    kept = keep_asked_time(collect_texts(found), sentences, weights, question)
    text = " ".join(sentence.text for sentence in kept)
    assert all(word in text for word in wanted.split())
    assert not any(word in text for word in unwanted.split())
    assert "scarves" in text  # It has no day.


@pytest.mark.parametrize("question", ["When was the crane built?", "When was the licence renewed?"])
def test_a_length_of_time_or_another_day_is_not_shown(asker: Asker, question: str) -> None:
    assert asker.ask(question, 8, Search())[1].short is None


@pytest.mark.parametrize("question", ["How do I fix E-417?", "E-417"])
def test_the_row_that_defines_a_code_comes_before_messages(asker: Asker, question: str) -> None:
    found, reply = asker.ask(question, 8, Search())
    assert found is not None
    assert "Vent the pump" in found.passages[found.ranked[0].passage].text
    assert reply.evidence[0].text == "Code: E-417 | Remedy: Vent the pump of the burner"


@pytest.mark.parametrize(
    ("question", "is_found"),
    [
        ("raised nobody", True),
        ("worn", True),
        ("Kestrel-3", True),  # Its heading has the code too.
        ('"the pump of"', True),
        ("What does E-417 mean?", True),
        ("What is error E-417?", True),
        ("Who fixed E-417?", False),
        ("What does E-999 mean?", False),
        ("raised marquee", False),
        ("Was the pump raised by nobody?", False),
    ],
)
def test_words_as_typed_and_defined_codes_answer_although_no_sentence_is_similar(
    asker: Asker, question: str, is_found: bool
) -> None:
    found, _ = asker.ask(question, 8, Search())
    assert found is not None
    sentences, weights = asker.rate_sentences(found)
    # The encoder finds no sentence similar enough, as for a short or rare word.
    unlikely = Judgement(is_found=False)
    judgement = find_by_structure(collect_texts(found), sentences, weights, question, unlikely)
    assert judgement.is_found == is_found
    words = ["e-417"] if "E-417" in question else question.strip('"').lower().split()
    for sentence in judgement.leading:
        assert all(word in sentence.text.lower() for word in words)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who books the brass band?", "[x] Book the brass band (Piet)"),
        ("Who orders the marquee?", "[ ] Order the marquee (Ann)"),
        ("Who is responsible for the badges?", "Task: Replace the badges | Owner: Ines"),
    ],
)
def test_a_task_names_its_owner(asker: Asker, question: str, text: str) -> None:
    assert asker.ask(question, 8, Search())[1].evidence[0].text == text


@pytest.mark.parametrize(
    ("heading", "text", "is_defined"),
    [
        ((), "Intro.\nE-417: the pump is blocked", True),
        ((), "- `E-417` \u2013 the pump is blocked", True),
        ((), "-n, --dry-run: only show it", True),
        ((), "--depth=<n>: so many commits", True),
        ((), "E-417 means that the pump is blocked.", True),
        (("Errors", "E-417"), "Vent the pump.", True),
        (("Errors",), "Code: E-417 | Meaning: blocked", True),
        ((), "2026-03-02 06:10 E-417 shown again", False),
        ((), "Error E-417 means that the pump is blocked.", True),
        ((), "Error E-417 was seen again", False),
        ((), "panel: E-417 raised", False),
        ((), "E-417 again, please fix E-417 quickly", False),
        ((), "E-4170: another code", False),
    ],
)
def test_a_code_is_defined_where_a_line_begins_with_it(
    heading: tuple[str, ...], text: str, is_defined: bool
) -> None:
    code = next(one for one in ("E-417", "--dry-run", "--depth") if one in text or one in heading)
    assert defines(heading, text, code) == is_defined
