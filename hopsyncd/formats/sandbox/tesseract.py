"""Recognizes the text of pictures with the program tesseract, confined like the reader processes.

`python -m hopsyncd.formats.sandbox.tesseract PROGRAM LANGUAGES` confines itself, executes
tesseract, and reads a picture from its input. The daemon starts this command, because workers may
not start programs.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hopsyncd
from hopsyncd.child_process import end_child, start_child
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.sandbox.confine import replace_process
from hopsyncd.formats.sandbox.messages import Died

_ROOT = Path(hopsyncd.__file__).resolve().parents[1]
_NICE = 10
_MEMORY_BYTES, _CPU_S, _WALL_S = 1 << 30, 60, 300.0  # for a picture of MAX_PIXELS
_END_S = 5.0  # time to exit after the end of the output
_MOST_TEXT_BYTES = 4 << 20
_PIECE_BYTES, _POLL_S = 1 << 16, 0.2
_DATA_FOLDERS = ("share/tesseract-ocr", "share/tessdata", "lib")  # below its installation


@dataclass(frozen=True, slots=True)
class Tesseract:
    """An installed tesseract program, and the languages to recognize, such as "eng+deu"."""

    program: str
    languages: str

    def recognise_blocks(
        self, picture: bytes, page: int, yield_to_edits: Callable[[], None]
    ) -> tuple[Block, ...]:
        """Return the paragraphs of a picture. `page` is the number of its first page. Raises Died
        if tesseract fails.

        Calls `yield_to_edits` while waiting.
        """
        return tuple(
            Block("paragraph", paragraph.strip(), number, number)
            for number, text in enumerate(
                self.recognise_text(picture, yield_to_edits).split("\f"), page
            )
            for paragraph in text.split("\n\n")
            if paragraph.strip()
        )

    def recognise_text(
        self, picture: bytes, yield_to_edits: Callable[[], None] = lambda: None
    ) -> str:
        """Recognize the text of a PNG, JPEG or TIFF picture. Calls `yield_to_edits` while it waits.
        Raises Died if tesseract fails."""
        with tempfile.TemporaryFile() as file:
            file.write(picture)
            file.seek(0)
            command = (sys.executable, "-P", "-m", __name__, self.program, self.languages)
            try:
                process = start_child(command, {"PYTHONPATH": str(_ROOT)}, stdin=file)
            except OSError as error:
                raise Died(f"cannot be started ({error})", killed=True) from error
        with process:
            try:
                text = _read_output(process, yield_to_edits)
                _require_success(process.wait(timeout=_END_S))
            except subprocess.TimeoutExpired as error:
                raise Died("does not end") from error
            finally:
                end_child(process)
        return text.decode("utf-8", "replace")


def find_tesseract(languages: str) -> Tesseract | None:
    """Find tesseract on the PATH, to recognize `languages`. Returns None if tesseract is not
    installed."""
    found = shutil.which("tesseract")
    return Tesseract(os.path.realpath(found), languages) if found else None


def _read_output(process: subprocess.Popen[bytes], yield_to_edits: Callable[[], None]) -> bytes:
    assert process.stdout is not None
    output, text = process.stdout.fileno(), bytearray()
    poll, end_s = select.poll(), time.monotonic() + _WALL_S
    poll.register(output, select.POLLIN)
    while len(text) <= _MOST_TEXT_BYTES:
        waited_s = time.monotonic()
        yield_to_edits()
        end_s += time.monotonic() - waited_s  # this wait does not count against the picture
        if time.monotonic() > end_s:
            raise Died(f"takes longer than {_WALL_S:.0f} s")
        if poll.poll(_POLL_S * 1000):
            piece = os.read(output, _PIECE_BYTES)
            if not piece:
                return bytes(text)
            text += piece
    raise Died(f"yields more than {_MOST_TEXT_BYTES >> 20} MiB of text")


def _require_success(code: int) -> None:
    if code == -signal.SIGXCPU:
        raise Died(f"takes more than {_CPU_S} s of processor time")
    if code == -signal.SIGKILL:
        raise Died("was ended from outside, probably because memory ran out", killed=True)
    if code:
        raise Died(
            f"fails: tesseract ended with status {code}. `tesseract --list-langs` shows whether the"
            " configured languages are installed"
        )


def main() -> None:
    """Confine this process, then execute tesseract."""
    program, languages = sys.argv[1:]
    os.nice(_NICE)
    prefix = Path(program).parents[1]
    places = [str(prefix / folder) for folder in _DATA_FOLDERS]
    command = (program, "stdin", "stdout", "-l", languages)
    replace_process(command, places, _MEMORY_BYTES, _CPU_S)


if __name__ == "__main__":
    main()
