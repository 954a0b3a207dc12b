"""A limited token shows what its user sees among its sources: never more, never less."""

from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.api.access_rules import Access, AccessRules
from hopsyncd.api.tokens import LIMITED_ROLES
from hopsyncd.client.trust import Credentials
from store.access_rules import AccessRule

SOURCES = ("notes", "minutes", "pay", "gone")
_entries = st.sampled_from(["user:ann", "user:bob", "group:board", "group:ann", "members"])
_rule = st.lists(st.lists(_entries, max_size=3).map(tuple), max_size=2).map(tuple)
_rules = st.dictionaries(st.sampled_from(SOURCES[:-1]), _rule)


@given(
    rules=_rules,
    user=st.sampled_from(["ann", "bob", "board"]),
    groups=st.frozensets(st.sampled_from(["board", "ann"])),
    limit=st.none() | st.frozensets(st.sampled_from((*SOURCES, "never"))),
    role=st.sampled_from(sorted(LIMITED_ROLES)),
)
def test_a_token_shows_the_sources_that_the_rules_and_its_limit_allow(
    rules: dict[str, AccessRule],
    user: str,
    groups: frozenset[str],
    limit: frozenset[str] | None,
    role: str,
) -> None:
    own = {f"user:{user}", *(f"group:{group}" for group in groups)}
    permitted = {
        name
        for name, rule in rules.items()
        if all(isinstance(clause, tuple) and own.intersection(clause) for clause in rule)
    }
    expected = permitted if limit is None else permitted & limit
    access = Access(lambda: AccessRules(rules))
    credentials = Credentials(address="192.0.2.1", holder=user, group_names=groups, token="1")
    wanted = next(one for one in LIMITED_ROLES if one == role)
    acl = access.identify_remote_caller(wanted, credentials, limit).acl
    assert acl.select_hidden(SOURCES) == frozenset(SOURCES) - expected
    assert not acl.shows("never")
