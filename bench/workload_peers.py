"""Peers that compute the same as a workload: PyTorch on a GPU, SciPy on a CPU, and a straightforward kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from portatile import cache, program, workloads
from portatile.device.base import Device
from portatile.execute import Executable
from portatile.measure.runs import MeasurementLength, PreparedRun
from portatile.records import Arg, Launch, Plan, Problem, Source
from portatile.workloads import operands

try:
    import torch
except ImportError:
    torch = None

Run = Callable[[], Any]

_CP = """
__kernel void naive(const int atoms, const int nx, const int ny, __global const float4* atom, __global float* potential,
                    const float x0, const float y0, const float z0, const float dx, const float dy, const float dz,
                    const float y_first, const float z_first)
{
    const int i = get_global_id(0), j = get_global_id(1), k = get_global_id(2);
    if (i >= nx || j >= ny)
        return;
    const float x = x0 + dx * i, y = y0 + dy * (j + y_first), z = z0 + dz * (k + z_first);
    float sum = 0.0f;
    for (int n = 0; n < atoms; n++) {
        const float a = x - atom[n].x, b = y - atom[n].y, c = z - atom[n].z;
        sum += atom[n].w / sqrt(a * a + b * b + c * c);
    }
    potential[(k * ny + j) * nx + i] = sum;
}
"""
_MRI = """
__kernel void naive(const int samples, const int voxels, __global const float* kx, __global const float* ky, __global const float* kz,
                    __global const float* phi_r, __global const float* phi_i,
#ifdef FHD
                    __global const float* d_r, __global const float* d_i,
#endif
                    __global const float* x, __global const float* y, __global const float* z, __global float* image)
{
    const int v = get_global_id(0);
    if (v >= voxels)
        return;
    float re = 0.0f, im = 0.0f;
    for (int s = 0; s < samples; s++) {
        const float e = 6.2831853f * (kx[s] * x[v] + ky[s] * y[v] + kz[s] * z[v]);
#ifdef FHD
        const float along = phi_r[s] * d_r[s] + phi_i[s] * d_i[s], across = phi_r[s] * d_i[s] - phi_i[s] * d_r[s];
        re += along * cos(e) - across * sin(e);
        im += across * cos(e) + along * sin(e);
#else
        const float weight = phi_r[s] * phi_r[s] + phi_i[s] * phi_i[s];
        re += weight * cos(e);
        im += weight * sin(e);
#endif
    }
    image[v] = re;
    image[voxels + v] = im;
}
"""


def on_gpu() -> bool:
    """Whether PyTorch has a GPU here."""
    return torch is not None and torch.cuda.is_available()


def torch_version() -> str:
    return f"PyTorch {torch.__version__}"


def torch_driver() -> str:
    """CUDA's version that it is made for."""
    return f"CUDA {torch.version.cuda}"


def solve(problem: Problem) -> Run:
    """PyTorch's triangular solve of a well-conditioned lower triangle."""
    m, n, kind = problem.sizes["m"], problem.sizes["n"], getattr(torch, problem.dtype)
    a = torch.rand(m, m, dtype=kind, device="cuda").tril_() / m + 2 * torch.eye(m, dtype=kind, device="cuda")
    b = torch.rand(m, n, dtype=kind, device="cuda")
    return lambda: torch.linalg.solve_triangular(a, b, upper=False)


def copy(problem: Problem) -> Run:
    """PyTorch's copy of as many bytes as a convolution or a stream's copy reads and writes."""
    return copy_of(int(workloads.get(problem.workload).traffic(problem)) // (2 * problem.itemsize), problem.dtype)


def copy_of(elements: int, dtype: str) -> Run:
    """PyTorch's copy of so many elements."""
    x = torch.rand(elements, dtype=getattr(torch, dtype), device="cuda")
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def triad(problem: Problem) -> Run:
    """PyTorch's x + 0.4 y into a third array."""
    x, y = (torch.rand(problem.sizes["n"], dtype=getattr(torch, problem.dtype), device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    return lambda: torch.add(x, y, alpha=0.4, out=out)


def torch_samples(run: Run, burst: float = 0.01, rounds: int = 9) -> list[float]:
    """Seconds a run by CUDA's events: bursts back to back, as the kernels beside it are timed."""

    def once(runs: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / runs

    once(2)
    runs = max(int(burst / once(2)), 1)
    return [once(runs) for _ in range(rounds)]


def scipy_samples(problem: Problem, seconds: float = 0.5) -> list[float]:
    """Seconds of scipy.ndimage.convolve1d on one core, along whichever axis it is faster: where the filtered one is contiguous, or where
    the lines are, as they lie in psi."""
    from scipy import ndimage

    rng = np.random.default_rng(0)
    taps = rng.random(int(problem.options["taps"]))
    found = []
    for axis, shape in ((0, (problem.sizes["n"], problem.sizes["ndat"])), (1, (problem.sizes["ndat"], problem.sizes["n"]))):
        x = rng.random(shape).astype(problem.dtype)
        out = np.empty_like(x)
        run = partial(ndimage.convolve1d, x, taps, axis=axis, output=out, mode="wrap")
        found.append(host_samples(run, seconds))
    return min(found, key=np.median)


def host_samples(run: Run, seconds: float) -> list[float]:
    """Seconds of each run on the host, three at least."""
    samples: list[float] = []
    ends = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < ends:
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    return samples


def naive_samples(device: Device, ready: PreparedRun, length: MeasurementLength) -> list[float]:
    """Seconds of the naive text on the device, checked within a generous bound: its phases and sums are plain float32."""
    problem = ready.problem
    s = problem.sizes
    if problem.workload == "coulomb":
        names = ("atoms", "nx", "ny")
        buffers = (Arg("atoms"), Arg("potential", role="out"))
        scalars = tuple(Arg(name, "scalar", dtype="float32") for name in ready.inputs.scalars)
        text, size, group = _CP, (-(-s["nx"] // 16) * 16, -(-s["ny"] // 8) * 8, s["nz"]), (16, 8, 1)
    else:
        names, fhd = ("samples", "voxels"), problem.options["kind"] == "fhd"
        data = ("d_r", "d_i") if fhd else ()
        buffers = (*(Arg(name) for name in ("kx", "ky", "kz", "phi_r", "phi_i", *data, "x", "y", "z")), Arg("image", role="out"))
        scalars = ()
        text, size, group = ("#define FHD\n" if fhd else "") + _MRI, (-(-s["voxels"] // 128) * 128, 1, 1), (128, 1, 1)
    sizes = tuple(Arg(name, "scalar", dtype="int32", value=s[name]) for name in names)
    plan = Plan((Launch(Source("naive.cl", text, ()), "naive", size, group, (*sizes, *buffers, *scalars)),))
    with Executable(device, plan, lambda source: program.build(source, device.target, cache.default())) as executable:
        ready.check(executable, 100 * operands.gamma(s.get("samples", s.get("atoms", 1)) + 100, "float32"), label="the naive text")
        return list(ready.samples(executable, length))
