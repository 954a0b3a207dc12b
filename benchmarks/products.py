"""Measure the cost of the products of codes in an import. It is the minimum for exact matching,
which multiplies every vector of a new passage with all existing ones.

python benchmarks/products.py --passages 100000

Two threads multiply random codes in tiles of the size that matching uses.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from common import arguments, table

from hopsyncd.index.code_bounds import PackedCodes, get_session
from hopsyncd.index.vector_pairs import BLOCK, TILE
from hopsyncd.index.vectors import Codes

_DIMENSIONS = 384
_TEXTS = 5  # of a passage, as in benchmarks/invented.py
_THREADS, _TILES, _BLOCKS = 2, 200, 40


def main() -> None:
    given = arguments(__doc__ or "", ("--passages", {"type": int, "default": 100_000}))
    chance = np.random.default_rng(0)

    def codes(rows: int) -> Codes:
        return chance.integers(-127, 128, (rows, _DIMENSIONS)).astype(np.int8)

    columns, blocks = codes(TILE), [codes(BLOCK) for _ in range(_BLOCKS)]
    rows: list[list[object]] = []
    for name, session in (("numkong", None), ("ONNX Runtime", get_session(1 << 40))):
        if session is None and rows:  # it is absent, or rounds on this processor
            continue
        packed = PackedCodes(columns, session)

        def multiply(_: int, packed: PackedCodes = packed) -> None:
            for at in range(_TILES):
                packed.multiply(blocks[at % _BLOCKS])

        multiply(0)
        began_s = time.perf_counter()
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(multiply, range(_THREADS)))
        took_s = time.perf_counter() - began_s
        pair_s = took_s / (_THREADS * _TILES * TILE * BLOCK)
        pairs = _TEXTS**2 * given.passages
        rows.append([name, round(pair_s * 1e9, 2), round(pairs * pair_s * 1e3, 2)])
    table(["multiplied by", "ns a pair", f"ms a passage among {given.passages:,}"], rows)


if __name__ == "__main__":
    main()
