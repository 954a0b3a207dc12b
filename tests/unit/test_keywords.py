"""Names found without knowing the language."""

import pytest

from hopsyncd.models.keywords import mentions, neutral_spans, normalise


def names(text: str) -> list[str]:
    return sorted(mention.keyword for mention in mentions(text, neutral_spans(text)))


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


def test_scripts_without_capitals_give_words() -> None:
    assert names("القاهرة في مصر") == ["القاهرة"]


@pytest.mark.parametrize(
    "spelling", ["The Beatles", "beatles", "Beatles'", "the Beatles (band)", "BEATLES\u2019"]
)
def test_one_name_has_one_spelling(spelling: str) -> None:
    assert normalise(spelling) == "beatles"
