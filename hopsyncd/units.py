"""What systemd and launchd want to know to keep the daemon running: pure texts."""

import plistlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SERVICE, SOCKET, LAUNCHD = "hopsyncd.service", "hopsyncd.socket", "hopsyncd.plist"
LAUNCHD_LABEL = "hopsyncd"

_STOP_S = 30  # a sync in hand has 6 s, requests 3 s; a checkpoint of the log comes after
_START_S = 600  # a new schema can take minutes
_WATCHDOG_S = 60

# What the manager of a user can do without namespaces of its own, which not every kernel allows.
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
    """`command` runs hopsyncd. `user` is whom a system service runs as; None: it is a user's own.

    `home` is HOPSYNCD_HOME where that is set, `config` a file that was named, `places` all else
    that it reads or writes, `group` whose members may ask it.
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


def service_unit(installed: Installation, *, socket_activated: bool) -> str:
    """hopsyncd.service."""
    lines = [
        "[Unit]",
        "Description=hopsyncd, a knowledge graph of documents that keeps itself true",
        *(["Requires=hopsyncd.socket", "After=hopsyncd.socket"] if socket_activated else []),
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={_command(installed.arguments)}",
        "ExecReload=kill -HUP $MAINPID",
        # A worker or a git that is told to end too would seem to have failed.
        "KillMode=mixed",
        *([f"User={installed.user}"] if installed.user else []),
        *([_environment("HOPSYNCD_HOME", installed.home)] if installed.home else []),
        f"EnvironmentFile=-{_escaped(str(installed.environment_file))}",
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
        lines += ["PrivateTmp=yes"] if _none_is_temporary(installed) else []
    target = "multi-user.target" if installed.user else "default.target"
    return "\n".join([*lines, "", "[Install]", f"WantedBy={target}", ""])


def socket_unit(installed: Installation) -> str:
    """hopsyncd.socket: the daemon starts with the first request, and none is lost at a restart."""
    owner = [f"SocketUser={installed.user}"] if installed.user else []
    owner += [f"SocketGroup={installed.group}"] if installed.group else []
    if owner:
        # systemd itself would make the folder its own user's, where nobody else may enter.
        access = '-m 0710 -g "$1"' if installed.group else "-m 0700"
        make = f'[ -d "$0" ] || install -d {access} "$0"'
        words = ["sh", "-c", make, str(installed.socket.parent)]
        words += [installed.group] if installed.group else []
        owner += [f"User={installed.user}"] if installed.user else []
        owner += [f"ExecStartPre={_command(words)}"]
    return "\n".join(
        [
            "[Unit]",
            "Description=The socket of hopsyncd",
            "",
            "[Socket]",
            f"ListenStream={_escaped(str(installed.socket))}",
            f"SocketMode={'0660' if installed.group else '0600'}",
            "DirectoryMode=0700",
            *owner,
            "",
            "[Install]",
            "WantedBy=sockets.target",
            "",
        ]
    )


def launchd_plist(installed: Installation, log: Path) -> str:
    """The property list of a launchd agent."""
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


def _none_is_temporary(installed: Installation) -> bool:
    """Whether nothing that the daemon is or shares is in a folder that PrivateTmp hides."""
    hidden = (Path("/tmp"), Path("/var/tmp"))
    shared = (Path(installed.command[0]), installed.socket, *installed.places)
    return not any(path.is_relative_to(folder) for path in shared for folder in hidden)


def _command(words: Sequence[str]) -> str:
    """A command line; systemd replaces variables in all its words but the first."""
    program, *arguments = map(_quoted, words)
    return " ".join([program, *(word.replace("$", "$$") for word in arguments)])


def _environment(name: str, value: Path) -> str:
    return f"Environment={_quoted(f'{name}={value}')}"


def _escaped(text: str) -> str:
    """Without the specifiers that systemd would replace."""
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    r"""One word of a unit's line.

    >>> _quoted("/home/ann/100% notes")
    '"/home/ann/100%% notes"'
    """
    escaped = _escaped(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != text or " " in text else text
