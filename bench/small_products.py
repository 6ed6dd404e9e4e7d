"""How much longer than NumPy do small products of NumPy arrays take, if no device is named?

CPU time of this process, a round of each by turns, so that other work on the machine matters little. NumPy's BLAS keeps to one thread.

    python bench/small_products.py [--sizes 8,16,32,64,128,256] [--dtype float32] [--rounds 9] [--save]
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: idle threads of a BLAS spin

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import portatile
from measure import facts, print_table, save

_ROUND = 8000.0  # microseconds of a round, about
_LEAST_CALLS = 20


class Pair(NamedTuple):
    """A call, and NumPy's expression for the same."""

    name: str
    call: Callable[[], Any]
    numpy: Callable[[], Any]


def pairs(size: int, dtype: str) -> Iterator[Pair]:
    """The calls on square matrices."""
    rng = np.random.default_rng(1)
    a, b, c = (rng.random((size, size)).astype(dtype) for _ in range(3))
    out = np.empty_like(a)
    yield Pair("matmul", lambda: portatile.matmul(a, b), lambda: np.matmul(a, b))
    yield Pair("matmul, out", lambda: portatile.matmul(a, b, out=out), lambda: np.matmul(a, b, out=out))
    yield Pair("gemm, transposed, out", lambda: portatile.gemm(a, b, trans_a="T", out=out), lambda: np.matmul(a.T, b, out=out))
    yield Pair("gemm, alpha and beta", lambda: portatile.gemm(a, b, c, alpha=2.0, beta=0.5), lambda: 2.0 * (a @ b) + 0.5 * c)


def microseconds(call: Callable[[], Any], count: int) -> float:
    """CPU time of this process for a call, the mean over ``count``."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count * 1e6


def compared(pair: Pair, rounds: int) -> dict[str, Any]:
    """Samples of both, by turns, after a few calls each; the first calls find out which way is faster."""
    for _ in range(3):
        expected, result = pair.numpy(), pair.call()
        assert np.allclose(result, expected, rtol=1e-3)
    count = max(_LEAST_CALLS, int(_ROUND / max(microseconds(pair.numpy, 3), 1.0)))
    samples = [(microseconds(pair.call, count), microseconds(pair.numpy, count)) for _ in range(rounds)]
    own, theirs = zip(*samples, strict=True)
    return {"call": pair.name, "us": own, "numpy_us": theirs, "more_us": statistics.median(one - other for one, other in samples)}


def main() -> None:
    """Measure and print; write every sample to bench/results if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="8,16,32,48,64,96,128,192,256")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--save", action="store_true", help="write every sample to bench/results")
    parser.add_argument("--commit", help="what to record where there is no git")
    options = parser.parse_args()
    rows = []
    for size in map(int, options.sizes.split(",")):
        for pair in pairs(size, options.dtype):
            rows.append({"size": size, **compared(pair, options.rounds)})
            print(f"{size} {pair.name}: {rows[-1]['more_us']:+.1f} us", flush=True)
    table = [
        [str(row["size"]), row["call"], *(f"{statistics.median(row[key]):.1f}" for key in ("us", "numpy_us")), f"{row['more_us']:+.1f}"]
        for row in rows
    ]
    print_table(["size", "call", "us", "NumPy's us", "more"], table)
    if options.save:
        document = {"bench": "small_products", **facts(options.commit), "dtype": options.dtype, "numpy": np.__version__, "rows": rows}
        print(f"written to {save(f'small_products-{options.dtype}', document)}")


if __name__ == "__main__":
    main()
