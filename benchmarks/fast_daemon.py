"""The real daemon with models that take no time, to measure hopsyncd without them.

python -m benchmarks.fast_daemon [CHECKOUT]   # the hopsyncd of another checkout
"""

import gc
import importlib
import os
import re
import sys
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

# As `hopsyncd serve` does, before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parents[1]))

_WORD = re.compile(r"\w+")


class FastEncoder:
    """An encoder that gives every word eight components of plus or minus one, by its hash, and sums
    words."""

    name = "fast"
    dimensions = 384

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        made = np.array([self._encoded(text) for text in texts], dtype=np.float32)
        return made.reshape(len(texts), self.dimensions)

    def _encoded(self, text: str) -> NDArray[np.float64]:
        words = _WORD.findall(text.lower())
        digests = b"".join(blake2b(word.encode(), digest_size=16).digest() for word in words)
        drawn = np.frombuffer(digests, dtype="<u2").astype(np.int64)
        signs = (drawn >> 15) * 2.0 - 1
        sums = np.bincount(drawn % self.dimensions, weights=signs, minlength=self.dimensions)
        return sums.astype(np.float64)


def _module(*names: str) -> Any:
    """The first of these modules that the checkout has, because packages were renamed."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


def _run() -> Any:
    """The function that `hopsyncd serve` runs, imported first, as `hopsyncd serve` does."""
    serve = _module("hopsyncd.cli.serve", "hopsyncd.daemon")
    # The function was renamed.
    import_run = getattr(serve, "import_run", None) or getattr(serve, "imported_run", None)
    return import_run() if import_run else _module("hopsyncd.daemon").run


def main() -> None:
    run = _run()
    loading = _module("hopsyncd.models.loading", "hopsyncd.models")
    configuration = _module("hopsyncd.config.configuration", "hopsyncd.config")
    language = _module("tests.fakes.models").FakeLanguage()

    def fast_models(config: Any, *_: Any) -> Any:
        encoder = FastEncoder()
        maker = loading.make_question_maker(config.llm, language, encoder, None)
        return loading.Models(encoder, language, maker, None, None)

    run(configuration.load_config(), fast_models)
    gc.freeze()  # as hopsyncd.cli.main does, so that the process ends soon


if __name__ == "__main__":
    main()
