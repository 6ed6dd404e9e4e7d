"""SYR2K: one triangle of C = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, as SYRK; on the diagonal one product and its transpose."""

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
_SQUARE = 32  # that a work-group adds of a block and its transpose
_LINES = 16  # of A and B that a processor's work-item copies
_SHORT = 128  # terms up to which a processor is faster without all of C as workspace ...
_FLAT = 6  # ... if the order is so many times that


class Syr2k(Syrk):
    """Rank-2k update: the triangle ``uplo`` of C (n x n) = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, the other not touched.

    A and B are stored n x k, or k x n with ``trans="T"``, C and R are conjugates; two letters are for an A read one way and a B another.
    With ``mirror="C"`` C is Hermitian: alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C with a real beta.
    beta = 0 does not read C, alpha = 0 reads neither A nor B. ``precision`` is that of the products.
    """

    name = "syr2k"
    meanings: Mapping[str, str] = {
        "JOIN": "One product, of [A B] and the transpose of [B A], which leaves out the tiles of the other triangle: on a processor and, "
        "without a copy of A and B, on NVIDIA's GPUs.",
        "NB": "Order of the blocks on the diagonal, where W = alpha op(A) op(B)^T is computed whole, beside C; the other product is its "
        "transpose. Outside of these blocks both products are added to C. 0: one block, so that all of it is one product.",
        "WGS": "Work-items of a group of the other kernels.",
    }
    options: Mapping[str, tuple[Value, ...]] = {**Syrk.options, "trans": _TRANS}
    operands = (Operand("a"), Operand("b"), Operand("c", "inout"))
    pairs = (("a", "b"), ("b", "a"))

    def halves(self, problem: Problem) -> bool:
        """Nothing is: products are of the whole order."""
        return False

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order, or one; a joined product on a processor."""
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
        """One block where it pays and fits into the device."""
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
        """The blocks on the diagonal, both products beside them, and the sums of the blocks and their transposes."""
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
        """The launch that adds the blocks, whose rows are ``width`` apart, and their transposes to C."""
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
        """As of ``syrk``; none where the bits must not depend on them: beside a diagonal products are added to C one by one."""
        return () if blocks.precision(problem) == "reproducible" else super().members(problem, first, past)

    def _joined(self, problem: Problem, device: DeviceInfo) -> Plan:
        """A, B and A side by side, and one product of their first two thirds and the last two."""
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
        """The edge-case problems of ``syrk``, and several squares of few terms."""
        return [*super().awkward(problem), *structured.awkward(self, problem, ((37, 2),))]


def _both(problem: Problem) -> blocks.BlockProduct:
    """The first product, from which the groups of one launch go on to the second."""
    n, k, trans = problem.sizes["n"], problem.sizes["k"], str(problem.options["trans"])
    operands = {name: (name, problem.layout[name]) for name in "abc"}
    return blocks.BlockProduct((n, n, k), operands, (trans, blocks.transposed(trans, hermitian(problem))), ("alpha", "beta"))


def _doubles(problem: Problem, device: DeviceInfo) -> bool:
    """Whether one launch computes both products, which are estimated to be faster so."""
    return (
        len(str(problem.options["trans"])) == 1  # A and B are read alike
        and blocks.precision(problem) == precisions.NATIVE
        and problem.sizes["n"] * problem.sizes["k"] > 0
        and zeros.doubled(blocks.product(problem, _both(problem)).problem, device) is not None
    )


workload = Syr2k()
