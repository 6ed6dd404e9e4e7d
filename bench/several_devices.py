"""What do several devices give together, from the host and where data lies on the first, and how fast do they copy to each other?

python3 bench/several_devices.py --device cuda:0 --device cuda:1
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import portatile
from measure import facts, parser, print_table, save, slug
from portatile import device as devices
from portatile import wavelets

Compute = Callable[[Any], Any]
_COPY = 1 << 28  # bytes


def samples(run: Callable[[], Any], repeat: int) -> list[float]:
    """Seconds of each run after two that make it ready, to the end of what it queued."""
    taken = []
    for place in range(repeat + 2):
        began = time.perf_counter()
        result = run()
        if isinstance(result, portatile.Buffer):
            result.device.default_queue().finish()
        if place >= 2:
            taken.append(time.perf_counter() - began)
    return taken


def cases(n: int, grid: int, rng: np.random.Generator) -> dict[str, tuple[tuple[Any, ...], Callable[..., Any]]]:
    """The operands of each case, and the call. The cases of sums over atoms and samples take arrays of the host."""
    atoms = (rng.random((4000, 4)) * grid).astype(np.float32)
    samples_ = tuple(rng.random(2048, np.float32) for _ in range(5))
    voxels = tuple(rng.random(grid**3, np.float32) for _ in range(3))
    matrices = {dtype: tuple(rng.random((2, n, n)).astype(dtype)) for dtype in ("float32", "float64")}
    return {
        "matmul float32": (matrices["float32"], portatile.matmul),
        "matmul float64": (matrices["float64"], portatile.matmul),
        "magicfilter3d": ((rng.random((64, grid, grid, grid)),), wavelets.magicfilter3d),
        "coulomb_potential": (
            (atoms,),
            lambda given, device: portatile.coulomb_potential(given, (1, 16 * grid, 16 * grid), 0.1, device=device),
        ),
        "mri_q": ((*samples_, *voxels), portatile.mri_q),
    }


def timed(operands: tuple[Any, ...], call: Callable[..., Any], chosen: list[Any], repeat: int) -> dict[str, list[float]]:
    """Seconds on the first device and on all, from the host; and of matrices and orbitals on the first device."""
    names = [one.info.id for one in chosen]
    found = {
        "host, one": samples(lambda: call(*operands, device=names[0]), repeat),
        "host, all": samples(lambda: call(*operands, device=names), repeat),
    }
    if call in (portatile.matmul, wavelets.magicfilter3d):
        there = [portatile.Buffer.from_numpy(array, chosen[0]) for array in operands]
        found["device, one"] = samples(lambda: call(*there), repeat)
        found["device, all"] = samples(lambda: call(*there, device=names), repeat)
        if len(there) > 1:
            there[1] = portatile.Buffer.from_numpy(operands[1], chosen[-1])
            found["b on the last, all"] = samples(lambda: call(*there, device=names), repeat)
    return found


def copied(one: Any, other: Any, nbytes: int, repeat: int) -> list[float]:
    """Bytes a second from a device to another."""
    there = portatile.Buffer.from_numpy(np.zeros(nbytes, np.uint8), one)
    return [nbytes / seconds for seconds in samples(lambda: there.to_device(other), repeat)]


def main() -> None:
    commands = parser(__doc__, "all")
    commands.add_argument("--size", type=int, default=16384, help="rows and columns of the matrices; default 16384")
    commands.add_argument("--grid", type=int, default=128, help="points of an axis of the volumes; default 128")
    commands.add_argument("--repeat", type=int, default=7, help="samples of each; default 7")
    commands.add_argument("--bytes", type=int, default=_COPY, help=f"bytes of a copy between devices; default {_COPY}")
    options = commands.parse_args()
    chosen = list(devices.several(options.device or devices.EVERY))
    rows = []
    for name, (operands, call) in cases(options.size, options.grid, np.random.default_rng(0)).items():
        found = timed(operands, call, chosen, options.repeat)
        rows.append({"case": name, "seconds": found})
    pairs = [(one, other) for one in chosen for other in chosen if one is not other]
    copies = [{"from": a.info.id, "to": b.info.id, "bytes_per_second": copied(a, b, options.bytes, options.repeat)} for a, b in pairs]
    for row in rows:
        took = {way: median(taken) for way, taken in row["seconds"].items()}
        alone = {way: took["host, one" if way.startswith("host") else "device, one"] for way in took}
        print_table([row["case"], "seconds", "over one"], [[way, f"{took[way]:.4g}", f"{alone[way] / took[way]:.2f}"] for way in took])
    for copy in copies:
        print(f"{copy['from']} to {copy['to']}: {median(copy['bytes_per_second']) / 1e9:.1f} GB/s")
    known = [{"id": one.info.id, "name": one.info.name, "driver": one.info.driver} for one in chosen]
    document = {"bench": "several_devices", **facts(options.commit), "devices": known, "size": options.size, "grid": options.grid}
    name = f"several_devices-{slug(chosen[0].info.name)}"
    print(f"\nwritten to {save(name, document | {'cases': rows, 'copies': copies}, options.out)}")


if __name__ == "__main__":
    main()
