"""The text of pictures: what is read, what is refused by its head, what is confined."""

import io
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import FolderSource, GitSource
from hopsyncd.config.values import FormatsConfig
from hopsyncd.doctor.machine import check_text_recognition
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.images import is_worth_reading
from hopsyncd.formats.media_types import PDF
from hopsyncd.formats.sandbox import confine
from hopsyncd.formats.sandbox.messages import Died
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from hopsyncd.formats.sandbox.tesseract import Tesseract, find_tesseract
from hopsyncd.ingest.connector_setup import with_pictures

needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None, reason="the program tesseract is not installed"
)
SAID = "The lighthouse keeper counted seven ships"


def drawn(text: str) -> Image.Image:
    picture = Image.new("L", (1600, 300), 255)
    ImageDraw.Draw(picture).text((40, 100), text, fill=0, font=ImageFont.load_default(48))
    return picture


def saved(picture: Image.Image, form: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, dpi=(200, 200))
    return file.getvalue()


def pdf_of(*pages: str | Image.Image) -> bytes:
    """A page for each text, or for each picture of one."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(600, 400))
    for page in pages:
        if isinstance(page, str):
            canvas.drawString(40, 200, page)
        else:
            canvas.drawImage(ImageReader(page), 20, 200, 560, 105)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


@pytest.fixture(scope="module")
def reader() -> Iterator[ExtractionProcess]:
    with closing(ExtractionProcess(tesseract=find_tesseract("eng"))) as process:
        yield process


@needs_tesseract
@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
def test_the_text_of_a_picture_is_read(reader: ExtractionProcess, form: str) -> None:
    (block,) = reader.extract(saved(drawn(SAID), form), f"image/{form.lower()}")
    assert (block.text, block.first_line) == (SAID, 1)


@needs_tesseract
def test_scanned_pages_stand_in_their_places(reader: ExtractionProcess) -> None:
    blocks = reader.extract(pdf_of("The first page.", drawn(SAID), "The last page."), PDF)
    assert [(block.first_line, block.text) for block in blocks] == [
        (1, "The first page."),
        (2, SAID),
        (3, "The last page."),
    ]


@needs_tesseract
def test_pages_without_any_text_are_reported_and_a_photo_is_empty(
    reader: ExtractionProcess,
) -> None:
    with pytest.raises(DocumentUnreadable, match="pages contain no text"):
        reader.extract(pdf_of(drawn("")), PDF)
    assert reader.extract(saved(drawn(""), "PNG"), "image/png") == ()


@needs_tesseract
def test_a_damaged_picture_is_reported_as_damaged(reader: ExtractionProcess) -> None:
    cut_short = saved(drawn(SAID), "PNG")[:400]
    with pytest.raises(DocumentUnreadable, match="recognizing the text in the file fails"):
        reader.extract(cut_short, "image/png")


@needs_tesseract
def test_the_doctor_reports_an_unknown_language() -> None:
    formats = FormatsConfig(ocr_languages="xxx")
    (found,) = check_text_recognition(Config(formats=formats))
    assert found.level == "fail"
    (found,) = check_text_recognition(Config())
    assert found.level == "ok"


def test_without_tesseract_a_picture_and_a_scan_say_what_is_missing() -> None:
    with closing(ExtractionProcess()) as process:
        with pytest.raises(DocumentUnreadable, match="text recognition is off") as problem:
            process.extract(saved(drawn(SAID), "PNG"), "image/png")
        assert "tesseract" in problem.value.hint
        with pytest.raises(DocumentUnreadable, match="pages contain no text"):
            process.extract(pdf_of(drawn(SAID)), PDF)


def test_a_bomb_is_refused_by_its_head_alone() -> None:
    head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + head
    png = (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    )
    jpeg = b"\xff\xd8\xff\xe0\0\x02\xff\xc0\0\x11\x08\xff\xff\xff\xff"
    wide, high = (struct.pack("<HHII", tag, 4, 1, 60_000) for tag in (256, 257))
    tiff = b"II*\0\x08\0\0\0\x02\0" + wide + high + b"\0\0\0\0"
    for bomb in (png, jpeg, tiff):
        with pytest.raises(DocumentUnreadable, match="the limit is"):
            is_worth_reading(bomb)
    for form in ("PNG", "JPEG", "TIFF"):
        assert is_worth_reading(saved(drawn(SAID), form))
        assert not is_worth_reading(saved(drawn(SAID).resize((32, 32)), form))
    with pytest.raises(DocumentUnreadable, match="its file extension is wrong"):
        is_worth_reading(b"no picture")


def test_a_tiff_with_too_many_pages_or_a_circle_of_them_is_refused() -> None:
    def tiff(pages: int) -> bytes:
        tags = b"".join(struct.pack("<HHII", tag, 4, 1, 100) for tag in (256, 257))
        starts = [8 + 30 * page for page in range(pages)]
        following = [*starts[1:], 0]
        return b"II*\0\x08\0\0\0" + b"".join(
            b"\x02\0" + tags + struct.pack("<I", place) for place in following
        )

    assert is_worth_reading(tiff(200))
    for wrong in (tiff(201), b"II*\0\x08\0\0\0\0\0\x08\0\0\0"):
        with pytest.raises(DocumentUnreadable, match="more than 200 pages, or its list of pages"):
            is_worth_reading(wrong)


@pytest.mark.skipif(confine.find_landlock_version() < 1, reason="no Landlock here")
def test_the_program_reads_no_file_of_yours_and_starts_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    code = "import sys; from hopsyncd.formats.sandbox.confine import replace_process; "
    code += "replace_process(sys.argv[1:], [], 1 << 30, 1)"

    def done(*program: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", code, *program], capture_output=True, check=False
        )

    shell, cat = "/bin/sh", shutil.which("cat") or "cat"
    assert done(shell, "-c", "echo $#").stdout == b"0\n"
    refused = done(cat, str(secret))
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"Permission denied" in refused.stderr
    refused = done(shell, "-c", f"echo a; {cat} /dev/null; echo b")
    assert (refused.returncode, refused.stdout) == (2, b"a\n")
    refused = done(shell, "-c", f"exec {cat} --version")
    assert (refused.returncode, refused.stdout) == (126, b"")
    assert done(shell, "-c", "while :; do :; done").returncode == -signal.SIGXCPU


def test_a_failing_program_is_reported() -> None:
    with pytest.raises(Died, match="status"):
        Tesseract("/bin/false", "eng").recognise_text(b"")


def test_pictures_are_documents_where_their_text_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FolderSource.model_validate({"name": "notes", "path": str(tmp_path)})
    program = tmp_path / "tesseract"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    read = with_pictures(source, Config())
    assert isinstance(read, FolderSource)
    assert read.include == ("@text", "@images", "@documents", "@tables")
    repository = GitSource.model_validate({"name": "code", "kind": "git", "path": str(tmp_path)})
    assert with_pictures(repository, Config()) == repository
    off = Config(formats=FormatsConfig(ocr="off"))
    assert with_pictures(source, off) == source
    program.unlink()
    assert with_pictures(source, Config()) == source
