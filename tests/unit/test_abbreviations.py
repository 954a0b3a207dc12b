"""Abbreviations and aliases that a text defines are read from it, and nothing else is."""

import pytest

from hopsyncd.text.abbreviations import find_pairs, list_form_terms


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("Ask the Enterprise Support Team (EST) first.", "EST", "Enterprise Support Team"),
        ("Ask the **Enterprise Support Team** (**EST**).", "EST", "Enterprise Support Team"),
        ("EST (Enterprise Support Team) answers.", "EST", "Enterprise Support Team"),
        ("It runs on NPM, the Node package manager.", "NPM", "Node package manager"),
        ("NPM, short for Node Package Manager, is old.", "NPM", "Node Package Manager"),
        ("EST stands for Enterprise Support Team.", "EST", "Enterprise Support Team"),
        ("npm (Node Package Manager)", "npm", "Node Package Manager"),
        ("- **EST** — Enterprise Support Team", "EST", "Enterprise Support Team"),
        ("| EST | Enterprise Support Team |", "EST", "Enterprise Support Team"),
        ("The Office of Acquisition (OA) replies.", "OA", "Office of Acquisition"),
        ("The Department of Veterans Affairs (VA) pays.", "VA", "Veterans Affairs"),
        ("A hypertext\nmarkup language (HTML) page", "HTML", "hypertext markup language"),
        ("Several PIAs (Privacy Impact Assessments)", "PIAs", "Privacy Impact Assessments"),
        ("Kubernetes (K8s) runs it.", "K8s", "Kubernetes"),
        ("i18n (internationalization)", "i18n", "internationalization"),
        ("das Bundesministerium für Arbeit (BMA)", "BMA", "Bundesministerium für Arbeit"),
    ],
)
def test_a_definition_gives_an_abbreviation(text: str, short: str, long: str) -> None:
    assert (short, long) in find_pairs((), text)


def test_a_heading_defines_a_pair() -> None:
    found = find_pairs(("Leave", "Disabled Veteran Leave (DVL)"), "It is given once.")
    assert found == [("DVL", "Disabled Veteran Leave")]


def test_the_aliases_of_a_note_stand_for_its_title() -> None:
    found = find_pairs(("Kubernetes", "Setup"), "aliases: k8s, kube\n\nRun it.")
    assert found == [("k8s", "Kubernetes"), ("kube", "Kubernetes")]


@pytest.mark.parametrize(
    "text",
    [
        "It was late (it rained).",
        "He left in June (or May).",
        "The value of x (one of them) is set.",
        "Use a hammer (USA).",
        "It is the tallest tower of the city.",
        "See the list (a, b and c).",
        "A meeting with Ann (Monday) and Bo (Tuesday).",
        "We met in the hall (EST).",
        "EST: it rains here often.",
        "",
        "()",
        "(EST)",
    ],
)
def test_brackets_without_initials_define_no_abbreviation(text: str) -> None:
    assert find_pairs((), text) == []
    assert list_form_terms((), text) == set()


def test_forms_of_the_same_words_share_a_term() -> None:
    one = list_form_terms((), "the Request for Comment (RFC)")
    other = list_form_terms((), "all Requests for Comments (RFCs)")
    assert one == other == {"form rfc", "form request for comment"}
