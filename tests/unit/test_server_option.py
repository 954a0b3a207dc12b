"""Commands that ask a named server, and those that work on this machine only."""

from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopsyncd.cli.main import _GROUPS, cli
from hopsyncd.cli.server import HERE, hoist_options
from tests.fakes.port import free_port

COMMANDS = [str(command.name) for command in chain.from_iterable(_GROUPS.values())]
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
