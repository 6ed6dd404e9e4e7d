"""What NumPy computes for some of the programs: name of the program -> function of its arguments by name -> outputs by name."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

A = NDArray[Any]
Inputs = dict[str, Any]


def _wide(array: A) -> A:
    return array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64)


def _neighbours(a: A) -> A:
    """The sum of the four neighbours of inner elements."""
    return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]


def _jacobi(v: Inputs) -> A:
    a = _wide(v["A"]).reshape(16, 16)
    b = a.copy()
    b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + _neighbours(a))
    return b.reshape(v["B"].shape)


def _stencil3d(v: Inputs) -> A:
    a = _wide(v["A0"]).reshape(6, 8, 8)
    out = _wide(v["Anext"]).reshape(6, 8, 8)
    around = sum(np.roll(a, s, axis)[1:-1, 1:-1, 1:-1] for s in (1, -1) for axis in (0, 1, 2))
    out[1:-1, 1:-1, 1:-1] = around * float(v["c1"]) - a[1:-1, 1:-1, 1:-1] * float(v["c0"])
    return out.reshape(v["Anext"].shape)


def _stencil9(v: Inputs) -> A:
    a, out = _wide(v["data"]).reshape(10, 18), _wide(v["newData"]).reshape(10, 18)
    diagonal = a[:-2, :-2] + a[:-2, 2:] + a[2:, :-2] + a[2:, 2:]
    out[1:-1, 1:-1] = 0.25 * a[1:-1, 1:-1] + 0.15 * _neighbours(a) + 0.05 * diagonal
    return out.reshape(v["newData"].shape)


def _kmeans(v: Inputs) -> A:
    feature, clusters = _wide(v["feature"]).reshape(5, 30), _wide(v["clusters"]).reshape(4, 5)
    return ((feature.T[:, None] - clusters[None]) ** 2).sum(2).argmin(1)


def _life(v: Inputs) -> A:
    a = v["in"].reshape(8, 16).astype(int)
    alive = sum(np.roll(a, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - a
    return ((alive == 3) | ((alive == 2) & (a == 1))).astype(np.uint8).reshape(v["in"].shape)


def _spmv(v: Inputs) -> A:
    starts = v["rowDelimiters"] * 3
    products = _wide(v["val"]) * _wide(v["vec"])[v["cols"]]
    return np.array([products[a:b].sum() for a, b in pairwise(starts)])


def _nbody(v: Inputs) -> dict[str, A]:
    p, speed = _wide(v["pos"]), _wide(v["vel"])
    d = p[None] - p[:, None]
    r = 1 / np.sqrt((d[..., :3] ** 2).sum(2) + float(v["eps"]))
    a = np.zeros_like(p)
    a[:, :3] = ((p[None, :, 3] * r**3)[..., None] * d[..., :3]).sum(1)
    dt = float(v["dt"])
    return {"new_pos": p + dt * speed + 0.5 * dt * dt * a, "new_vel": speed + dt * a}


def _mandelbrot(v: Inputs) -> A:
    x = np.float32(v["x0"]) + np.arange(32, dtype=np.float32) * np.float32(v["dx"])
    y = np.float32(v["y0"]) + np.arange(8, dtype=np.float32) * np.float32(v["dy"])
    c = x[None].astype(complex) + 1j * y[:, None]
    z, count, active = np.zeros_like(c), np.zeros(c.shape, int), np.ones(c.shape, bool)
    for _ in range(int(v["most"])):
        active &= np.abs(z) <= 2
        count += active
        z = np.where(active, z * z + c, z)
    return count.reshape(v["out"].shape)


def _hotspot(v: Inputs) -> A:
    t, power = _wide(v["temp_src"]).reshape(16, 16), _wide(v["power"]).reshape(16, 16)
    edge = np.pad(t, 1, mode="edge")
    n, s, w, e = edge[:-2, 1:-1], edge[2:, 1:-1], edge[1:-1, :-2], edge[1:-1, 2:]
    cap, rx, ry, rz, amb = (float(v[name]) for name in ("step_div_Cap", "Rx_1", "Ry_1", "Rz_1", "amb"))
    return (t + cap * (power + (s + n - 2 * t) * ry + (e + w - 2 * t) * rx + (amb - t) * rz)).reshape(v["temp_dst"].shape)


def _compaction(v: Inputs) -> dict[str, A]:
    out, counts = v["out"].copy().reshape(2, 16), []
    for group, row in enumerate(v["in"].reshape(2, 16)):
        kept = row[row > 0]
        out[group, : len(kept)] = kept
        counts.append(len(kept))
    return {"out": out.reshape(-1), "counts": np.array(counts)}


def _mri_q(v: Inputs) -> dict[str, A]:
    k = _wide(v["ck"]).reshape(-1, 4)[:8]
    phase = 2 * np.pi * sum(np.outer(_wide(v[axis]), k[:, i]) for i, axis in enumerate("xyz"))
    return {"Qr": (k[:, 3] * np.cos(phase)).sum(1), "Qi": (k[:, 3] * np.sin(phase)).sum(1)}


def _floyd(v: Inputs) -> A:
    d = v["pathDistanceBuffer"].reshape(16, 16).astype(int)
    through = d[:, 3:4] + d[3:4]
    better = (through < d) & (np.arange(16)[None] != 3) & (np.arange(16)[:, None] != 3)
    return np.where(better, through, d).reshape(v["pathDistanceBuffer"].shape)


def _blur(v: Inputs) -> A:
    a, w = _wide(v["src"]), np.array([0.0625, 0.25, 0.375, 0.25, 0.0625])
    padded = np.pad(a, ((2, 2), (2, 2), (0, 0)), mode="edge")
    h, width = a.shape[:2]
    return sum(w[y] * w[x] * padded[y : y + h, x : x + width] for y in range(5) for x in range(5))


def _crc(v: Inputs) -> A:
    return np.array([zlib.crc32(row.tobytes()) for row in v["bytes"].reshape(32, 16)], np.uint32)


def _scan(v: Inputs) -> A:
    return np.concatenate([[0], np.cumsum(v["in"])[:-1]])


def _sorted(v: Inputs) -> A:
    return np.sort(v["key"].reshape(-1))


def _histogram(v: Inputs) -> A:
    return np.bincount(v["data"].view(np.uint8) >> 4, minlength=16)


def _search(v: Inputs) -> A:
    text, pattern = v["text"].tobytes(), v["pattern"].tobytes()
    return np.array([(1 + (text[i : i + 3] == pattern)) * (text[i] == pattern[0]) for i in range(32)])


def _fft(v: Inputs) -> A:
    z = _wide(v["work"]).reshape(8, 8, 2)
    f = np.fft.fft(z[..., 0] + 1j * z[..., 1], axis=1)
    return np.stack([f.real, f.imag], 2).reshape(v["work"].shape)


def _dct(v: Inputs) -> A:
    x, u = np.arange(8), np.arange(8)[:, None]
    matrix = np.cos((2 * x + 1) * u * np.pi / 16) * np.where(u == 0, 0.3535533905932737, 0.5)
    return (matrix @ _wide(v["src"]).reshape(8, 8) @ matrix.T).reshape(v["src"].shape)


def _nearest(v: Inputs) -> A:
    at = _wide(v["d_locations"]).reshape(-1, 2)[:30]
    return np.hypot(at[:, 0] - float(v["lat"]), at[:, 1] - float(v["lng"]))


REFERENCES: dict[str, Callable[[Inputs], dict[str, A]]] = {
    "saxpy": lambda v: {"y": float(v["a"]) * _wide(v["x"]) + _wide(v["y"])},
    "triad": lambda v: {"a": _wide(v["b"]) + float(v["s"]) * _wide(v["c"])},
    "reduction": lambda v: {"sums": _wide(v["in"]).reshape(2, -1).sum(1)},
    "reduction_vector": lambda v: {"most": v["in"].reshape(2, -1).max(1)},
    "transpose": lambda v: {"out": v["in"].reshape(24, 16).T.reshape(-1)},
    "matmul_tiled": lambda v: {"C": (_wide(v["A"]).reshape(8, 24) @ _wide(v["B"]).reshape(24, 16)).reshape(-1)},
    "sgemm_registers": lambda v: {
        "c": (float(v["alpha"]) * (_wide(v["a"]).reshape(8, 12) @ _wide(v["b"]).reshape(12, 16))).reshape(v["c"].shape)
    },
    "bicg": lambda v: {"s": _wide(v["A"]).reshape(20, 30).T @ _wide(v["r"])},
    "jacobi2d": lambda v: {"B": _jacobi(v)},
    "stencil3d": lambda v: {"Anext": _stencil3d(v)},
    "stencil9": lambda v: {"newData": _stencil9(v)},
    "hotspot": lambda v: {"temp_dst": _hotspot(v)},
    "kmeans": lambda v: {"membership": _kmeans(v)},
    "nearest_neighbor": lambda v: {"d_distances": _nearest(v)},
    "scan": lambda v: {"out": _scan(v)},
    "histogram": lambda v: {"bins": _histogram(v)},
    "spmv_csr": lambda v: {"out": _spmv(v)},
    "fft8": lambda v: {"work": _fft(v)},
    "mri_q": _mri_q,
    "crc32": lambda v: {"out": _crc(v)},
    "mandelbrot": lambda v: {"out": _mandelbrot(v)},
    "nbody": _nbody,
    "life": lambda v: {"out": _life(v)},
    "bitonic_sort": lambda v: {"key": _sorted(v)},
    "image_blur": lambda v: {"dst": _blur(v)},
    "compaction": _compaction,
    "floyd_warshall": lambda v: {"pathDistanceBuffer": _floyd(v)},
    "string_search": lambda v: {"found": _search(v)},
    "dct8x8": lambda v: {"dst": _dct(v)},
}
