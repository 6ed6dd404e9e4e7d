"""SYR2K: one triangle of C = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, like SYRK; blocks on the diagonal need one product and its
transpose.
"""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Arg, Call, Config, DeviceInfo, Launch, Layout, Plan, Problem, Temporary, Value
from portatile.space import ParameterSpace
from portatile.template import load
from portatile.workload import Member, Operand
from portatile.workloads import blocks, precisions, structured
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.extras import Triangle
from portatile.workloads.syrk import Syrk, hermitian, kinds

_TRANS = ("N", "T", "NT", "TN", "C", "R", *(a + b for a in "NTCR" for b in "NTCR" if a != b and a + b not in ("NT", "TN")))
_SQUARE = 32  # the order of the square of a block that a work-group adds to its transpose
_LINES = 16  # rows of A and B that a processor's work-item copies
_SHORT = 128  # k up to which a processor is faster without a workspace as large as C ...
_FLAT = 6  # ... if the order is so many times k


class Syr2k(Syrk):
    """Rank-2k update: the triangle ``uplo`` of C (n x n) = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C; the other is not touched.

    A and B are stored as n x k, or as k x n with ``trans="T"``; C and R conjugate, too; with two letters, the first is for A and the second
    for B. With ``mirror="C"`` C is Hermitian: alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C with a real beta. With beta = 0 C is
    not read, with alpha = 0 neither A nor B is. ``precision`` is that of the products.
    """

    name = "syr2k"
    meanings: Mapping[str, str] = {
        "JOIN": "One launch for both products, which skips the tiles of the other triangle: on a processor a product of [A B] and the "
        "transpose of [B A], on NVIDIA's GPUs without such copies.",
        "NB": "Order of the blocks on the diagonal, where W = alpha op(A) op(B)^T is computed whole in a workspace; the other product is "
        "its transpose. Off these blocks both products are added to C. 0: one block, so that a single product computes everything.",
        "WGS": "Work-items of a work-group of the other kernels.",
    }
    options: Mapping[str, tuple[Value, ...]] = {**Syrk.options, "trans": _TRANS}
    operands = (Operand("a"), Operand("b"), Operand("c", "inout"))
    pairs = (("a", "b"), ("b", "a"))

    def halves(self, problem: Problem) -> bool:
        """Never: each product covers the whole order."""
        return False

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order, or one block; or both products joined."""
        native = blocks.precision(problem) == precisions.NATIVE
        facts = {**device.facts(), "order": problem.sizes["n"], "complex": blocks.is_complex(problem), "native": native}
        facts["joins"] = not blocks.is_complex(problem) if device.kind == "cpu" else _doubles(problem, device)
        alone = (
            "not JOIN or (joins and NB == 0)",
            "device_kind != 'cpu' or WGS == 32",
            "not complex or NB == 0",
            "native or (NB == 0 and not JOIN)",
        )
        rules = ("NB <= 32 or NB < 2 * order", *alone, "WGS <= max_work_group_size")
        return ParameterSpace({"JOIN": (False, True), "NB": structured.ORDERS, "WGS": structured.GROUPS}, rules, facts)

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """One block if that pays and its workspace fits into the device's memory."""
        n, k = problem.sizes["n"], problem.sizes["k"]
        block = n * blocks.padded(n) * problem.itemsize
        native = blocks.precision(problem) == precisions.NATIVE and not blocks.is_complex(problem)
        large = native and (block > device.max_allocation or 2 * (block + n * k * problem.itemsize) > device.global_memory)
        if device.kind == "cpu":
            short = native and k <= min(_SHORT, n // _FLAT)
            return {"JOIN": large or short, "NB": 0, "WGS": 32}
        join = _doubles(problem, device)
        return {"JOIN": join, "NB": structured.block(n, device) if large and not join else 0, "WGS": structured.largest_group(device)}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The blocks on the diagonal, both products off it, and the sums of the blocks and their transposes."""
        blocks.check(problem)
        n, nb, group = problem.sizes["n"], int(config["NB"]) or problem.sizes["n"], int(config["WGS"])
        if n == 0:
            return Plan(())
        if config["JOIN"] and problem.sizes["k"] > 0:
            triangle = Triangle("c", "below" if problem.options["uplo"] == "U" else "above", hermitian=hermitian(problem))
            return self._joined(problem, device) if device.kind == "cpu" else blocks.doubled(problem, _both(problem), triangle, device)
        width, count = blocks.padded(nb), -(-n // nb)
        fold = self._fold(problem, nb, width, group, device.kind == "cpu")
        steps: tuple[Launch | Call, ...] = (*self.diagonal(problem, nb), *self.off_diagonal(problem, nb), fold)
        return Plan(steps, (Temporary("blocks", count * nb * width * problem.itemsize),))

    def _fold(self, problem: Problem, nb: int, width: int, group: int, serial: bool) -> Launch:
        """The launch that adds the blocks, whose leading dimension is ``width``, and their transposes to C."""
        n, square = problem.sizes["n"], structured.CACHED if serial else _SQUARE
        squares, count, lines = -(-min(nb, n) // square), -(-n // nb), group // _SQUARE
        defines = {**blocks.types(problem), "UPPER": problem.options["uplo"] == "U", "SQUARE": square}
        known = (blocks.integer("order", n), blocks.integer("nb", nb), blocks.scalar(problem, "beta"))
        workspace = (Arg("blocks", role="temporary"), blocks.long_integer("ldw", width))
        args = (*known, *workspace, *blocks.matrix(problem, "c", "inout"))
        form: dict[str, Value] = {"SERIAL": True} if serial else {"WGS": group}
        source = load(__file__, "fold.cl", {**defines, **form}, **kinds(problem), SAME=blocks.precision(problem) == "reproducible")
        if serial:
            return Launch(source, "syr2k_fold", (squares, count, 1), (1, 1, 1), args)
        return Launch(source, "syr2k_fold", (squares * square, squares * lines, count), (square, lines, 1), args)

    def members(self, problem: Problem, first: int, past: int) -> tuple[Member, ...]:
        """As for ``syrk``; none if results must be reproducible, because off the diagonal products are added to C one by one."""
        return () if blocks.precision(problem) == "reproducible" else super().members(problem, first, past)

    def _joined(self, problem: Problem, device: DeviceInfo) -> Plan:
        """A copy of A, B and A side by side, and one product of its first two thirds and its last two thirds."""
        n, k, trans = problem.sizes["n"], problem.sizes["k"], str(problem.options["trans"])
        plain, (rows, columns) = trans[0] == "N", self.shapes(problem)["a"]
        joined = Layout((3 * k if plain else n, 1))
        source = load(__file__, "join.cl", {**blocks.types(problem), "TURNED": len(trans) > 1, "LINES": _LINES})
        known = (blocks.integer("rows", rows), blocks.integer("columns", columns), blocks.scalar(problem, "alpha"))
        factors = (*blocks.matrix(problem, "a", "in"), *blocks.matrix(problem, "b", "in"))
        workspace = (
            Arg("joined", role="temporary"),
            blocks.long_integer("ldj", joined.strides[0]),
            blocks.long_integer("apart", k if plain else k * n),
        )
        join = Launch(source, "syr2k_join", (-(-rows // _LINES), 1, 1), (1, 1, 1), (*known, *factors, *workspace))
        second = blocks.part(joined, 0, k) if plain else blocks.part(joined, k, 0)
        operands = {"a": ("joined", joined), "b": ("joined", second), "c": ("c", problem.layout["c"])}
        op, triangle = ("N", "T") if plain else ("T", "N"), Triangle("c", "below" if problem.options["uplo"] == "U" else "above")
        product = blocks.whole(problem, blocks.BlockProduct((n, n, 2 * k), operands, op, ("alpha", "beta")), triangle, device)
        return Plan((join, *product.steps), (*product.temporaries, Temporary("joined", 3 * n * k * problem.itemsize)))

    def awkward(self, problem: Problem) -> list[Problem]:
        """The edge-case problems of ``syrk``, and one with several squares and few terms."""
        return [*super().awkward(problem), *structured.awkward(self, problem, ((37, 2),))]


def _both(problem: Problem) -> blocks.BlockProduct:
    """The first product; the work-groups of its launch continue with the second one."""
    n, k, trans = problem.sizes["n"], problem.sizes["k"], str(problem.options["trans"])
    operands = {name: (name, problem.layout[name]) for name in "abc"}
    return blocks.BlockProduct((n, n, k), operands, (trans, blocks.transposed(trans, hermitian(problem))), ("alpha", "beta"))


def _doubles(problem: Problem, device: DeviceInfo) -> bool:
    """Whether one launch computes both products, if that is estimated to be faster."""
    return (
        len(str(problem.options["trans"])) == 1  # A and B are stored alike
        and blocks.precision(problem) == precisions.NATIVE
        and problem.sizes["n"] * problem.sizes["k"] > 0
        and zeros.doubled(blocks.product(problem, _both(problem)).problem, device) is not None
    )


workload = Syr2k()
