"""A closed source that comes and goes: members are answered as by an index that never had it."""

from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopsyncd.api.access_rules import (
    AccessRules,
    list_rules_at_reload,
    list_rules_at_start,
)
from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.ingest.removal import remove_source_documents
from hopsyncd.retrieve.visible_sources import Acl
from store.sources import put_access_rules, read_access_rules
from tests.property.test_visibility import (
    HIDDEN,
    SHARED,
    VISIBLE,
    Index,
    check_history,
    questions,
    steps_in,
    told,
)

SEARCHES = (Search("hop"), Search("bm25"), Search("hybrid"))
CLOSED = ("user:root",)
_acts = st.sampled_from(["reload without", "reload with", "remove", "restart", "close"])
_steps = st.lists(steps_in((*VISIBLE, *HIDDEN)) | _acts, min_size=3, max_size=10)


class Configured(Index):
    """All sources, with a configuration that is loaded as the daemon that writes does it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, (*VISIBLE, *HIDDEN))
        self._config = _config(CLOSED)
        self._start()

    @property
    def acl(self) -> Acl:
        """What a member of the group may see."""
        return AccessRules.from_config(
            self._config, read_access_rules(self.stack.connection)
        ).make_acl(lambda clause: False)

    def act(self, act: str) -> None:
        """Change the configuration as the owner does, but open nothing."""
        (name,) = HIDDEN
        is_away = name in self.away
        if act == "restart":
            self._start()
        elif act == "close":
            self._reload(CLOSED)
        elif act == "reload with" and is_away:
            self._reload(())
        elif act in ("reload without", "remove") and not is_away:
            if act == "remove":
                remove_source_documents(
                    self.stack.connection, partial(self.stack.path.commit), name, purge=False
                )
            self._reload(None)

    def _start(self) -> None:
        connection = self.stack.connection
        put_access_rules(
            connection,
            list_rules_at_start(
                read_access_rules(connection), self._config.sources, is_shared=False
            ),
        )

    def _reload(self, visible_to: tuple[str, ...] | None) -> None:
        connection, before = self.stack.connection, self._config
        self._config = _config(visible_to)
        ruled = list_rules_at_reload(
            read_access_rules(connection), before.sources, self._config.sources
        )
        put_access_rules(connection, ruled)
        self.away = HIDDEN if visible_to is None else frozenset()


def _config(visible_to: tuple[str, ...] | None) -> Config:
    sources: list[dict[str, object]] = [{"name": name, "path": f"/{name}"} for name in VISIBLE]
    if visible_to is not None:
        sources += [{"name": name, "path": f"/{name}", "visible_to": visible_to} for name in HIDDEN]
    return Config.model_validate({"access": {"group": "daemon"}, "source": sources})


@settings(max_examples=settings().max_examples // 2)
@given(steps=_steps, question=questions)
@example(
    steps=[
        ("open", "a.md", SHARED),
        ("closed", "b.md", "In that year Rome praised Ada Byron."),
        "remove",
        "reload with",
        "restart",
        ("closed", "b.md", "In that year Ada Byron left London."),
    ],
    question=SHARED,
)
def test_a_closed_source_that_is_added_and_removed_leaves_no_trace(
    steps: list[tuple[str, str, str | None] | str], question: str
) -> None:
    with TemporaryDirectory() as folder:
        both, alone = Configured(Path(folder)), Index(Path(folder), VISIBLE)
        with closing(both.stack), closing(alone.stack):
            pairs = [("0", "0")]
            for step in steps:
                if isinstance(step, str):
                    both.act(step)
                    pairs.append((both.publish(), alone.publish()))
                else:
                    pairs.append((both.change(*step), alone.change(*step)))
                if "0" not in pairs[-1]:
                    _check(both, alone, question, pairs[-1])
            pairs = [pair for pair in pairs if "0" not in pair]
            for pair in dict.fromkeys(pairs):
                _check(both, alone, question, pair)
            check_history(both, alone, pairs, both.acl)


def _check(both: Configured, alone: Index, question: str, versions: tuple[str, str]) -> None:
    mixed, pure = versions
    for search in SEARCHES:
        expected = told(alone.engine, search, question, pure, frozenset())
        assert told(both.engine, search, question, mixed, both.acl) == expected
