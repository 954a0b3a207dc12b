"""The readers of text are imported soon after the start, not when the first edit is read."""

import subprocess
import sys

_STARTED = """
import sys, time
from hopsyncd.formats.sandbox import reader_process

reader_process._TRIAL_AFTER_S = 600.0
assert not {"hopsyncd.formats.markdown", "hopsyncd.formats.plain"} & sys.modules.keys()
reader_process.try_readers_soon({})
end_s = time.monotonic() + 60
while not {"hopsyncd.formats.markdown", "hopsyncd.formats.plain"} <= sys.modules.keys():
    assert time.monotonic() < end_s
    time.sleep(0.01)
"""


def test_readers_of_text_are_imported_before_the_first_document() -> None:
    subprocess.run([sys.executable, "-c", _STARTED], check=True, timeout=120)
