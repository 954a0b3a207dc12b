"""Finds the rights of the user who made a watch, at each comparison.

The database names the maker and a login; the rights themselves come from this machine: from its
token file, from sessions of the web interface, or from `[access]`. So a copied or restored database
gives nobody access, and a revoked token pauses the watches that were made with it.
"""

import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hopsyncd.api.access_guard import TeamPage
from hopsyncd.api.access_rules import Access, Caller
from hopsyncd.api.tokens import Tokens
from hopsyncd.client.trust import Credentials, look_up_credentials
from hopsyncd.config.configuration import Config
from hopsyncd.errors import BadRequest
from hopsyncd.retrieve.visible_sources import EVERYTHING, Acl
from store.operational import Watch, reduce_act_to_kind
from store.visibility import HiddenFolders, Mask

_MAX_WATCHES = 300
_MAX_OF_ADMIN, _MAX_OF_USER = 100, 20
_TOKEN, _LOCAL, _PAGE = "token:", "local:", "page"


@dataclass(frozen=True, slots=True)
class Rights:
    """The hidden parts at a comparison.

    sources: the names of all sources at that time; None if nothing was hidden and the caller may
    see all sources.
    """

    sources: frozenset[str] | None
    mask: Mask

    @classmethod
    def from_acl(cls, acl: Acl, sources: Iterable[str]) -> "Rights":
        names = frozenset(sources)
        return cls(None if acl.visible is None else names, acl.select_hidden(names))

    @classmethod
    def from_json(cls, text: str | None) -> "Rights":
        """Parse the rights in the column `rights`."""
        if text is None:
            return cls(None, frozenset())
        fields = json.loads(text)
        folders = (
            HiddenFolders(source, tuple(patterns), tuple(decisions))
            for source, patterns, decisions in fields["folders"]
        )
        return cls(frozenset(fields["sources"]), frozenset([*fields["hidden"], *folders]))

    def to_json(self) -> str | None:
        if self.sources is None:
            return None
        folders = [hidden for hidden in self.mask if isinstance(hidden, HiddenFolders)]
        return json.dumps(
            {
                "sources": sorted(self.sources),
                "hidden": sorted(hidden for hidden in self.mask if isinstance(hidden, str)),
                "folders": sorted(
                    [folder.source, folder.patterns, folder.decisions] for folder in folders
                ),
            }
        )

    def has_lost(self, now: "Rights") -> bool:
        """Return whether `now` hides something that these rights show."""
        return any(self._knows(part) for part in now.mask - self.mask)

    def differs(self, now: "Rights") -> bool:
        """Return whether `now` and these rights hide different parts of the known sources."""
        return any(self._knows(part) for part in now.mask ^ self.mask)

    def _knows(self, part: str | HiddenFolders) -> bool:
        return self.sources is None or _get_source(part) in self.sources


def covers(acl: Acl, rights: Rights, sources: Iterable[str]) -> bool:
    """Return whether a caller may see everything that these rights show."""
    hidden = acl.select_hidden(sources)
    return all(part in rights.mask or _get_source(part) in rights.mask for part in hidden)


def _get_source(part: str | HiddenFolders) -> str:
    return part if isinstance(part, str) else part.source


def encode_login(caller: Caller) -> str | None:
    """Return how the caller can be found again. None means the daemon's own user."""
    credentials = caller.credentials
    if credentials.uid is not None:
        return None if credentials.uid == os.geteuid() else f"{_LOCAL}{credentials.uid}"
    return f"{_TOKEN}{credentials.token}" if credentials.token else _PAGE


def is_maker(caller: Caller, watch: Watch) -> bool:
    """Return whether the caller made the watch, perhaps with another token."""
    return watch.login is not None and watch.maker == caller.name


class Makers:
    """Finds the users who made watches, with their current rights."""

    def __init__(self, access: Access, tokens: Tokens, page: TeamPage | None = None) -> None:
        self._access = access
        self._tokens = tokens
        self._page = page

    @classmethod
    def from_config(cls, config: Config, access: Access, page: TeamPage | None) -> "Makers":
        return cls(access, Tokens.from_config(config), page)

    def find(self, watch: Watch) -> Caller | None:
        """Return the maker of a watch, or None if the maker may no longer watch questions."""
        caller = self._find(watch)
        return caller if caller and caller.may("write") else None

    def find_paused(
        self, watches: Iterable[Watch], question: str, act: str | None, caller: Caller
    ) -> Watch | None:
        """Return the caller's paused watch of the same question without a program or webhook."""
        if act and reduce_act_to_kind(act) != json.dumps({"mcp": True}):
            return None
        equal = (watch for watch in watches if (watch.question, watch.act) == (question, act))
        own_watches = (watch for watch in equal if is_maker(caller, watch))
        return next((watch for watch in own_watches if self.find(watch) is None), None)

    def explain_unavailable(
        self, watch: Watch, caller: Caller, sources: Collection[str]
    ) -> str | None:
        """Explain why the caller may not see the results of a watch. Returns None if the caller may
        see them."""
        maker = self.find(watch)
        if maker is None:
            return _explain_paused(watch)
        if covers(caller.acl, Rights.from_acl(maker.acl, sources), sources):
            return None
        return "Made with a token that may see other sources. Use that token to see the answer."

    def _find(self, watch: Watch) -> Caller | None:
        login, maker = watch.login, watch.maker or ""
        if login is None:
            return Caller(maker, "owner", EVERYTHING)
        if login.startswith(_TOKEN):
            token = self._tokens.find_valid(login.removeprefix(_TOKEN))
            if token is None or token.user != maker:
                return None
            credentials = Credentials(
                holder=maker, group_names=frozenset(token.groups), token=token.id
            )
            return self._access.identify_remote_caller(token.role, credentials, token.sources)
        if login.startswith(_LOCAL) and login.removeprefix(_LOCAL).isdecimal():
            return self._access.identify_caller(
                look_up_credentials(int(login.removeprefix(_LOCAL)))
            )
        person = self._page.find_user(maker) if login == _PAGE and self._page else None
        if person is None:
            return None
        credentials = Credentials(holder=maker, group_names=frozenset(person.groups))
        return self._access.identify_remote_caller(person.role, credentials)


def _explain_paused(watch: Watch) -> str:
    advice = "Watch the question again to continue."
    if watch.login == _PAGE:
        return f"Paused, because {watch.maker} is not logged in. Log in to the server to continue."
    if (watch.login or "").startswith(_TOKEN):
        lost = "was revoked, has expired or was lost in a restore"
        return f"Paused, because the token that made this watch {lost}. {advice}"
    return f"Paused, because {watch.maker} may not watch questions any more. {advice}"


def refuse_too_many(watches: Sequence[Watch], caller: Caller) -> None:
    """Raise BadRequest if the caller already watches 20 questions (100 for an admin), or if all
    users together watch 300."""
    login = encode_login(caller)
    own_watches = [
        watch for watch in watches if is_maker(caller, watch) or watch.login == login is None
    ]
    limit = _MAX_OF_ADMIN if caller.may("admin") else _MAX_OF_USER
    if len(own_watches) >= limit:
        why = f"you already watch {limit} questions, the limit for your role"
        hint = "`hopsyncd unwatch NUMBER` ends a watch"
    elif len(watches) >= _MAX_WATCHES:
        why = f"all users together watch {_MAX_WATCHES} questions, the limit"
        hint = "Any user can end a watch of their own with `hopsyncd unwatch NUMBER`"
    else:
        return
    raise BadRequest("The question cannot be watched", why, hint)
