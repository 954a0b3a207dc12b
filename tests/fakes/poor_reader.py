"""A worker in poor surroundings, until a file says that they are mended: run as a program.

Arguments: the file, then either the name of a library that is absent, or how many MiB of memory
there are.
"""

import resource
import sys
from pathlib import Path

from hopsyncd.formats.sandbox.reader_worker import main
from tests.fakes.bad_reader import read

if __name__ == "__main__":
    mended, poor = Path(sys.argv[1]), sys.argv[2]
    if mended.exists():
        pass
    elif poor.isdecimal():
        resource.setrlimit(resource.RLIMIT_AS, (int(poor) << 20, int(poor) << 20))
    else:
        sys.modules[poor] = None  # type: ignore[assignment]
    del sys.argv[1:3]
    main(read)
