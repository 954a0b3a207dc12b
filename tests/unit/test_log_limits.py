"""How often a message is logged, and how large a log file becomes."""

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

from hopsyncd.log_limits import (
    MAX_INFORMATION,
    MAX_MESSAGES,
    MAX_WARNINGS,
    RepeatLimit,
    RotatingFile,
)

ROOT = Path(__file__).parents[2]
PROGRAM = """
import logging, sys, structlog
from pathlib import Path
from hopsyncd.logs import configure_logs

file = Path(sys.argv[1]) if len(sys.argv) > 1 else None
configure_logs("debug", "json", ["s3cret"], file)
log = structlog.get_logger("program")
for number in range(1000):
    log.warning("no room", number=number, why="s3cret")
    logging.getLogger("library").error("no room for %s", number)
    log.debug("request", number=number)
"""


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def limit() -> tuple[RepeatLimit, Clock, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    clock = Clock()
    return RepeatLimit(lambda *one: told.append(one), 3600.0, clock), clock, told


def test_a_repeated_message_is_counted_and_reported_a_minute_later() -> None:
    repeats, clock, told = limit()
    admitted = [repeats.admits("warning", f"descriptor {number} failed") for number in range(832)]
    assert sum(admitted) == MAX_WARNINGS
    assert repeats.admits("warning", "another message")
    clock.now_s = 3600.0
    assert repeats.admits("info", "anything")
    assert told == [("warning", "descriptor # failed: … and 812 more like this in the last minute")]
    assert repeats.admits("warning", "descriptor 1 failed")


def test_information_may_be_repeated_more_often_and_debug_without_end() -> None:
    repeats, _, _ = limit()
    assert sum(repeats.admits("info", "version") for _ in range(1000)) == MAX_INFORMATION
    assert all(repeats.admits("debug", "request") for _ in range(1000))


def test_messages_that_all_differ_are_bounded_too() -> None:
    repeats, clock, told = limit()
    names = ("".join(chr(97 + int(digit)) for digit in str(number)) for number in range(5000))
    admitted = sum(repeats.admits("error", name) for name in names)
    assert admitted == MAX_MESSAGES + MAX_WARNINGS
    clock.now_s = 3600.0
    repeats.flush()
    assert told == [("error", "other messages: … and 4,880 more like this in the last minute")]


def test_dropped_messages_are_reported_even_without_later_messages() -> None:
    told: list[tuple[str, str]] = []
    heard = threading.Event()

    def tell(level: str, text: str) -> None:
        told.append((level, text))
        heard.set()

    repeats = RepeatLimit(tell, 0.1)
    for _ in range(MAX_WARNINGS + 5):
        repeats.admits("warning", "no room")
    assert heard.wait(60)
    assert told == [("warning", "no room: … and 5 more like this in the last minute")]


def test_a_flood_of_warnings_of_ours_and_of_libraries_leaves_a_short_log() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert sum(line["level"] == "warning" for line in lines) == MAX_WARNINGS
    assert sum(line["level"] == "error" for line in lines) == MAX_WARNINGS
    assert sum(line["level"] == "debug" for line in lines) == 1000


def test_the_log_goes_to_a_file_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "log"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    assert '"no room"' in file.read_text()
    assert "s3cret" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_full_log_file_is_renamed_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "log", max_bytes=100, kept_files=2)
    for number in range(50):
        file.write(f"line {number:03}\n")
    file.close()
    assert {path.name for path in tmp_path.iterdir()} == {"log", "log.1", "log.2"}
    text = "".join((tmp_path / name).read_text() for name in ("log.2", "log.1", "log"))
    assert text.splitlines() == [f"line {number:03}" for number in range(24, 50)]
    assert all(path.stat().st_size <= 109 for path in tmp_path.iterdir())


def test_a_record_of_a_library_is_known_by_its_template() -> None:
    from hopsyncd.log_limits import LimitedRecords

    repeats, _, _ = limit()
    records = LimitedRecords(repeats)
    made = [
        logging.LogRecord("asyncio", logging.ERROR, "", 0, "failed: %s", (name,), None)
        for name in map(chr, range(97, 123))
    ]
    assert sum(map(bool, map(records.filter, made))) == MAX_WARNINGS
