"""JSON that programs export is read as the notes and messages in it."""

import json
from typing import Any

import pytest

from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.readers import extract


def read(value: object, indent: int | None = None) -> tuple[Block, ...]:
    return extract(json.dumps(value, indent=indent).encode(), "application/json")


def told(blocks: tuple[Block, ...]) -> list[str]:
    return [block.text for block in blocks if block.text]


def facts(blocks: tuple[Block, ...]) -> set[tuple[str, str]]:
    return {pair for block in blocks if block.kind != "skipped" for pair in block.properties}


SLACK: list[dict[str, Any]] = [
    {
        "type": "message",
        "user": "U2",
        "ts": "1770109200.000100",
        "text": "<@U1> error E24, see <https://example.org/e24|the manual> &amp; <#C1|kitchen>",
        "user_profile": {"real_name": "Wanda Pike", "display_name": ""},
        "blocks": [{"block_id": "ab", "type": "rich_text"}],
    },
    {
        "type": "message",
        "user": "U1",
        "ts": "1770109500.000200",
        "text": "",
        "user_profile": {"display_name": "gerd"},
        "attachments": [{"title": "Plan", "text": "They come Thursday."}],
        "files": [{"title": "bill.pdf"}],
    },
    {"type": "message", "subtype": "channel_join", "ts": "1770110000.0", "user": "U2", "text": "x"},
]


def test_a_day_of_slack_has_names_instead_of_ids() -> None:
    blocks = read(SLACK, indent=1)
    assert told(blocks) == [
        "2026-02-03",
        "Wanda Pike (09:00): @gerd error E24, see the manual & #kitchen",
        "gerd (09:05): Plan: They come Thursday.\nbill.pdf",
    ]
    assert facts(blocks) == {
        ("author", "Wanda Pike"),
        ("author", "gerd"),
        ("created", "2026-02-03T09:00:00+00:00"),
        ("modified", "2026-02-03T09:05:00+00:00"),
    }
    lines = json.dumps(SLACK, indent=1).split("\n")
    assert ["ts" in lines[block.first_line - 1] for block in blocks] == [True] * 3


def test_a_day_of_slack_on_which_people_only_joined_has_no_text() -> None:
    blocks = read(SLACK[2:])
    assert not told(blocks) and count_skipped(blocks) == {"records of a program": 1}


def test_people_and_channels_of_slack_are_read_without_settings() -> None:
    user = {"id": "U1", "team_id": "T", "name": "gerd", "profile": {"real_name": "Gerd Holm"}}
    assert told(read([user])) == ["Gerd Holm | gerd"]
    channel = {
        "id": "C1",
        "name": "kitchen",
        "creator": "U1",
        "members": [],
        "topic": {"value": "Food"},
    }
    assert told(read([channel])) == ["#kitchen: Food"]


def test_the_log_of_integrations_of_slack_has_no_text() -> None:
    found = read([{"user_id": "U1", "service_id": 1, "change_type": "added", "scope": "hook"}])
    assert not told(found) and count_skipped(found) == {"records of a program": 1}


def test_a_chat_of_telegram_is_read_with_its_name() -> None:
    chat = {
        "name": "Altos",
        "type": "private_group",
        "id": 9,
        "messages": [
            {"id": 1, "type": "service", "date": "2026-01-10T10:00:00", "actor": "Sofie"},
            {
                "id": 2,
                "type": "message",
                "date": "2026-01-10T10:05:00",
                "from": "Sofie",
                "text": ["Notes: ", {"type": "link", "text": "https://example.org"}],
            },
        ],
    }
    expected = ["Altos", "2026-01-10", "Sofie (10:05): Notes: https://example.org"]
    assert told(read(chat)) == expected
    assert told(read({"about": "x", "chats": {"list": [chat]}})) == expected


def test_a_channel_of_discord_is_read_with_its_server() -> None:
    message = {
        "id": "1",
        "timestamp": "2026-02-11T17:20:01+00:00",
        "content": "It draws 3.4 amps",
        "author": {"id": "7", "name": "tuva", "nickname": "Tuva"},
        "attachments": [{"fileName": "driver.pdf"}],
    }
    export = {"guild": {"name": "Robotics"}, "channel": {"name": "arm"}, "messages": [message]}
    assert told(read(export)) == [
        "Robotics: arm",
        "2026-02-11",
        "Tuva (17:20): It draws 3.4 amps\ndriver.pdf",
    ]


NOTE: dict[str, Any] = {
    "color": "DEFAULT",
    "isTrashed": False,
    "title": "Shed",
    "textContent": "Larch.\n\nTwelve boards.",
    "listContent": [{"text": "Measure", "isChecked": True}],
    "labels": [{"name": "wood"}],
    "userEditedTimestampUsec": 1690864183842000,
    "createdTimestampUsec": 1690514467150000,
}


def test_a_note_of_google_keep_has_labels_and_dates() -> None:
    blocks = read(NOTE)
    assert told(blocks) == ["Shed", "Larch.", "Twelve boards.", "[x] Measure"]
    assert facts(blocks) == {
        ("tag", "wood"),
        ("created", "2023-07-28T03:21:07+00:00"),
        ("modified", "2023-08-01T04:29:43+00:00"),
    }
    assert count_skipped(read({**NOTE, "isTrashed": True})) == {"deleted notes and spam": 1}


def test_a_note_of_google_keep_with_only_a_picture_has_no_text() -> None:
    names = ("color", "isTrashed", "userEditedTimestampUsec")
    blocks = read({**{name: NOTE[name] for name in names}, "attachments": [{"filePath": "a.jpg"}]})
    assert not told(blocks) and count_skipped(blocks) == {"attachments": 1}


def test_a_graph_of_roam_is_an_outline_for_each_page() -> None:
    page = {
        "title": "Ropes",
        "uid": "abc",
        "children": [
            {
                "string": "{{[[TODO]]}} Buy [[Hemp]] ((AbCdEfGhI))",
                "children": [{"string": "^^12^^ mm"}],
            }
        ],
    }
    blocks = read([page, {"title": "Empty", "uid": "x"}])
    assert told(blocks) == ["Ropes", "[ ] Buy Hemp", "12 mm"]
    assert [link.target for block in blocks for _, link in block.links] == ["Hemp"]


def test_a_board_of_trello_has_a_section_for_each_card() -> None:
    board = {
        "name": "Shed",
        "lists": [{"id": "l", "name": "Doing"}],
        "members": [{"id": "m", "fullName": "Olle Ek"}],
        "cards": [
            {
                "id": "5f0000000000000000000001",
                "name": "Boards",
                "desc": "Larch",
                "idList": "l",
                "idMembers": ["m"],
                "due": "2026-03-01T11:00:00.000Z",
                "labels": [{"name": "wood"}],
                "dateLastActivity": "2026-02-01T10:00:00.000Z",
            }
        ],
        "checklists": [
            {
                "idCard": "5f0000000000000000000001",
                "checkItems": [{"name": "Cut", "state": "complete"}],
            }
        ],
        "actions": [
            {
                "type": "commentCard",
                "date": "2026-02-01T10:00:00.000Z",
                "memberCreator": {"fullName": "Olle Ek"},
                "data": {"text": "1,150 crowns", "card": {"id": "5f0000000000000000000001"}},
            }
        ],
    }
    assert told(read(board)) == [
        "Shed",
        "Boards",
        "List: Doing; Labels: wood; Members: Olle Ek; Due: 2026-03-01",
        "Larch",
        "[x] Cut",
        "Olle Ek (2026-02-01): 1,150 crowns",
    ]


@pytest.mark.parametrize(
    "issue",
    [
        {"user": {"login": "lena"}, "created_at": "2026-01-05T10:00:00Z", "state": "closed"},
        {"author": {"login": "lena"}, "createdAt": "2026-01-05T10:00:00Z", "state": "CLOSED"},
    ],
)
def test_issues_of_github_are_sections(issue: dict[str, object]) -> None:
    blocks = read([{"number": 12, "title": "Slow start", "body": "It **hangs**.", **issue}])
    assert told(blocks) == ["#12 Slow start", "Opened by lena on 2026-01-05; closed", "It hangs."]
    assert ("author", "lena") in facts(blocks)


@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_section_has_the_line_of_its_title_in_any_script(is_ascii: bool) -> None:
    issues = [
        {"number": number, "title": title, "body": "", "state": "open"}
        for number, title in enumerate(("Ångström", "Plan"))
    ]
    text = json.dumps(issues, indent=1, ensure_ascii=is_ascii)
    headings = [block for block in extract(text.encode(), "application/json") if block.level]
    lines = text.split("\n")
    assert ["title" in lines[block.first_line - 1] for block in headings] == [True, True]
    assert headings[0].first_line < headings[1].first_line


def test_talks_with_assistants_say_who_speaks() -> None:
    def turn(role: str, text: str, parent: str | None) -> dict[str, object]:
        content = {"content_type": "text", "parts": [text]}
        return {"message": {"author": {"role": role}, "content": content}, "parent": parent}

    chatgpt = {
        "title": "Knots",
        "create_time": 1770109200.5,
        "update_time": 1770109300.5,
        "current_node": "c",
        "mapping": {
            "a": {"message": None, "parent": None},
            "b": turn("user", "Which knot?", "a"),
            "old": turn("assistant", "A granny knot.", "b"),
            "c": turn("assistant", "# Use\n\nA *zeppelin* bend.", "b"),
        },
    }
    assert told(read([chatgpt])) == [
        "Knots (2026-02-03)",
        "You: Which knot?",
        "ChatGPT:",
        "Use",
        "A zeppelin bend.",
    ]
    claude = {
        "name": "Knots",
        "created_at": "2026-02-03T09:00:00Z",
        "chat_messages": [
            {"sender": "human", "text": "Which knot?"},
            {"sender": "assistant", "text": "A zeppelin bend."},
        ],
    }
    assert told(read([claude])) == [
        "Knots (2026-02-03)",
        "You: Which knot?",
        "Claude: A zeppelin bend.",
    ]


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "alarm", "ts": 1770109200, "text": "Pump failed", "place": "KEPT"}],
        [{"id": 1, "name": "Rowers", "creator": "ann", "members": ["bo"], "about": "KEPT"}],
        [{"number": 1, "title": "The mill", "body": "It stood.", "author": "KEPT"}],
        {"name": "Loan", "messages": [{"date": "2026-01-02", "text": "yes", "subject": "KEPT"}]},
        {"channel": "c", "messages": [{"content": "hi", "nick": "KEPT"}]},
        {"lists": [{"a": "b"}], "cards": [{"name": "Ace", "power": "KEPT"}]},
    ],
)
def test_json_with_a_few_names_of_an_export_keeps_its_values(value: object) -> None:
    assert any("KEPT" in block.text for block in read(value))


def test_a_message_may_show_a_template() -> None:
    turn = {"sender": "assistant", "text": "# {{title}}\n\nDecisions"}
    found = read([{"name": "Notes", "chat_messages": [turn]}])
    assert any("{{title}}\n\nDecisions" in block.text for block in found)


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "message", "ts": None, "text": 3, "user_profile": "x", "attachments": [1]}],
        [{"title": [], "mapping": {"a": 1}, "current_node": "a"}],
        [{"title": "x", "children": [{"children": "y", "string": None}]}],
        [{"number": {}, "title": None, "body": [], "labels": "x"}],
        {"cards": [{"id": [], "idMembers": 3}], "lists": "x"},
        {"isTrashed": 1, "userEditedTimestampUsec": {}, "labels": [None]},
        {"guild": [], "channel": 1, "messages": [{"timestamp": []}, 3]},
        {"name": "x", "messages": [{"date": 99}]},
    ],
)
def test_unexpected_values_lose_no_document(value: object) -> None:
    read(value)


def test_other_json_is_read_value_by_value() -> None:
    assert told(read({"name": "Oslo", "messages": 3})) == ["name: Oslo", "messages: 3"]
    assert told(read([{"title": "Tides", "height": "3 m"}])) == ["title: Tides\nheight: 3 m"]
