"""What an installation takes on disk: hopsyncd's packages without extras, the largest first.

`asked for by` is one of the packages that want it: what only sentence-transformers or spaCy needs
stays as long as they do.

python benchmarks/installation.py
python benchmarks/installation.py --install    # and how long pip takes, into a new environment
"""

import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from common import arguments, table

_SHOWN = 15


def main() -> None:
    given = arguments(__doc__ or "", ("--install", {"action": "store_true"}))
    wanted_by: dict[str, str] = {}
    _follow("hopsyncd", "", wanted_by)
    sizes_mb = {name: _size_mb(distribution(name)) for name in wanted_by}
    largest = sorted(sizes_mb, key=lambda name: -sizes_mb[name])[:_SHOWN]
    rest_mb = sum(sizes_mb.values()) - sum(sizes_mb[name] for name in largest)
    print(f"{len(sizes_mb)} packages, {sum(sizes_mb.values()):,.0f} MB\n")
    table(
        ["package", "MB", "asked for by"],
        [
            *([name, sizes_mb[name], wanted_by[name]] for name in largest),
            [f"{len(sizes_mb) - len(largest)} others", rest_mb, ""],
        ],
    )
    if given.install:
        with tempfile.TemporaryDirectory() as temporary:
            print(f"installed in {_install_s(Path(temporary)):.0f} s")


def _install_s(folder: Path) -> float:
    """Seconds of `pip install`, from the index that pip is configured for or from its cache."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    began_s = time.perf_counter()
    code = Path(__file__).parents[1]
    subprocess.run([folder / "bin/pip", "install", "--quiet", code], check=True)
    return time.perf_counter() - began_s


def _follow(package: str, asker: str, wanted_by: dict[str, str]) -> None:
    name = re.sub(r"[-_.]+", "-", package).lower()
    if name in wanted_by:
        return
    try:
        requires = distribution(name).requires or []
    except PackageNotFoundError:  # not for this platform
        return
    wanted_by[name] = asker
    for line in requires:
        if "extra ==" not in line and (found := re.match(r"[\w.-]+", line)):
            _follow(found.group(), name, wanted_by)


def _size_mb(package: Distribution) -> float:
    return sum(file.size or 0 for file in package.files or ()) / 1e6


if __name__ == "__main__":
    main()
