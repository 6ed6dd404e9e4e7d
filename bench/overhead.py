"""What portatile.matmul and a compiled product cost in Python when a shape comes again, above the bare launch of the same kernels.

Small matrices, so that the host dominates. Interleaved: a call of matmul, one of what portatile.compile made, then the same kernels
launched with their arguments already in place; the differences of the medians are the overheads.

    python bench/overhead.py [--device ID] [--size 64] [--host] [--save]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import portatile
from measure import facts, save, slug
from portatile.arguments import matrices, placement
from portatile.device.buffer import Buffer
from portatile.runtime import perform

REPEATS = 2000


def measure(selector: str | None, size: int, host_arrays: bool) -> dict[str, object]:
    """Median microseconds of matmul and of its bare launches, on one device, with the operands in Buffers or in NumPy arrays."""
    device = portatile.get_device(selector)
    rng = np.random.default_rng(1)
    host = [rng.random((size, size), dtype=np.float32) for _ in range(2)]
    a, b, out = [*host, np.empty((size, size), np.float32)]
    if not host_arrays:
        a, b, out = (Buffer.from_numpy(array, device) for array in (a, b, out))
    selected = device.info.id
    queue = device.default_queue()
    portatile.matmul(a, b, out=out, device=selected)
    if not np.allclose(out.numpy() if isinstance(out, Buffer) else out, host[0] @ host[1], rtol=1e-4):
        raise SystemExit("matmul is wrong")
    ((_, prepared, names),) = perform._remembered.values()
    operands = {name: placement.place(device, queue, matrices.matrix(x, name)).memory for name, x in zip(names, (a, b, out), strict=True)}
    product = portatile.compile("gemm", m=size, n=size, k=size, device=selected)
    product(a, b, out=out)
    called, bound, launched = [], [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        portatile.matmul(a, b, out=out, device=selected)
        queue.finish()
        called.append((time.perf_counter() - start) * 1e6)
        start = time.perf_counter()
        product(a, b, out=out)
        queue.finish()
        middle = time.perf_counter()
        prepared.run(queue, operands, {"alpha": 1.0, "beta": 0.0})
        queue.finish()
        end = time.perf_counter()
        bound.append((middle - start) * 1e6)
        launched.append((end - middle) * 1e6)
    return {
        "device": device.info.name,
        "id": device.info.id,
        "name": device.info.name,
        "platform": device.info.platform,
        "driver": device.info.driver,
        "size": size,
        "host_arrays": host_arrays,
        "matmul_us": statistics.median(called),
        "compiled_us": statistics.median(bound),
        "launch_us": statistics.median(launched),
        "overhead_us": statistics.median(called) - statistics.median(launched),
        "compiled_overhead_us": statistics.median(bound) - statistics.median(launched),
        "samples": {"matmul_us": called, "compiled_us": bound, "launch_us": launched},
    }


def main() -> None:
    """Measure and print; write every sample as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--commit", help="what to record where there is no git")
    parser.add_argument("--save", action="store_true", help="write every sample to bench/results")
    parser.add_argument("--host", action="store_true", help="NumPy arrays, which the driver has to be told of at every call")
    options = parser.parse_args()
    result = measure(options.device, options.size, options.host)
    print("{device} ({id}), {size}^3: bare launches {launch_us:.1f} us".format(**result))
    print("  matmul   {matmul_us:.1f} us, overhead {overhead_us:.1f} us".format(**result))
    print("  compiled {compiled_us:.1f} us, overhead {compiled_overhead_us:.1f} us".format(**result))
    if options.save:
        name = f"overhead-{slug(str(result['device']))}-{slug(str(result['id']))}"
        print(f"written to {save(name, {'bench': 'overhead', **facts(options.commit), 'rows': [result]})}")


if __name__ == "__main__":
    main()
