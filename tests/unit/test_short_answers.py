"""Short answers and "not found": what is asked for, what a sentence offers, what is shown."""

import math
from typing import Any

import pytest

from hopsyncd.models.language import Entity
from hopsyncd.retrieve.answering.extractive import QuestionNeeds, find_needs
from hopsyncd.retrieve.answering.short_answer import (
    HELD,
    Short,
    choose_likeliest,
    find_candidates,
    find_values,
)
from hopsyncd.retrieve.answering.support import (
    counts_other_things,
    is_described,
    is_shown,
    judge,
    measure_support,
)
from hopsyncd.retrieve.sentences import Sentence
from hopsyncd.text.words import list_index_terms
from store.records import PassageId
from tests.fakes.models import FakeLanguage

LANGUAGE = FakeLanguage()


def sentence(text: str, rank: int = 0, cosine: float = 0.6, *terms: str) -> Sentence:
    return Sentence(PassageId(rank), rank, text, cosine, frozenset(terms), frozenset())


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who restored the lighthouse in the town where Lord Byron died?", "name"),
        ("When did the tower in the village whose mayor is a captain burn down?", "date"),
        ("Which city was home to the band that broke up when its singer left?", "name"),
        ("How many people live where the potter has his kiln?", "number"),
        ("She wrote to the poet who died on which date?", "date"),
        ("Did the man who built it live where she did?", None),
        ("What is it made of?", None),
        (
            "I wait and wait, whenever I ask. After what time is it proper to write again?",
            "duration",
        ),
        ("In which version did it stop being experimental?", "version"),
        ("plugin updates how often checked", "frequency"),
        ("join table limit", "number"),
        ("SBOM file location", "code"),
        ("max number of columns in a table", "number"),
        ("default lifetime of a session", "duration"),
        ("What are the shortest and the longest interval?", "duration"),
        ("What limits the number of tables", "number"),
        ("On which day of the week does the committee meet?", "weekday"),
        ("Which option keeps tests from being skipped?", "code"),
        ("Which kind of key must be handed in?", None),
        ("How much more time do the workers get to end?", "duration"),
        ("Can it be asked again when the change goes to an older branch?", None),
        ("When was the fourth version released?", "date"),
        ("When can one see the result?", "moment"),
        ("Which level must it have, and how long is it kept?", None),
        ("Who reserved the money, and how much was it?", None),
        ("From what number to what number did it change?", None),
        ("From how many years to how many did the term change?", None),
        ("Which limits have files, folders and links, respectively?", None),
        ("How long does the one last which is named first?", "duration"),
        ("How long is a summary line?", "number"),
        ("How long may the name of a new branch be at most?", "number"),
        ("How long are names kept?", "duration"),
        ("How long can a message be kept?", "duration"),
        ("How long can a break be?", "duration"),
    ],
)
def test_the_last_sentence_asks_by_its_end_or_its_first_question_word(
    question: str, kind: str | None
) -> None:
    asked = find_needs(question)
    assert (asked.kind if asked else None) == kind


@pytest.mark.parametrize(
    ("question", "counted"),
    [
        ("How many voluntary extra hours can I have?", {"voluntari", "extra", "hour"}),
        ("For how many seconds does it keep them?", {"second"}),
        ("Out of how many of the latest tags does it choose?", {"latest", "tag"}),
        ("It has two offers. How many of them are free?", set()),
        ("How large is it?", set()),
    ],
)
def test_how_many_counts_the_noun_that_follows(question: str, counted: set[str]) -> None:
    asked = find_needs(question)
    assert asked and asked.counted == counted


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        ("duration", "8. The Project Leader serves for one year", ["one year"]),
        ("number", "8. The Project Leader serves for one year", []),
        ("number", "Restart it - 4. Add a key", []),
        ("number", "2.2 Checkpointing takes 1,000 pages", ["1,000"]),
        (
            "duration",
            "It lasts for three years (26 pay periods).",
            ["three years", "26 pay periods"],
        ),
        ("duration", "within 3 business days, or at least a year", ["3 business days", "a year"]),
        ("duration", "It takes 7, then 2 more hours", ["7, then 2 more hours"]),
        ("duration", "Wait 2 hours and 30 minutes", ["2 hours and 30 minutes"]),
        ("duration", "in two or three weeks", ["two or three weeks"]),
        ("duration", "38 hours out", ["38 hours"]),
        ("duration", "8. 38 hours out, 2) 3 hours", ["38 hours", "3 hours"]),
        ("duration", "1 h 25 min by car, or 30 mins", ["1 h 25 min", "30 mins"]),
        ("duration", "90s by default, 200 ms at least", ["90s", "200 ms"]),
        ("duration", "in the 1990s, at 10 m, v1.5s", []),
        ("duration", "for one and a half years", ["one and a half years"]),
        ("duration", "In 2019, 3 days were lost", ["3 days"]),
        ("duration", "Valid intervals are 1 - 600 seconds", ["1 - 600 seconds"]),
        ("number", "limited to 50 thousand objects", ["50 thousand"]),
        ("number", "Default is -6 if not given, at most 32 KiB", ["-6", "32 KiB"]),
        ("number", "served at http://127.0.0.1:12315/", ["12315"]),
        ("number", "see RFC-2119, git-merge(1) and 3.12.0", []),
        ("number", "at most 256MB, at 60Hz, in 10 m", ["256MB", "60Hz", "10"]),
        ("number", "titles of 72 characters", ["72 characters"]),
        ("number", "by one-fourth, or two thirds of them", ["one-fourth", "two thirds"]),
        ("number", "a third of it for a third party", ["a third"]),
        ("number", "three quarters of it, after two quarters", ["three quarters", "two"]),
        ("version", "beginning with version 3.12.0 (2016-03-29), size 4", ["3.12.0"]),
        ("frequency", "checked every 12 hours, never hourly", ["every 12 hours", "hourly"]),
        ("weekday", "reviewed every Tuesday morning", ["Tuesday"]),
        ("code", "give `-uall` to `run`, or --fail", ["-uall", "run", "--fail"]),
        ("date", "It opened in 1912", ["1912"]),
        ("name", "It opened in Oslo", []),
    ],
)
def test_values_are_read_with_their_units_and_without_list_numbers(
    kind: str, text: str, values: list[str]
) -> None:
    found = find_values(text, kind, *LANGUAGE.find_entities([text]))  # type: ignore[arg-type]
    assert [value.text for value in found] == values


def test_a_span_of_time_is_no_date() -> None:
    text = "It opened in 1912, for five years"
    entities = [Entity(13, 17, "date"), Entity(23, 33, "date")]
    assert [value.text for value in find_values(text, "date", entities)] == ["1912"]


def offered(question: str, *texts: str) -> list[str]:
    asked = find_needs(question)
    assert asked
    sentences = [sentence(text) for text in texts]
    return [
        candidate.text for candidate in find_candidates(question, asked, sentences, {}, LANGUAGE)
    ]


def test_a_value_in_the_question_is_no_answer() -> None:
    assert offered("How long after 90 days does it last?", "After 90 days it lasts a year") == [
        "a year"
    ]


def test_a_number_of_days_is_offered_only_where_days_are_counted() -> None:
    text = "Guests are removed after 90 days, at most 12 guests a page"
    assert offered("How many guests can come?", text) == ["12 guests"]
    assert offered("How many days do they stay?", text) == ["90 days", "12"]


def test_a_path_is_no_name_of_an_option_and_a_name_with_a_slash_may_be_one() -> None:
    text = "Run `beat -s`, ~/plans, /var/run/schedule, conf/a.toml, :block/title or --pool"
    names = ["beat -s", ":block/title", "--pool"]
    assert offered("Which option sets it?", text) == names
    paths = ["/plans", "/var/run/schedule", "conf/a.toml"]
    assert sorted(offered("Which file sets it?", text)) == sorted(names + paths)


def test_bare_small_numbers_and_years_are_offered_only_where_they_are_counted() -> None:
    text = "In 1994 there were two ways and 35 stores"
    assert offered("How many stores were there?", text) == ["35 stores"]
    assert offered("How many ways were there?", text) == ["two ways", "35"]
    assert offered("How many people were there?", text) == ["35"]


def test_negative_numbers_fractions_and_shares_count_only_the_next_noun() -> None:
    text = "With -1 there is no bound, at 0.9 or 5% it writes 2.5 pages, two-thirds, and 64"
    assert offered("How many pages are written?", text) == ["2.5 pages", "64"]
    numbers = ["-1", "0.9", "5%", "2.5", "two-thirds", "64"]
    assert offered("How large is the bound?", text) == numbers


def test_a_share_is_no_amount_of_money_and_neither_is_a_count() -> None:
    text = "All 250 members got 12 % of it, which was $1,000 each"
    assert offered("What share did they get?", text) == ["12 %"]
    assert offered("What is the monthly amount?", text) == ["$1,000"]


def test_when_is_answered_by_a_date_or_a_duration() -> None:
    text = "Opened in 1912, it is shut after 90 days, and it takes six hours"
    assert offered("When is it shut?", text) == ["1912", "after 90 days"]
    assert offered("When was it opened?", text) == ["1912"]
    assert offered("In which year was it opened?", text) == ["1912"]


WEIGHTS = {"rhythm": 4.0, "copi": 4.0, "updat": 3.0}
ASKED = QuestionNeeds("frequency")


def test_the_value_next_to_the_words_of_the_question_comes_first() -> None:
    near = sentence("The copy is updated once an hour", 0, 0.7, "copi", "updat")
    far = sentence("Everything else here happens daily", 3, 0.2)
    found = find_candidates(
        "At what rhythm is the copy updated?", ASKED, [near, far], WEIGHTS, LANGUAGE
    )
    short = choose_likeliest(found, 1.0)
    assert short and (short.text, short.sentence) == ("once an hour", near)
    assert short.features["lead"] > 0
    assert short.features["few"] == pytest.approx(1 / 3)
    assert short.features["again"] == 0


def test_a_likely_short_answer_is_shown_and_an_unlikely_one_is_not() -> None:
    question = "At what rhythm is the copy updated?"
    near = sentence("The copy is updated once an hour", 0, 0.75, "copi", "updat")
    shown = judge(question, [near], WEIGHTS, 1000, LANGUAGE)
    assert shown.is_found and shown.short == "once an hour"
    far = [
        sentence("Something else is done daily", 4, 0.2),
        sentence("Others come weekly", 5, 0.2),
    ]
    assert judge(question, far, WEIGHTS, 1000, LANGUAGE).short is None


def test_the_only_value_is_not_shown_if_it_hardly_fits() -> None:
    question = "At what rhythm is the copy updated?"
    like = sentence("The copy is updated", 0, 0.75, "copi", "updat")
    unlike = sentence("Everything else here happens daily", 4, 0.1)
    judged = judge(question, [like, unlike], WEIGHTS, 1000, LANGUAGE)
    assert judged.is_found and judged.short is None


def test_a_rare_name_that_is_missing_near_the_value_makes_an_answer_less_likely() -> None:
    question, weights = "Which command shelves in Mercurial?", {"shelv": 7.0, "mercuri": 7.0}
    about = [
        sentence("It shelves changes", 0, 0.6, "shelv"),
        sentence("Mercurial", 4, 0.2, "mercuri"),
    ]
    assert measure_support(question, None, [], about, weights, 1000)["unnamed"] == pytest.approx(
        0.4
    )
    named = [sentence("Mercurial shelves", 0, 0.6, "shelv", "mercuri")]
    assert measure_support(question, None, [], named, weights, 1000)["unnamed"] == 0


@pytest.mark.parametrize(
    ("question", "text", "unmet"),
    [
        ("How many seats has the hall?", "It has 300 seats", False),
        ("How many seats has the hall?", "It has 300 doors", True),
        ("How many seats has the hall?", "It has a lot of them", True),
        ("What share of the seats is kept free?", "It keeps 300 seats", True),
        ("What share of the seats is kept free?", "It keeps 5% of them", False),
        ("How much does a seat cost?", "Each is 300 metres away", True),
        ("How much do they add to the fees of the nursery?", "There are 5 groups", True),
        ("How much do they add to the fees of the nursery?", "They add £40 a month", False),
        ("How much money do they raise?", "They raise 60,000 USD", False),
        ("How far back does the view of costs go?", "It goes back 14 weeks", False),
        ("When was the hall built?", "It has a lot of them", False),
    ],
)
def test_an_answer_without_a_number_of_the_counted_noun_is_less_likely(
    question: str, text: str, unmet: bool
) -> None:
    asked, said = find_needs(question), [sentence(text, 0, 0.6)]
    assert asked is not None
    values = find_candidates(question, asked, said, WEIGHTS, LANGUAGE)
    assert measure_support(question, asked, values, said, WEIGHTS, 1000)["unmet"] == unmet


def measured(question: str, *said: Sentence, passages: int = 1000, **weights: Any) -> Any:
    asked = find_needs(question)
    values = find_candidates(question, asked, said, weights, LANGUAGE) if asked else []
    return measure_support(question, asked, values, said, weights, passages)


def test_even_a_long_question_must_resemble_a_sentence() -> None:
    weights = {f"word{number}": 3.0 for number in range(14)}
    others = [sentence("Other things", rank, 0.1) for rank in (1, 2, 3)]
    for cosine, is_found in ((0.36, True), (0.34, False)):
        said = sentence("The yard is large", 0, cosine)
        assert judge("Why?", [said, *others], weights, 1000, LANGUAGE).is_found is is_found


@pytest.mark.parametrize(
    ("question", "text", "cosine", "is_valueless"),
    [
        ("How often is it done?", "It is done daily", 0.55, False),
        ("How often is it done?", "Others come daily", 0.3, True),
        ("How often is it done?", "It is done", 0.55, True),
        ("Who does it?", "It is done", 0.55, False),
        ("How much does it cost?", "It is done", 0.55, False),  # this is unmet
    ],
)
def test_a_value_that_is_asked_for_must_be_in_a_sentence_like_the_question(
    question: str, text: str, cosine: float, is_valueless: bool
) -> None:
    best = sentence("It is so", 0, 0.6)
    assert measured(question, best, sentence(text, 1, cosine))["valueless"] == is_valueless


ABSENT = math.log1p((1000 + 0.5) / 0.5)  # the idf of a word that none of 1,000 passages has


def test_names_count_only_in_the_sentence_that_asks() -> None:
    said = sentence("The flow is high", 0, 0.6, "flow")
    told = measured("I am in Portugal. How is the flow?", said, portug=ABSENT, flow=2.0)
    assert (told["absent"], told["lost"], told["unnamed"]) == (0, 0, 0)
    asked = measured("How is the flow in Portugal?", said, portug=ABSENT, flow=2.0)
    assert (asked["absent"], asked["lost"], asked["unnamed"]) == (1, 1, pytest.approx(0.6))


@pytest.mark.parametrize("when", ["July", "2014", "Monday", "7 May 2025", "4 KB", "64GiB"])
def test_a_date_or_a_size_is_no_name(when: str) -> None:
    said = sentence("The flow is high", 0, 0.6, "flow")
    weights: dict[str, Any] = dict.fromkeys(list_index_terms(when), ABSENT)
    told = measured(f"How was the flow in {when}?", said, flow=2.0, **weights)
    assert (told["absent"], told["lost"], told["unnamed"]) == (0, 0, 0)


def test_a_name_is_found_at_the_beginning_of_a_longer_word() -> None:
    question = "How does Supervisor end a job?"
    weights: dict[str, Any] = {"supervisor": 6.0, "job": 2.0}
    assert measured(question, sentence("supervisord ends a job", 0, 0.6), **weights)["lost"] == 0
    assert measured(question, sentence("A nonsupervisor ends it", 0, 0.6), **weights)["lost"] == 1


def test_words_that_a_large_collection_lacks_make_an_answer_less_likely() -> None:
    said = sentence("The yard is large", 0, 0.6, "yard")
    large = measured("Can I park in the yard?", said, park=ABSENT, yard=3.0)["unknown"]
    assert large == pytest.approx(ABSENT / (ABSENT + 3.0) - 0.2)
    assert measured("Is the yard large?", said, yard=3.0)["unknown"] == 0
    absent = math.log1p((100 + 0.5) / 0.5)
    small = measured("Can I park in the yard?", said, passages=100, park=absent, yard=3.0)
    assert small["unknown"] == 0


def test_the_distance_of_the_best_sentence_from_the_others_counts() -> None:
    said = [sentence(f"Said {rank}", rank, cosine) for rank, cosine in enumerate((0.7, 0.5, 0.4))]
    assert measure_support("What is said?", None, [], said, {}, 1000)["ahead"] == pytest.approx(0.2)
    assert measure_support("What is said?", None, [], said[:1], {}, 1000)["ahead"] == 0


def test_an_empty_result_is_not_found() -> None:
    assert not judge("What is it?", [], {"it": 1.0}, 10, LANGUAGE).is_found


@pytest.mark.parametrize(
    ("question", "is_hidden"),
    [
        ("How long is the notice of the team that decides about leave?", True),
        ("When does the vote of that other group end?", True),
        ("The first firm to get the certificate: when did it open its centre?", True),
        ("After what time is it proper to send the first reminder?", False),
        ("When does the vote of the board end?", False),
        ("How long can I still correct a message?", False),
    ],
)
def test_a_described_subject_has_no_short_answer(question: str, is_hidden: bool) -> None:
    assert is_described(question) is is_hidden


@pytest.mark.parametrize(
    ("question", "text", "is_other"),
    [
        ("How many bytes long is the header?", "1000 pages long", True),
        ("How many bytes long is the header?", "32 bytes", False),
        ("How many bytes long is the header?", "32", False),
        ("Out of how many of the latest tags?", "10 most recent tags", False),
        ("How long is the header?", "32 bytes", False),
    ],
)
def test_a_number_of_other_things_is_no_short_answer(
    question: str, text: str, is_other: bool
) -> None:
    assert counts_other_things(question, text) is is_other


def short(text: str, *, is_counted: bool = True) -> Short:
    return Short(text, sentence(text), {}, is_counted)


@pytest.mark.parametrize(
    ("question", "text", "wanted"),
    [
        ("When was Ada Lovelace born?", "10 December 1815", True),
        ("When was the mother of Ada Lovelace born?", "10 December 1815", False),
        ("When was Ada Lovelace's mother born?", "10 December 1815", False),
        ("When did Ada Lovelace die?", "November", False),
        ("When will the change take effect?", "a few seconds", True),
        ("How large does the log get?", "1000", False),
        ("How large does the log get?", "32 KiB", True),
        ("Which version brought sizes?", "1.1", True),
        ("Which versions brought sizes, signatures and marks?", "1.1", False),
        ("The Fair, held in which year, is a book by Ann?", "1815", True),
        ("The fair in which Ann's country took part ended on which date?", "1 May 1815", False),
    ],
)
def test_a_value_of_something_else_or_without_unit_is_not_shown(
    question: str, text: str, wanted: bool
) -> None:
    asked = find_needs(question)
    assert asked is not None
    assert is_shown(question, asked, short(text)) is wanted


def test_a_number_that_counts_nothing_is_not_shown_for_how_many() -> None:
    question = "How many times was Ann selected?"
    asked = find_needs(question)
    assert asked is not None
    assert is_shown(question, asked, short("3 times"))
    assert not is_shown(question, asked, short("30", is_counted=False))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("At least two-thirds of the votes are needed.", ["two-thirds"]),
        ("The file has at most 32 KiB.", ["32 KiB"]),
        ("It costs \u20ac15 a month.", ["\u20ac15"]),
        ("It costs 15 euros a month.", ["15 euros"]),
        ("The bridge is 120 metres long.", ["120 metres"]),
        ("Half is 50 % of it.", ["50 %"]),
    ],
)
def test_the_short_answer_contains_the_unit_of_a_number(text: str, wanted: list[str]) -> None:
    assert [value.text for value in find_values(text, "number", ())] == wanted


@pytest.mark.parametrize(
    ("question", "is_absent"),
    [
        ("Who composed the music for Brasilia?", 1.0),
        ("How do I fix E-999 quickly?", 1.0),
        ("Who composed the music for Ostrava?", 0.0),
        ("Why was it composed in 1987?", 0.0),
        ("Who composed the music for Ostrava? Brasilia?", 0.0),
        ("Wer hat die Musik in Brasilia komponiert?", 0.0),
        ("Who met on 3 March 2026?", 0.0),
    ],
)
def test_a_name_that_no_passage_has_makes_an_answer_unlikely(
    question: str, is_absent: float
) -> None:
    absent = math.log1p((1000 + 0.5) / 0.5)
    weights = {"brasilia": absent, "999": absent, "1987": absent, "ostrava": 3.0, "music": 2.0}
    weights["march"] = absent
    assert measure_support(question, None, [], [], weights, 1000)["absent"] == is_absent


def test_a_rare_name_that_the_passages_found_lack_makes_an_answer_unlikely() -> None:
    question = "Was Ostrava or Brasilia founded first?"
    weights = {"ostrava": 5.0, "brasilia": 5.0, "found": 1.0}
    found = [sentence("Ostrava was founded in 1267.", 0, 0.6, "ostrava", "found")]
    both = [*found, sentence("Brasilia is younger.", 1, 0.5, "brasilia")]
    told = [
        measure_support(question, None, [], sentences, weights, 1000) for sentences in (found, both)
    ]
    assert [features["lost"] for features in told] == [1.0, 0.0]
    assert HELD["lost"] < 0
