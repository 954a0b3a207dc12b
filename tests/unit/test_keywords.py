"""Names found without knowing the language."""

import pytest

from hopsyncd.models.keywords import find_mentions, find_neutral_spans, find_topic, normalise


def names(text: str) -> list[str]:
    return sorted(mention.keyword for mention in find_mentions(text, find_neutral_spans(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Lok der Firma Siemens, X100", ["die lok", "firma siemens", "x100"]),
        ("Анна Каренина уехала в Москву", ["анна каренина", "москву"]),
        ("Σωκράτης ζούσε στην Αθήνα", ["αθήνα", "σωκράτης"]),
        ("l'été, l'Élysée était à Paris", ["paris", "élysée"]),
        ("les «quatre saisons» en 1725", ["1725", "quatre saisons"]),
        ("서울은 한국의 수도", ["서울은", "수도", "한국의"]),
        ("nothing here", []),
    ],
)  # fmt: skip
def test_capitals_quotes_codes_and_years_are_names(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_scripts_without_spaces_give_runs_of_one_script() -> None:
    assert {"東京", "日本", "首都", "タワー"} <= set(names("東京は日本の首都で、タワーがある"))


def test_words_are_keywords_in_scripts_without_capitals() -> None:
    assert names("القاهرة في مصر") == ["القاهرة"]


@pytest.mark.parametrize(
    "spelling", ["The Beatles", "beatles", "Beatles'", "the Beatles (band)", "BEATLES\u2019"]
)
def test_spellings_of_a_name_give_the_same_keyword(spelling: str) -> None:
    assert normalise(spelling) == "beatles"


def test_a_section_of_a_manual_is_no_part_of_a_name() -> None:
    assert normalise("git-push(1") == normalise("git-push(1)") == "git push"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Give --dry-run, not -n", "dry run"),
        ("set by http.sslVerify there", "http sslverify"),
        ("it calls shared_memory first", "shared memory"),
        ("see PEP 693 and others", "pep 693"),
        ("since v3.12, or so", "3 12"),
        ("a pageSize of one", "pagesize"),
    ],
)
def test_options_identifiers_numbered_things_and_versions_are_names(
    text: str, expected: str
) -> None:
    assert expected in {mention.keyword for mention in find_mentions(text, [])}


@pytest.mark.parametrize("text", ["e.g. this, i.e. that", "half.The rest", "12.5 % of 2021-08-05"])
def test_abbreviations_shares_and_dates_are_no_codes(text: str) -> None:
    assert find_mentions(text, []) == ()


@pytest.mark.parametrize(
    ("heading", "topic"),
    [
        ("2.3. Write-Ahead Logging", "write ahead logging"),
        ("3.12 release schedule", "3 12 release schedule"),
        ("Usage", ""),
        ("1. Introduction", ""),
        ("Frequently asked questions", ""),
        ("Usage of leave", "usage of leave"),
    ],
)
def test_a_heading_is_a_topic_unless_it_names_a_part_of_the_page(heading: str, topic: str) -> None:
    assert find_topic(heading) == topic


@pytest.mark.parametrize(
    "text",
    [
        "It is 000.00 there",
        "a share of 0.965 or",
        "it cost 12.50 euros",
        "it cost $ 12.50, then",
        "Cod: 4.5 | Herring: 3.2",
        "EUR 500 and USD 20",
        "500 boats",
    ],
)
def test_numbers_and_amounts_are_no_names(text: str) -> None:
    found = [mention.keyword for mention in find_mentions(text, find_neutral_spans(text))]
    assert not [name for name in found if any(map(str.isdigit, name))]


def test_years_and_versions_are_names() -> None:
    text = "Since 1984, Python 3.12 and 3.11.2"
    assert {"1984", "3 12", "3 11 2"} <= {
        mention.keyword for mention in find_mentions(text, find_neutral_spans(text))
    }


def test_the_names_of_columns_are_no_names() -> None:
    text = "Team: Blues | Stanley Cups: one\nTeam: Flyers\nNote: Team is a word"
    words = ("Team", "Blues", "Stanley Cups", "Team: Flyers", "Note")
    spans = [(text.index(word), text.index(word) + len(word)) for word in words]
    assert [mention.keyword for mention in find_mentions(text, spans)] == [
        "blues",
        "flyers",
        "note",
    ]
