"""The socket, and what the daemon says of itself if one answers there."""

import socket
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from hopsyncd.client import Client, RequestFailed
from hopsyncd.config import Config
from hopsyncd.doctor.finding import Finding, well
from hopsyncd.errors import DaemonUnavailable, DaemonUntrusted

_MAX_PATH_BYTES = 107
_CONNECT_S, _ANSWER_S = 1.0, 5.0


def served(config: Config) -> Iterator[Finding]:
    """Whether a daemon could serve, or serves; then how it is."""
    yield from _place(config)
    match _reached(config):
        case "":
            yield from _answered(config)
        case "nobody":
            yield Finding("daemon", "warn", "no daemon runs", "`hopsyncd serve` starts one")
        case "stale":
            why = f"a daemon that ended badly has left {config.daemon.socket}"
            yield Finding("daemon", "warn", why, "`hopsyncd serve` takes its place")
        case why:
            remedy = "Only its owner, and whom [access] names, may ask the daemon"
            yield Finding("daemon", "fail", f"{config.daemon.socket}: {why}", remedy)


def _place(config: Config) -> Iterator[Finding]:
    path = config.daemon.socket
    remedy = "Set daemon.socket to another path"
    if len(bytes(path)) > _MAX_PATH_BYTES:
        yield Finding("socket", "fail", f"{path} is longer than {_MAX_PATH_BYTES} bytes", remedy)
    if path.exists() and not path.is_socket():
        yield Finding("socket", "fail", f"{path} is no socket", f"Move it away. {remedy}")
    folder = path.parent
    if folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o007:
        yield Finding("socket", "fail", f"everyone can enter {folder}", f"`chmod 700 {folder}`")


def _reached(config: Config) -> str:
    """Empty, or why nobody is reached."""
    path = config.daemon.socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probing:
            probing.settimeout(_CONNECT_S)
            probing.connect(str(path))
    except FileNotFoundError:
        return "nobody"
    except ConnectionRefusedError:
        return "stale" if path.is_socket() else "nobody"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _answered(config: Config) -> Iterator[Finding]:
    try:
        status = Client(config.daemon.socket, timeout_s=_ANSWER_S).status()
    except RequestFailed as error:
        yield Finding("daemon", "fail", error.why, error.hint)
        return
    except DaemonUntrusted as error:
        yield Finding("daemon", "fail", error.why, error.hint)
        return
    except DaemonUnavailable as error:
        remedy = "Restart it; `hopsyncd service install` has systemd do that by itself"
        yield Finding("daemon", "fail", error.why, remedy)
        return
    yield well(
        "daemon", f"it runs as process {status['pid']} and serves version {status['version']}"
    )
    if status["error"]:
        yield Finding("daemon", "fail", status["error"], "It tries again; its log has the details")
    yield from _configured(status["configuration"])
    if found := len(status["problems"]):
        detail = f"{found} document{'' if found == 1 else 's'} cannot be read"
        yield Finding("documents", "warn", detail, "`hopsyncd status` names them")
    for source in status["sources"]:
        name = f"source {source['name']}"
        if source["problem"]:
            yield Finding(name, "warn", f"it is paused: {source['problem']}", source["hint"] or "")
        if source["watch_problem"]:
            remedy = "Its changes wait for the next scan"
            yield Finding(name, "warn", source["watch_problem"], remedy)


def _configured(configuration: Mapping[str, Any]) -> Iterator[Finding]:
    if configuration["refused"]:
        remedy = "Correct it, then `hopsyncd reload`"
        yield Finding("configuration", "warn", configuration["refused"], remedy)
    if waiting := configuration["restart_needed"]:
        detail = f"changed since the daemon started: {', '.join(waiting)}"
        yield Finding("configuration", "warn", detail, "Restart the daemon")
