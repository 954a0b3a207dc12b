"""Questions as people type them: filters among the words, and what is said when none is left."""

from datetime import datetime

import numpy as np
import pytest

from hopsyncd.config.values import Search
from hopsyncd.errors import BadRequest
from hopsyncd.index.documents import NewDocument
from hopsyncd.index.filters import Condition, apply_filter
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.statistics import Visible
from hopsyncd.retrieve.query_parser import find_similar_names, parse_question, suggest_filter
from hopsyncd.retrieve.results import format_answer
from store.records import PassageId
from tests.fakes.indexed import advance
from tests.fakes.triplets import triplets

NOW = datetime(2026, 3, 14, 12).astimezone()


@pytest.mark.parametrize(
    ("typed", "question", "filters"),
    [
        ("source:vault how do hotkeys work", "how do hotkeys work", "source:vault"),
        ("hotkeys path:Plugins before:2026-03?", "hotkeys", "path:Plugins before:2026-03"),
        ('path:"My Notes/**" hotkeys', "hotkeys", 'path:"My Notes/**"'),
        ("-tag:draft after:2026 roses", "roses", "-tag:draft since:2026"),
        ("roses [status:done]", "roses", "property:status=done"),
        ("ext:pdf from:ann tax", "tax", "type:pdf author:ann"),
        ("tag:garden", "garden", "tag:garden"),
        # What only looks like one stays text.
        ("what does std::vector hold", "what does std::vector hold", ""),
        ("note: call Ann at 10:30", "note: call Ann at 10:30", ""),
        ("before:lunch or path: to peace", "before:lunch or path: to peace", ""),
        ("see https://example.org/source:x", "see https://example.org/source:x", ""),
        ("  two  spaces ", "  two  spaces ", ""),
    ],
)
def test_filters_are_read_and_all_else_stays_text(typed: str, question: str, filters: str) -> None:
    found = parse_question(typed, (), NOW)
    assert (found.question, found.filter_text) == (question, filters)


def test_a_text_given_as_a_filter_must_be_a_filter() -> None:
    assert parse_question("x", ["since:30d"], NOW).filter_[0].at_ms == pytest.approx(
        (NOW.timestamp() - 30 * 86400) * 1000, abs=1
    )
    for wrong in ("vault", "colour:red", "since:lunch", "tag:"):
        with pytest.raises(BadRequest, match="was refused"):
            parse_question("x", [wrong], NOW)


@pytest.mark.parametrize(
    ("filters", "hint"),
    [
        (["source:valt"], "no document matches source:valt. Did you mean source:vault?"),
        (["source:zzz"], "no document matches source:zzz. Known: mail, vault"),
        (
            ["path:Plugxns"],
            "no document matches path:Plugxns. Did you mean path:Plugins or path:Plugins/keys.md?",
        ),
        (["tag:gardn"], "no document matches tag:gardn. Did you mean tag:garden?"),
        (["property:status=x"], "no document matches property:status=x. Known: done"),
        (["property:stats"], "no document matches property:stats. Did you mean property:status?"),
        (["since:2027"], "no document matches since:2027: the newest is from 2026-02-01"),
        (
            ["created-since:2027"],
            "no document matches created-since:2027: no document has a known creation date",
        ),
        (["type:pdf"], "no document matches type:pdf. Known: eml, md"),
        (
            ["source:vault", "type:eml"],
            "no document matches all filters; without source:vault, 1 document is left",
        ),
    ],
)  # fmt: skip
def test_a_filter_without_matches_suggests_the_nearest_value_with_matches(
    filters: list[str], hint: str
) -> None:
    index = LiveIndex(2)
    sets = [triplets(one, [("rome", (1, 0))]) for one in (1, 2)]
    feb_ms = int(datetime(2026, 2, 1).timestamp() * 1000)
    documents = [
        NewDocument(
            1, "vault", "Plugins/keys.md", (), (), ((PassageId(1), ()),), feb_ms,
            properties=(("tag", "garden"), ("status", "done"), ("type", "md text/markdown")),
        ),
        NewDocument(
            2, "mail", "inbox/1.eml", (), (), ((PassageId(2), ()),),
            properties=(("type", "eml message/rfc822"),),
        ),
    ]  # fmt: skip
    advance(index, 1, sets, documents=documents)
    there = Visible.compute(index, 1, frozenset()).documents
    assert suggest_filter(index, parse_question("x", filters, NOW).filter_, 1, there) == hint


@pytest.mark.parametrize(
    ("pattern", "path", "passes"),
    [
        ("plugins", "x/Plugins.md", True),
        ("*.md", "a/b/c.md", True),
        ("*.md", "c.md/x", False),
        ("a/*", "a/b/c", False),
        ("a/**", "a/b/c", True),
        ("a/**", "b/a/c", False),
        ("**/b/*.md", "b/c.md", True),
        ("a/**/b/**/c", "a/b/x/b/c", True),
        ("[0-3]?/*", "1x/y", True),
        ("[!a]/*", "a/y", False),
        ("[z-a]*", "z", False),
        ("*a" * 100 + "b", "a" * 4000, False),
        ("**/a/" * 50 + "b", "a/" * 2000, False),
    ],
)
def test_paths_are_matched_as_shells_do_in_time_that_no_pattern_can_stretch(
    pattern: str, path: str, passes: bool
) -> None:
    index = LiveIndex(2)
    document = NewDocument(1, "notes", path, (), (), ((PassageId(1), ()),))
    advance(index, 1, [triplets(1, [("rome", (1, 0))])], documents=[document])
    wanted = (Condition("path", pattern),)
    assert apply_filter(index, wanted, 1, np.empty(0, dtype=np.bool_)).tolist() == [passes]


def test_suggestions_are_few_and_similar() -> None:
    assert find_similar_names("Rome", ["Paris", "Oslo"]) == []
    assert find_similar_names("PLUGINS", ["Plugins", "plug", "Themes"])[0] == "Plugins"


@pytest.mark.parametrize(
    ("typed", "note"),
    [
        (
            "keys before:2026-13",
            "before:2026-13 was searched for as words, because '2026-13' is",
        ),
        ("keys typ:md", 'because there is no filter "typ". Did you mean type:md?'),
        ("sorce:vault keys?", "Did you mean source:vault?"),
    ],
)
def test_an_unusable_filter_is_explained(typed: str, note: str) -> None:
    found = parse_question(typed, (), NOW)
    assert not found.filter_ and found.question == typed
    (said,) = found.notes
    assert note in said
    assert format_answer(None, Search(), found)["degraded"] == [said]


@pytest.mark.parametrize(
    "typed", ["note:call Ann", "std::vector", "before:lunch", "http://x.org/a"]
)
def test_other_words_with_colons_are_not_explained(typed: str) -> None:
    assert parse_question(typed, (), NOW).notes == ()


def test_a_filter_alone_asks_no_question() -> None:
    assert parse_question("property:status", (), NOW).is_only_filters
    assert not parse_question("property:status keys", (), NOW).is_only_filters
    assert not parse_question("???", (), NOW).is_only_filters
