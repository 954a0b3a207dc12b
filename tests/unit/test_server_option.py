"""Commands that ask a named server, and those that work on this machine only."""

from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopsyncd.cli.main import GROUPS, cli
from hopsyncd.cli.server import HERE, Server, hoist_options
from hopsyncd.client import RequestFailed
from hopsyncd.errors import ConfigError
from tests.fakes.port import free_port

COMMANDS = [*chain.from_iterable(GROUPS.values())]
ARGUMENTS = {
    **{"why": "x 1", "restore": "1", "unwatch": "1", "diff": "1 2", "purge": "x --yes"},
    **dict.fromkeys(("ask", "query", "show", "open", "graph", "watch", "pause", "resume"), "x"),
    "tag": "x",
}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in {*HERE, "mcp"}])
def test_a_command_asks_the_server_and_nothing_else(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path))
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("t" * 40)
    place = f"https://127.0.0.1:{free_port()}"
    given = [
        command,
        *ARGUMENTS.get(command, "").split(),
        "--server",
        place,
        f"--token-file={token}",
    ]
    ran = CliRunner().invoke(cli, hoist_options(given))
    assert place in str(ran.exception), (ran.output, ran.exception)


@pytest.mark.parametrize("command", sorted(HERE))
def test_a_command_of_this_machine_is_refused_for_a_server(command: str) -> None:
    assert command in COMMANDS
    ran = CliRunner().invoke(cli, ["--server", "https://127.0.0.1:9", command])
    assert ran.exit_code == 2
    assert "works on this machine only" in ran.output


LAPTOP = '[client]\nserver = "https://notes.example.org:7717"\ntoken_file = "/tmp/ann.token"\n'


def configure(home: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(home))
    (home / "config.toml").write_text(text)


@pytest.mark.parametrize("command", ["token list", "add x", "serve", "backup list", "reload"])
def test_a_command_of_this_machine_is_refused_for_a_configured_server(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, LAPTOP, monkeypatch)
    ran = CliRunner().invoke(cli, command.split())
    assert ran.exit_code == 2, ran.output
    assert "client.server in" in ran.output and "https://notes.example.org:7717" in ran.output
    assert CliRunner().invoke(cli, [*command.split(), "--help"]).exit_code == 0


def test_a_daemon_with_sources_may_name_a_server_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, f'{LAPTOP}[[source]]\nname = "a"\npath = "{tmp_path}"\n', monkeypatch)
    ran = CliRunner().invoke(cli, ["token", "list"])
    assert ran.exit_code == 0, ran.output


def test_the_configured_token_is_for_the_configured_server_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, LAPTOP, monkeypatch)
    ran = CliRunner().invoke(cli, ["--server", "https://other.example.org", "status"])
    assert isinstance(ran.exception, ConfigError)
    assert "is only for https://notes.example.org:7717" in str(ran.exception)
    assert "--token-file FILE" in ran.exception.hint
    ran = CliRunner().invoke(cli, ["--server", "https://notes.example.org:7717/", "status"])
    assert "/tmp/ann.token" in str(ran.exception)


def test_a_refused_token_is_named_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, LAPTOP, monkeypatch)

    def refuse(_: Server) -> None:
        raise RequestFailed(401, "unauthorized", "this daemon has no such token", "")

    monkeypatch.setattr(Server, "connect", refuse)
    ran = CliRunner().invoke(cli, ["status"])
    assert isinstance(ran.exception, RequestFailed)
    assert "Your token (/tmp/ann.token) is unknown" in str(ran.exception)
    assert "administrator" in ran.exception.hint
