"""What binds a worker, native code included; the kernel of the machine must have it."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.formats.sandbox import confine as kernel
from hopsyncd.formats.sandbox.messages import Limits
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from tests.unit.test_sandbox import BAD

has_landlock = pytest.mark.skipif(kernel.find_landlock_version() < 1, reason="no Landlock here")
O_RDONLY, O_CREAT_WRONLY = "0", str(os.O_CREAT | os.O_WRONLY)


@pytest.fixture(scope="module")
def worker() -> Iterator[ExtractionProcess]:
    with closing(ExtractionProcess(limits=Limits(light_bytes=0), command=BAD)) as process:
        yield process


def natively(worker: ExtractionProcess, *call: str) -> str:
    (block,) = worker.extract(f"natively {' '.join(call)}".encode(), "text/plain")
    return block.text


@has_landlock
@pytest.mark.parametrize(
    "call",
    [
        ("open", "/etc/passwd", O_RDONLY),
        ("open", "/proc/self/environ", O_RDONLY),
        ("mkdir", "/tmp/hopsyncd-of-a-worker", "448"),
        ("symlink", "/etc", "/tmp/hopsyncd-of-a-worker"),
    ],
)
def test_native_code_cannot_read_or_change_the_users_files(
    worker: ExtractionProcess, call: tuple[str, ...]
) -> None:
    assert natively(worker, *call) == "EACCES"


@has_landlock
def test_native_code_cannot_create_or_remove_files(
    worker: ExtractionProcess, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.touch()
    assert natively(worker, "open", str(tmp_path / "new"), O_CREAT_WRONLY) == "EACCES"
    assert natively(worker, "unlink", str(kept)) == "EACCES"
    assert natively(worker, "rename", str(kept), str(tmp_path / "b")) == "EACCES"
    assert [*tmp_path.iterdir()] == [kept]


@pytest.mark.parametrize(
    "call",
    [
        ("socket", "1", "1", "0"),
        ("socket", "2", "2", "0"),
        ("fork",),
        ("kill", str(os.getpid()), "0"),
        ("ptrace", "16", str(os.getpid()), "0", "0"),
        ("unshare", str(0x1000_0000)),
        ("prlimit", str(os.getpid()), "7", "0", "0"),
        ("setpriority", "0", str(os.getpid()), "19"),
        ("sched_setaffinity", str(os.getpid()), "0", "0"),
        ("tgkill", str(os.getpid()), str(os.getpid()), "0"),
        ("shmget", "0", "4096", "0"),
        ("inotify_init",),
        ("chroot", "/"),
    ],
)
def test_native_code_cannot_open_sockets_or_start_or_reach_processes(
    worker: ExtractionProcess, call: tuple[str, ...]
) -> None:
    assert natively(worker, *call) == "EPERM"


@pytest.mark.parametrize("call", [("chmod", "511"), ("lchown", "65534", "65534"), ("utime", "0")])
def test_native_code_cannot_change_the_mode_owner_or_time_of_a_file(
    worker: ExtractionProcess, tmp_path: Path, call: tuple[str, ...]
) -> None:
    kept = tmp_path / "kept"
    kept.touch(0o600)
    os.utime(kept, (1.0, 1.0))
    before = kept.stat()
    name, *arguments = call
    assert natively(worker, name, str(kept), *arguments) == "EPERM"
    after = kept.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (
        before.st_mode,
        before.st_uid,
        before.st_mtime,
    )


def test_a_worker_limits_itself_and_can_abort(worker: ExtractionProcess) -> None:
    own = natively(worker, "getpid").partition(": ")[2]
    assert natively(worker, "prlimit", "0", "7", "0", "0") == "done: 0"
    assert natively(worker, "tgkill", own, own, "0") == "done: 0"
