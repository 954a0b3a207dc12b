"""What a reader needs and this machine does not have: no document is to blame for that."""

import re
import sys
import threading
import time
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from hopsyncd.doctor import machine
from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.media_types import MAIL, PDF, XLSX
from hopsyncd.formats.sandbox import reader_process
from hopsyncd.formats.sandbox.messages import Limits
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess, try_readers
from hopsyncd.formats.sandbox.samples import SAMPLES
from hopsyncd.ingest.read import READER
from store.commit import put_seen
from store.operational import end_quarantine, find_quarantined, put_quarantined
from store.records import Seen, hash_content
from tests.fakes import documents
from tests.fakes.stack import Stack
from tests.unit.test_sandbox import BAD

LIMITS = Limits(memory_bytes=1 << 29, light_bytes=0)


def poor(mended: Path, what: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "tests.fakes.poor_reader", str(mended), what)


def dead(content: bytes, why: str) -> None:
    raise AssertionError(f"given up for ever: {why}")


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    return tmp_path / "mended"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.pdf").write_bytes(documents.pdf())
    (notes / "b.md").write_text("Calm seas.\n")
    return notes


def unread(stack: Stack) -> dict[str, str]:
    return dict(stack.connection.execute("SELECT path, why FROM seen WHERE why IS NOT NULL"))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("pypdfium2", "the library pypdfium2 cannot be loaded"),
        ("16", "exit status|memory|cannot be loaded"),
    ],
)
def test_a_document_waits_for_its_reader_and_is_read_by_the_sync_after(
    what: str, why: str, tmp_path: Path, notes: Path, mended: Path
) -> None:
    with closing(ExtractionProcess(command=poor(mended, what), on_quarantine=dead)) as process:
        stack = Stack(tmp_path / "s.db", FolderConnector(notes), extract=process.extract)
        for _ in range(2):
            stack.sync()
            assert stack.head.documents == 1
            (told,) = unread(stack).values()
            assert re.search(why, told)
        mended.touch()
        stack.sync()
        assert (stack.head.documents, unread(stack)) == (2, {})
        stack.close()


def test_too_little_memory_for_the_worker_is_not_too_large_a_document(mended: Path) -> None:
    with closing(
        ExtractionProcess(limits=LIMITS, command=poor(mended, "300"), on_quarantine=dead)
    ) as process:
        with pytest.raises(ReaderUnavailable, match="300 MiB of memory are not enough"):
            process.extract(b"memory", "text/plain")
        mended.touch()
        with pytest.raises(DocumentUnreadable, match="more than 512 MiB"):
            process.extract(b"memory", "text/plain")


def test_if_no_worker_starts_later_documents_do_not_wait_for_it(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    starts.touch()
    command = ("sh", "-c", f'echo >> "{starts}"; sleep 0.1; exit 1')
    with closing(ExtractionProcess(command=command, on_quarantine=dead)) as process:

        def starts_after_reading() -> int:
            with pytest.raises(ReaderUnavailable, match="starting a worker"):
                process.extract(documents.pdf(), PDF)
            return len(starts.read_text())

        assert [starts_after_reading() for _ in range(6)] == [1, 2, 3, 3, 3, 3]
        deadline_s = time.monotonic() + 60
        while starts_after_reading() == 3:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


def test_a_reader_killed_from_outside_does_not_blame_the_document() -> None:
    with closing(ExtractionProcess(limits=LIMITS, command=BAD, on_quarantine=dead)) as process:
        with pytest.raises(ReaderUnavailable, match="memory ran out"):
            process.extract(b"killed", "text/plain")
        assert process.extract(b"good", "text/plain")


def test_a_damaged_document_is_to_blame_where_a_sample_can_be_read() -> None:
    unavailable: dict[str, ReaderUnavailable] = {}
    with closing(ExtractionProcess(unavailable=unavailable)) as process:
        for kind in (PDF, XLSX):
            with pytest.raises(DocumentUnreadable, match=r"damaged|Not a valid PDF"):
                process.extract(b"no such thing", kind)
    assert not unavailable


def test_the_trial_says_which_types_cannot_be_read_and_notes_when_they_can(mended: Path) -> None:
    unavailable: dict[str, ReaderUnavailable] = {}
    command = poor(mended, "openpyxl")
    try_readers(unavailable, command)
    assert [*unavailable] == [XLSX]
    assert "openpyxl" in unavailable[XLSX].why
    mended.touch()
    try_readers(unavailable, command)
    assert not unavailable


def test_the_trial_runs_although_a_reader_of_text_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load() -> None:
        raise ImportError("no module docutils")

    tried = threading.Event()
    monkeypatch.setattr(reader_process, "load_text_readers", load)
    monkeypatch.setattr(reader_process, "_TRIAL_AFTER_S", 0)
    monkeypatch.setattr(reader_process, "try_readers", lambda _: tried.set())
    reader_process.try_readers_soon({})
    assert tried.wait(10)


def test_each_sample_file_can_be_read() -> None:
    with closing(ExtractionProcess(limits=Limits(light_bytes=0))) as process:
        for kind, sample in SAMPLES.items():
            assert any("Sample" in block.text for block in process.extract(sample(), kind)), kind
    assert [(reader.check, reader.level) for reader in machine.check_readers()] == [
        ("readers", "ok")
    ]


def test_the_doctor_names_what_cannot_be_read_and_why(mended: Path) -> None:
    (found,) = machine.check_readers(poor(mended, "pypdfium2"))
    assert (found.level, PDF in found.detail, "pypdfium2" in found.detail) == ("fail", True, True)
    (found,) = machine.check_readers(("/no/such/program",))
    assert "No such file" in found.detail
    assert found.remedy


def test_a_document_that_an_older_version_refused_is_read_again(
    tmp_path: Path, notes: Path
) -> None:
    data, old = documents.pdf(), "hopsyncd 0.1.0, chunk/3"
    with closing(ExtractionProcess()) as process:
        stack = Stack(tmp_path / "s.db", FolderConnector(notes), extract=lambda *_: ())
        stack.sync()
        stack.connection.execute("UPDATE source_state SET rules = 'chunk/3:12'")
        revisions = dict(stack.connection.execute("SELECT path, revision FROM seen"))
        seen = Seen(stack.source.id, "a.pdf", revisions["a.pdf"], b"", "it is damaged", "Mend it")
        put_seen(stack.connection, [seen], [])
        content = hash_content(PDF.encode() + b"\0" + data)
        put_quarantined(stack.connection, content, old, "crashes the reader", 0)
        stack.close()
        stack = Stack(tmp_path / "s.db", FolderConnector(notes), extract=process.extract)
        assert end_quarantine(stack.connection, READER)
        assert not find_quarantined(stack.connection, READER)
        stack.sync()
        assert unread(stack) == {}
        assert stack.head.passages > 3
        stack.close()


def test_a_mail_waits_for_the_reader_of_what_is_attached(mended: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "Tides"
    message.set_content("See below.")
    message.add_attachment(documents.pdf(), "application", "pdf", filename="a.pdf")
    with closing(ExtractionProcess(command=poor(mended, "pypdfium2"))) as process:
        with pytest.raises(ReaderUnavailable, match="pypdfium2"):
            process.extract(message.as_bytes(), MAIL)
        mended.touch()
        blocks = process.extract(message.as_bytes(), MAIL)
    assert any("quizzlefish" in block.text for block in blocks)
