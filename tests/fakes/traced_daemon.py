"""The small daemon, which records the files of hopsyncd, store and connectors that it enters.

At SIGUSR2 it writes their names since the last signal, as a JSON list, to $HOPSYNCD_TRACE.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from hopsyncd.cli.serve import import_run
from hopsyncd.config.configuration import load_config
from tests.fakes.small_daemon import small_models

_ROOT = f"{Path(__file__).parents[2]}/"
_ROOMS = tuple(f"{_ROOT}{room}/" for room in ("hopsyncd", "store", "connectors"))
_entered: set[str] = set()


def record(frame: FrameType, event: str, _: object) -> None:
    name = frame.f_code.co_filename
    if event == "call" and name not in _entered and name.startswith(_ROOMS):
        _entered.add(name)


def write(*_: object) -> None:
    names = sorted(name.removeprefix(_ROOT) for name in tuple(_entered))
    _entered.clear()
    target = Path(os.environ["HOPSYNCD_TRACE"])
    written = target.with_suffix(".new")
    written.write_text(json.dumps(names), encoding="utf-8")
    written.replace(target)  # a reader sees all of it


if __name__ == "__main__":
    run = import_run()
    signal.signal(signal.SIGUSR2, write)
    threading.setprofile(record)
    sys.setprofile(record)
    run(load_config(), small_models)
