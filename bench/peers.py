"""GEMM of other libraries behind one small interface: NumPy's BLAS, cuBLAS through PyTorch, CLBlast."""

from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path
from typing import Any

import numpy as np

from measure import clock, version
from portatile import device, verify, workloads
from portatile.records import Problem
from portatile.workload import Inputs
from portatile.workloads.operands import gamma, view

SEED = 20261120


def problem_of(sizes: dict[str, int], dtype: str, trans: str) -> Problem:
    """A product, or with ``batch`` among its sizes a stack of them."""
    name = "gemm_batched" if "batch" in sizes else "gemm"
    return workloads.get(name).problem(sizes, dtype, {"trans_a": trans[0], "trans_b": trans[1]})


def inputs_of(problem: Problem) -> Inputs:
    """The same operands in every process; alpha 1, beta 0, as the peers compute."""
    return workloads.get(problem.workload).usual_inputs(problem, np.random.default_rng(SEED))


def check(problem: Problem, inputs: Inputs, got: Any, bound: float) -> float:
    """The error of the output's memory in units of its bound; raises where it is wrong."""
    workload = workloads.get(problem.workload)
    expected = workload.reference(problem, inputs, np.random.default_rng(SEED))["c"]
    verdict = verify.compare(got, expected, bound, "c")
    if not verdict.ok:
        raise ValueError(verdict.message)
    return verdict.error


class Peer:
    """Child: a library's GEMM. A subclass sets ``name`` and ``version`` and implements ``start`` and ``finish``."""

    name = ""
    version = ""

    def prepare(self, sizes: dict[str, int], dtype: str, trans: str) -> dict[str, Any]:
        """Place the operands, compute once, check."""
        problem = problem_of(sizes, dtype, trans)
        inputs = inputs_of(problem)
        gemm = workloads.get(problem.workload)
        a, b = (view(inputs.operands[name], problem.layout[name], gemm.shapes(problem)[name]) for name in "ab")
        self.place(a, b, trans)
        self.start()
        self.finish()
        got = np.full_like(inputs.operands["c"], np.nan)
        view(got, problem.layout["c"], gemm.shapes(problem)["c"])[...] = self.result()
        error = check(problem, inputs, got, gamma(problem.sizes["k"] + 2, dtype))
        return {"entries": [{"name": self.name, "version": self.version, "error": error, "config": {}, "note": ""}]}

    def run(self, name: str, count: int) -> dict[str, Any]:
        """Wall and CPU seconds of ``count`` runs in a row."""
        wall, cpu = clock()
        for _ in range(count):
            self.start()
        self.finish()
        end_wall, end_cpu = clock()
        return {"wall": end_wall - wall, "cpu": end_cpu - cpu}

    def release(self) -> dict[str, Any]:
        """Nothing to free: the next problem's operands replace this one's."""
        return {}

    def place(self, a: Any, b: Any, trans: str) -> None:
        """Keep the operands where the library computes."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin one product."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for what was begun."""

    def result(self) -> Any:
        """C on the host."""
        raise NotImplementedError


class NumPy(Peer):
    """NumPy's matmul, which calls the BLAS it was built with."""

    name = "NumPy"

    def __init__(self, selector: str) -> None:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        self.version = f"NumPy {np.__version__}, {blas['name']} {blas['version']}"

    def place(self, a: Any, b: Any, trans: str) -> None:
        self.a, self.b = (x.swapaxes(-1, -2) if t == "T" else x for x, t in zip((a, b), trans, strict=True))
        self.c = np.empty((*self.a.shape[:-1], self.b.shape[-1]), a.dtype)

    def start(self) -> None:
        np.matmul(self.a, self.b, out=self.c)

    def result(self) -> Any:
        return self.c


class Torch(Peer):
    """cuBLAS through PyTorch, true float32."""

    name = "cuBLAS"

    def __init__(self, selector: str) -> None:
        import torch

        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        library = version("nvidia-cublas") or version("nvidia-cublas-cu12") or f"of CUDA {torch.version.cuda}"
        self.version = f"PyTorch {torch.__version__}, cuBLAS {library}"
        torch.zeros(1, device="cuda")

    def place(self, a: Any, b: Any, trans: str) -> None:
        a, b = (self.torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in (a, b))
        self.a, self.b = (x.transpose(-1, -2) if t == "T" else x for x, t in zip((a, b), trans, strict=True))
        self.c = self.torch.empty((*self.a.shape[:-1], self.b.shape[-1]), dtype=a.dtype, device="cuda")
        self.multiply = self.torch.mm if a.dim() == 2 else self.torch.bmm

    def start(self) -> None:
        self.multiply(self.a, self.b, out=self.c)

    def finish(self) -> None:
        self.torch.cuda.synchronize()

    def result(self) -> Any:
        return self.c.cpu().numpy()


class CLBlast(Peer):
    """The installed libclblast on one OpenCL device, with the parameters that it ships."""

    name = "CLBlast"

    def __init__(self, selector: str) -> None:
        import pyopencl

        path = ctypes.util.find_library("clblast") or "libclblast.so.1"
        self.library = ctypes.CDLL(path)
        loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libclblast" in line}
        self.version = f"CLBlast {', '.join(Path(found).resolve().name for found in loaded) or path}"
        self.cl = pyopencl
        self.context = device.get(selector).allocate(4).handle.context
        self.queue = pyopencl.CommandQueue(self.context)

    def place(self, a: Any, b: Any, trans: str) -> None:
        if a.ndim > 2:
            raise ValueError("CLBlast is asked for single products only")
        flags = self.cl.mem_flags
        self.dtype = a.dtype
        self.call = self.library.CLBlastSgemm if a.dtype == np.float32 else self.library.CLBlastDgemm
        self.a, self.b = (
            self.cl.Buffer(self.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(x)) for x in (a, b)
        )
        m, k = a.shape if trans[0] == "N" else a.shape[::-1]
        n = b.shape[1] if trans[1] == "N" else b.shape[0]
        self.shape = (m, n)
        self.c = self.cl.Buffer(self.context, flags.READ_WRITE, m * n * a.dtype.itemsize)
        number = ctypes.c_float if a.dtype == np.float32 else ctypes.c_double
        self.queue_pointer = ctypes.c_void_p(self.queue.int_ptr)
        orders = [ctypes.c_int(101), *(ctypes.c_int(111 if t == "N" else 112) for t in trans)]

        def matrix(buffer: Any, columns: int) -> list[Any]:
            return [ctypes.c_void_p(buffer.int_ptr), ctypes.c_size_t(0), ctypes.c_size_t(columns)]

        self.arguments = [*orders, *map(ctypes.c_size_t, (m, n, k)), number(1), *matrix(self.a, a.shape[1]), *matrix(self.b, b.shape[1])]
        self.arguments += [number(0), *matrix(self.c, n), ctypes.byref(self.queue_pointer), None]

    def start(self) -> None:
        status = self.call(*self.arguments)
        if status != 0:
            raise RuntimeError(f"CLBlast status {status}")

    def finish(self) -> None:
        self.queue.finish()

    def result(self) -> Any:
        got = np.empty(self.shape, self.dtype)
        self.cl.enqueue_copy(self.queue, got, self.c)
        return got


PEERS = {"numpy": NumPy, "torch": Torch, "clblast": CLBlast}
