"""`hopsyncd service install` under a real systemd: that of a machine, and that of a user."""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TypeVar

import pytest

from tests.e2e.daemon import ROOT, SMALL, source
from tests.fakes.own_systemd import HOME, SHARED, Machine, NoManager, booted

USER, TEAM, MEMBER = "daemon", "daemon", "games"
WAIT_S = 90.0
T = TypeVar("T")
LITTLE, WHOLE = "small 5%h", "whole $d"  # folders of programs, named to be misread
NOTE = "Ansgar Nyborg keeps the lighthouse.\n"

# The command `hopsyncd`: the code under test, whose daemon has small models, or those of its own.
_PROGRAM = f"""#!/bin/sh
export PYTHONPATH={quote(str(ROOT))}
case "$0 $*" in
    */small*" serve") exec {sys.executable} -m {SMALL[0]} ;;
    *) exec {sys.executable} -m hopsyncd "$@" ;;
esac
"""


class Service:
    """A home of `USER`, and the service for it: the machine's, or the user's own."""

    def __init__(self, machine: Machine, name: str, *, system: bool, program: str) -> None:
        self.machine, self.system = machine, system
        self._shared = machine.shared / name
        self._program = SHARED / program
        self.home = SHARED / name / "home"
        self.units = Path("/etc/systemd/system") if system else HOME / ".config/systemd/user"
        for folder in (self._shared, self._shared / "home", self._shared / "notes"):
            folder.mkdir()
            shutil.chown(folder, USER)
        self.write("a.md", NOTE)
        self.configure()

    def write(self, name: str, text: str) -> None:
        (self._shared / "notes" / name).write_text(text)

    def configure(self, more: str = "") -> None:
        text = more + source("notes", self.home.with_name("notes"))
        (self._shared / "home/config.toml").write_text(text)

    def install(self, *options: str) -> None:
        self.service("install", "--now", *options, *(["--user", USER] if self.system else []))

    def service(self, *arguments: str) -> str:
        """`hopsyncd service` by the one whose service it is."""
        of_machine = ["--system"] if self.system else []
        return self.hopsyncd("service", *arguments, *of_machine, user=self._manager_of)

    def hopsyncd(self, *arguments: str, user: str = USER, group: str = "") -> str:
        path = f"{self._program}:/usr/bin:/bin"
        variables = {"HOPSYNCD_HOME": str(self.home), "PATH": path}
        return self._run("hopsyncd", *arguments, user=user, group=group, variables=variables)

    def finds_the_note(self, user: str = USER, group: str = "") -> bool:
        return NOTE.strip() in self.hopsyncd("query", "Nyborg", user=user, group=group)

    def systemctl(self, *arguments: str) -> str:
        own = [] if self.system else ["--user"]
        return self._run("systemctl", *own, *arguments, user=self._manager_of).strip()

    def show(self, name: str, unit: str = "hopsyncd.service") -> str:
        return self.systemctl("show", "--value", "--property", name, unit)

    def override(self, *settings: str) -> None:
        """As `systemctl edit` writes it."""
        text = "\n".join(["[Service]", *settings, ""])
        write = 'mkdir -p "$0" && echo "$1" > "$0/override.conf"'
        folder = str(self.units / "hopsyncd.service.d")
        self._run("sh", "-c", write, folder, text, user=self._manager_of)

    def until(self, wanted: Callable[[], T]) -> T:
        """What there is once there is something."""
        end_s = time.monotonic() + WAIT_S
        while not (found := wanted()):
            assert time.monotonic() < end_s, self.journal()
            time.sleep(0.1)
        return found

    def journal(self, *options: str) -> str:
        return self.machine.run("journalctl", "--no-pager", "--lines=60", *options).stdout

    def worker(self) -> str:
        """The number of the process that reads a document, while it does.

        It has written twice: who is to go first when memory is short, and that it is ready.
        """
        find = """for pid in $(pgrep -f "[h]opsyncd.formats.sandbox.reader_worker"); do
            if grep -qx "syscw: 2" "/proc/$pid/io"; then echo "$pid"; break; fi; done"""
        return self._run("sh", "-c", find, user="root").strip()

    def clean(self) -> None:
        self.service("uninstall")
        self._run("rm", "-rf", str(self.units / "hopsyncd.service.d"), user="root")

    @property
    def _manager_of(self) -> str:
        return "root" if self.system else USER

    def _run(
        self, *command: str, user: str, group: str = "", variables: Mapping[str, str] = {}
    ) -> str:
        ran = self.machine.run(*command, user=user, group=group, variables=variables)
        assert ran.returncode == 0, ran.stdout + ran.stderr + self.journal()
        return ran.stdout


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="hop-") as folder:
        for program in (LITTLE, WHOLE):
            command = Path(folder, program, "hopsyncd")
            command.parent.mkdir()
            command.write_text(_PROGRAM)
            command.chmod(0o755)
        try:
            with booted(Path(folder), USER) as running:
                yield running
        except NoManager as why:
            pytest.skip(f"no systemd can be started here: {why}")


@pytest.fixture
def service(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Service]:
    name = f"{len(list(machine.shared.iterdir()))} %h $HOME"
    program = WHOLE if request.param == "whole" else LITTLE
    made = Service(machine, name, system=request.param != "user", program=program)
    yield made
    made.clean()


@pytest.mark.parametrize(
    "service", ["system", pytest.param("user", marks=pytest.mark.nightly)], indirect=True
)
def test_an_installed_service_comes_back_when_it_is_killed_and_ends_in_peace(
    service: Service,
) -> None:
    service.override("RestartSec=100ms")
    service.install()
    assert "Active: active (running)" in service.service("status")
    service.hopsyncd("sync", "--wait")
    assert service.finds_the_note()

    service.systemctl("kill", "--kill-who=main", "--signal=KILL", "hopsyncd.service")
    service.until(lambda: service.show("NRestarts") == "1")
    service.until(lambda: service.show("ActiveState") == "active")
    service.until(lambda: "1 passages, up to date" in service.show("StatusText"))
    assert service.finds_the_note()

    service.systemctl("stop", "hopsyncd.service")
    ended = [service.show(name) for name in ("Result", "ExecMainCode", "ExecMainStatus")]
    assert ended == ["success", "1", "0"], "it exited, with status 0"
    service.service("uninstall")
    assert service.show("LoadState") == "not-found"


@pytest.mark.parametrize("service", ["user"], indirect=True)
def test_a_reload_takes_a_good_configuration_and_keeps_it_when_the_next_is_bad(
    service: Service,
) -> None:
    service.install()
    pid = service.show("MainPID")
    service.configure("[query]\nk = 0\n")
    service.systemctl("reload", "hopsyncd.service")
    service.until(lambda: "configuration is refused" in service.show("StatusText"))
    assert "configuration refused" in service.journal("--priority=err")

    service.configure("[query]\nk = 1\n")
    service.write("b.md", "Ansgar Nyborg is the keeper.\n")
    service.systemctl("reload", "hopsyncd.service")
    service.until(lambda: "refused" not in service.show("StatusText"))
    service.hopsyncd("sync", "--wait")
    found = json.loads(service.hopsyncd("query", "Nyborg", "--json"))
    assert len(found["passages"]) == 1, "as many as query.k says"
    assert service.show("MainPID") == pid
    assert service.show("ActiveState") == "active"


@pytest.mark.parametrize("service", ["user"], indirect=True)
def test_a_daemon_that_hangs_is_replaced(service: Service) -> None:
    service.override("WatchdogSec=10", "RestartSec=100ms")
    service.install()
    service.hopsyncd("sync", "--wait")
    service.systemctl("kill", "--kill-who=main", "--signal=STOP", "hopsyncd.service")
    service.until(lambda: service.show("NRestarts") != "0")
    service.until(lambda: service.show("ActiveState") == "active")
    assert "Watchdog timeout (limit 10s)" in service.journal()
    assert service.finds_the_note()


@pytest.mark.parametrize(
    "service", ["user", pytest.param("system", marks=pytest.mark.nightly)], indirect=True
)
def test_a_request_starts_the_daemon_and_none_is_refused_while_it_restarts(
    service: Service,
) -> None:
    service.install("--socket-activation")
    assert service.show("ActiveState") == "inactive"
    service.hopsyncd("sync", "--wait")
    assert service.finds_the_note()

    pid = service.show("MainPID")
    service.systemctl("kill", "--kill-who=main", "--signal=KILL", "hopsyncd.service")
    assert service.finds_the_note()
    assert service.show("MainPID") not in ("0", pid)
    service.systemctl("stop", "hopsyncd.service")
    service.systemctl("start", "--no-block", "hopsyncd.service")
    assert service.finds_the_note()
    service.systemctl("stop", "hopsyncd.service")
    assert service.finds_the_note()


@pytest.mark.parametrize("service", ["user"], indirect=True)
def test_a_socket_in_place_of_a_running_service_takes_over_and_gives_back(
    service: Service,
) -> None:
    service.install()
    service.hopsyncd("sync", "--wait")
    for _ in range(2):
        service.install("--socket-activation")
        assert service.show("ActiveState") == "inactive"
        assert service.finds_the_note()
    service.install()
    assert service.show("LoadState", "hopsyncd.socket") == "not-found"
    assert service.show("ActiveState") == "active"
    assert service.finds_the_note()


@pytest.mark.parametrize("service", ["system"], indirect=True)
def test_a_member_of_the_group_reaches_the_socket_that_systemd_opens(service: Service) -> None:
    service.configure(f'[access]\ngroup = "{TEAM}"\n')
    service.install("--socket-activation")
    service.hopsyncd("sync", "--wait")
    assert service.finds_the_note(MEMBER, TEAM)
    with pytest.raises(AssertionError, match="no permission to use this socket"):
        service.finds_the_note(MEMBER)


@pytest.mark.parametrize("service", ["user"], indirect=True)
def test_a_document_whose_reading_was_stopped_is_read_after_the_restart(service: Service) -> None:
    service.write("list.md", "- a\n" * 40_000)  # which takes a worker a second or more
    service.install()
    pid = service.until(service.worker)
    service.machine.run("kill", "-STOP", pid)
    assert service.worker() == pid, "it has not read all"
    service.systemctl("stop", "hopsyncd.service")
    service.systemctl("start", "hopsyncd.service")
    reply = json.loads(service.hopsyncd("sync", "--wait", "--json"))
    assert [one["problem"] for one in reply["sources"]] == [None], reply
    assert json.loads(service.hopsyncd("status", "--json"))["quarantined"] == 0


@pytest.mark.models
@pytest.mark.parametrize("service", ["whole"], indirect=True)
def test_the_default_models_and_the_worker_run_with_the_rights_of_a_system_service(
    service: Service,
) -> None:
    service.write("b.md", "Tove Lindqvist repairs clocks.\n" * 3000)
    service.install()
    service.hopsyncd("sync", "--wait")
    assert service.finds_the_note()
    status = json.loads(service.hopsyncd("status", "--json"))
    assert (status["documents"], status["quarantined"]) == (2, 0)
