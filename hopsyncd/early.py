"""What a start begins before all else."""

import gc
import threading
from contextlib import suppress


def import_torch_meanwhile() -> None:
    """Import torch on a thread of its own: it takes a second, part of it outside Python's lock.

    Meanwhile nothing is garbage-collected, and what is there by then never again: imports make
    objects by the hundred thousand that all stay, and going through them takes a quarter of the
    time.
    """
    threading.Thread(target=_import_torch, name="import torch").start()


def _import_torch() -> None:
    gc.disable()
    # Whoever needs it first meets the same error again, and can say what for.
    with suppress(ImportError, OSError):
        import torch  # noqa: F401
    gc.freeze()
    gc.enable()
