"""The process that reads documents: what one document does to it, and what that does to us."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hopsyncd.errors import DocumentUnreadable, ReaderUnavailable
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.sandbox.messages import Limits, decode_result, encode_reply
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from hopsyncd.formats.sandbox.reader_worker import store_bytecode

BAD = (sys.executable, "-P", "-m", "tests.fakes.bad_reader")
LIMITS = Limits(
    cpu_s=1,
    cpu_s_per_mib=1,
    wall_s=60,
    memory_bytes=1 << 29,
    reply_bytes=1 << 20,
    documents_per_worker=5,
    light_bytes=0,
)
IMPATIENT = replace(LIMITS, wall_s=8)


@pytest.fixture
def process() -> Iterator[ExtractionProcess]:
    process = ExtractionProcess(limits=LIMITS, command=BAD)
    yield process
    process.close()


def text_of(process: ExtractionProcess, said: bytes) -> str:
    (block,) = process.extract(said, "text/plain")
    return block.text


def why_of(process: ExtractionProcess, said: bytes) -> str:
    with pytest.raises(DocumentUnreadable) as raised:
        process.extract(said, "text/plain")
    return raised.value.why


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"crash", "crashes the reader \\(SIGABRT\\)"),
        (b"exit", "crashes the reader \\(exit status 0\\)"),
        (b"hang", "takes longer than 8 s"),
        (b"memory", "needs more than 512 MiB of memory"),
        (b"endless", "yields more than 1 MiB of text"),
        (b"nonsense", "exit status 1"),
        (b"not-text", "gives an invalid reply"),
        (b"many 250001", "more than 250,000 paragraphs"),
        (b"call", "exit status 1"),
        (b"connect", "exit status 1"),
    ],
)
def test_a_bad_document_is_named_and_the_next_one_is_read(said: bytes, why: str) -> None:
    limits = IMPATIENT if said == b"hang" else LIMITS
    with closing(ExtractionProcess(limits=limits, command=BAD)) as process:
        assert text_of(process, b"good before") == "good before"
        with pytest.raises(DocumentUnreadable, match=why):
            process.extract(said, "text/plain")
        assert text_of(process, b"good after") == "good after"


def test_the_processor_time_of_a_document_is_limited(process: ExtractionProcess) -> None:
    assert why_of(process, b"spin") == "reading the file takes too much processor time"


def test_a_worker_writes_no_file(process: ExtractionProcess, tmp_path: Path) -> None:
    why_of(process, f"write {tmp_path}/new".encode())
    old = tmp_path / "old"
    old.write_text("kept")
    why_of(process, f"write {old}".encode())
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("old", "kept")]


def test_a_document_that_killed_the_worker_is_not_tried_again() -> None:
    with closing(ExtractionProcess(limits=IMPATIENT, command=BAD)) as process:
        why = why_of(process, b"hang")
        began_s = time.monotonic()
        assert why_of(process, b"hang") == why
        assert time.monotonic() - began_s < IMPATIENT.wall_s
        assert text_of(process, b"hung no more") == "hung no more"


def test_a_crash_in_a_worn_process_is_retried_in_a_fresh_process(
    process: ExtractionProcess,
) -> None:
    assert text_of(process, b"good") == "good"
    assert text_of(process, b"crash-if-worn innocent") == "innocent"


def test_workers_are_replaced_after_some_documents(process: ExtractionProcess) -> None:
    pids = [text_of(process, b"pid") for _ in range(12)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [5, 5, 2]
    assert str(os.getpid()) not in pids


def test_output_of_a_library_does_not_mix_with_replies(
    process: ExtractionProcess,
) -> None:
    assert text_of(process, b"print") == "print"


def test_a_worker_has_no_secrets_in_its_environment(
    process: ExtractionProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert "OPENAI_API_KEY" not in text_of(process, b"environment")


def test_the_readers_load_neither_models_nor_the_store() -> None:
    heavy = "torch", "spacy", "numpy", "pysqlite3", "sentence_transformers"
    script = f"""if True:
        import sys
        import hopsyncd.formats.sandbox.reader_worker
        from hopsyncd.formats.readers import MEDIA_TYPES, find_reader
        print(len([find_reader(kind) for kind in MEDIA_TYPES]) > 20)
        print([m for m in {heavy} if m in sys.modules])"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "[]"]


def test_a_worker_loads_a_reader_for_its_first_document() -> None:
    """Loading them all takes longer than reading a page."""
    slow = "hopsyncd.formats.docx", "hopsyncd.formats.pdf", "email", "http", "pathspec", "lxml"
    script = f"""if True:
        import sys
        import hopsyncd.formats.sandbox.reader_worker
        print([m for m in {slow} if m in sys.modules])"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_bytecode_is_stored_while_files_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "quick.py").write_text("NUMBER = 1\n")
    (tmp_path / "broken.py").write_text("def\n")
    store_bytecode(tmp_path)
    (stored,) = (tmp_path / "__pycache__").iterdir()
    assert stored.name.startswith("quick.")
    stored.write_bytes(b"kept")
    store_bytecode(tmp_path)
    assert stored.read_bytes() == b"kept"


def test_a_stop_abandons_the_document_at_once() -> None:
    class Stop(Exception):
        pass

    asked: list[float] = []

    def check_stop() -> None:
        asked.append(time.monotonic())
        if len(asked) > 20:
            raise Stop

    process = ExtractionProcess(check_stop, LIMITS, BAD)
    began_s = time.monotonic()
    with pytest.raises(Stop):
        process.extract(b"hang", "text/plain")
    assert time.monotonic() - began_s < LIMITS.wall_s
    process.close()


def test_another_document_is_read_while_one_takes_its_time() -> None:
    class Stop(Exception):
        pass

    read: list[tuple[Block, ...]] = []
    inside: list[bool] = []

    def yield_to_edits() -> None:
        if read:
            raise Stop
        if not inside:
            inside.append(True)
            read.append(reader.extract(b"Rome is in Italy.", "text/plain"))

    reader = ExtractionProcess(yield_to_edits, LIMITS, BAD)
    with pytest.raises(Stop):
        reader.extract(b"hang", "text/plain")
    reader.close()
    assert [block.text for block in read[0]] == ["Rome is in Italy."]


def test_no_document_is_blamed_when_no_worker_can_start() -> None:
    dies = ExtractionProcess(limits=LIMITS, command=(*BAD, "silent"))
    with pytest.raises(ReaderUnavailable, match="exit status 3"):
        dies.extract(b"good", "text/plain")
    missing = ExtractionProcess(limits=LIMITS, command=("/no/such/program",))
    with pytest.raises(ReaderUnavailable, match="No such file"):
        missing.extract(b"good", "text/plain")


def test_html_is_read_by_the_worker_alone(process: ExtractionProcess) -> None:
    assert process.extract(b"<p>one<p>two", "text/html")[0].text == "one"
    absent = ExtractionProcess(command=("/no/such/program",))
    for data, kind in ((b"<p>one", "text/html"), (b"a\n\n<p>one</p>\n", "text/markdown")):
        with pytest.raises(ReaderUnavailable):
            absent.extract(data, kind)


def test_small_texts_need_no_worker() -> None:
    process = ExtractionProcess(command=("/no/such/program",))
    assert process.extract(b"small", "text/markdown") == (Block("paragraph", "small", 1, 1),)
    with pytest.raises(ReaderUnavailable):
        process.extract(b"[" * 70_000, "text/markdown")
    with pytest.raises(ReaderUnavailable):
        process.extract(b"%PDF-1.7", "application/pdf")


def test_a_worker_returns_all_fields_of_a_block() -> None:
    text = b"# Title\n\nThese are read:\n\n- [[One]], the first\n  - what is below it\n"
    here = ExtractionProcess(command=("/no/such/program",)).extract(text, "text/markdown")
    assert any(block.leads for block in here)
    assert any(block.links for block in here)
    with closing(ExtractionProcess(limits=replace(Limits(), light_bytes=0))) as process:
        assert process.extract(text, "text/markdown") == here


def test_nested_brackets_that_take_too_long_are_refused(process: ExtractionProcess) -> None:
    with pytest.raises(DocumentUnreadable, match="processor time"):
        process.extract(b"[aaaaaaa " * 110_000, "text/markdown")


def test_the_daemon_never_parses_more_than_a_thousand_blocks_at_once() -> None:
    """Nothing else in the process runs meanwhile, not even a health check."""
    blocks = tuple(Block("paragraph", str(number), 1, 1) for number in range(2500))
    reply = encode_reply(blocks)
    assert [len(json.loads(line)) for line in reply.splitlines()] == [1000, 1000, 500]
    assert decode_result(reply) == blocks


def test_a_worker_that_ignores_the_limit_of_blocks_is_refused() -> None:
    row = json.loads(encode_reply((Block("paragraph", "a", 1, 1),)))
    with pytest.raises(ValueError, match="too many blocks"):
        decode_result(json.dumps(row * 250_001).encode())


def test_an_idle_worker_ends_and_another_reads_the_next_document(
    process: ExtractionProcess,
) -> None:
    text = text_of(process, b"first")
    pid = process._child.get().pid
    process.end_idle()  # it has just been used
    assert process._child.get().pid == pid
    process.end_idle(0.0)
    assert not process._child.is_running
    assert not Path(f"/proc/{pid}").exists()
    assert text_of(process, b"first") == text


def test_a_worker_that_reads_is_not_idle() -> None:
    alive: list[bool] = []

    def yield_to_edits() -> None:
        reader.end_idle(0.0)
        alive.append(reader._child.is_running)

    with closing(ExtractionProcess(yield_to_edits, LIMITS, BAD)) as reader:
        assert text_of(reader, b"first") == text_of(reader, b"first")
    started = alive[alive.index(True) :]  # it is waited for before, too
    assert all(started)
