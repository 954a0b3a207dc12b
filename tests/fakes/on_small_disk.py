"""Run a module with its data on a small disk: `python -m tests.fakes.on_small_disk BYTES MODULE`.

The disk is a tmpfs over the data folder, in a mount namespace that the process has to itself, so
nothing is left of it. From outside the folder is seen below /proc/PID/root.
"""

import os
import sys
from pathlib import Path

SMALL_DISK = "tests.fakes.on_small_disk"
NAMESPACE = ["unshare", "--mount", *(["--map-root-user"] if os.getuid() else [])]


def main(size: str, module: str) -> None:
    folder = Path(os.environ["HOPSYNCD_HOME"], "data")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mount = f'mount -t tmpfs -o size={int(size)},mode=700 none "$0" && exec "$@"'
    command = [*NAMESPACE, "sh", "-c", mount, str(folder), sys.executable, "-m", module]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
