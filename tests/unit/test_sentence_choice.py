"""The choice of the sentences that answer a question."""

from dataclasses import replace

import pytest

from hopsyncd.formats.bibliography import read_bibliography
from hopsyncd.retrieve.answering.extractive import choose_sentences
from hopsyncd.retrieve.sentences import Sentence
from store.records import PassageId


def sentence(text: str, rank: int, cosine: float, *terms: str) -> Sentence:
    names = frozenset(word.lower() for word in text.split() if word[0].isupper())
    return Sentence(PassageId(rank), rank, text, cosine, frozenset(terms), names)


def test_the_second_sentence_may_come_from_the_passage_of_the_first() -> None:
    weights = {"door": 2.0, "born": 2.0, "bronze": 1.0}
    first = sentence("Door here", 0, 0.5, "door")
    next_to_it = sentence("she was born", 0, 0.4, "born")
    other = sentence("bronze things", 3, 0.4, "bronze")
    assert choose_sentences([first, next_to_it, other], weights) == [first, next_to_it, other]


def test_the_second_sentence_adds_words_from_another_passage() -> None:
    weights = {"door": 2.0, "born": 2.0}
    first = sentence("Door here", 0, 0.5, "door")
    again = sentence("Door there", 0, 0.5, "door")
    other = sentence("She was born", 3, 0.3, "born")
    assert choose_sentences([first, again, other], weights)[:2] == [first, other]


def test_sentences_that_add_nothing_are_not_shown() -> None:
    weights = {"door": 2.0, "born": 2.0}
    first = sentence("The Door was born here", 0, 0.5, "door", "born")
    padding = sentence("and so lasts for a long year", 0, 0.4)
    assert choose_sentences([first, padding], weights) == [first]
    value = sentence("which was built in 1954", 1, 0.4)
    assert choose_sentences([first, padding, value], weights, frozenset({value})) == [first, value]


def test_short_sentences_are_added_while_the_answer_stays_short() -> None:
    weights = {f"word{index}": 1.0 for index in range(7)}
    short = [sentence(f"it says {index} of seven.", 0, 0.5, f"word{index}") for index in range(7)]
    assert choose_sentences(short, weights) == short[:5]
    long = [replace(one, text=f"{one.text} {'x' * 100}.") for one in short]
    assert choose_sentences(long, weights) == long[:4]  # 500 characters have no room for a fifth
    longer = [replace(one, text=f"{one.text} {'x' * 200}.") for one in short]
    assert choose_sentences(longer, weights) == longer[:3]


def test_the_sentence_most_like_the_question_is_added_although_it_has_no_new_words() -> None:
    weights = {"door": 2.0, "born": 2.0}
    first = sentence("The Door was born here", 0, 0.5, "door", "born")
    nearest = sentence("and so lasts for a long year", 4, 0.6)
    other = sentence("and so does every other year", 0, 0.4)
    assert choose_sentences([first, other, nearest], weights) == [first, nearest]
    long = replace(nearest, text=f"{nearest.text} {'x' * 500}.")
    assert choose_sentences([first, other, long], weights) == [first]


def test_a_passage_about_a_name_that_a_chosen_sentence_mentions_is_preferred() -> None:
    film = sentence("Bronze is a film by Mira", 0, 0.5, "door", "direct")
    film = replace(film, headings=frozenset({"bronze"}))
    other = sentence("Ann was born near the door", 1, 0.4, "born")
    person = sentence("her life began in Oslo", 1, 0.35, "born")

    def is_preferred(heading: str, *terms: str) -> bool:
        weights = dict.fromkeys(("door", "direct", "born", *terms), 1.0)
        about = replace(person, headings=frozenset({heading}))
        return choose_sentences([film, other, about], weights)[1] == about

    assert is_preferred("mira")
    assert not is_preferred("mira", "mira")  # the question has this name
    assert not is_preferred("bronze")  # the heading of the first sentence
    assert not is_preferred("ann")


def test_a_sentence_about_a_pronoun_follows_the_sentence_that_names_it() -> None:
    weights = {"mira": 2.0, "deputy": 1.0}
    named = sentence("Mira leads the big harbour office.", 0, 0.5, "mira")
    own = sentence("Her deputy is Jonas Brandt now.", 0, 0.4, "deputy")
    of_other = sentence("The deputy of Ann is Olga.", 0, 0.5, "deputy")
    assert choose_sentences([named, own, of_other], weights)[:2] == [named, own]
    assert choose_sentences([named, of_other, own], weights)[:2] == [named, of_other]


@pytest.mark.parametrize(
    ("third", "last"),
    [
        ((0.6, 0.2), "she paints on wet wood"),  # improves the best cosines by 0.1, the other 0.2
        ((0.9, 0.2), "More oil and bronze"),  # improves the clause that is answered better by 0.4
    ],
)
def test_the_last_sentence_improves_the_best_cosine_with_any_clause_most(
    third: tuple[float, float], last: str
) -> None:
    weights = {"door": 2.0, "born": 2.0, "oil": 1.0}
    said = [
        sentence("The Door was born here", 0, 0.5, "door", "born"),
        sentence("Oil is on it", 0, 0.5, "oil"),
        sentence("More oil and bronze", 1, 0.5, "oil"),
        sentence("she paints on wet wood", 4, 0.1),
    ]
    assert choose_sentences(said, weights) == said[:2]
    cosines = [(0.5, 0.2), (0.4, 0.1), third, (0.1, 0.4)]
    asked_twice = [
        replace(one, clause_cosines=pair) for one, pair in zip(said, cosines, strict=True)
    ]
    chosen = choose_sentences(asked_twice, weights)
    assert [one.text for one in chosen] == [said[0].text, said[1].text, last]


def test_a_leading_sentence_comes_first() -> None:
    weights = {"door": 2.0, "born": 2.0}
    best = sentence("The Door was born here", 0, 0.5, "door", "born")
    leading = [
        sentence(f"A door is number {index} here", 1, 0.1 * index, "door") for index in range(4)
    ]
    assert choose_sentences([best, *leading], weights, leading=frozenset(leading))[0] == leading[3]
    assert choose_sentences([best, *leading], weights)[0] == best


def test_of_short_items_only_the_item_that_answers_is_quoted() -> None:
    text = "[ ] Order the big tent (Ann)\n[x] Book the brass band (Bo)"
    task = sentence(text, 0, 0.5, "brass", "band")
    assert [one.text for one in choose_sentences([task], {"brass": 1.0, "band": 1.0})] == [
        "[x] Book the brass band (Bo)"
    ]


def test_a_sentence_with_a_value_of_the_kind_asked_for_is_preferred() -> None:
    weights = {"gate": 2.0, "close": 2.0}
    like = sentence("The gate of the north wall may close early", 0, 0.6, "gate", "close")
    timed = sentence("In winter the gates close at 10 pm on all days", 0, 0.5, "gate", "close")
    assert choose_sentences([like, timed], weights)[0] == like
    assert choose_sentences([like, timed], weights, with_value=frozenset({timed}))[0] == timed


def test_headers_and_markup_are_quoted_only_if_they_contain_the_answer() -> None:
    weights = {"gate": 2.0}
    header = sentence("Subject: the gate of the north wall", 0, 0.9, "gate")
    prose = sentence("The gate in the north wall is old.", 1, 0.3, "gate")
    assert choose_sentences([header, prose], weights) == [prose]
    assert choose_sentences([header, prose], weights, with_value=frozenset({header}))[0] == header
    assert choose_sentences([header], weights) == [header], "there is nothing else"


@pytest.mark.parametrize("date", ["year = {1843}", "year = 1843, month = jul", "date = {1843-07}"])
def test_an_entry_of_a_bibliography_is_quoted(date: str) -> None:
    entry = f"@book{{l3, author = {{Lovelace, Ada}}, title = {{Swarm planning}}, {date}}}"
    reference = sentence(read_bibliography(entry)[-1].text, 0, 0.7, "swarm", "plan")
    prose = sentence("The swarm in the north wall is old.", 1, 0.3, "swarm")
    assert choose_sentences([reference, prose], {"swarm": 2.0, "plan": 2.0})[0] == reference
