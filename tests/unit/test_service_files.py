"""`hopsyncd service install`: what systemd itself says of the units, and what is written where."""

import configparser
import os
import plistlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from hopsyncd.cli.install import (
    SERVICE,
    SOCKET,
    Installation,
    ServiceRefused,
    format_launchd_plist,
    format_service_unit,
    format_socket_unit,
)
from hopsyncd.cli.main import cli

OWN = Installation(
    (sys.executable, "-m", "hopsyncd"),
    Path("/run/user/1000/hopsyncd/hopsyncd.sock"),
    (Path("/home/ann/.local/share/hopsyncd"), Path("/home/ann/notes")),
    Path("/home/ann/.config/hopsyncd/environment"),
    Path("/home/ann/my $config 100%.toml"),
    Path("/home/ann/my home"),
)
OF_MACHINE = replace(OWN, user="daemon")


def test_the_units_have_the_names_in_the_documentation() -> None:
    assert (SERVICE, SOCKET) == ("hopsyncd.service", "hopsyncd.socket")
    assert format_service_unit(OWN, socket_activated=True).count("hopsyncd.socket") == 2


def complaints(folder: Path, *options: str) -> str:
    """What systemd has to say of the units in a folder."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    units = [str(path) for path in sorted(folder.iterdir())]
    (runtime := folder.parent / "runtime").mkdir(exist_ok=True)
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *options, *units],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return ran.stdout + ran.stderr + ("" if ran.returncode == 0 else "it failed")


@pytest.mark.parametrize(
    ("installed", "options"), [(OWN, ["--user"]), (OF_MACHINE, [])], ids=["user", "system"]
)
def test_systemd_has_nothing_to_say_against_the_units(
    installed: Installation, options: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "units"
    folder.mkdir()
    (folder / SERVICE).write_text(format_service_unit(installed, socket_activated=True))
    (folder / SOCKET).write_text(format_socket_unit(installed))
    assert complaints(folder, *options) == ""

    wrong = format_service_unit(installed, socket_activated=True).replace(
        "WatchdogSec", "WatchdogSecs"
    )
    (folder / SERVICE).write_text(wrong)
    assert "WatchdogSecs" in complaints(folder, *options)


def test_a_unit_names_its_command_and_its_home_word_for_word() -> None:
    unit = format_service_unit(OWN, socket_activated=False)
    assert '--config "/home/ann/my $$config 100%%.toml" serve' in unit
    assert 'Environment="HOPSYNCD_HOME=/home/ann/my home"' in unit
    odd = replace(OWN, command=("/opt/$my/hopsyncd",))
    assert "ExecStart=/opt/$my/hopsyncd --config" in format_service_unit(
        odd, socket_activated=False
    )
    assert "hopsyncd.socket" not in unit
    assert "User=" not in unit


def test_only_a_system_service_hides_temporary_folders_and_only_where_it_uses_none() -> None:
    assert "PrivateTmp" not in format_service_unit(OWN, socket_activated=False)
    # Not this interpreter, which may be in a temporary folder itself.
    of_machine = replace(OF_MACHINE, command=("/opt/hopsyncd/bin/hopsyncd",))
    assert "PrivateTmp=yes" in format_service_unit(of_machine, socket_activated=False)
    for in_tmp in (
        replace(of_machine, socket=Path("/tmp/hopsyncd-1/hopsyncd.sock")),
        replace(of_machine, command=("/tmp/clone/.venv/bin/hopsyncd",)),
    ):
        assert "PrivateTmp" not in format_service_unit(in_tmp, socket_activated=False)


def test_a_group_that_may_ask_may_enter_the_socket() -> None:
    assert "SocketMode=0600" in format_socket_unit(OWN)
    assert "SocketGroup" not in format_socket_unit(OWN)
    assert "install" not in format_socket_unit(OWN)
    shared = format_socket_unit(replace(OWN, group="team"))
    assert "SocketMode=0660\n" in shared
    assert "SocketGroup=team\n" in shared
    assert "install -d -m 0710" in shared
    assert "User=" not in shared


def test_the_property_list_of_launchd_says_the_same() -> None:
    plist = plistlib.loads(format_launchd_plist(OWN, Path("/home/ann/log")).encode())
    assert plist["ProgramArguments"] == OWN.arguments
    assert plist["EnvironmentVariables"] == {"HOPSYNCD_HOME": "/home/ann/my home"}
    assert plist["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is launchd")
def test_install_writes_what_it_prints_and_uninstall_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    units = tmp_path / "config/systemd/user"
    run = CliRunner().invoke

    printed = run(cli, ["service", "install", "--socket-activation", "--print"])
    assert printed.exit_code == 0, printed.output
    assert not units.exists()

    installed = run(cli, ["service", "install", "--socket-activation"])
    assert "systemctl --user enable hopsyncd.socket" in installed.output
    for name in (SERVICE, SOCKET):
        assert (units / name).read_text() in printed.output
    socket = configparser.ConfigParser(interpolation=None)
    socket.read(units / SOCKET)
    assert socket["Socket"]["ListenStream"] == str(tmp_path / "home/run/hopsyncd.sock")
    assert socket["Socket"]["SocketMode"] == "0600"

    removed = run(cli, ["service", "uninstall"])
    assert removed.exit_code == 0, removed.output
    assert list(units.iterdir()) == []
    assert run(cli, ["service", "status"]).exit_code == 3
    assert run(cli, ["service", "install", "--system"]).exit_code == 2


def test_a_system_service_has_a_home_that_does_not_depend_on_who_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOPSYNCD_HOME", raising=False)
    install = ["service", "install", "--system", "--user", "daemon", "--print"]
    assert "HOPSYNCD_HOME is not set" in str(CliRunner().invoke(cli, install).exception)


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is launchd")
def test_a_failed_start_leaves_no_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    ran = CliRunner().invoke(cli, ["service", "install", "--now"])
    assert isinstance(ran.exception, ServiceRefused)
    assert "service install --system --user NAME" in ran.exception.hint
    assert list((tmp_path / "config/systemd/user").iterdir()) == []
