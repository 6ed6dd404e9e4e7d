"""Complex GEMM by three real products instead of four (the 3M method), as the BLAS's extensions CGEMM3M and ZGEMM3M."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workloads import blocks, get, operands, structured
from portatile.workloads.gemm.passing import operand_shapes
from portatile.workloads.gemm.product import Product
from portatile.workloads.gemm.reals import TRANSPOSED

_PLANES = 3  # planes of an operand (real parts, imaginary parts, their sums), and their products
_SQUARE = 32  # the order of the square that a work-group transposes
_BYTES = 32  # bytes of complex elements that a work-item loads at a time
_PARTS = {"complex64": ("float32", "float", 4), "complex128": ("float64", "double", 8)}


class Gemm3m(Product):
    """Complex matrix product: C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C by three real products, a quarter less work.

    With X = re(op A) re(op B), Y = im(op A) im(op B) and Z = (re + im)(op A) (re + im)(op B), the real part of op(A) op(B) is X - Y and the
    imaginary part Z - X - Y (Higham, Stability of a method for multiplying complex matrices with three real matrix multiplications, 1992).
    The error of the real part is that of an ordinary product; relative to the sums of moduli that of the imaginary part may be three times
    as large. Sums of a real and an imaginary part beyond the largest number overflow. Operands and options are as for ``gemm``.
    """

    name = "gemm3m"
    meanings: Mapping[str, str] = {
        "WGS": "Work-items of a work-group of the kernels that split the operands into planes and combine the products to C.",
    }
    dtypes = tuple(_PARTS)

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Every work-group that the device supports."""
        return ParameterSpace({"WGS": structured.GROUPS}, ("WGS <= max_work_group_size",), device.facts())

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """A work-group as wide as a row of a small matrix."""
        return {"WGS": structured.group(device)}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The launches that split A and B into three planes, their products as one batch, and the launch that combines them to C."""
        blocks.check(problem)
        m, n, group = problem.sizes["m"], problem.sizes["n"], int(config["WGS"])
        if m == 0 or n == 0:
            return Plan(())
        real, _, itemsize = _PARTS[problem.dtype]
        shapes, stored, temporaries = operand_shapes(problem), {}, []
        letters: dict[str, Value] = {name: TRANSPOSED[str(problem.options[name])] for name in ("trans_a", "trans_b")}
        transposed = {name for name in "ab" if _turns(problem, name, device)}
        for name in ("a", "b", "c"):
            rows, columns = shapes[name][::-1] if name in transposed else shapes[name]
            pitch = blocks.padded(columns)
            stored[name] = Layout((max(rows, 1) * pitch, pitch, 1))
            temporaries.append(Temporary(f"{name}_planes", _PLANES * max(rows, 1) * max(pitch, 1) * itemsize))
        letters |= {f"trans_{name}": "N" if letters[f"trans_{name}"] == "T" else "T" for name in transposed}
        sizes = {"batch": _PLANES, **problem.sizes}
        products = get("gemm_batched").problem(sizes, real, letters, stored)
        names = {name: f"{name}_planes" for name in stored}
        return Plan(
            (
                *(_taken_apart(problem, name, stored[name], group, name in transposed) for name in "ab" if 0 not in shapes[name]),
                Call(products, names, {"alpha": 1.0, "beta": 0.0}),
                _put_together(problem, stored["c"], group),
            ),
            tuple(temporaries),
        )

    def bound(self, problem: Problem, config: Config) -> float:
        """sqrt(10) gamma_(k + 108), relative to the sums of moduli; the reference's own error is added.

        With s the sum of |a| |b|, the errors of X and Y together are at most gamma s, and so is that of the real part. Z is computed from
        sums of moduli up to sqrt(2) |a| and sqrt(2) |b|, so its error is at most 2 gamma s, and that of the imaginary part 3 gamma s. The
        formula counts 100 parts into which a product may be split, and the roundings of the sums, the factors and the additions.
        """
        k = problem.sizes["k"]
        return sqrt(10) * operands.gamma(k + 108, _PARTS[problem.dtype][0]) + 2 * operands.gamma(k + 7, "float64")


def _types(problem: Problem) -> dict[str, Value]:
    """The definitions of the element type, and of the type of its parts, for the kernel texts."""
    return {**blocks.types(problem), "PART": _PARTS[problem.dtype][1]}


def _turns(problem: Problem, name: str, device: DeviceInfo) -> bool:
    """Whether the planes of A or B are transposed: GPUs read float32 operands with k slow directly, and would pack others first."""
    fast = TRANSPOSED[str(problem.options[f"trans_{name}"])] == ("N" if name == "a" else "T")
    return fast and device.kind == "gpu" and problem.dtype == "complex64"


def _wide(problem: Problem, name: str, columns: int) -> int:
    """The neighbouring elements that a work-item loads at a time: 32 bytes if rows are whole and aligned multiples of that."""
    itemsize = 2 * _PARTS[problem.dtype][2]
    wide = _BYTES // itemsize
    return wide if columns % wide == 0 and problem.layout[name].vector_width(itemsize) >= wide else 1


def _vectors(problem: Problem, wide: int) -> dict[str, Value]:
    """The definitions of the vectors of ``wide`` elements, and of their parts, for the kernel texts."""
    part = _PARTS[problem.dtype][1]
    return {"WIDE": wide, "ELEMENTS": f"{part}{2 * wide}", "PARTS": f"{part}{wide}" if wide > 1 else part}


def _taken_apart(problem: Problem, name: str, planes: Layout, group: int, transposed: bool) -> Launch:
    """The launch that writes the planes of op(A) or op(B), stored as the operand is, or with ``transposed`` as its transpose."""
    rows, columns = operand_shapes(problem)[name]
    conjugated = problem.options[f"trans_{name}"] in ("C", "R")
    wide = 1 if transposed else _wide(problem, name, columns)
    values = {"COMPLEX": True, "CONJUGATED": conjugated, "TRANSPOSED": transposed, **_vectors(problem, wide)}
    source = load(__file__, "planes.cl", {**_types(problem), "WGS": group}, **values)
    args = (
        blocks.integer("rows", rows),
        blocks.integer("columns", columns),
        blocks.scalar(problem, "alpha"),
        *blocks.matrix(problem, name, "in"),
        Arg(f"{name}_planes", role="temporary"),
        blocks.long_integer("plane", planes.strides[0]),
        blocks.long_integer("pitch", planes.strides[1]),
    )
    squares = -(-rows // _SQUARE) * -(-columns // _SQUARE)
    size = ((_SQUARE * squares, 8, 1), (_SQUARE, 8, 1)) if transposed else blocks.lines(problem, rows, columns // wide, group)
    return Launch(source, "gemm3m_planes", *size, args)


def _put_together(problem: Problem, planes: Layout, group: int) -> Launch:
    """The launch that combines the three products to C."""
    m, n = problem.sizes["m"], problem.sizes["n"]
    wide = _wide(problem, "c", n)
    source = load(__file__, "combine.cl", {**_types(problem), "WGS": group}, COMPLEX=True, **_vectors(problem, wide))
    args = (
        blocks.integer("rows", m),
        blocks.integer("columns", n),
        blocks.scalar(problem, "alpha"),
        blocks.scalar(problem, "beta"),
        Arg("c_planes", role="temporary"),
        blocks.long_integer("plane", planes.strides[0]),
        blocks.long_integer("pitch", planes.strides[1]),
        *blocks.matrix(problem, "c", "inout"),
    )
    return Launch(source, "gemm3m_combine", *blocks.lines(problem, m, n // wide, group), args)


workload = Gemm3m()
