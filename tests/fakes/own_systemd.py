"""A real systemd that is process 1 of namespaces of its own, where it can change nothing else.

It has its own processes, mounts, control groups, names, network and devices, a few units and a
journal, and one folder that it shares with the test; the root file system is read-only. Nothing of
it is left, however the test ends.
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_SCRIPT = Path(__file__).with_suffix(".sh")
_ROOT = Path(__file__).parents[2]
_START_S, _COMMAND_S = 60.0, 120.0
_MANAGER = "/lib/systemd/systemd"
_JOURNAL = [
    Path("/lib/systemd/system", f"systemd-journald.{kind}") for kind in ("service", "socket")
]
_PROGRAM = (_ROOT, Path(sys.prefix), Path(sys.base_prefix))
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
_TARGETS = ("sysinit", "basic", "shutdown", "sockets")
_RUNTIME = Path("/run/user/of-test")
SHARED = Path("/mnt")
HOME = SHARED / "home"  # of the user who has a manager

_MULTI_USER = """\
[Unit]
DefaultDependencies=no
Requires=user-manager.service sockets.target
After=user-manager.service
"""
# What `systemctl --user` asks; elsewhere logind starts it.
_USER_MANAGER = """\
[Unit]
Requires=systemd-journald.service
After=systemd-journald.service
[Service]
Type=notify
User={user}
Delegate=yes
KillMode=mixed
ExecStartPre=+install -d -m 0700 -o {user} {runtime}
Environment=XDG_RUNTIME_DIR={runtime} HOME={home}
Environment=SYSTEMD_UNIT_PATH={home}/.config/systemd/user:/usr/lib/systemd/user
ExecStart={manager} --user
"""


class NoManager(Exception):
    """No systemd can be run here, and why."""


class Machine:
    """A running one, which sees `shared` as SHARED. `user` has a manager of their own."""

    def __init__(self, init_pid: int, shared: Path, user: str) -> None:
        self._enter = ["nsenter", "-t", str(init_pid), "-m", "-p", "-u", "-i", "-n"]
        self.shared = shared
        self.user = user

    def run(
        self, *command: str, user: str = "root", group: str = "", variables: Mapping[str, str] = {}
    ) -> subprocess.CompletedProcess[str]:
        """A command, to its end, of a user with its own groups or with one other."""
        own = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
        if user == self.user:
            own |= {"HOME": str(HOME), "XDG_RUNTIME_DIR": str(_RUNTIME)}
        groups = f"--groups={group}" if group else "--init-groups"
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", groups]
        return subprocess.run(
            [*self._enter, *become, *command],
            env=own,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )


@contextmanager
def booted(shared: Path, user: str) -> Iterator[Machine]:
    """A machine that is up. Raises NoManager where there can be none."""
    if why := _missing():
        raise NoManager(why)
    _prepare(shared, user)
    with (shared / "boot.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-e", str(_SCRIPT), "outer"],
            cwd=shared,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    try:
        yield _up(process, shared, user)
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(_START_S)


def _missing() -> str | None:
    if os.geteuid() != 0:
        return "only root can run a systemd"
    if any(path.is_relative_to(folder) for path in _PROGRAM for folder in _TEMPORARY):
        return "Python or the code is in a temporary folder, and services have such of their own"
    programs = (_MANAGER, "systemctl", "journalctl", "unshare", "nsenter", "setpriv")
    absent = [program for program in programs if not shutil.which(program)]
    absent += [str(unit) for unit in _JOURNAL if not unit.exists()]
    return f"{', '.join(absent)}: not installed" if absent else None


def _prepare(shared: Path, user: str) -> None:
    """Write what the script wants in the folder."""
    units = shared / "units"
    for name in ("cgroup", "dev", "units", HOME.name):
        (shared / name).mkdir()
    shutil.chown(shared / HOME.name, user)
    shared.chmod(0o755)
    for part in _JOURNAL:
        shutil.copy(part, units)
    for target in _TARGETS:
        (units / f"{target}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (units / "multi-user.target").write_text(_MULTI_USER)
    manager = _USER_MANAGER.format(user=user, runtime=_RUNTIME, home=HOME, manager=_MANAGER)
    (units / "user-manager.service").write_text(manager)
    (shared / "openings").write_text("\n".join(_openings()))


def _openings() -> Iterator[str]:
    """Commands by which everyone can enter the folders of Python and of the code, and no others."""
    closed: dict[Path, list[Path]] = {}
    for path in _PROGRAM:
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(folder, []).append(path)
                break
    for number, (folder, paths) in enumerate(closed.items()):
        kept = [(shlex.quote(str(path)), f"/run/{number}-{n}") for n, path in enumerate(paths)]
        for quoted, place in kept:
            yield f"mkdir {place} && mount -n --bind {quoted} {place}"
        yield f"mount -n -t tmpfs -o mode=755 none {shlex.quote(str(folder))}"
        for quoted, place in kept:
            yield f"mkdir -p {quoted} && mount -n --move {place} {quoted} && rmdir {place}"


def _up(process: subprocess.Popen[bytes], shared: Path, user: str) -> Machine:
    end_s = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < end_s:
        time.sleep(0.1)
        with suppress(FileNotFoundError, ValueError):
            machine = Machine(int((shared / "init.pid").read_text()), shared, user)
            asked = machine.run("systemctl", "is-active", "multi-user.target")
            if asked.returncode == 0:
                return machine
    said = (shared / "boot.log").read_text(errors="replace")
    raise NoManager(said[-2000:] or "it does not come up")
