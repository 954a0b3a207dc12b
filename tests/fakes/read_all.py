"""Reads every sample document by a worker and prints what came of each: run as a program.

With `plant`, libraries lie ready in the temporary folder under the names by which a reader might
look for its own. Printed too are the files outside of Python's folders that the worker has mapped.
"""

import _ctypes
import json
import shutil
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from connectors.media_type import guess_media_type
from hopsyncd.errors import HopsyncdError
from hopsyncd.formats.sandbox.messages import Limits
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from tests.fakes.documents import SAMPLES

COMMAND = (sys.executable, "-P", "-m", "tests.fakes.bad_reader")
_NAMES = (
    *("kreuzberg-pdfium/libpdfium.so", "pdfium/libpdfium.so", "libpdfium.so"),
    *("pypdfium2/libpdfium.so", "pypdfium2_raw/libpdfium.so", "openpyxl/__init__.py"),
)
_KREUZBERG_BYTES = 7_827_872  # of the library that kreuzberg 4.10 unpacks: another is not loaded


def plant(folder: Path) -> None:
    """Put libraries that load, of the size that one reader asks for, into a temporary folder."""
    for name in _NAMES:
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        shutil.copy(_ctypes.__file__, file)
        with file.open("ab") as opened:
            opened.truncate(_KREUZBERG_BYTES)
        file.chmod(0o755)


def read_all() -> dict[str, str]:
    """What each sample gives: nothing where its word is found, else why not."""
    came = {}
    with closing(ExtractionProcess(limits=Limits(light_bytes=0), command=COMMAND)) as process:
        for sample in SAMPLES:
            try:
                blocks = process.extract(sample.data, guess_media_type(sample.name))
                found = any(sample.word in block.text for block in blocks)
                came[sample.name] = "" if found else "its word is missing"
            except HopsyncdError as error:
                came[sample.name] = f"{type(error).__name__}: {error}"
        (pid,) = process.extract(b"pid", "text/plain")
        came["mapped"] = " ".join(sorted(_mapped(int(pid.text))))
    return came


def _mapped(pid: int) -> set[str]:
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in maps if line.count("/")}
    usual = (sys.prefix, sys.base_prefix, "/usr/", "/lib")
    return {path for path in paths if not path.startswith(usual)}


if __name__ == "__main__":
    if sys.argv[1:] == ["plant"]:
        plant(Path(tempfile.gettempdir()))
    print(json.dumps(read_all()))
