"""The benchmark that replays recorded replies: which replies it plays, and what counts."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import replay

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

QUESTION = "Which river flows through Cordoba?"
REPLY = {"found": True, "answer": "The Guadalquivir [1].", "citations": [{"passage": 1}]}


def request(*texts: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text} for text in texts]}


def body(response: Any) -> dict[str, Any]:
    return dict(json.loads(response.body))


def recorded(folder: Path, reply: object, *texts: str) -> dict[Any, replay.RecordedReply]:
    """What is recorded after the prompt was written to a folder and answered there."""
    player = replay.Player({})
    player.ask("m01")
    assert player.play(request(*texts)).status == 400
    replay.write_prompts(folder / "prompts", player)
    (written,) = (folder / "prompts").glob("*.txt")
    answered = {written.stem: reply}
    (folder / "prompts/replies.json").write_text(json.dumps(answered))
    replay.record(folder / "prompts", folder / "direct.jsonl")
    return replay.read_recorded(folder / "direct.jsonl")


def test_a_reply_is_played_to_the_prompt_that_it_was_written_for_only(tmp_path: Path) -> None:
    known = recorded(tmp_path, REPLY, "Answer.", QUESTION)
    player = replay.Player(known)
    player.ask("m01")
    played = body(player.play(request("Answer.", QUESTION)))
    assert json.loads(played["choices"][0]["message"]["content"]) == REPLY
    assert played["usage"]["prompt_tokens"] > 0
    assert not player.lacks_reply and not player.stale

    player.ask("m01")
    assert player.play(request("Answer briefly.", QUESTION)).status == 400
    assert player.lacks_reply and player.stale == ["m01"]
    player.ask("m02")
    assert player.play(request("Answer.", QUESTION)).status == 400
    assert player.lacks_reply and player.stale == ["m01"]


def test_a_new_reply_replaces_the_old_one_and_the_later_steps(tmp_path: Path) -> None:
    recorded(tmp_path / "old", REPLY, "Answer.", QUESTION)
    file = tmp_path / "old/direct.jsonl"
    old = [json.loads(line) for line in file.read_text().splitlines()]
    later = [{**old[0], "step": 2}, {**old[0], "question": "m02"}]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in [*old, *later]))
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "replies.json").write_text(json.dumps({"m01.1.abc": {"found": False}}))
    replay.record(folder, file)
    assert {key: one.prompt for key, one in replay.read_recorded(file).items()} == {
        ("m01", 1): "abc",
        ("m02", 1): old[0]["prompt"],
    }


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        ("Mac password: 16 characters; the phone: longer than fourteen", True),
        ("Mac password: 16 characters", False),
        ("The phone", False),
    ],
)
def test_an_answer_is_right_if_it_has_all_words_of_an_accepted_one(
    answer: str, is_right: bool
) -> None:
    accepted = ["the Mac password, 16 characters; the phone longer than 14", "never"]
    assert replay.has_words(answer, accepted) == is_right
    assert not replay.has_words("supported", ["not supported"])


def test_recorded_replies_have_the_form_that_prompts_ask_for() -> None:
    replies = replay.read_recorded(BENCHMARKS / "replies/direct.jsonl")
    assert len(replies) >= 40
    for reply in replies.values():
        assert reply.reply.keys() == {"found", "answer", "citations"}
        assert reply.reply["citations"] or not reply.reply["found"]
        assert all(len(cited["quote"].split()) <= 8 for cited in reply.reply["citations"])
