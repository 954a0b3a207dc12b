"""Measure the size of hopsyncd without extras, installed from PyPI into a new environment.

`asked for by` names a package that depends on the package in the row. The benchmark fails if the
installation is too large, or contains a package that only other models than the default need.

python benchmarks/installation.py
python benchmarks/installation.py --uv    # by uv instead of pip
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import Distribution, distributions
from pathlib import Path

from common import ROOT, arguments, table

_SHOWN = 12
_MOST_MB = 900
_UNWANTED = re.compile("torch|triton|scipy|nvidia-.*")


def main() -> None:
    given = arguments(__doc__ or "", ("--uv", {"action": "store_true"}))
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        took_s = _install_s(place, by_uv=given.uv)
        (packages,) = place.glob("lib/python*/site-packages")
        found = {
            _plain(distribution.name): distribution
            for distribution in distributions(path=[str(packages)])
        }
        whole_mb = sum(file.lstat().st_blocks * 512 for file in place.rglob("*")) / 1e6
        sizes_mb = {name: _size_mb(one) for name, one in found.items()}
        wanted_by: dict[str, str] = {}
        _follow("hopsyncd", "", found, wanted_by)
    largest = sorted(sizes_mb, key=lambda name: -sizes_mb[name])[:_SHOWN]
    rest_mb = sum(sizes_mb.values()) - sum(sizes_mb[name] for name in largest)
    print(f"{len(found)} packages, {whole_mb:,.0f} MB on disk, installed in {took_s:.0f} s\n")
    table(
        ["package", "MB", "asked for by"],
        [
            *([name, sizes_mb[name], wanted_by.get(name, "")] for name in largest),
            [f"{len(found) - len(largest)} others", rest_mb, ""],
        ],
    )
    unwanted = sorted(filter(_UNWANTED.fullmatch, found))
    if unwanted or whole_mb >= _MOST_MB:
        sys.exit(f"Wanted: less than {_MOST_MB} MB, and none of {', '.join(unwanted) or 'these'}.")


def _install_s(place: Path, *, by_uv: bool) -> float:
    """The seconds to install into `place`, with the tool's own settings and cache."""
    # Neither another index nor a folder of wheels: what a new user has.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "PIP_"}
    environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if by_uv:
        create = ["uv", "venv", "--quiet", "--no-config", str(place)]
        install = ["uv", "pip", "install", "--quiet", "--no-config", "--python", str(place)]
    else:
        create = [sys.executable, "-m", "venv", str(place)]
        install = [str(place / "bin/pip"), "install", "--quiet"]
    subprocess.run(create, check=True, env=environment)
    began_s = time.perf_counter()
    subprocess.run([*install, str(ROOT)], check=True, env=environment)
    return time.perf_counter() - began_s


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _follow(
    package: str, asker: str, found: dict[str, Distribution], wanted_by: dict[str, str]
) -> None:
    name = _plain(package)
    if name in wanted_by or name not in found:  # not for this platform
        return
    wanted_by[name] = asker
    for line in found[name].requires or []:
        if "extra ==" not in line and (needed := re.match(r"[\w.-]+", line)):
            _follow(needed.group(), name, found, wanted_by)


def _size_mb(package: Distribution) -> float:
    return sum(file.size or 0 for file in package.files or ()) / 1e6


if __name__ == "__main__":
    main()
