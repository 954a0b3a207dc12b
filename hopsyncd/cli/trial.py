"""`hopsyncd try`: indexes a folder temporarily, and deletes the index at the end."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO

import click

from hopsyncd.cli.web import open_page
from hopsyncd.client import Client
from hopsyncd.config.configuration import Config, load_config, write_config
from hopsyncd.display import pluralise
from hopsyncd.errors import REPORTABLE, DaemonUnavailable, SocketRefused
from hopsyncd.printable import make_printable

_SOCKET = "run/hopsyncd.sock"
_MAX_SOCKET_BYTES = 103  # the limit of macOS, the lowest of all systems
_START_S = 60.0
_POLL_S = 0.25
_STOP_S = 20.0
_QUIET_POLLS = 3  # after this many polls without work, the import is finished


@click.command("try")
@click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Serve the web interface on this port; 0 chooses a free port.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def try_(folder: Path, port: int, no_browser: bool) -> None:
    """Index a folder temporarily, and open the web interface.

    Ctrl-C deletes the index. Your files are only read.

    Example: hopsyncd try ~/notes
    """
    folder = folder.absolute()
    for number in (signal.SIGHUP, signal.SIGTERM):  # a closed terminal acts like Ctrl-C
        signal.signal(number, signal.default_int_handler)
    home = make_home()
    try:
        os.environ["HOPSYNCD_HOME"] = str(home)  # also for the daemon that this process starts
        write_config(home / "config.toml", [folder])
        config = load_config()
        with (home / "serve.log").open("wb") as log, _daemon(home, config, log) as client:
            _serve_page(client, config, port, no_browser)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    click.echo(
        f"\nNothing is left behind. To keep an index of {make_printable(str(folder))}, run:\n"
        f"  hopsyncd init --folder {shlex.quote(str(folder))}\n"
        "  hopsyncd serve"
    )


def make_home() -> Path:
    """Make a temporary folder whose path is short enough for a socket's address."""
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        with suppress(OSError):
            home = Path(tempfile.mkdtemp(prefix="hopsyncd-try-", dir=parent))
            if len(os.fsencode(home / _SOCKET)) <= _MAX_SOCKET_BYTES:
                return home
            home.rmdir()
    raise SocketRefused(
        "There is no temporary folder for the index",
        "no temporary folder of this machine can be written to, or their paths are too long "
        "for a socket",
        "Set TMPDIR to a folder with a short path",
    )


@contextmanager
def _daemon(home: Path, config: Config, log: IO[bytes]) -> Iterator[Client]:
    """Run a separate daemon with its files in the folder `home` until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hopsyncd", "serve"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,  # Ctrl-C reaches only this command, which then ends the daemon
    )
    try:
        with Client(config.daemon.socket) as client:
            _wait_until_ready(client, process, home)
            yield client
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(client: Client, process: "subprocess.Popen[bytes]", home: Path) -> None:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s:
        with suppress(DaemonUnavailable):
            client.health()
            return
        if process.poll() is not None:
            break
        time.sleep(_POLL_S)
    lines = (home / "serve.log").read_text(errors="replace").strip().splitlines()
    raise DaemonUnavailable(
        "The daemon did not start",
        make_printable(lines[-1]) if lines else "it logged nothing",
        "Run `hopsyncd doctor`",
    )


def _serve_page(client: Client, config: Config, port: int, no_browser: bool) -> None:
    """Serve the web interface until Ctrl-C, and print the progress and the example questions."""
    with open_page(client, config.limits, None, port, no_browser) as serve:
        ended = Event()
        printing = Thread(target=_print_progress, args=(client, ended), daemon=True)
        printing.start()
        try:
            with suppress(KeyboardInterrupt):
                serve()
        finally:
            ended.set()
            printing.join(_STOP_S)


def _print_progress(client: Client, ended: Event) -> None:
    """Print the progress of the import, then three questions that the folder answers."""
    quiet = 0
    try:
        while not ended.wait(_POLL_S):
            state = client.status()
            is_busy = state["syncing"] or state["pending"] or not state["version"]
            quiet = 0 if is_busy else quiet + 1
            if sys.stdout.isatty():
                share = state["progress"]["share"] if state["progress"] else 1.0
                click.echo(f"\rReading: {share:4.0%}, {pluralise(state['documents'], 'document')} ",
                           nl=False)  # fmt: skip
            if quiet >= _QUIET_POLLS:
                break
        else:
            return
        lead = "\r" if sys.stdout.isatty() else ""
        questions = client.examples()["questions"]
        count = pluralise(state["documents"], "document")
        click.echo(f"{lead}Indexed {count}, {pluralise(state['passages'], 'passage')}.")
        if questions:
            click.echo("Questions that need two of these documents:")
        for question in questions:
            click.echo(f"  {make_printable(question['question'])}")
            click.echo(f"    {make_printable(' → '.join(question['path']))}")
    except REPORTABLE:
        return  # Ctrl-C has ended the daemon
