"""The command line itself: help that fits, errors in words and in JSON, exit statuses, colours."""

import io
import json
import os
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import click
import pytest

from hopsyncd.cli.failures import run_command
from hopsyncd.cli.main import GROUPS, cli
from hopsyncd.cli.terminal import spinner, wrap
from hopsyncd.client import RequestFailed
from hopsyncd.errors import DaemonUnavailable


def test_help_names_every_command_in_a_group_on_a_line_of_its_own() -> None:
    text = click.Context(cli, info_name="hopsyncd", terminal_width=80).get_help()
    assert max(map(len, text.splitlines())) <= 80
    context = click.Context(cli)
    for title, names in GROUPS.items():
        _, _, section = text.partition(f"\n{title}:\n")
        lines = section.partition("\n\n")[0].splitlines()
        commands = [cli.get_command(context, name) for name in names]
        assert [command.name for command in commands if command] == [*names]
        assert [line.split()[0] for line in lines] == [*names]
        summaries = [command.get_short_help_str(limit=1000) for command in commands if command]
        assert [line.split(maxsplit=1)[1] for line in lines] == summaries
    assert sorted(chain.from_iterable(GROUPS.values())) == cli.list_commands(context)


@click.command()
@click.option("--json", "as_json", is_flag=True)
@click.argument("kind")
def failing(kind: str, as_json: bool) -> None:
    if kind == "interrupted":
        raise KeyboardInterrupt
    if kind == "away":
        raise DaemonUnavailable("No daemon answers at /run/s", "nothing listens", "Start one")
    raise RequestFailed(404, "not_found", "There is no passage\x1b[31m", "")


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        (
            "away",
            1,
            {
                "code": "daemon_unavailable",
                "message": "No daemon answers at /run/s: nothing listens",
                "hint": "Start one",
            },
        ),
        ("gone", 1, {"code": "not_found", "message": "There is no passage\x1b[31m", "hint": ""}),
        ("interrupted", 130, {"code": "interrupted", "message": "Interrupted", "hint": ""}),
    ],
)
def test_a_failure_is_json_on_standard_error_if_json_was_asked_for(
    kind: str, status: int, error: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(failing, [kind, "--json"]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert json.loads(printed.err) == {"error": error}
    assert "\x1b" not in printed.err


def test_a_failure_in_words_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(failing, ["away"]) == 1
    told = "hopsyncd: No daemon answers at /run/s: nothing listens. Start one\n"
    assert capsys.readouterr().err == told
    assert run_command(failing, ["gone"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_a_wrong_command_line_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(cli, ["query", "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["code"], error["hint"]) == ("usage", "See `hopsyncd query --help`")
    assert "QUESTION" in error["message"]
    assert run_command(cli, ["query"]) == 2
    assert capsys.readouterr().err.startswith("Usage: hopsyncd query [OPTIONS] QUESTION...")


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({}, False),
    ],
)
def test_colours_follow_the_environment(variables: dict[str, str], is_coloured: bool) -> None:
    names = ("NO_COLOR", "FORCE_COLOR", "TERM")
    others = {name: value for name, value in os.environ.items() if name not in names}
    ran = subprocess.run(
        [sys.executable, "-m", "hopsyncd", "show", "x", "--config", "/none"],
        env={**others, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ("\x1b" in ran.stderr) == is_coloured


def test_a_full_disk_under_standard_output_is_reported(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "hopsyncd", "completion", "bash"],
            env={**os.environ, "HOPSYNCD_HOME": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (
        1,
        "hopsyncd: Cannot write the output: No space left on device\n",
    )


def test_text_breaks_between_words_only() -> None:
    text = "See https://example.org/a-long-address/that-is-wider-than-a-line for well-known facts."
    for columns in (20, 40, 80):
        lines = wrap(text, columns, "  ").splitlines()
        assert " ".join(line.strip() for line in lines) == text
        assert all(len(line) <= columns or " " not in line.strip() for line in lines)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_completes_commands(shell: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOPSYNCD_HOME": str(tmp_path),
        "_HOPSYNCD_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "hopsyncd wat",
        "COMP_CWORD": "1" if shell != "fish" else "wat",
    }
    script = subprocess.run(
        [sys.executable, "-m", "hopsyncd", "completion", shell],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"_HOPSYNCD_COMPLETE={shell}_complete" in script
    code = "from hopsyncd.cli.main import main; main()"
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    ).stdout
    assert {"watch", "watches"} <= {*output.replace(",", " ").split()}
    assert "unwatch" not in output.split()


def test_a_spinner_turns_only_at_a_terminal_and_after_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stream(io.StringIO):
        is_terminal = True

        def isatty(self) -> bool:
            return self.is_terminal

    monkeypatch.setattr("hopsyncd.cli.terminal._SPIN_AFTER_S", 0.05)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for is_terminal, term, wait_s, turns in [
        (True, "xterm", 0.3, True),
        (True, "xterm", 0.0, False),
        (True, "dumb", 0.3, False),
        (False, "xterm", 0.3, False),
    ]:
        stream = Stream()
        stream.is_terminal = is_terminal
        monkeypatch.setenv("TERM", term)
        monkeypatch.setattr(sys, "stderr", stream)
        with spinner("searching"):
            time.sleep(wait_s)
        written = stream.getvalue()
        assert ("searching" in written) is turns
        assert written.endswith("\x1b[K") is turns
