"""Documents of many formats: what is read, where it is said to stand, and what bad bytes do."""

import io
import os
import random
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.folder import FolderConnector
from connectors.media_type import guess_media_type
from connectors.settings import FileSettings
from hopsyncd.config.values import Search
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.media_types import DOCX, PDF, XLSX
from hopsyncd.formats.readers import extract
from hopsyncd.formats.sandbox.messages import Limits
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import format_answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from tests.fakes.documents import SAMPLES, Sample, workbook
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

MUTATIONS = int(os.environ.get("HOPSYNCD_MUTATIONS", "300"))
ALL = FileSettings(include=("*",))
GOOD_PDF = next(sample.data for sample in SAMPLES if sample.name == "a.pdf")
EMPTY = "the file is empty: it has 0 bytes"
SOON_S = Limits().wall_s * 0.8


@pytest.fixture(scope="module")
def process() -> Iterator[ExtractionProcess]:
    process = ExtractionProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, process: ExtractionProcess
) -> Iterator[Engine]:
    """An engine over a folder with all samples."""
    folder = tmp_path_factory.mktemp("formats")
    notes = folder / "notes"
    notes.mkdir()
    for sample in SAMPLES:
        (notes / sample.name).write_bytes(sample.data)
    connector = FolderConnector(
        notes, FileSettings(include=("@text", "@documents", "*.csv", "*.json"))
    )
    stack = Stack(folder / "s.db", connector, passage_tokens=200, extract=process.extract)
    assert stack.sync().changed == len({sample.name for sample in SAMPLES})
    engine = Engine(folder / "s.db", FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    yield engine
    stack.close()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.name}-{sample.word}")
def test_an_answer_says_where_in_the_document_it_stands(engine: Engine, sample: Sample) -> None:
    search = Search("bm25")
    answer = format_answer(engine.query(f"What of the {sample.word}?", 1, search), search)
    (passage,) = answer["passages"]
    found = (passage["document"], passage["location"], tuple(passage["heading"]))
    assert found == (sample.name, sample.location, sample.heading)
    assert sample.word in passage["text"]


def test_only_text_documents_have_line_numbers(engine: Engine) -> None:
    search = Search("bm25")
    places = {
        word: format_answer(engine.query(word, 1, search), search)["passages"][0]
        for word in ("mudgecliff", "quizzlefish", "Snorkelby")
    }
    fields = ("lines", "unit", "span")
    assert [[place[field] for field in fields] for place in places.values()] == [
        [[3, 3], "line", [3, 3]],
        [None, "page", [3, 3]],
        [None, "range", ["B4", "D4"]],
    ]


def test_each_cell_of_a_row_has_its_column_name() -> None:
    rows = [block.text for block in extract(workbook(), XLSX) if block.kind == "table"]
    assert rows == ["Thing: Rope | Price: 12.5", "Name: Tove | Age: 44 | City: Snorkelby"]
    csv = extract(b'a;b\n1;"x\ny"\n\n3;4\n', "text/csv")
    assert [(block.text, block.first_line, block.last_line) for block in csv] == [
        ("a: 1 | b: x y", 2, 3),
        ("a: 3 | b: 4", 5, 5),
    ]


def test_json_is_read_member_by_member_and_what_is_none_as_text() -> None:
    lines = b'{"a": 1}\n{"a": {"b": [true, "x"]}}\n'
    assert [(block.text, block.first_line) for block in extract(lines, "application/json")] == [
        ("a: 1", 1),
        ("a.b: true\na.b: x", 2),
    ]
    assert [block.text for block in extract(b"{ not json", "application/json")] == ["{ not json"]
    deep = b"[" * 100_000
    assert extract(deep, "application/json")[0].text == deep.decode()


def test_a_pdf_without_text_is_reported() -> None:
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.rect(10, 10, 50, 50)
    canvas.showPage()
    canvas.save()
    with pytest.raises(DocumentUnreadable, match="no text"):
        extract(buffer.getvalue(), PDF)


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx", "a.epub", "a.odt"])
def test_a_zip_bomb_is_refused(process: ExtractionProcess, name: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"word/{number}.xml", bytes(1 << 26))
    began_s = time.monotonic()
    with pytest.raises(DocumentUnreadable, match="unpacks to 320 MiB"):
        process.extract(buffer.getvalue(), guess_media_type(name))
    assert time.monotonic() - began_s < SOON_S


def test_a_bomb_of_entities_is_refused(process: ExtractionProcess) -> None:
    laughs = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    xml = f'<!DOCTYPE x [<!ENTITY e0 "ha">{laughs}]><container>&e11;</container>'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("META-INF/container.xml", xml)
    with pytest.raises(DocumentUnreadable):
        process.extract(buffer.getvalue(), "application/epub+zip")


@pytest.mark.parametrize(
    ("name", "good", "data", "problem"),
    [
        ("a.pdf", GOOD_PDF, b"%PDF-1.7 no more", "Not a valid PDF"),
        ("a.pdf", GOOD_PDF, b"", EMPTY),
        ("a.msg", b"Subject: Dues\n\nThe harbour dues rise.", b"", EMPTY),
        ("a.doc", b"The harbour dues rise.", b"", EMPTY),
    ],
)
def test_a_damaged_document_is_named_and_keeps_its_last_good_version(
    tmp_path: Path, process: ExtractionProcess, name: str, good: bytes, data: bytes, problem: str
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    file = notes / name
    file.write_bytes(good)
    stack = Stack(tmp_path / "s.db", FolderConnector(notes, ALL), extract=process.extract)
    stack.sync()
    before = stack.head.passages
    file.write_bytes(data)
    stack.sync()
    assert stack.head.passages == before > 0
    (why,) = stack.connection.execute("SELECT why FROM seen").fetchone()
    assert why == problem
    stack.close()


def test_an_empty_document_has_no_blocks(process: ExtractionProcess) -> None:
    for name in {sample.name for sample in SAMPLES}:
        assert process.extract(b"", guess_media_type(name)) == (), name


def test_no_mutated_document_stalls_or_ends_anything(process: ExtractionProcess) -> None:
    """Each mutant is read or refused before the limit of time. $HOPSYNCD_MUTATIONS: how many."""
    chance = random.Random(8)
    slowest = (0.0, "")
    for number in range(MUTATIONS):
        sample = SAMPLES[number % len(SAMPLES)]
        data = mutated(sample.data, chance)
        began_s = time.monotonic()
        try:
            process.extract(data, guess_media_type(sample.name))
        except DocumentUnreadable as problem:
            assert problem.why and problem.hint
        slowest = max(slowest, (time.monotonic() - began_s, f"{number}: {sample.name}"))
    assert slowest[0] < SOON_S, slowest
    assert process.extract(SAMPLES[0].data, PDF)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Bytes changed, cut out, repeated or cut off; of an archive, mostly inside its members."""
    if data[:2] == b"PK" and chance.random() < 0.8:
        return _with_mutated_member(data, chance)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 20))):
        place = chance.randrange(len(changed))
        match chance.randrange(4):
            case 0:
                changed[place] = chance.randrange(256)
            case 1:
                del changed[place : place + chance.randrange(1, 30)]
            case 2:
                changed[place:place] = changed[place : place + 30] * chance.randrange(1, 50)
            case _ if len(changed) > 100:
                del changed[max(place, 100) :]
        changed = changed or bytearray(b"\0")
    return bytes(changed)


def _with_mutated_member(data: bytes, chance: random.Random) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        members = {name: old.read(name) for name in old.namelist()}
        victim = chance.choice([name for name, content in members.items() if content])
        for name, content in members.items():
            new.writestr(name, mutated(content, chance) if name == victim else content)
    return buffer.getvalue()


def test_each_passage_of_a_long_row_begins_with_its_first_cell() -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["Name", "Life"])
    book.active.append(["Tove", "She sailed. " * 200])
    buffer = io.BytesIO()
    book.save(buffer)
    passages = split_into_passages(extract(buffer.getvalue(), XLSX))
    assert len(passages) > 2
    assert all(passage.text.startswith("Name: Tove") for passage in passages)


def test_a_running_head_of_a_text_document_is_read_once() -> None:
    data = next(sample.data for sample in SAMPLES if sample.name == "b.docx")
    texts = [block.text for block in extract(data, DOCX)]
    assert texts.count("Strictly a running head") == 1
    assert "Name: Tove | Age: 44" in texts
