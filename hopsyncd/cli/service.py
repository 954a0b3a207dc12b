"""`hopsyncd service`: have systemd or launchd keep the daemon running."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from hopsyncd.config import Config, config_path, home, load_config
from hopsyncd.errors import HopsyncdError
from hopsyncd.units import (
    LAUNCHD,
    LAUNCHD_LABEL,
    SERVICE,
    SOCKET,
    Installation,
    launchd_plist,
    service_unit,
    socket_unit,
)

_SYSTEM_UNITS = Path("/etc/systemd/system")


class ServiceRefused(HopsyncdError):
    """The service cannot be installed or controlled."""


_system = click.option(
    "--system", is_flag=True, help="For the machine, not for you alone (systemd, as root)."
)


@click.group()
def service() -> None:
    """Have systemd or launchd keep the daemon running."""


@service.command()
@_system
@click.option("--user", help="With --system: whom the daemon runs as.")
@click.option("--socket-activation", is_flag=True, help="Start it with the first request.")
@click.option("--now", is_flag=True, help="Start it at once, and with each login or boot.")
@click.option("--print", "only_print", is_flag=True, help="Print the files and write nothing.")
@click.pass_context
def install(
    context: click.Context,
    system: bool,
    user: str | None,
    socket_activation: bool,
    now: bool,
    only_print: bool,
) -> None:
    """Write the files that a supervisor needs, for the configuration in use.

    Example: hopsyncd service install --now
    """
    if system != bool(user):
        raise click.UsageError("--system and --user NAME go together.")
    if system and home() is None:
        raise ServiceRefused(
            "Cannot install a system service",
            f"HOPSYNCD_HOME is not set, and what you have elsewhere is not {user}'s",
            f"Set it to a folder of {user}'s, such as /var/lib/hopsyncd, with a config.toml",
        )
    installed = _installation(context.obj, user)
    files = _files(installed, socket_activation)
    if only_print:
        for path, text in files.items():
            click.echo(f"# {path}\n{text}")
        return
    _remove([path for path in _places(system) if path.exists() and path not in files], system)
    for path, text in files.items():
        _write(path, text)
        click.echo(f"Wrote {path}")
    start = _start_commands(system, socket_activation)
    for command in start if now else ():
        _run(command)
    if not now:
        click.echo("Start it, now and with each login or boot:")
        click.echo("\n".join(f"  {' '.join(command)}" for command in start))
    if not (system or _is_mac()):
        click.echo("It ends when you log out, unless you allow it: loginctl enable-linger")


@service.command()
@_system
def uninstall(system: bool) -> None:
    """Stop the daemon and remove the files of `install`. Index and configuration stay."""
    found = [path for path in _places(system) if path.exists()]
    if not found:
        click.echo("No service is installed.")
        return
    _remove(found, system)
    if not _is_mac():
        _run([*_systemctl(system), "daemon-reload"], must=False)


@service.command("status")
@_system
@click.pass_context
def service_status(context: click.Context, system: bool) -> None:
    """Say what is installed and what the supervisor knows. Exit status 3 if it does not run."""
    found = [path for path in _places(system) if path.exists()]
    for path in found:
        click.echo(f"Installed: {path}")
    if not found:
        click.echo("No service is installed; `hopsyncd service install` does that.")
        context.exit(3)
    if _is_mac():
        command = ["launchctl", "print", f"gui/{os.getuid()}/{LAUNCHD_LABEL}"]
    else:
        command = [*_systemctl(system), "status", "--no-pager", SERVICE]
    if not _run(command, must=False):
        context.exit(3)


def _installation(config_file: Path | None, user: str | None) -> Installation:
    config = load_config(config_file)
    program = shutil.which("hopsyncd")
    command = (program,) if program else (sys.executable, "-m", "hopsyncd")
    return Installation(
        command,
        config.daemon.socket,
        (config.daemon.data_dir, *_folders(config)),
        config_path(config_file).with_name("environment"),
        config_path(config_file) if config_file else None,
        home(),
        user,
        config.access.group or None,
    )


def _folders(config: Config) -> list[Path]:
    places = [getattr(source, "path", None) for source in config.sources]
    return [place for place in places if isinstance(place, Path)]


def _files(installed: Installation, socket_activation: bool) -> dict[Path, str]:
    """What is to be written, by its place."""
    if _is_mac():
        log = Path.home() / "Library/Logs/hopsyncd.log"
        return {_places(False)[0]: launchd_plist(installed, log)}
    unit, socket = _places(installed.user is not None)
    files = {unit: service_unit(installed, socket_activated=socket_activation)}
    if socket_activation:
        files[socket] = socket_unit(installed)
    return files


def _places(system: bool) -> tuple[Path, ...]:
    """Where the files of `install` are, if they are."""
    if _is_mac():
        return (Path.home() / "Library/LaunchAgents" / LAUNCHD,)
    base = os.environ.get("XDG_CONFIG_HOME", "")
    own = Path(base) if base.startswith("/") else Path.home() / ".config"
    folder = _SYSTEM_UNITS if system else own / "systemd/user"
    return folder / SERVICE, folder / SOCKET


def _remove(found: Sequence[Path], system: bool) -> None:
    """Stop what these files describe, and remove them."""
    if not found:
        return
    if _is_mac():
        _run(["launchctl", "bootout", f"gui/{os.getuid()}/{LAUNCHD_LABEL}"], must=False)
    else:
        names = [path.name for path in found]
        _run([*_systemctl(system), "disable", "--now", *names], must=False)
    for path in found:
        path.unlink()
        click.echo(f"Removed {path}")


def _start_commands(system: bool, socket_activation: bool) -> list[list[str]]:
    if _is_mac():
        return [["launchctl", "bootstrap", f"gui/{os.getuid()}", str(_places(False)[0])]]
    unit = SOCKET if socket_activation else SERVICE
    steps = [["daemon-reload"], ["enable", unit], ["restart", unit]]
    if socket_activation:
        # A socket cannot be opened for a service that runs already.
        steps.insert(1, ["disable", "--now", SERVICE])
    return [[*_systemctl(system), *step] for step in steps]


def _systemctl(system: bool) -> list[str]:
    return ["systemctl"] if system else ["systemctl", "--user"]


def _is_mac() -> bool:
    return sys.platform == "darwin"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ServiceRefused(
            f"Cannot write {path}",
            (error.strerror or str(error)).lower(),
            "A system service is installed by root; `--print` shows what to write",
        ) from error


def _run(command: Sequence[str], *, must: bool = True) -> bool:
    """Whether the supervisor's own program ended well. Raises ServiceRefused if it `must`."""
    try:
        ended = subprocess.run(command, check=False).returncode
    except FileNotFoundError as error:
        raise ServiceRefused(
            f"Cannot run {command[0]}",
            "there is no such program",
            "This machine has another supervisor: `--print` shows what to tell it",
        ) from error
    if must and ended:
        raise ServiceRefused(
            f"`{' '.join(command)}` failed", f"it ended with status {ended}", "It says why above"
        )
    return ended == 0
