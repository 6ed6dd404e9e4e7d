"""BLAS 3 on an NVIDIA GPU through CUDA or OpenCL, complex too, beside cuBLAS called directly, by turns.

    python bench/level3_gpu.py --sizes 1000,2048,4096,8192,10240x128 --limit 60
    python bench/level3_gpu.py --through opencl --precision native --limit 60

Through CUDA portatile is given PyTorch's arrays, in PyTorch's stream; through OpenCL, Buffers of the same numbers on the same GPU.

cuBLAS is the one that PyTorch brings, by ctypes, on PyTorch's stream; row-major arrays are transposed column-major ones to it. Of TRSM the
peer is the fastest of three calls: cuBLAS on these arrays, cuBLAS on column-major ones, and torch.linalg.solve_triangular. Samples are
seconds of a call in bursts, by events of the device: with the host's part of them, but for OpenCL's, which wait behind a long copy until
all are queued. Results are compared with float64 first.
``--precision`` names those of portatile that are measured: native, emulated, or what a call takes by itself (default).
"""

from __future__ import annotations

import argparse
import ctypes
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import in_torch
import portatile
from in_opencl import opened
from level3 import flops as flops_of
from measure import facts, parser, print_table, save, slug, until_stopped
from portatile import Buffer
from portatile.device.clock import back_to_back

CASES = {"trsm": ("LLN", "LUT", "RLN"), "trmm": ("LLN", "RUN"), "symm": ("LL", "RU"), "syrk": ("LN", "UT"), "syr2k": ("LN", "UT")}
"""Side, triangle and transposition; of syrk and syr2k the last two."""
HERMITIAN = {"hemm": ("LL", "RU"), "herk": ("LN", "UC"), "her2k": ("LN", "UC")}
"""The same of the routines that only complex matrices have."""
UPDATES = {"syrk": 1, "herk": 1, "syr2k": 2, "her2k": 2}
"""The routines of one triangle, and how many products each adds up."""
_LETTERS = {"float32": "S", "float64": "D", "complex64": "C", "complex128": "Z"}
_OPS = "NTC"  # the transpositions of cublas_api.h
ROUNDS = 7
_BURST = 4e-3  # seconds
_LONG = 8 << 30  # bytes of the copy that OpenCL's launches wait behind: longer than queueing those of a burst takes
_LEFT, _RIGHT, _LOWER, _UPPER = 0, 1, 0, 1  # of cublas_api.h


class Cublas:
    """cuBLAS's calls on column-major matrices, in PyTorch's current stream. Raises RuntimeError with its status where a call fails."""

    def __init__(self, torch: Any) -> None:
        self._library = ctypes.CDLL(f"libcublas.so.{torch.version.cuda.partition('.')[0]}")  # which PyTorch has loaded
        self._handle = ctypes.c_void_p()
        self._done(self._library.cublasCreate_v2(ctypes.byref(self._handle)))
        self._done(self._library.cublasSetStream_v2(self._handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def call(self, routine: str, dtype: str, *arguments: Any) -> Callable[[], None]:
        """The call of ``cublasSsyrk_v2`` and its like: integers, factors (real ones as floats), and tensors."""
        function = getattr(self._library, f"cublas{_LETTERS[dtype]}{routine}_v2")
        kept = [_as_c(argument, dtype) for argument in arguments]

        def run(_tensors: tuple[Any, ...] = arguments) -> None:  # which live as long as the call, whatever becomes of the caller's
            self._done(function(self._handle, *kept))

        return run

    @staticmethod
    def _done(status: int) -> None:
        if status:
            raise RuntimeError(f"cuBLAS: status {status}")


class Cuda:
    """PyTorch's arrays as they are, in its stream."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.name = torch, in_torch.info().name

    def given(self, arrays: list[Any]) -> list[Any]:
        """What portatile is given of the arrays, of which the last is the result."""
        return arrays

    def result(self, arrays: list[Any]) -> Any:
        """The result, as an array of PyTorch's."""
        self.torch.cuda.synchronize()
        return arrays[-1]

    def burst(self, call: Callable[[], Any], count: int) -> float:
        """Seconds of a call."""
        return burst(self.torch, call, count)


class OpenCl:
    """Buffers on the GPU's OpenCL device, and its clock."""

    def __init__(self, torch: Any) -> None:
        found = opened()
        if found is None:
            raise SystemExit("there is no OpenCL device that is a GPU")
        self.torch, self.device, self.name = torch, found, found.info.name
        self.queue, self.clock = found.default_queue(), found.queue(profiling=True)
        self.long = [found.allocate(_LONG) for _ in range(2)]

    def given(self, arrays: list[Any]) -> list[Any]:
        """Copies of the arrays, and a result of NaN."""
        *read, out = arrays
        result = Buffer.empty(tuple(out.shape), str(out.dtype).removeprefix("torch."), self.device)
        self.queue.fill(result.memory, b"\xff" * 4)
        return [*(Buffer.from_numpy(array.cpu().numpy(), self.device) for array in read), result]

    def result(self, arrays: list[Any]) -> Any:
        """The result, as an array of PyTorch's."""
        return self.torch.from_numpy(arrays[-1].numpy()).cuda()

    def burst(self, call: Callable[[], Any], count: int) -> float:
        """Seconds of a call, queued behind a long copy."""
        self.queue.copy(self.long[0], self.long[1], _LONG)
        copied = self.queue.marker()
        self.queue.flush()
        self.clock.wait_for(copied)
        return back_to_back(self.queue, self.clock, call, count)


def burst(torch: Any, call: Callable[[], Any], count: int) -> float:
    """Seconds of a call in PyTorch's stream."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / count


def _as_c(argument: Any, dtype: str) -> Any:
    real = ctypes.c_float if dtype in ("float32", "complex64") else ctypes.c_double
    if isinstance(argument, float):
        return ctypes.byref(real(argument))
    if isinstance(argument, complex):
        return ctypes.byref((real * 2)(argument.real, argument.imag))
    return ctypes.c_int(argument) if isinstance(argument, int) else ctypes.c_void_p(argument.data_ptr())


def operands(torch: Any, routine: str, case: str, m: int, n: int, dtype: str) -> list[Any]:
    """What the routine takes, and the output. The triangles are close to the identity, so that one may be applied thousands of times."""
    kind = getattr(torch, dtype)
    torch.manual_seed(m + n)

    def drawn(rows: int, columns: int) -> Any:
        return torch.rand((rows, columns), dtype=kind, device="cuda") - (0.5 + 0.5j if kind.is_complex else 0.5)

    if routine in UPDATES:
        given = [drawn(m, n) if case[1] == "N" else drawn(n, m) for _ in range(UPDATES[routine])]
        return [*given, torch.zeros((m, m), dtype=kind, device="cuda")]
    order = m if case[0] == "L" else n
    a, b = drawn(order, order), drawn(m, n)
    if routine not in ("symm", "hemm"):
        a = 1e-3 / math.sqrt(order) * a + torch.eye(order, dtype=kind, device="cuda")
    return [a, b, torch.empty_like(b)]


def own(routine: str, case: str, given: list[Any], precision: str) -> Callable[[], Any]:
    """The call of portatile into the last array."""
    *arrays, out = given
    asked: dict[str, Any] = {"out": out, **({"precision": precision} if precision != "default" else {})}
    if routine in UPDATES:
        update = getattr(portatile, routine)
        return lambda: update(*arrays, uplo=case[0], trans=case[1], **asked)
    if routine in ("symm", "hemm"):
        multiply = getattr(portatile, routine)
        return lambda: multiply(*arrays, side=case[0], uplo=case[1], **asked)
    call = portatile.trsm if routine == "trsm" else portatile.trmm
    return lambda: call(*arrays, side=case[0], uplo=case[1], trans=case[2], **asked)


def peers(torch: Any, cublas: Cublas, routine: str, case: str, given: list[Any]) -> dict[str, Callable[[], Any]]:
    """Calls that compute the same, the first into the last array; TRSM works in place, on copies of B."""
    *arrays, c = given
    dtype = str(c.dtype).removeprefix("torch.")
    lower, (m, n) = _lower(routine, case), c.shape
    uplo = _UPPER if lower else _LOWER  # of the transpose
    one, nothing = (1.0, 0.0) if not c.is_complex() else (1.0 if routine == "herk" else 1 + 0j, 0.0 if routine in ("herk", "her2k") else 0j)
    if routine in UPDATES:
        k = arrays[0].shape[1 if case[1] == "N" else 0]
        lda = arrays[0].shape[1]
        matrices = [part for array in arrays for part in (array, lda)]
        transposed = 0 if case[1] != "N" else 2 if routine in HERMITIAN else 1
        return {"cuBLAS": cublas.call(routine, dtype, uplo, transposed, m, k, one, *matrices, nothing, c, m)}
    a, b = arrays
    side = _RIGHT if case[0] == "L" else _LEFT
    if routine in ("symm", "hemm"):
        return {"cuBLAS": cublas.call(routine, dtype, side, uplo, n, m, one, a, len(a), b, n, nothing, c, n)}
    trans = _OPS.index(case[2])
    if routine == "trmm":
        return {"cuBLAS": cublas.call(routine, dtype, side, uplo, trans, 0, n, m, one, a, len(a), b, n, c, n)}
    c.copy_(b)
    columns, columns_a = b.T.contiguous(), a.T.contiguous()
    theirs = (1 - side, 1 - uplo, trans, 0, m, n, one, columns_a, len(a), columns, m)
    op, upper = (a, not lower) if case[2] == "N" else (a.T if case[2] == "T" else a.mH, lower)
    return {
        "cuBLAS": cublas.call(routine, dtype, side, uplo, trans, 0, n, m, one, a, len(a), c, n),
        "cuBLAS, column-major": cublas.call(routine, dtype, *theirs),
        "PyTorch": lambda: torch.linalg.solve_triangular(op, b, upper=upper, left=case[0] == "L"),
    }


def _lower(routine: str, case: str) -> bool:
    return case[-1 if routine in ("symm", "hemm") else -2] == "L"


def _wide(torch: Any, array: Any) -> Any:
    return array.to(torch.complex128 if array.is_complex() else torch.float64)


def expected(torch: Any, routine: str, case: str, given: list[Any]) -> Any:
    """The result in float64, of one triangle with zeros in the other."""
    a, *rest = (_wide(torch, array) for array in given[:-1])
    lower, other = _lower(routine, case), (lambda matrix: matrix.mH) if routine in HERMITIAN else (lambda matrix: matrix.T)
    if routine in UPDATES:
        b = rest[0] if rest else a
        whole = a @ other(b) if case[1] == "N" else other(a) @ b
        whole = whole + other(whole) if rest else whole
        return whole.tril() if lower else whole.triu()
    if routine in ("symm", "hemm"):
        half, diagonal = (a.tril(-1) if lower else a.triu(1)), a.diagonal()
        whole = half + other(half) + torch.diag(diagonal.real if routine == "hemm" else diagonal)
    else:
        whole = a.tril() if lower else a.triu()
        whole = whole if case[2] == "N" else whole.T if case[2] == "T" else whole.mH
        whole = torch.linalg.inv(whole) if routine == "trsm" else whole
    return whole @ rest[0] if case[0] == "L" else rest[0] @ whole


def flops(routine: str, case: str, m: int, n: int, dtype: str) -> float:
    """The BLAS's convention."""
    alike = {"herk": "syrk", "her2k": "syr2k", "hemm": "symm"}.get(routine, routine)
    return flops_of(alike, case, m, n, dtype)


def measured(
    through: Cuda | OpenCl, cublas: Cublas, routine: str, case: str, m: int, n: int, dtype: str, asked: list[str]
) -> Iterator[Any]:
    """A row for each precision: seconds of a call of each participant, by turns."""
    torch, precisions = through.torch, asked
    given = operands(torch, routine, case, m, n, dtype)
    wide = expected(torch, routine, case, given)
    mask = (torch.tril if case[0] == "L" else torch.triu) if routine in UPDATES else (lambda array: array)
    allowed = 8 * torch.finfo(given[-1].dtype).eps * math.sqrt(max(m, n)) * float(wide.abs().max())

    def check(name: str, result: Any) -> None:
        torch.cuda.synchronize()
        if not (error := float((_wide(torch, mask(result)) - wide).abs().max())) <= allowed:
            raise ValueError(f"{name} is wrong by {error:.1e}, allowed {allowed:.1e}")

    calls = {}
    for precision in precisions:
        given[-1].fill_(0 if routine in UPDATES else float("nan"))
        mine = through.given(given)
        calls[precision] = own(routine, case, mine, precision)
        calls[precision]()
        check(f"portatile, {precision}", through.result(mine))
    rivals = peers(torch, cublas, routine, case, given)
    next(iter(rivals.values()))()
    check("cuBLAS", given[-1])
    samples = by_turns(
        {
            **{name: (through.burst, call) for name, call in calls.items()},
            **{name: (partial(burst, torch), call) for name, call in rivals.items()},
        }
    )
    best = min(median(samples[name]) for name in rivals)
    for precision in calls:
        taken = median(samples[precision])
        task = {"routine": routine, "case": case, "m": m, "n": n, "dtype": dtype}
        rate = {"portatile": flops(**task) / taken / 1e9, "BLAS": flops(**task) / best / 1e9}
        kept = {name: samples[name] for name in (precision, *rivals)}
        yield {**task, "precision": precision, "samples": kept, "gflops": rate, "ratio": best / taken}


def by_turns(calls: dict[str, tuple[Callable[[Callable[[], Any], int], float], Callable[[], Any]]]) -> dict[str, list[float]]:
    """Seconds of a call of each, in bursts that take turns; each with what times its bursts."""
    counts = {name: max(2, min(60, round(_BURST / min(timed(call, 2) for _ in range(2))))) for name, (timed, call) in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(ROUNDS):
        for name in list(calls)[:: 1 if round_ % 2 else -1]:
            timed, call = calls[name]
            samples[name].append(timed(call, counts[name]))
    return samples


Task = tuple[str, str, int, int, str]
"""Routine, case, sizes and element type."""


def asked() -> argparse.Namespace:
    """What the command line says."""
    commands = parser(__doc__, device="")
    commands.add_argument(
        "--sizes", default="1000,2048,4096,8192", help="N or MxN, of the result (of syrk and syr2k N x K), separated by commas"
    )
    commands.add_argument("--solves", default="10240x128", help="more sizes for trsm")
    commands.add_argument("--through", choices=("cuda", "opencl"), default="cuda", help="portatile's back end")
    commands.add_argument("--routines", default=",".join(CASES | HERMITIAN), help="separated by commas")
    commands.add_argument("--dtype", default="float32,float64", help="separated by commas; complex64 and complex128 too")
    commands.add_argument("--precision", default="native,default", help="separated by commas")
    commands.add_argument("--limit", type=float, default=300.0, help="seconds")
    return commands.parse_args()


def tasks(options: argparse.Namespace) -> list[Task]:
    """What is to be measured, in order: sizes by sizes, so that a run that ends early has some of them whole."""
    solves = list(filter(None, options.solves.split(",")))
    found: list[Task] = []
    for text in dict.fromkeys((*options.sizes.split(","), *solves)):
        m, n = map(int, (text.split("x") * 2)[:2])
        for dtype in options.dtype.split(","):
            for routine in options.routines.split(","):
                real = not dtype.startswith("complex")
                if (routine == "trsm" or text not in solves) and not (real and routine in HERMITIAN):
                    found += [(routine, case, m, n, dtype) for case in (CASES | HERMITIAN)[routine]]
    return found


def rows_of(through: Cuda | OpenCl, options: argparse.Namespace) -> Iterator[Any]:
    """The rows of all tasks that there is time for; what goes wrong is printed."""
    cublas, began, left = Cublas(through.torch), time.monotonic(), tasks(options)
    for place, task in enumerate(left):
        if time.monotonic() - began > options.limit:
            print(f"{len(left) - place} of {len(left)} left out for want of time")
            return
        try:
            yield from measured(through, cublas, *task, options.precision.split(","))
        except (ValueError, RuntimeError, portatile.PortatileError) as error:
            print("wrong:", *task, error, flush=True)


def main() -> None:
    """Measure, print a line for each, and save."""
    options = asked()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    through = OpenCl(torch) if options.through == "opencl" else Cuda(torch)
    rows: list[dict[str, Any]] = []
    lines = []
    with until_stopped():
        for row in rows_of(through, options):
            rows.append(row)
            rates = [f"{row['gflops'][who] / 1e3:.1f}" for who in ("portatile", "BLAS")]
            lines.append(["{routine} {case} {m} x {n} {dtype} {precision}".format(**row), *rates, f"{row['ratio']:.2f}"])
            print("  ".join(lines[-1]), flush=True)
    print_table([f"{through.name}, {options.through}", "Tflop/s", "best peer", "ratio"], lines)
    document = {
        "bench": "level3",
        **facts(options.commit),
        "blas": {"name": f"cuBLAS of {in_torch.peer()}"},
        "device": through.name,
        "through": options.through,
        "rows": rows,
    }
    print(f"\nwritten to {save(f'level3-{slug(through.name)}-{options.through}', document, options.out)}")


if __name__ == "__main__":
    main()
