"""What is recorded of who may see a source, and what members then see."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopsyncd.api.access import AccessRules, rules_at_reload, rules_at_start
from hopsyncd.config.configuration import Config
from store.access_rules import NOBODY, OPEN, AccessRule
from store.engines.sqlite.database import open_file, open_writer
from store.engines.sqlite.migrations import apply_migrations
from store.sources import access_rules, put_access_rules, register_source

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
    rules = AccessRules.of(config(setting), {"s": recorded})
    return rules.acl(set(entries).intersection).shows("s")


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
def test_what_a_start_records(
    recorded: AccessRule | None, setting: Setting, alone: AccessRule, shared: AccessRule
) -> None:
    for is_shared, expected in ((False, alone), (True, shared)):
        found = rules_at_start({"s": recorded}, config(setting).sources, is_shared=is_shared)
        assert found.get("s", recorded) == expected
        again = rules_at_start({"s": expected}, config(setting).sources, is_shared=is_shared)
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
def test_what_a_reload_records(
    recorded: AccessRule | None, before: Setting, after: Setting, expected: AccessRule
) -> None:
    found = rules_at_reload({"s": recorded}, config(before).sources, config(after).sources)
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
        self._record(rules_at_start(self._known, config(setting).sources, is_shared=True))
        self.closed |= _closes(setting)

    def reload(self) -> None:
        before, after = self.in_force[self.writer], self.files[self.writer]
        self._record(rules_at_reload(self._known, config(before).sources, config(after).sources))
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
def test_what_was_closed_opens_by_an_explicit_act_on_the_writer_alone(
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
        assert access_rules(connection) == dict.fromkeys(("open", "closed", "new"))
        put_access_rules(connection, {"open": OPEN, "closed": BY_ROOT + NOBODY})
    with closing(open_writer(tmp_path / "s.db")) as connection:
        register_source(connection, "closed", "memory", "elsewhere")
        expected = {"open": OPEN, "closed": BY_ROOT + NOBODY, "new": None}
        assert access_rules(connection) == expected


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[[1]]", '["user:root"]', "null", "[[]"])
def test_a_rule_that_cannot_be_read_closes_the_source(tmp_path: Path, text: str) -> None:
    with closing(open_writer(tmp_path / "s.db")) as connection:
        register_source(connection, "s", "memory", "")
        connection.execute("UPDATE source_state SET access = ?", [text])
        assert access_rules(connection) == {"s": NOBODY}


def test_the_sources_of_an_older_database_are_closed_until_a_configuration_is_loaded(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.db").touch()
    with closing(open_file(tmp_path / "s.db")) as connection:
        apply_migrations(connection, stop_before="017_access")
        connection.execute("INSERT INTO source VALUES (1, 's', 'memory', '')")
        connection.execute("INSERT INTO source_state (source) VALUES (1)")
        apply_migrations(connection)
        recorded = access_rules(connection)
        assert recorded == {"s": None} and not sees((), recorded["s"])
        put_access_rules(connection, rules_at_start(recorded, config(()).sources, is_shared=False))
        assert sees((), access_rules(connection)["s"])
