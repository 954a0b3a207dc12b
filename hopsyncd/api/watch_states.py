"""Computes the result of a watched question at a version, and why it changed between versions."""

import json
from hashlib import blake2b

from hopsyncd.api.version_log import start_of
from hopsyncd.config.values import Search
from hopsyncd.display import format_document_name, format_mail_name, format_title
from hopsyncd.responses.daemon_state import WatchedPassage, WatchedState
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.answering.reply import AskReply
from hopsyncd.retrieve.dependencies import Dependencies
from hopsyncd.retrieve.results import Answer, format_id, format_placed
from hopsyncd.retrieve.visible_sources import Acl
from store.contract import Connection
from store.exceptions import NoSuchVersion
from store.history import VisibleCounts, read_log, restrict_entry
from store.operational import Notification
from store.visibility import Mask

_PASSAGES = 5  # changes among this many first passages are reported
_ANSWER_FROM = 8  # the default `k` of the endpoint `ask`
_MAX_REASONS = 10
_PAGE, _MAX_PAGES = 20, 25  # the reasons are searched in up to 25 pages of 20 versions


def ask_head(asker: Asker, question: str, acl: Acl) -> tuple[int, str, Dependencies | None]:
    """Ask a question at the served version.

    Returns the version, the question's state, and its dependencies. The dependencies are None
    unless the caller sees everything.
    """
    traced = asker.trace(question, _ANSWER_FROM, _PASSAGES, acl)
    assert traced is not None  # None only if no version is served
    result, reply, dependencies = traced
    return (
        result.version,
        _encode_state(result, reply),
        dependencies if acl.visible is None else None,
    )


def answer_at(asker: Asker, question: str, at: str, acl: Acl) -> WatchedState | None:
    """Answer the question at a version. Returns None if the version is not kept."""
    try:
        result, reply = asker.ask(question, _ANSWER_FROM, Search("hop"), at, hidden=acl)
    except NoSuchVersion:
        return None
    if result is None:
        return None
    return {
        "version": result.version,
        "answer": reply.text if reply.found else None,
        "passages": [
            _format_passage(result, rank) for rank in range(min(_PASSAGES, len(result.ranked)))
        ],
    }


def list_reasons(
    connection: Connection,
    notification: Notification,
    before: WatchedState | None,
    after: WatchedState | None,
    hidden: Mask,
) -> list[str]:
    """List the reasons of the versions between two states.

    The list also names passages that entered, left or changed in the first results. Versions of
    hidden sources have no reason.
    """
    reasons = _list_version_reasons(connection, notification, hidden)
    why = [f"version {number}: {reason}" for number, reason in reversed(reasons)]
    if before is None or after is None:
        return why
    removed, added = _describe_only_in(before, after), _describe_only_in(after, before)
    for reason, names in (
        ("edited", removed & added),
        ("no longer among the first results", removed - added),
        ("now among the first results", added - removed),
    ):
        why += [f"{reason}: {name}" for name in sorted(names)]
    if before["answer"] != after["answer"]:
        why.append("the answer changed")
    return why


def _list_version_reasons(
    connection: Connection, notification: Notification, hidden: Mask
) -> list[tuple[int, str]]:
    """List the notification's newest versions that have a reason, newest first, each with its
    reason."""
    nothing = VisibleCounts(0, 0, 0, 0, 0)  # counts, which reasons do not show
    reasons, before = list[tuple[int, str]](), notification.new + 1
    for _ in range(_MAX_PAGES):
        entries = read_log(connection, _PAGE, before)
        for entry in entries:
            if entry.version.id <= notification.old or len(reasons) == _MAX_REASONS:
                return reasons
            visible = entry
            if hidden:
                visible = restrict_entry(connection, entry, hidden, lambda _: 0, lambda _: nothing)
            if visible.version.reason:
                reasons.append((entry.version.id, visible.version.reason))
        if not entries:
            break
        before = entries[-1].version.id
    return reasons


def _encode_state(answer: Answer, reply: AskReply) -> str:
    """Return the state to compare, as JSON: a digest of the answer (null if no answer was found),
    and the sorted ids of the first passages."""
    first = sorted(format_id(hit.passage) for hit in answer.ranked[:_PASSAGES])
    digest = blake2b(reply.text.encode(), digest_size=16).hexdigest() if reply.found else None
    return json.dumps({"answer": digest, "passages": first})


def _describe_only_in(state: WatchedState, other: WatchedState) -> set[str]:
    """Describe the first passages that only one state has, by heading and document."""
    ids = {passage["id"] for passage in other["passages"]}
    return {
        f"{format_title(passage)} ({format_document_name(passage)})"
        for passage in state["passages"]
        if passage["id"] not in ids
    }


def _format_passage(answer: Answer, rank: int) -> WatchedPassage:
    id_ = answer.ranked[rank].passage
    whole = format_placed(id_, answer.passages[id_], answer.places.get(id_, ()))
    passage: WatchedPassage = {
        "id": whole["id"],
        "heading": whole["heading"],
        "source": whole["source"],
        "document": whole["document"],
        "start": start_of(whole["text"]),
    }
    if name := format_mail_name(whole["origin"], whole["heading"]):
        passage["document_name"] = name
    return passage
