"""What is recorded of who may see a source, and what members then see."""

import json
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hopsyncd.api.access_rules import (
    AccessRules,
    list_rules_at_reload,
    list_rules_at_start,
)
from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import SourceConfig
from store.access_rules import NOBODY, OPEN, AccessRule, FolderClause, read_access_rule
from store.engines.sqlite.database import open_file, open_writer
from store.engines.sqlite.migrations import apply_migrations
from store.sources import put_access_rules, read_access_rules, register_source
from store.visibility import HiddenFolders, hides

ROOT, DAEMON, MEMBERS = "user:root", "group:daemon", "members"
BY_ROOT, BY_DAEMON = ((ROOT,),), ((DAEMON,),)

# How a source is configured: not at all, without `visible_to`, or with that.
Setting = tuple[str, ...] | None


def config(setting: Setting) -> Config:
    source = {"name": "s", "path": "/", "visible_to": setting}
    sources = [] if setting is None else [source]
    return Config.model_validate({"access": {"group": "daemon"}, "source": sources})


def sees(setting: Setting, recorded: AccessRule | None, *entries: str) -> bool:
    """Whether a member who matches these entries sees the source."""
    rules = AccessRules.from_config(config(setting), {"s": recorded})
    return rules.make_acl(set(entries).intersection).shows("s")


@pytest.mark.parametrize(
    ("setting", "recorded", "seen_by"),
    [
        ((), OPEN, {"", ROOT, DAEMON}),
        ((), None, set()),  # not known yet
        ((), NOBODY, set()),
        ((), BY_ROOT, {ROOT}),  # the record closes it
        ((ROOT,), OPEN, {ROOT}),  # the configuration does
        ((ROOT,), BY_DAEMON, set()),  # both do
        ((ROOT, DAEMON), BY_ROOT, {ROOT}),
        ((MEMBERS,), BY_ROOT, {ROOT}),  # until a load on the daemon that writes
        ((MEMBERS, ROOT), OPEN, {"", ROOT, DAEMON}),
        (None, OPEN, set()),
        (None, BY_ROOT, set()),
    ],
)
def test_a_member_sees_what_both_the_record_and_the_configuration_show(
    setting: Setting, recorded: AccessRule | None, seen_by: set[str]
) -> None:
    assert {one for one in ("", ROOT, DAEMON) if sees(setting, recorded, one)} == seen_by


@pytest.mark.parametrize(
    ("recorded", "setting", "alone", "shared"),
    [
        (None, (), OPEN, OPEN),
        (None, (ROOT,), BY_ROOT, BY_ROOT),
        (None, None, NOBODY, NOBODY),
        (OPEN, (ROOT,), BY_ROOT, BY_ROOT),
        (OPEN, None, OPEN, OPEN),
        (BY_ROOT, (), OPEN, BY_ROOT),  # on a server, the configuration may be out of date
        (BY_ROOT, (MEMBERS,), OPEN, BY_ROOT),
        (BY_ROOT, (DAEMON,), BY_DAEMON, BY_ROOT + BY_DAEMON),
        (BY_ROOT, None, BY_ROOT + NOBODY, BY_ROOT),
        (BY_ROOT + NOBODY, (), BY_ROOT + NOBODY, BY_ROOT + NOBODY),
        (BY_ROOT + NOBODY, (DAEMON,), BY_DAEMON, BY_ROOT + NOBODY + BY_DAEMON),
    ],
)
def test_the_start_records_the_access_rules(
    recorded: AccessRule | None, setting: Setting, alone: AccessRule, shared: AccessRule
) -> None:
    for is_shared, expected in ((False, alone), (True, shared)):
        found = list_rules_at_start({"s": recorded}, config(setting).sources, is_shared=is_shared)
        assert found.get("s", recorded) == expected
        again = list_rules_at_start({"s": expected}, config(setting).sources, is_shared=is_shared)
        assert again == {}


@pytest.mark.parametrize(
    ("recorded", "before", "after", "expected"),
    [
        (OPEN, (), (ROOT,), BY_ROOT),
        (BY_ROOT, (ROOT,), (), OPEN),
        (BY_ROOT, (ROOT,), (DAEMON,), BY_DAEMON),
        (BY_ROOT, (ROOT,), None, BY_ROOT + NOBODY),
        (BY_ROOT, (), (), BY_ROOT),  # another daemon closed it
        (BY_ROOT, (), (MEMBERS,), OPEN),
        (BY_ROOT, (MEMBERS,), (MEMBERS,), OPEN),
        (BY_ROOT, None, None, BY_ROOT),
        (BY_ROOT + NOBODY, None, (), BY_ROOT + NOBODY),
        (BY_ROOT + NOBODY, None, (MEMBERS,), OPEN),
        (BY_ROOT + NOBODY, None, (DAEMON,), BY_DAEMON),
        (BY_ROOT + NOBODY, (ROOT,), (), BY_ROOT + NOBODY),  # removed while it was configured
        (OPEN, (), None, OPEN),
        (OPEN, None, (), OPEN),
        (None, None, (), OPEN),  # it was made by this reload
    ],
)
def test_a_reload_records_the_access_rules(
    recorded: AccessRule | None, before: Setting, after: Setting, expected: AccessRule
) -> None:
    found = list_rules_at_reload({"s": recorded}, config(before).sources, config(after).sources)
    assert found.get("s", recorded) == expected


@dataclass
class Daemons:
    """Two daemons on one record. `opened`: whether the last act about it opened the source."""

    files: list[Setting]
    recorded: AccessRule | None = None
    in_force: list[Setting] = field(default_factory=list)
    writer: int = 0
    closed: bool = False
    away: bool = False

    def start(self, number: int) -> None:
        self.in_force[number] = self.files[number]
        if number == self.writer:
            self.elect(number)

    def elect(self, number: int) -> None:
        self.writer = number
        setting = self.in_force[number]
        if self.recorded is None and setting is None:
            self.closed = self.away = True
        self._record(list_rules_at_start(self._known, config(setting).sources, is_shared=True))
        self.closed |= _closes(setting)

    def reload(self) -> None:
        before, after = self.in_force[self.writer], self.files[self.writer]
        self._record(
            list_rules_at_reload(self._known, config(before).sources, config(after).sources)
        )
        self.in_force[self.writer] = after
        if _closes(after):
            self.closed, self.away = True, False
        elif after == (MEMBERS,) or (after == () and _closes(before) and not self.away):
            self.closed = self.away = False
        elif before is not None and after is None and self.closed:
            self.away = True

    @property
    def _known(self) -> dict[str, AccessRule | None]:
        return {"s": self.recorded}

    def _record(self, found: dict[str, AccessRule]) -> None:
        self.recorded = found.get("s", self.recorded)


def _closes(setting: Setting) -> bool:
    return bool(setting) and setting != (MEMBERS,)


_settings: st.SearchStrategy[Setting] = st.sampled_from(
    [None, (), (), (ROOT,), (DAEMON,), (MEMBERS,)]
)
_acts = st.one_of(
    st.tuples(st.just("edit"), st.integers(0, 1), _settings),
    st.tuples(st.sampled_from(["reload", "start", "elect"]), st.integers(0, 1), st.none()),
)


@settings(max_examples=1500, deadline=None)
@given(files=st.lists(_settings, min_size=2, max_size=2), acts=st.lists(_acts, max_size=14))
def test_a_closed_source_opens_only_explicitly_and_on_the_writer(
    files: Sequence[Setting], acts: list[tuple[str, int, Setting]]
) -> None:
    daemons = Daemons([*files], in_force=[*files])
    daemons.elect(0)
    for act, number, setting in acts:
        if act == "edit":
            daemons.files[number] = setting
        elif act == "reload":
            daemons.reload()
        elif act == "start":
            daemons.start(number)
        else:
            daemons.elect(number)
        for own in daemons.in_force:
            shown = sees(own, daemons.recorded)
            assert not (shown and daemons.closed)
            assert shown == (not daemons.closed and own is not None and not _closes(own))


def test_rules_are_kept_by_the_record(tmp_path: Path) -> None:
    with closing(open_writer(tmp_path / "s.db")) as connection:
        for name in ("open", "closed", "new"):
            register_source(connection, name, "memory", "")
        assert read_access_rules(connection) == dict.fromkeys(("open", "closed", "new"))
        put_access_rules(connection, {"open": OPEN, "closed": BY_ROOT + NOBODY})
    with closing(open_writer(tmp_path / "s.db")) as connection:
        register_source(connection, "closed", "memory", "elsewhere")
        expected = {"open": OPEN, "closed": BY_ROOT + NOBODY, "new": None}
        assert read_access_rules(connection) == expected


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[[1]]", '["user:root"]', "null", "[[]"])
def test_a_rule_that_cannot_be_read_closes_the_source(tmp_path: Path, text: str) -> None:
    with closing(open_writer(tmp_path / "s.db")) as connection:
        register_source(connection, "s", "memory", "")
        connection.execute("UPDATE source_state SET access = ?", [text])
        assert read_access_rules(connection) == {"s": NOBODY}


def test_the_sources_of_an_older_database_are_closed_until_a_configuration_is_loaded(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.db").touch()
    with closing(open_file(tmp_path / "s.db")) as connection:
        apply_migrations(connection, stop_before="017_access")
        connection.execute("INSERT INTO source VALUES (1, 's', 'memory', '')")
        connection.execute("INSERT INTO source_state (source) VALUES (1)")
        apply_migrations(connection)
        recorded = read_access_rules(connection)
        assert recorded == {"s": None} and not sees((), recorded["s"])
        put_access_rules(
            connection, list_rules_at_start(recorded, config(()).sources, is_shared=False)
        )
        assert sees((), read_access_rules(connection)["s"])


BY_FOLDER = FolderClause(None, (("hr/**", (ROOT,)), ("hr/open/**", None)))
BY_OTHER_FOLDER = FolderClause(None, (("x/**", (ROOT,)), ("hr/open/**", None)))
"""The clauses of `folders("hr/**")` and `folders("x/**")`."""


PATHS = {"a", "hr/open/b", "hr/c"}


def folders(match: str | None, visible_to: Sequence[str] = ()) -> list[SourceConfig]:
    """A source of which a folder is root's, with an exception that is open."""
    paths = [
        {"match": match, "visible_to": [ROOT]},
        {"match": "hr/open/**", "visible_to": [MEMBERS, DAEMON]},
    ]
    source = {"name": "s", "path": "/", "visible_to": visible_to, "paths": paths if match else []}
    return list(Config.model_validate({"source": [source]}).sources)


@pytest.mark.parametrize(
    ("rule", "seen_by_all", "seen_by_root"),
    [
        ((BY_FOLDER,), {"a", "hr/open/b"}, {"a", "hr/open/b", "hr/c"}),
        ((FolderClause((DAEMON,), (("hr/**", (ROOT,)),)),), set(), {"hr/open/b", "hr/c"}),
        ((BY_FOLDER, (ROOT,)), set(), {"a", "hr/open/b", "hr/c"}),
        ((BY_FOLDER, FolderClause(None, (("a", (ROOT,)),))), {"hr/open/b"}, PATHS),
        ((FolderClause(None, (("hr/**", None),)),), PATHS, PATHS),
        ((BY_FOLDER, *NOBODY), set(), set()),
    ],
)  # fmt: skip
def test_a_member_sees_the_documents_that_every_clause_shows(
    rule: AccessRule, seen_by_all: set[str], seen_by_root: set[str]
) -> None:
    rules = AccessRules({"s": rule}, recorded=frozenset({"s", "t"}))
    for entries, expected in ((set[str](), seen_by_all), ({ROOT}, seen_by_root)):
        acl = rules.make_acl(entries.intersection)
        assert {path for path in PATHS if acl.shows_document("s", path)} == expected
        mask = acl.select_hidden({"s", "t"})
        assert {path for path in PATHS if not hides(mask, "s", path)} == expected
        assert acl.shows("s") or not expected
        assert "t" in mask  # a source without a rule
        limited = acl.limit_to({"s", "t"})  # as a token does
        assert {path for path in PATHS if limited.shows_document("s", path)} == expected
        assert limited.select_hidden({"s", "t"}) == mask
        assert not acl.limit_to({"t"}).shows_document("s", "a")


def test_members_who_see_the_same_share_one_view() -> None:
    rule = (FolderClause(None, (("hr/**", (ROOT, DAEMON)),)),)
    rules = AccessRules({"s": rule}, group="daemon", recorded=frozenset({"s"}))
    by_root, by_daemon = (rules.make_acl({entry}.intersection) for entry in (ROOT, DAEMON))
    assert by_root == by_daemon and by_root.select_hidden({"s"}) == frozenset()
    assert rules.list_masks() == [rules.make_acl(set[str]().intersection).select_hidden({"s"})]


@pytest.mark.parametrize(
    ("recorded", "before", "after", "expected"),
    [
        (OPEN, folders(None), folders("hr/**"), (BY_FOLDER,)),
        ((BY_FOLDER,), folders("hr/**"), folders(None), OPEN),
        ((BY_FOLDER,), folders("hr/**"), [], (BY_FOLDER, *NOBODY)),
        ((BY_FOLDER, *NOBODY), [], folders(None), (BY_FOLDER, *NOBODY)),
        ((BY_FOLDER, *NOBODY), [], folders(None, [MEMBERS]), OPEN),
        (BY_ROOT, folders(None, [ROOT]), folders("hr/**"), (BY_FOLDER,)),
        # Another daemon closed the source: a change of its folders here does not open it.
        ((*BY_DAEMON, BY_FOLDER), folders("hr/**"), folders("x/**"), (*BY_DAEMON, BY_OTHER_FOLDER)),
        (BY_DAEMON, folders("hr/**"), folders(None), BY_DAEMON),
    ],
)
def test_a_reload_records_the_rules_of_folders(
    recorded: AccessRule,
    before: list[SourceConfig],
    after: list[SourceConfig],
    expected: AccessRule,
) -> None:
    found = list_rules_at_reload({"s": recorded}, before, after)
    assert found.get("s", recorded) == expected


@pytest.mark.parametrize(
    ("recorded", "configured", "alone", "shared"),
    [
        (None, folders("hr/**"), (BY_FOLDER,), (BY_FOLDER,)),
        (OPEN, folders("hr/**"), (BY_FOLDER,), (BY_FOLDER,)),
        ((BY_FOLDER,), folders(None), OPEN, (BY_FOLDER,)),
        (BY_ROOT, folders("hr/**"), (BY_FOLDER,), (*BY_ROOT, BY_FOLDER)),
        ((BY_FOLDER, *NOBODY), folders(None), (BY_FOLDER, *NOBODY), (BY_FOLDER, *NOBODY)),
    ],
)
def test_the_start_records_the_rules_of_folders(
    recorded: AccessRule | None,
    configured: list[SourceConfig],
    alone: AccessRule,
    shared: AccessRule,
) -> None:
    for is_shared, expected in ((False, alone), (True, shared)):
        found = list_rules_at_start({"s": recorded}, configured, is_shared=is_shared)
        assert found.get("s", recorded) == expected


def test_rules_of_folders_are_kept_by_the_record(tmp_path: Path) -> None:
    rule: AccessRule = (BY_FOLDER, (ROOT,), FolderClause((DAEMON,), (("x", (ROOT, DAEMON)),)))
    with closing(open_writer(tmp_path / "s.db")) as connection:
        register_source(connection, "s", "memory", "")
        put_access_rules(connection, {"s": rule})
        assert read_access_rules(connection) == {"s": rule}


@pytest.mark.parametrize(
    "clause",
    [
        {},
        {"rest": None},
        {"rest": None, "paths": None},
        {"rest": 1, "paths": []},
        {"rest": None, "paths": [["a"]]},
        {"rest": None, "paths": [["a", None, None]]},
        {"rest": None, "paths": [["a", "user:root"]]},
        {"rest": None, "paths": [["!a", ["user:root"]]]},
        {"rest": None, "paths": [[1, None]]},
        {"rest": None, "paths": [], "more": 1},
    ],
)
def test_a_rule_of_folders_that_cannot_be_read_closes_the_source(clause: object) -> None:
    assert read_access_rule(json.dumps([["user:root"], clause])) == NOBODY


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hr/Gehälter.md", True),
        (unicodedata.normalize("NFD", "hr/Gehälter.md"), True),
        ("hr/Gehälter.md/inner.txt", True),
        ("hr/a\nGehälter.md", False),
        ("HR/Gehälter.md", True),
    ],
)
def test_composed_and_decomposed_accents_are_the_same(path: str, expected: bool) -> None:
    for form in ("NFC", "NFD"):
        patterns = (unicodedata.normalize(form, "hr/Gehälter.md"),)
        assert HiddenFolders("s", patterns, (True, False)).hides(path) == expected


@pytest.mark.parametrize(
    "rule",
    [
        {"match": "!hr/**", "visible_to": [ROOT]},
        {"match": "# hr", "visible_to": [ROOT]},
        {"match": "/", "visible_to": [ROOT]},
        {"match": "hr/**", "visible_to": []},
        {"match": "hr/**"},
        {"match": "hr/**", "visible_to": ["ann"]},
        {"match": "hr/**", "visible_to": ["group:no such group"]},
    ],
)
def test_rules_that_would_protect_nothing_are_refused(rule: dict[str, object]) -> None:
    source = {"name": "s", "path": "/", "paths": [rule]}
    with pytest.raises(ValidationError):
        Config.model_validate({"source": [source]})


SPELLINGS = st.sampled_from(
    [
        str,
        str.upper,
        str.title,
        lambda path: f"//{path}",
        lambda path: f"./{path}",
        lambda path: path.replace("/", "//"),
        lambda path: path.replace("/", "/./"),
        lambda path: f"open/../{path}",
        lambda path: f"../../{path}",
        lambda path: path.replace("/", "/sub/../"),
        partial(unicodedata.normalize, "NFC"),
        partial(unicodedata.normalize, "NFD"),
    ]
)


@given(
    st.sampled_from(["hr/x.md", "hr/Päy/Ångström.md", "HR/Straße/x.md", "hr/a/b/c.md"]),
    st.lists(SPELLINGS, max_size=4),
    st.sampled_from([("hr/**",), ("/hr/",), ("open/**", "HR/"), ("hr",)]),
)
def test_no_spelling_of_a_path_slips_past_a_rule_that_hides(
    path: str, spellings: Sequence[Callable[[str], str]], patterns: tuple[str, ...]
) -> None:
    decisions = (*(False,) * (len(patterns) - 1), True, False)
    written = path
    for respell in spellings:
        written = respell(written)
    assert HiddenFolders("s", patterns, decisions).hides(written), written
    # A rule that shows opens nothing else, however a path is written.
    shown = HiddenFolders("s", ("open/**",), (False, True))
    assert shown.hides(written), written


def test_a_rule_that_shows_needs_the_exact_name() -> None:
    shown = HiddenFolders("s", ("Open/**",), (False, True))
    paths = ("Open/a", "Open/./A", "./Open//a", "open/a", "OPEN/a", "Open/../hr/a", "x/../Open/a")
    assert [path for path in paths if not shown.hides(path)] == list(paths[:3])
    # Of two folders whose names differ in case, a rule for the one hides both.
    both = HiddenFolders("s", ("hr/**", "HR/open/**"), (True, False, False))
    assert [both.hides(path) for path in ("HR/a", "HR/open/a", "hr/open/a")] == [True, False, True]
