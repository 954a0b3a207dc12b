"""Reads the JSON that programs export: chats, notes, boards, issues and talks with assistants.

The reader recognises an export by the names of its members, and drops the ids, addresses of
pictures and settings around the text. The dates and people of all its notes or messages become
properties of the document.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

from hopsyncd.formats.blocks import (
    DISCARDED,
    RECORDS,
    Block,
    add_properties,
    is_left_out,
    lower_headings,
    make_address_link,
    make_skipped_block,
)
from hopsyncd.formats.chats import ChatMessage, make_chat_blocks
from hopsyncd.formats.markdown import read_markdown

_Value = Any  # a value of JSON: nothing about it is certain
_MAX_DEPTH = 30
_MAX_NAME_CHARACTERS = 200


def read_json_export(text: str) -> tuple[Block, ...]:
    """Read an export of Slack, Telegram, Discord, Google Keep, Roam, Trello, GitHub, ChatGPT or
    Claude. Returns () for any other JSON. Raises ValueError for text that is not JSON."""
    value = json.loads(text)
    first = _get_first(value) if isinstance(value, list) else value
    if not isinstance(first, dict):
        return ()
    lines = _Lines(text)
    for is_export, read in _LISTS if isinstance(value, list) else _OBJECTS:
        if is_export(first):
            return read(value, lines)
    return ()


class _Lines:
    """Finds the line of each message, in order: every search begins at the last finding."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_ascii = text.isascii()  # other characters are escaped then
        self._place, self._line = 0, 1

    def find(self, value: _Value) -> int:
        """Return the line on which `value` stands next, or the last found line."""
        written = json.dumps(value, ensure_ascii=self._is_ascii)
        place = self._text.find(written, self._place) if self._text else -1
        if place < 0:
            self._text = ""  # one failed search reads all of the text, so there is no other
            return self._line
        self._line += self._text.count("\n", self._place, place)
        self._place = place
        return self._line


def _get_first(values: _Value) -> _Value:
    return values[0] if values else None


def _find_text(value: _Value, *path: str) -> str:
    """Return the text at a path, or "" if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value)


def _list_objects(value: _Value, *path: str) -> list[_Value]:
    """Return the objects in the list at a path."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return (
        [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []
    )


def _find_name(value: _Value, *path: str) -> str:
    return " ".join(_find_text(value, *path).split())[:_MAX_NAME_CHARACTERS]


def _format_time(seconds: str) -> str:
    """Format a Unix time, in seconds, as ISO 8601. Returns "" if it is no time."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(int(float(seconds)), UTC).isoformat()
    return ""


def _read_body(text: str, line: int, levels: int = 1) -> Iterator[Block]:
    """Read Markdown that stands on one line of the file."""
    blocks = read_markdown(text)
    if is_left_out(blocks):  # a message can show a template
        blocks = (Block("paragraph", text.strip(), line, line),)
    for block in lower_headings(blocks, levels):
        if block.kind != "skipped":
            yield replace(block, first_line=line, last_line=line, properties=(), names=())


_SLACK_MARK = re.compile(r"<([@#!]?)([^<>|\n]{1,2000})(?:\|([^<>\n]{0,500}))?>")


def _read_slack(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    """Read the messages of a day in a channel of Slack."""
    messages = _list_objects(value)
    people = {
        _find_text(message, "user"): _find_name(message, "user_profile", "display_name")
        or _find_name(message, "user_profile", "real_name")
        for message in messages
        if "user_profile" in message
    }
    found = []
    for message in messages:
        line = lines.find(message.get("ts"))
        if _find_text(message, "subtype").startswith(("channel_", "group_")):
            continue
        user = _find_text(message, "user")
        author = people.get(user) or _find_name(message, "username") or user
        parts = [_find_text(message, "text")]
        for shared in _list_objects(message, "attachments"):
            named = ": ".join(
                filter(None, [_find_name(shared, "title"), _find_text(shared, "text")])
            )
            parts.append(named or _find_text(shared, "fallback"))
        parts += [
            _find_name(shared, "title") or _find_name(shared, "name")
            for shared in _list_objects(message, "files")
        ]
        text = "\n".join(dict.fromkeys(filter(None, parts)))
        shown = unescape(_SLACK_MARK.sub(lambda mark: _format_slack_mark(mark, people), text))
        found.append(
            ChatMessage(_format_time(_find_text(message, "ts")), author, shown, line, line)
        )
    if not found:  # people only joined and left
        return (make_skipped_block({RECORDS: 1}),)
    return make_chat_blocks(found)


def _format_slack_mark(mark: re.Match[str], people: Mapping[str, str]) -> str:
    sign, target, shown = mark.groups()
    if sign == "@":
        return f"@{shown or people.get(target) or target}"
    if sign:
        return f"{'@' if sign == '!' else '#'}{shown or target}"
    return shown or target


def _read_slack_users(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    blocks = []
    for user in _list_objects(value):
        names = [
            _find_name(user, "profile", "real_name"),
            _find_name(user, "real_name"),
            _find_name(user, "name"),
        ]
        facts = [_find_name(user, "profile", key) for key in ("title", "email", "phone")]
        line = lines.find(user.get("id"))
        text = " | ".join(dict.fromkeys(filter(None, [*names, *facts])))
        blocks.append(Block("table", text, line, line))
    return tuple(blocks)


def _read_slack_channels(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    blocks = []
    for channel in _list_objects(value):
        facts = [_find_text(channel, key, "value") for key in ("topic", "purpose")]
        line = lines.find(channel.get("id"))
        text = ": ".join(
            filter(None, [f"#{_find_name(channel, 'name')}", "; ".join(filter(None, facts))])
        )
        blocks.append(Block("list_item", text, line, line))
    return tuple(blocks)


def _read_telegram(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    """Read a chat of Telegram, or all chats of an account."""
    chats = _list_objects(value, "chats", "list") or [value]
    blocks: list[Block] = []
    for chat in chats:
        messages = [
            ChatMessage(
                _find_text(message, "date"),
                _find_name(message, "from"),
                _join_telegram(message.get("text")),
                line := lines.find(message.get("date")),
                line,
            )
            for message in _list_objects(chat, "messages")
            if message.get("type") != "service"
        ]
        blocks += make_chat_blocks(messages, _find_name(chat, "name"))
    return tuple(blocks)


def _join_telegram(text: _Value) -> str:
    parts = text if isinstance(text, list) else [text]
    return "".join(part if isinstance(part, str) else _find_text(part, "text") for part in parts)


def _read_discord(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    messages = []
    for message in _list_objects(value, "messages"):
        line = lines.find(message.get("timestamp"))
        author = _find_name(message, "author", "nickname") or _find_name(message, "author", "name")
        shared = [_find_name(file, "fileName") for file in _list_objects(message, "attachments")]
        pages = [_find_text(embed, "title") for embed in _list_objects(message, "embeds")]
        text = "\n".join(filter(None, [_find_text(message, "content"), *shared, *pages]))
        messages.append(ChatMessage(_find_text(message, "timestamp"), author, text, line, line))
    names = (_find_name(value, "guild", "name"), _find_name(value, "channel", "name"))
    return make_chat_blocks(messages, ": ".join(filter(None, names)))


def _read_keep(value: _Value, _: _Lines) -> tuple[Block, ...]:
    """Read a note of Google Keep."""
    if value.get("isTrashed") is True:
        return (make_skipped_block({DISCARDED: 1}),)
    blocks = []
    if title := _find_name(value, "title"):
        blocks.append(Block("heading", title, 1, 1, level=1))
    for part in re.split(r"\n\s*\n", _find_text(value, "textContent")):
        if part.strip():
            blocks.append(Block("paragraph", part.strip(), 1, 1))
    for item in _list_objects(value, "listContent"):
        mark = "x" if item.get("isChecked") is True else " "
        blocks.append(Block("list_item", f"[{mark}] {_find_text(item, 'text')}", 1, 1))
    for page in _list_objects(value, "annotations"):
        shown = _find_name(page, "title") or _find_name(page, "url")
        link = make_address_link(_find_text(page, "url"), shown)
        blocks.append(Block("list_item", shown, 1, 1, links=((0, link),) if link else ()))
    facts = [("tag", _find_name(label, "name")) for label in _list_objects(value, "labels")]
    for name, key in (("created", "createdTimestampUsec"), ("modified", "userEditedTimestampUsec")):
        facts.append((name, _format_time(_find_text(value, key)[:-6])))
    attached = len(_list_objects(value, "attachments"))
    skipped = (make_skipped_block({"attachments": attached}),) if attached else ()
    return (*add_properties(blocks, facts), *skipped)


_ROAM_STATE = re.compile(r"\{\{(?:\[\[)?(TODO|DONE)(?:\]\])?\}\}")
_ROAM_MARKUP = re.compile(r"\{\{[^{}\n]{0,300}\}\}|\(\([\w-]{9,10}\)\)|\^\^")


def _read_roam(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    """Read the pages of a graph of Roam Research, each as an outline."""
    blocks: list[Block] = []
    facts: list[tuple[str, str]] = []
    for page in _list_objects(value):
        line = lines.find(page.get("title"))
        outline = "\n".join(_list_roam_lines(page, 0))
        if not outline:
            continue
        blocks.append(Block("heading", _find_name(page, "title"), line, line, level=1))
        blocks += _read_body(outline, line)
        facts.append(("modified", _format_time(_find_text(page, "edit-time")[:-3])))
    return add_properties(blocks, facts)


def _list_roam_lines(page: _Value, depth: int) -> Iterator[str]:
    for child in _list_objects(page, "children"):
        text = _ROAM_STATE.sub(
            lambda state: f"[{' x'[state[1] == 'DONE']}]", _find_text(child, "string")
        )
        text = " ".join(_ROAM_MARKUP.sub("", text).split())
        if text:
            yield f"{'    ' * depth}- {text}"
        if depth < _MAX_DEPTH:
            yield from _list_roam_lines(child, depth + 1 if text else depth)


def _read_trello(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    """Read the cards of a board of Trello, with their lists, labels, steps and comments."""
    lists = {
        _find_text(each, "id"): _find_name(each, "name") for each in _list_objects(value, "lists")
    }
    people = {
        _find_text(each, "id"): _find_name(each, "fullName")
        for each in _list_objects(value, "members")
    }
    steps: dict[str, list[_Value]] = {}
    comments: dict[str, list[_Value]] = {}
    for checklist in _list_objects(value, "checklists"):
        steps.setdefault(_find_text(checklist, "idCard"), []).extend(
            _list_objects(checklist, "checkItems")
        )
    for action in reversed(_list_objects(value, "actions")):  # the newest is first
        if action.get("type") == "commentCard":
            comments.setdefault(_find_text(action, "data", "card", "id"), []).append(action)
    blocks = [Block("heading", _find_name(value, "name") or "Board", 1, 1, level=1)]
    facts = []
    for card in _list_objects(value, "cards"):
        id_, line = _find_text(card, "id"), lines.find(card.get("id"))
        blocks.append(Block("heading", _find_name(card, "name"), line, line, level=2))
        members = card.get("idMembers")
        named = (
            [people.get(str(member), "") for member in members] if isinstance(members, list) else []
        )
        details = {
            "List": lists.get(_find_text(card, "idList"), ""),
            "Labels": ", ".join(
                filter(None, (_find_name(label, "name") for label in _list_objects(card, "labels")))
            ),
            "Members": ", ".join(filter(None, named)),
            "Due": _find_text(card, "due")[:10],
        }
        shown = [f"{name}: {text}" for name, text in details.items() if text]
        shown += ["Archived"] if card.get("closed") is True else []
        blocks.append(Block("paragraph", "; ".join(shown), line, line))
        blocks += _read_body(_find_text(card, "desc"), line, 2)
        for step in steps.get(id_, ()):
            mark = "x" if step.get("state") == "complete" else " "
            blocks.append(Block("list_item", f"[{mark}] {_find_name(step, 'name')}", line, line))
        for comment in comments.get(id_, ()):
            author, day = (
                _find_name(comment, "memberCreator", "fullName"),
                _find_text(comment, "date")[:10],
            )
            text = f"{author} ({day}): {_find_text(comment, 'data', 'text')}"
            blocks.append(Block("list_item", text, line, line))
            facts.append(("author", author))
        facts.append(("modified", _find_text(card, "dateLastActivity")))
    return add_properties(blocks, facts)


def _read_issues(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    """Read issues from the API of GitHub, or from its program `gh`."""
    blocks: list[Block] = []
    facts = []
    for issue in _list_objects(value):
        line = lines.find(issue.get("title"))
        author = _find_name(issue, "user", "login") or _find_name(issue, "author", "login")
        created = _find_text(issue, "created_at") or _find_text(issue, "createdAt")
        title = f"#{_find_text(issue, 'number')} {_find_name(issue, 'title')}"
        blocks.append(Block("heading", title, line, line, level=2))
        labels = ", ".join(_find_name(label, "name") for label in _list_objects(issue, "labels"))
        opened = [
            f"Opened by {author}" if author else "Opened",
            f"on {created[:10]}" if created else "",
        ]
        state = [_find_text(issue, "state").lower(), f"labels: {labels}" if labels else ""]
        text = "; ".join(filter(None, [" ".join(filter(None, opened)), *state]))
        blocks.append(Block("paragraph", text, line, line))
        blocks += _read_body(_find_text(issue, "body").replace("\r\n", "\n"), line, 2)
        for comment in _list_objects(issue, "comments"):
            by, day = _find_name(comment, "author", "login"), _find_text(comment, "createdAt")[:10]
            blocks.append(Block("paragraph", f"{by} ({day}):", line, line))
            blocks += _read_body(_find_text(comment, "body").replace("\r\n", "\n"), line, 3)
        changed = _find_text(issue, "updated_at") or _find_text(issue, "updatedAt")
        facts += [("author", author), ("created", created), ("modified", changed)]
    return add_properties(blocks, facts)


def _read_chatgpt(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    """Read the conversations of ChatGPT, each in its last version."""
    blocks: list[Block] = []
    facts = []
    for talk in _list_objects(value):
        line = lines.find(talk.get("title"))
        begun, changed = (
            _format_time(_find_text(talk, key)) for key in ("create_time", "update_time")
        )
        mapping, turns = talk.get("mapping"), list[tuple[str, str]]()
        node = _find_text(talk, "current_node")
        while isinstance(mapping, dict) and node in mapping and len(turns) <= len(mapping):
            message, node = mapping[node], _find_text(mapping[node], "parent")
            message = message.get("message") if isinstance(message, dict) else None
            role = _find_text(message, "author", "role")
            content = message.get("content") if isinstance(message, dict) else None
            parts = content.get("parts") if isinstance(content, dict) else None
            texts = (
                [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
            )
            turns.append((role, "\n".join(texts)))
        blocks += _make_talk(_find_name(talk, "title"), begun, "ChatGPT", reversed(turns), line)
        facts += [("created", begun), ("modified", changed)]
    return add_properties(blocks, facts)


def _read_claude(value: _Value, lines: _Lines) -> tuple[Block, ...]:
    blocks: list[Block] = []
    facts = []
    for talk in _list_objects(value):
        line = lines.find(talk.get("name"))
        begun, changed = _find_text(talk, "created_at"), _find_text(talk, "updated_at")
        turns = [
            ("user" if turn.get("sender") == "human" else "assistant", _find_text(turn, "text"))
            for turn in _list_objects(talk, "chat_messages")
        ]
        blocks += _make_talk(_find_name(talk, "name"), begun, "Claude", iter(turns), line)
        facts += [("created", begun), ("modified", changed)]
    return add_properties(blocks, facts)


def _make_talk(
    title: str, begun: str, assistant: str, turns: Iterator[tuple[str, str]], line: int
) -> Iterator[Block]:
    """Yield the blocks of a talk: a section with its title and day, and who says what."""
    speakers = {"user": "You", "assistant": assistant}
    spoken = [(speakers[role], text) for role, text in turns if role in speakers and text.strip()]
    if not spoken:
        return
    heading = f"{title} ({begun[:10]})" if title and begun else title or begun[:10]
    yield Block("heading", heading, line, line, level=1)
    for speaker, text in spoken:
        body = [*_read_body(text, line)]
        if body and body[0].kind in ("paragraph", "list_item"):
            links = tuple((at + len(speaker) + 2, link) for at, link in body[0].links)
            body[0] = replace(body[0], text=f"{speaker}: {body[0].text}", links=links)
        else:
            yield Block("paragraph", f"{speaker}:", line, line)
        yield from body


_Export = tuple[Callable[[dict[str, _Value]], bool], Callable[[_Value, _Lines], tuple[Block, ...]]]


def _has(*names: str) -> Callable[[dict[str, _Value]], bool]:
    return lambda value: all(name in value for name in names)


_SLACK_TIME = re.compile(r"\d{9,12}\.\d+\Z")


def _is_issue(value: dict[str, _Value]) -> bool:
    people = (value.get("user"), value.get("author"))
    return _has("number", "title", "body")(value) and (
        "state" in value or any(isinstance(person, dict) for person in people)
    )


_LISTS: tuple[_Export, ...] = (
    (_has("service_id", "change_type"), lambda *_: (make_skipped_block({RECORDS: 1}),)),
    (
        lambda value: "type" in value and bool(_SLACK_TIME.match(_find_text(value, "ts"))),
        _read_slack,
    ),
    (_has("id", "team_id", "profile"), _read_slack_users),
    (
        lambda value: (
            _has("id", "name", "creator", "members")(value)
            and bool({"topic", "purpose"} & {*value})
        ),
        _read_slack_channels,
    ),
    (_has("title", "mapping"), _read_chatgpt),
    (_has("name", "chat_messages"), _read_claude),
    (_is_issue, _read_issues),
    (lambda value: "title" in value and bool({"children", "uid"} & {*value}), _read_roam),
)
_OBJECTS: tuple[_Export, ...] = (
    (_has("guild", "channel", "messages"), _read_discord),
    (
        lambda value: (
            "lists" in value and "idList" in (_get_first(_list_objects(value, "cards")) or ())
        ),
        _read_trello,
    ),
    (_has("userEditedTimestampUsec", "isTrashed"), _read_keep),
    (lambda value: bool(_list_objects(value, "chats", "list")), _read_telegram),
    (
        lambda value: (
            "name" in value
            and {"type", "date"} <= {*(_get_first(_list_objects(value, "messages")) or ())}
        ),
        _read_telegram,
    ),
)
