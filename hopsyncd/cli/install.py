"""`hopsyncd service`: let systemd or launchd keep the daemon running."""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from hopsyncd.config.configuration import Config, find_config_path, find_home, load_config
from hopsyncd.errors import HopsyncdError

SERVICE, SOCKET, LAUNCHD = "hopsyncd.service", "hopsyncd.socket", "hopsyncd.plist"
LAUNCHD_LABEL = "hopsyncd"
_SYSTEM_UNITS = Path("/etc/systemd/system")

_STOP_S = 30  # 6 s for a running sync, 3 s for requests, then a checkpoint
_START_S = 600  # migrating the schema can take minutes
_WATCHDOG_S = 60

# Hardening that systemd can apply for a user without namespaces, which some kernels forbid.
_HARDENING = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
UMask=0077
"""
_SYSTEM_HARDENING = """\
ProtectSystem=full
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
CapabilityBoundingSet=
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The command, user and files of a service.

    `command` runs hopsyncd. `user` is the user of a system service, None for a user's own service.
    `home` is HOPSYNCD_HOME and `config` the configuration file, if they were given. `places` are
    the other paths that the daemon reads or writes. Members of `group` may use the daemon.
    """

    command: tuple[str, ...]
    socket: Path
    places: tuple[Path, ...]
    environment_file: Path
    config: Path | None = None
    home: Path | None = None
    user: str | None = None
    group: str | None = None

    @property
    def arguments(self) -> list[str]:
        named = ["--config", str(self.config)] if self.config else []
        return [*self.command, *named, "serve"]


def format_service_unit(installed: Installation, *, socket_activated: bool) -> str:
    lines = [
        "[Unit]",
        "Description=hopsyncd, search and answers across your documents",
        *(["Requires=hopsyncd.socket", "After=hopsyncd.socket"] if socket_activated else []),
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={_format_command(installed.arguments)}",
        "ExecReload=kill -HUP $MAINPID",
        # Otherwise systemd also stops workers and git, which then seem to have failed.
        "KillMode=mixed",
        *([f"User={installed.user}"] if installed.user else []),
        *([f"Environment={_quote(f'HOPSYNCD_HOME={installed.home}')}"] if installed.home else []),
        f"EnvironmentFile=-{_escape(str(installed.environment_file))}",
        "Restart=on-failure",
        "RestartSec=5",
        f"TimeoutStartSec={_START_S}",
        f"TimeoutStopSec={_STOP_S}",
        f"WatchdogSec={_WATCHDOG_S}",
        "Nice=5",
        *_HARDENING.splitlines(),
    ]
    if installed.user:
        lines += _SYSTEM_HARDENING.splitlines()
        lines += ["PrivateTmp=yes"] if _uses_no_temporary_folder(installed) else []
    target = "multi-user.target" if installed.user else "default.target"
    return "\n".join([*lines, "", "[Install]", f"WantedBy={target}", ""])


def format_socket_unit(installed: Installation) -> str:
    """Return the text of hopsyncd.socket.

    With this unit, the first request starts the daemon, and no request is lost during a restart.
    """
    owner = [f"SocketUser={installed.user}"] if installed.user else []
    owner += [f"SocketGroup={installed.group}"] if installed.group else []
    if owner:
        # systemd would create the folder for its own user, and no other user could enter it.
        access = '-m 0710 -g "$1"' if installed.group else "-m 0700"
        make = f'[ -d "$0" ] || install -d {access} "$0"'
        words = ["sh", "-c", make, str(installed.socket.parent)]
        words += [installed.group] if installed.group else []
        owner += [f"User={installed.user}"] if installed.user else []
        owner += [f"ExecStartPre={_format_command(words)}"]
    return "\n".join(
        [
            "[Unit]",
            "Description=The socket of hopsyncd",
            "",
            "[Socket]",
            f"ListenStream={_escape(str(installed.socket))}",
            f"SocketMode={'0660' if installed.group else '0600'}",
            "DirectoryMode=0700",
            *owner,
            "",
            "[Install]",
            "WantedBy=sockets.target",
            "",
        ]
    )


def format_launchd_plist(installed: Installation, log: Path) -> str:
    variables = {"HOPSYNCD_HOME": str(installed.home)} if installed.home else {}
    return plistlib.dumps(
        {
            "Label": LAUNCHD_LABEL,
            "ProgramArguments": installed.arguments,
            "EnvironmentVariables": variables,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": _STOP_S,
            "ProcessType": "Background",
            "Umask": 0o077,
            "StandardErrorPath": str(log),
        },
        sort_keys=False,
    ).decode()


def _uses_no_temporary_folder(installed: Installation) -> bool:
    """Return whether PrivateTmp can be used.

    PrivateTmp hides the temporary folders of the system, so no path of the daemon may be in a
    temporary folder.
    """
    hidden = (Path("/tmp"), Path("/var/tmp"))
    shared = (Path(installed.command[0]), installed.socket, *installed.places)
    return not any(path.is_relative_to(folder) for path in shared for folder in hidden)


def _format_command(words: Sequence[str]) -> str:
    """Format a command line for a unit file. systemd expands `$` in all words but the first."""
    program, *arguments = map(_quote, words)
    return " ".join([program, *(word.replace("$", "$$") for word in arguments)])


def _escape(text: str) -> str:
    """Escape systemd's specifiers."""
    return text.replace("%", "%%")


def _quote(text: str) -> str:
    r"""Quote a word for a line of a unit file.

    >>> _quote("/home/ann/100% notes")
    '"/home/ann/100%% notes"'
    """
    escaped = _escape(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != text or " " in text else text


class ServiceRefused(HopsyncdError):
    """The service cannot be installed or controlled."""


_system = click.option(
    "--system", is_flag=True, help="Use a system-wide service (systemd, as root)."
)


@click.group()
def service() -> None:
    """Let systemd or launchd keep the daemon running."""


@service.command()
@_system
@click.option("--user", help="With --system: the user that the daemon runs as.")
@click.option(
    "--socket-activation", is_flag=True, help="Start the daemon when the first request arrives."
)
@click.option("--now", is_flag=True, help="Start the daemon now and at each login or boot.")
@click.option("--print", "only_print", is_flag=True, help="Only print the files.")
@click.pass_context
def install(
    context: click.Context,
    system: bool,
    user: str | None,
    socket_activation: bool,
    now: bool,
    only_print: bool,
) -> None:
    """Write the service files for the current configuration.

    Example: hopsyncd service install --now
    """
    if system != bool(user):
        raise click.UsageError("Use --system and --user NAME together.")
    if system and find_home() is None:
        raise ServiceRefused(
            "Cannot install a system service",
            f"HOPSYNCD_HOME is not set, and the default folders do not belong to {user}",
            f"Set HOPSYNCD_HOME to a folder of {user} with a config.toml",
        )
    installed = _describe_installation(context.obj, user)
    files = _build_files(installed, socket_activation)
    if only_print:
        for path, text in files.items():
            click.echo(f"# {path}\n{text}")
        return
    _remove([path for path in _list_paths(system) if path.exists() and path not in files], system)
    new = [path for path in files if not path.exists()]
    for path, text in files.items():
        _write(path, text, system)
        click.echo(f"Wrote {path}")
    start = _start_commands(system, socket_activation)
    try:
        for command in start if now else ():
            _run(command)
    except ServiceRefused:
        for path in new:
            path.unlink(missing_ok=True)
            click.echo(f"Removed {path}")
        raise
    if not now:
        click.echo("Start the daemon now and at each login or boot with:")
        click.echo("\n".join(f"  {' '.join(command)}" for command in start))
    if not (system or _is_mac()):
        click.echo("The daemon stops when you log out. To keep it running: loginctl enable-linger")


@service.command()
@_system
def uninstall(system: bool) -> None:
    """Stop the daemon and remove the service files. The index and the configuration stay."""
    files = [path for path in _list_paths(system) if path.exists()]
    if not files:
        click.echo("No service is installed.")
        return
    _remove(files, system)
    if not _is_mac():
        _run([*_make_systemctl_command(system), "daemon-reload"], must=False)


@service.command("status")
@_system
@click.pass_context
def service_status(context: click.Context, system: bool) -> None:
    """Show the installed files and the state of the service.

    If the service is not running, the exit status is 3.
    """
    files = [path for path in _list_paths(system) if path.exists()]
    for path in files:
        click.echo(f"Installed: {path}")
    if not files:
        click.echo("No service is installed. Install one with `hopsyncd service install`.")
        context.exit(3)
    if _is_mac():
        command = ["launchctl", "print", f"gui/{os.getuid()}/{LAUNCHD_LABEL}"]
    else:
        command = [*_make_systemctl_command(system), "status", "--no-pager", SERVICE]
    if not _run(command, must=False):
        context.exit(3)


def _describe_installation(config_file: Path | None, user: str | None) -> Installation:
    config = load_config(config_file)
    program = shutil.which("hopsyncd")
    command = (program,) if program else (sys.executable, "-m", "hopsyncd")
    return Installation(
        command,
        config.daemon.socket,
        (config.daemon.data_dir, *_list_folders(config)),
        find_config_path(config_file).with_name("environment"),
        find_config_path(config_file) if config_file else None,
        find_home(),
        user,
        config.access.group or None,
    )


def _list_folders(config: Config) -> list[Path]:
    places = [getattr(source, "path", None) for source in config.sources]
    return [place for place in places if isinstance(place, Path)]


def _build_files(installed: Installation, socket_activation: bool) -> dict[Path, str]:
    if _is_mac():
        log = Path.home() / "Library/Logs/hopsyncd.log"
        return {_list_paths(False)[0]: format_launchd_plist(installed, log)}
    unit, socket = _list_paths(installed.user is not None)
    files = {unit: format_service_unit(installed, socket_activated=socket_activation)}
    if socket_activation:
        files[socket] = format_socket_unit(installed)
    return files


def _list_paths(system: bool) -> tuple[Path, ...]:
    """Return the paths of the service files."""
    if _is_mac():
        return (Path.home() / "Library/LaunchAgents" / LAUNCHD,)
    base = os.environ.get("XDG_CONFIG_HOME", "")
    config_home = Path(base) if base.startswith("/") else Path.home() / ".config"
    folder = _SYSTEM_UNITS if system else config_home / "systemd/user"
    return folder / SERVICE, folder / SOCKET


def _remove(files: Sequence[Path], system: bool) -> None:
    """Stop the services that these files describe, and remove the files."""
    if not files:
        return
    if _is_mac():
        _run(["launchctl", "bootout", f"gui/{os.getuid()}/{LAUNCHD_LABEL}"], must=False)
    else:
        names = [path.name for path in files]
        _run([*_make_systemctl_command(system), "disable", "--now", *names], must=False)
    for path in files:
        path.unlink()
        click.echo(f"Removed {path}")


def _start_commands(system: bool, socket_activation: bool) -> list[list[str]]:
    if _is_mac():
        return [["launchctl", "bootstrap", f"gui/{os.getuid()}", str(_list_paths(False)[0])]]
    unit = SOCKET if socket_activation else SERVICE
    steps = [["daemon-reload"], ["enable", unit], ["restart", unit]]
    if socket_activation:
        # systemd cannot open a socket for a service that is already running.
        steps.insert(1, ["disable", "--now", SERVICE])
    return [[*_make_systemctl_command(system), *step] for step in steps]


def _make_systemctl_command(system: bool) -> list[str]:
    return ["systemctl"] if system else ["systemctl", "--user"]


def _is_mac() -> bool:
    return sys.platform == "darwin"


def _write(path: Path, text: str, system: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        remedy = "Run the command as root" if system else f"Check the folder {path.parent}"
        raise ServiceRefused(
            f"Cannot write {path}",
            (error.strerror or str(error)).lower(),
            f"{remedy}, or use --print to see the files",
        ) from error


def _choose_hint(command: Sequence[str]) -> str:
    """Return the hint for a command of the service manager that failed."""
    if command[:2] != ["systemctl", "--user"]:
        return "See the command's output above"
    return (
        "See the command's output above. For an account without a login session, run as root:"
        " `HOPSYNCD_HOME=FOLDER hopsyncd service install --system --user NAME --now`"
    )


def _run(command: Sequence[str], *, must: bool = True) -> bool:
    """Run a command, and return whether it succeeded. With `must`, raise ServiceRefused if it
    failed."""
    try:
        ended = subprocess.run(command, check=False).returncode
    except FileNotFoundError as error:
        raise ServiceRefused(
            f"Cannot run {command[0]}",
            "the program is not installed",
            "Use the service manager of this machine. `--print` shows the command to run",
        ) from error
    if must and ended:
        raise ServiceRefused(
            f"`{' '.join(command)}` failed",
            f"the exit status is {ended}",
            _choose_hint(command),
        )
    return ended == 0
