"""Tokens: made, found, limited in time, revoked; files with one secret; wrong ones slowed down."""

import os
import stat
from pathlib import Path

import pytest
import structlog

from hopsyncd.api.failed_tokens import FREE, FailedTokens
from hopsyncd.api.tokens import OneToken, TokenFile, Tokens, TokenUses, WrongToken
from hopsyncd.config.secret_file import make_secret, read_secret, write_secret
from hopsyncd.errors import ConfigError, NotFound, SocketRefused

NOW_S = 1_800_000_000


class Clock:
    """A clock that a test sets."""

    now_s = float(NOW_S)

    def __call__(self) -> float:
        return self.now_s


def known(folder: Path, clock: Clock | None = None) -> tuple[TokenFile, Tokens]:
    file = folder / "tokens.json"
    return TokenFile(file), Tokens(file, TokenUses(folder / "uses.json"), clock or Clock())


def why_refused(tokens: Tokens, sent: str) -> str:
    with pytest.raises(WrongToken) as raised:
        tokens.find(sent.encode())
    return raised.value.why


def test_a_token_is_found_by_its_text_alone(tmp_path: Path) -> None:
    file, tokens = known(tmp_path)
    made, text = file.add("ann", "read", None, ["notes"], ["board"])
    other, others = file.add("bob", "owner", None)
    assert tokens.find(text.encode()) == made
    assert tokens.find(others.encode()) == other
    assert (made.user, made.role, made.sources, made.groups) == (
        *("ann", "read", ("notes",), ("board",)),
    )
    # The id of one with the secret of the other.
    mixed = f"hops_{made.id}_{others.split('_', 2)[2]}"
    assert "wrong secret" in why_refused(tokens, mixed)
    for wrong in ("", "x", text[:-1], text + "x", text.upper(), f"hops_00000000_{text[14:]}", "é"):
        assert "has no such token" in why_refused(tokens, wrong)


def test_the_file_has_no_secret_and_is_its_owners(tmp_path: Path) -> None:
    file, _ = known(tmp_path)
    _, text = file.add("ann", "read", None)
    stored = tmp_path / "tokens.json"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert text.split("_", 2)[2] not in stored.read_text()


def test_a_token_ends_at_its_time(tmp_path: Path) -> None:
    clock = Clock()
    file, tokens = known(tmp_path, clock)
    _, text = file.add("ann", "read", NOW_S + 60)
    tokens.find(text.encode())
    clock.now_s += 59.9
    tokens.find(text.encode())
    clock.now_s += 0.1
    assert "expired" in why_refused(tokens, text)


def test_a_revoked_token_is_refused_at_once_and_others_stay(tmp_path: Path) -> None:
    file, tokens = known(tmp_path)
    made, text = file.add("ann", "read", None)
    _, others = file.add("bob", "read", None)
    tokens.find(text.encode())
    assert file.remove(lambda token: token.id == made.id, "x") == [made]
    assert "has no such token" in why_refused(tokens, text)
    tokens.find(others.encode())
    with pytest.raises(NotFound, match="there is no token of the user ann"):
        file.remove(lambda token: token.user == "ann", "of the user ann")


def test_a_file_that_others_may_change_counts_for_nothing(tmp_path: Path) -> None:
    file, tokens = known(tmp_path)
    _, text = file.add("ann", "owner", None)
    stored = tmp_path / "tokens.json"
    stored.chmod(0o620)
    with structlog.testing.capture_logs() as logs:
        why_refused(tokens, text)
        why_refused(tokens, text)
    assert len(logs) == 1 and "other users can change the token file" in logs[0]["why"]
    for change in (lambda: file.add("bob", "read", None), lambda: file.remove(bool, "x")):
        with pytest.raises(ConfigError, match="may have added tokens"):
            change()
    assert stored.stat().st_mode & 0o777 == 0o620, "no command makes it a trusted one"
    stored.chmod(0o600)
    tokens.find(text.encode())
    stored.write_text("t" * 40)
    why_refused(tokens, text)
    with pytest.raises(ConfigError, match="not a list of tokens"):
        file.add("bob", "read", None)
    assert stored.read_text() == "t" * 40


def test_the_last_use_is_kept_to_the_minute(tmp_path: Path) -> None:
    clock = Clock()
    file, tokens = known(tmp_path, clock)
    made, text = file.add("ann", "read", None)
    uses = TokenUses(tmp_path / "uses.json")
    assert uses.read() == {}
    tokens.find(text.encode())
    clock.now_s += 59
    tokens.find(text.encode())
    assert uses.read() == {made.id: NOW_S}
    clock.now_s += 1
    tokens.find(text.encode())
    assert uses.read() == {made.id: NOW_S + 60}
    file.remove(lambda token: True, "")
    other, text = file.add("bob", "read", None)
    tokens.find(text.encode())
    assert uses.read().keys() == {other.id}


def test_a_secret_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    make_secret(file)
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    with pytest.raises(SocketRefused, match=f"another user owns.*`chown {another} {file}`"):
        read_secret(file)


def test_a_secret_is_made_once_and_refused_where_others_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    made = make_secret(file)
    assert len(made) >= 32 and make_secret(file) == made
    one = OneToken(file, "admin")
    assert one.find(made.encode()).role == "admin"
    file.chmod(0o640)
    with pytest.raises(SocketRefused, match="other users can read the token file"):
        make_secret(file)
    with pytest.raises(WrongToken):
        one.find(made.encode())
    write_secret(tmp_path / "short", "x")
    with pytest.raises(SocketRefused, match="fewer than 32"):
        read_secret(tmp_path / "short")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SocketRefused, match="does not lead to a regular file"):
        read_secret(tmp_path / "pipe")


def test_waits_after_wrong_tokens_grow_to_a_minute_and_are_forgotten() -> None:
    clock = Clock()
    failed = FailedTokens(clock)
    waits = []
    for _ in range(FREE + 9):
        waits.append(failed.note_failure("192.0.2.1")[1])
        clock.now_s += waits[-1]
        assert failed.wait_s("192.0.2.1") == 0
    assert waits == [0.0] * FREE + [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert failed.note_failure("192.0.2.2") == (1, 0)
    clock.now_s += 601
    assert failed.note_failure("192.0.2.1") == (1, 0)


def test_the_addresses_of_one_network_wait_together_and_the_table_is_bounded() -> None:
    failed = FailedTokens(Clock())
    for number in range(FREE + 1):
        failed.note_failure(f"2001:db8::{number:x}")
    assert failed.wait_s("2001:db8::ffff") > 0
    assert failed.wait_s("2001:db8:0:1::1") == 0
    assert failed.wait_s("::ffff:192.0.2.1") == 0
    for number in range(5000):
        failed.note_failure(f"10.0.{number >> 8}.{number & 255}")
    assert len(failed._failed) <= 4096
