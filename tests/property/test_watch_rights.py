"""A member's watch shows what it would show in an index that never had the hidden documents."""

import json
import re
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopsyncd.api.access_rules import Caller
from hopsyncd.api.watch_delivery import WatchActions
from hopsyncd.api.watched_questions import WatchedQuestions
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.visible_sources import Acl
from store.visibility import HiddenFolders
from tests.fakes.models import FakeEncoder, FakeLanguage
from tests.fakes.watching import OWNER, FakeMakers, Inline, member
from tests.property.test_visibility import CANARY, HIDDEN, SHARED, VISIBLE, Index, questions, texts

FOLDER = HiddenFolders("public", ("hr/**",), (True, False))
ANN = member("ann", Acl(frozenset(VISIBLE), frozenset([FOLDER])))
PLACES = ("open/a.md", "open/b.md", "public/a.md", "public/hr/b.md", "closed/a.md", "closed/b.md")
SECRET_PLACES = ("public/hr/", "closed/")
ROME = "In that year Rome praised Ada Byron."

steps = st.lists(st.tuples(st.sampled_from(PLACES), st.none() | texts), min_size=2, max_size=9)


class Watches:
    """An index with Ann's watch and, so that changes of others are counted, the owner's."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.index = Index(folder, names)
        self.makers = FakeMakers(ANN, OWNER)
        asker = Asker(self.index.engine, FakeEncoder(), FakeLanguage())
        self.watched = WatchedQuestions(
            folder / f"{'-'.join(names)}.db",
            lambda: (self.index.engine, asker),
            Inline(self.index.stack),  # type: ignore[arg-type]
            lambda: 1,
            self.makers,
            WatchActions(folder / f"{len(names)}.json"),
        )

    def change(self, place: str, text: str | None) -> None:
        """Take the step where the source is known, and compare."""
        source, _, path = place.partition("/")
        self.index.change(source, path, text)
        self.watched.compare()

    def shown_to(self, caller: Caller, number: int) -> Any:
        """The list and the details as the caller gets them, without numbers of versions."""
        listed = self.watched.list_all(caller)
        details = self.watched.read_details(number, 100, caller)
        return json.loads(_without_versions(json.dumps([listed, details])))


def _without_versions(text: str) -> str:
    text = re.sub(r'"(id|checked|version|old|new)": \d+', r'"\1": 0', text)
    return re.sub(r"version \d+: ", "a version: ", text)


def _take(watches: Watches, step: tuple[str, str | None], *, knows_hidden: bool) -> None:
    place, text = step
    is_secret = place.startswith(SECRET_PLACES)
    if is_secret and text and len(text) % 2:
        text = f"{text} {CANARY}"
    if knows_hidden or not is_secret:
        watches.change(place, text)


@settings(max_examples=settings().max_examples // 2)
@given(first=texts, steps=steps, question=questions)
@example(first=ROME, steps=[("closed/a.md", SHARED), ("closed/a.md", None)], question=SHARED)
@example(  # the visible copy goes, and the hidden one stays
    first=SHARED, steps=[("closed/a.md", SHARED), ("open/b.md", ROME), ("open/a.md", None)],
    question=SHARED,
)  # fmt: skip
@example(  # a passage moves out of a hidden folder
    first=ROME,
    steps=[("public/hr/b.md", SHARED), ("public/a.md", SHARED), ("public/hr/b.md", None)],
    question=SHARED,
)
def test_a_watch_shows_what_it_would_without_the_hidden_documents(
    first: str, steps: list[tuple[str, str | None]], question: str
) -> None:
    with TemporaryDirectory() as folder:
        both = Watches(Path(folder), (*VISIBLE, *sorted(HIDDEN)))
        alone = Watches(Path(folder), VISIBLE)
        with closing(both.index.stack), closing(alone.index.stack):
            for one in (both, alone):
                one.change("open/a.md", first)
            both.watched.add(question, OWNER)  # its changes must not be counted among Ann's
            mine, theirs = both.watched.add(question, ANN), alone.watched.add(question, ANN)
            for step in steps:
                _take(both, step, knows_hidden=True)
                _take(alone, step, knows_hidden=False)
                assert both.shown_to(ANN, mine) == alone.shown_to(ANN, theirs)
            changes = [
                [change["id"] for change in watches.watched.read_details(number, 100, ANN)[2]]
                for watches, number in ((both, mine), (alone, theirs))
            ]
            assert changes[0] == changes[1]
            assert CANARY not in json.dumps(both.shown_to(ANN, mine))


@settings(max_examples=settings().max_examples // 3)
@given(before=steps, after=steps, question=questions)
def test_after_rights_shrink_a_watch_shows_what_a_new_one_does(
    before: list[tuple[str, str | None]], after: list[tuple[str, str | None]], question: str
) -> None:
    wide = member("ann", Acl(frozenset([*VISIBLE, *HIDDEN])))
    with TemporaryDirectory() as folder:
        watches = Watches(Path(folder), (*VISIBLE, *sorted(HIDDEN)))
        with closing(watches.index.stack):
            watches.change("open/a.md", ROME)
            for place in ("public/hr/b.md", "closed/a.md"):
                watches.change(place, SHARED)
            watches.makers.callers["token:ann"] = wide
            old = watches.watched.add(question, wide)
            for step in before:
                _take(watches, step, knows_hidden=True)
            watches.makers.callers["token:ann"] = ANN
            assert watches.watched.read_details(old, 100, ANN)[2] == []  # at once
            new = watches.watched.add(question, ANN)
            watches.watched.compare()
            for step in after:
                _take(watches, step, knows_hidden=True)
            shown = [watches.watched.read_details(number, 100, ANN) for number in (old, new)]
            assert shown[0][1:] == shown[1][1:]
            assert CANARY not in json.dumps(shown)


def test_the_drawn_edits_change_the_watched_answers(tmp_path: Path) -> None:
    """The properties above would also hold if nothing ever changed."""
    watches = Watches(tmp_path, (*VISIBLE, *sorted(HIDDEN)))
    with closing(watches.index.stack):
        watches.change("open/a.md", ROME)
        ann, owner = watches.watched.add(SHARED, ANN), watches.watched.add(SHARED, OWNER)
        watches.change("closed/a.md", SHARED)
        watches.change("open/b.md", SHARED)
        counts = {watch["id"]: watch["changes"] for watch in watches.watched.list_all(OWNER)}
        assert counts[ann] == 1 and counts[owner] >= 1


def test_the_reasons_of_a_change_leave_out_versions_of_hidden_sources(tmp_path: Path) -> None:
    watches = Watches(tmp_path, (*VISIBLE, *sorted(HIDDEN)))
    with closing(watches.index.stack):
        watches.change("open/a.md", ROME)
        number = watches.watched.add(SHARED, ANN)
        watches.index.change("closed", "a.md", SHARED)
        watches.change("open/b.md", SHARED)  # one comparison for both
        _, _, (change,) = watches.watched.read_details(number, 9, ANN)
        assert change["new"] - change["old"] == 2
        assert "closed" not in json.dumps(change) and any("open" in why for why in change["why"])
