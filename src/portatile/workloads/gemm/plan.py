"""The plan of a product: the launches that stage A and B, the product itself, and the reduction of split k. Forms supply what differs."""

from __future__ import annotations

from dataclasses import replace

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Launch, Layout, Plan, Problem, Source, Temporary, Value
from portatile.template import load
from portatile.workload import packed_layout
from portatile.workloads.gemm import epilogue, reals, reduction, shared_texts, staging
from portatile.workloads.gemm.extras import ORDINARY, Extras
from portatile.workloads.gemm.forms.gpu import stream as streams
from portatile.workloads.gemm.forms.gpu import triangle as triangles
from portatile.workloads.gemm.forms.gpu.stream import SharedTiles, Tailed
from portatile.workloads.gemm.forms.gpu.triangle import Doubled, Rest
from portatile.workloads.gemm.oriented import OrientedProduct
from portatile.workloads.gemm.parameters import declaration
from portatile.workloads.gemm.passing import ceil_div, factor, factors, long_scalar, matrix, operand_shapes, scalar
from portatile.workloads.gemm.point import Point, TailCut
from portatile.workloads.gemm.storage import Batch, k_fast

_INT_MAX = 2**31 - 1
_KEPT = 128  # bytes of local memory, at most, that streamed.cl declares beside the tiles


def check(problem: Problem) -> None:
    """Raise ArgumentError for a layout that the kernels do not index: rows must be contiguous and not overlap."""
    for name, shape in operand_shapes(problem).items():
        layout = problem.layout[name]
        if len(layout.strides) != 2 or (layout.strides[1] != 1 and shape[1] > 1):
            raise ArgumentError(f"gemm: operand {name} must have contiguous rows, its strides are {layout.strides}; copy or transpose it")
        if layout.strides[0] < shape[1] and shape[0] > 1:
            raise ArgumentError(f"gemm: the rows of operand {name} overlap: row stride {layout.strides[0]}, {shape[1]} columns")
        if max(*shape, layout.strides[0]) > _INT_MAX:
            raise ArgumentError(
                f"gemm: operand {name} of shape {shape} with row stride {layout.strides[0]} is too large for 32-bit indices"
            )


def build(problem: Problem, point: Point, device: DeviceInfo, extras: Extras = ORDINARY) -> Plan:
    """The plan of a product in the configuration ``point``. Raises ArgumentError if the configuration contradicts the problem."""
    check(problem)
    m, n, k = (problem.sizes[s] for s in "mnk")
    if m == 0 or n == 0:
        return Plan(())
    if isinstance(extras.sharing, Tailed):
        return _waves_and_rest(problem, point, device, extras, extras.sharing)
    view = point.view(problem)
    if view is not problem:
        extras = _in_components(extras, reals.types_of(view).operand.components)
    if k == 0:
        assert extras.addend is None
        return Plan((reduction.reduce(view, 0, extras.batch, point),), (Temporary("planes", view.itemsize),))
    point.check({**view.facts(), **reals.facts(view), "batched": extras.batch is not None})
    cut = point.cut(view, device) if extras == ORDINARY else None
    return _ProductPlan(view, point, device, extras).plan() if cut is None else _with_tail(view, point, device, cut)


def _in_components(extras: Extras, parts: int) -> Extras:
    """``extras`` whose steps and strides count real numbers, ``parts`` of which are one element."""
    batch, addend = extras.batch, extras.addend
    if batch is not None:
        batch = Batch(batch.count, parts * batch.a, parts * batch.b, parts * batch.c)
    if addend is not None:
        addend = Layout((parts * addend.strides[0], 1), parts * addend.offset, addend.alignment)
    return replace(extras, batch=batch, addend=addend)


def _waves_and_rest(problem: Problem, point: Point, device: DeviceInfo, extras: Extras, tailed: Tailed) -> Plan:
    """The plan for a triangle of C of which ``point`` computes whole waves of tiles, and then smaller tiles compute the rest."""
    waves = build(problem, point, device, replace(extras, sharing=tailed.first))
    return _in_turn(waves, build(problem, tailed.smaller, device, replace(extras, sharing=tailed.rest)))


def _with_tail(problem: Problem, point: Point, device: DeviceInfo, cut: TailCut) -> Plan:
    """The plan with a stream-K tail: whole tiles above the cut, and below it tiles whose k is split between several work-groups."""
    m = problem.sizes["m"]
    whole = _ProductPlan(_rows(problem, 0, cut.above), point, device).plan()
    rest = _ProductPlan(_rows(problem, cut.above, m - cut.above), point.bare(cut.parts), device).plan()
    return _in_turn(whole, rest)


def _in_turn(first: Plan, second: Plan) -> Plan:
    """Two plans one after the other, which share temporaries."""
    largest: dict[str, Temporary] = {}
    for temporary in (*first.temporaries, *second.temporaries):
        if temporary.name not in largest or largest[temporary.name].nbytes < temporary.nbytes:
            largest[temporary.name] = temporary
    return Plan((*first.steps, *second.steps), tuple(largest.values()))


def _rows(problem: Problem, first: int, count: int) -> Problem:
    """The part of the problem that computes ``count`` rows of C from row ``first`` on."""
    a, c = problem.layout["a"], problem.layout["c"]
    step = a.strides[0] if problem.options["trans_a"] == "N" else 1
    moved = {"a": replace(a, offset=a.offset + first * step), "c": replace(c, offset=c.offset + first * c.strides[0])}
    return replace(problem, sizes={**problem.sizes, "m": count}, layout={**problem.layout, **moved})


class _ProductPlan:
    """The plan of one product, and the values that its steps share.

    k is split in two levels. Work-groups of a cluster add up their sums in local memory (``cluster`` groups); ``shared`` groups or
    clusters then leave their sums in planes of global memory. Either the last of them adds these (``join``), or a second launch.
    """

    def __init__(self, problem: Problem, point: Point, device: DeviceInfo, extras: Extras = ORDINARY) -> None:
        assert not isinstance(extras.sharing, Tailed)
        self.caller_problem, self.point, self.device = problem, point, device
        self.addend, self.sharing = extras.addend, extras.sharing
        self.stream = extras.sharing if isinstance(extras.sharing, SharedTiles) else None
        self.product = OrientedProduct.of(problem, point, device, extras)
        self.problem, self.batch, self.triangle = self.product.problem, self.product.batch, self.product.triangle
        self.m, self.n, self.k = (self.problem.sizes[s] for s in "mnk")
        self.plane = self.m * self.n // reals.types_of(problem).operand.components  # a complex element of C has four real sums
        self.passes = point.passes(self.k)
        self.parts = self.passes.parts
        self.cluster = point.gathered
        self.shared = ceil_div(self.parts, self.cluster)
        self.split = self.cluster < point.SPLIT_K
        self.join = point.joins and self.split
        self.planes = self.split and not self.join  # a second launch adds the sums of all parts
        # if a text may declare less local memory than a launch may ask for, local memory is a kernel argument
        exchanged = self.sharing.elements * problem.itemsize if isinstance(self.sharing, Doubled | Rest) else 0
        self.local_bytes = max(point.local_bytes(problem.itemsize, k_fast(self.problem, "a")) + point.local_beside(self.problem), exchanged)
        self.local_argument = self.local_bytes + _KEPT * (self.stream is not None) > device.static_local

    def plan(self) -> Plan:
        """The plan with all steps in order."""
        staged = staging.staged(self.product)
        groups = self._groups()
        operands, temporaries = self._operands(staged, groups)
        local = self.point.group(k_fast(self.problem, "a"))
        size = (groups * self.cluster * local[0], self.shared * local[1], 1 if self._spans_batch else self.product.count)
        source, steps = self._source(), list(staged.launches)
        for start in self.passes.starts:
            sizes = (("m", self.m), ("n", self.n), ("k", self.k), ("start", start), ("chunk", self.passes.chunk))
            alpha, beta = factors(self.problem)
            if start > 0:  # later passes add to what the first one made of C
                beta = factor(self.problem, "one", 1.0)
            args = (*(scalar(name, value) for name, value in sizes), alpha, beta, *operands)
            steps.append(Launch(source, "gemm", size, local, args))
        if self.planes:
            steps.append(reduction.reduce(self.caller_problem, self.parts, self.batch, self.point))
        return Plan(tuple(steps), (*staged.temporaries, *temporaries))

    @property
    def _spans_batch(self) -> bool:
        """Whether the work-groups of one product go through all problems of the batch."""
        return self.batch is not None and self.point.spans_batch()

    def _groups(self) -> int:
        """The work-groups that are launched for C, without those that share its k."""
        if self.sharing is not None:
            return self.sharing.groups
        wanted = self.triangle.zeros if self.triangle is not None and self.triangle.operand == "c" else ""
        groups = self.point.groups_of_triangle(self.problem, wanted) if wanted else self.point.groups(self.problem)
        groups *= self.product.count if self._spans_batch else 1
        return min(groups, self.point.resident(self.device.compute_units)) if self.point.PERSISTENT else groups

    def _operands(self, staged: staging.Staged, groups: int) -> tuple[tuple[Arg, ...], list[Temporary]]:
        """The kernel's arguments behind its scalars, for so many work-groups, and the temporaries among them."""
        sums, temporaries = self._sums(groups)
        target = self.problem.layout["c"]
        if self.planes:
            target = packed_layout((self.caller_problem.sizes["m"], self.caller_problem.sizes["n"]))
        result = matrix("planes", "temporary", target) if self.planes else matrix("c", "inout", target)
        operands = [*staged.arguments, *result, *(() if self.addend is None else matrix("d", "in", self.addend))]
        if self.batch is not None:
            steps = (self.product.step("a"), self.product.step("b"), self.parts * self.plane if self.planes else self.batch.c)
            operands += [long_scalar(f"{name}_batch", step) for name, step in zip("abc", steps, strict=True)]
        operands += sums
        if epilogue.block_of(self.problem) and not self.point.packs("a"):  # if nothing is packed, the product applies block scales
            operands += [arg for name in "ab" for arg in epilogue.block_arguments(self.problem, name)]
        if not self.planes:
            operands += [*epilogue.arguments(self.problem), *self.point.further_arguments()]
        maps = self.point.maps(self.problem, staged.places)
        if self._spans_batch:
            operands.append(scalar("problems", self.product.count))
        operands += maps
        if self.point.SCRATCH and not maps:
            temporaries.append(Temporary("scratch", self.point.SCRATCH * groups * self.parts * self.product.count))
            operands.append(Arg("scratch", role="temporary"))
        if self.local_argument:
            operands.append(Arg("tiles", "local", value=self.local_bytes))
        return tuple(operands), temporaries

    def _sums(self, groups: int) -> tuple[list[Arg], list[Temporary]]:
        """The arguments by which work-groups share sums, and the planes and counters where they leave them."""
        tile, count, temporaries = self.point.rows * self.point.columns * self.problem.itemsize, self.product.count, []
        if self.join:  # a group leaves its sums in the order of its registers, so tiles are whole
            tiles = count * (self.point.groups(self.problem) if self.point.PERSISTENT else groups)
            temporaries += [
                Temporary("planes", tiles * self.shared * tile),
                Temporary("counters", 4 * tiles * self.cluster, zeroed=True),
            ]
        elif self.split:
            temporaries.append(Temporary("planes", count * self.parts * self.plane * self.problem.itemsize))
        args: list[Arg] = []
        if self.stream is not None:
            temporaries += [Temporary("planes", self.stream.planes(tile)), Temporary("counters", 4 * self.stream.tiles, zeroed=True)]
        if self.join or self.stream is not None:
            args += [Arg("planes", role="temporary"), Arg("counters", role="temporary")]
        if self.stream is not None:
            args += [scalar("share", self.stream.share), scalar("shared", self.stream.tiles)]
        if isinstance(self.sharing, Rest):
            args.append(scalar("first_tile", self.sharing.first))
        return args, temporaries

    def _source(self) -> Source:
        """The kernel text for the configuration, with everything that it has to know of problem and device."""
        point, values = self.point, self.point.values()
        facts = {**self._facts(), **point.facts(self.problem, self.device, self.split and not self.join)}
        triangle = self.triangle
        if triangle is not None and triangle.symmetric:
            facts |= triangles.mirrored(self.problem, triangle.operand, triangle.zeros)
        if facts["DOUBLED"]:
            facts["K_REST"] = False
        if self.addend is not None:
            facts["C_VECTORS"] = facts["C_VECTORS"] and self.addend.vector_width(self.problem.itemsize) >= int(values["VL"])
        defines = {
            name: values[name] for name, definition in declaration(type(point)).parameters.items() if point.text in definition.defines
        }
        text = load(point.FILE, f"{point.text}.cl", defines, **{**values, **facts, **shared_texts.types(self.problem)})
        return replace(text, options=point.OPTIONS)

    def _facts(self) -> dict[str, Value]:
        """What every form's text may read beside parameters and types."""
        triangle = self.triangle
        facts: dict[str, Value] = {f"TRANS_{name.upper()}": self.problem.options[f"trans_{name}"] == "T" for name in "ab"}
        facts |= {"SPLIT": self.split, "JOIN": self.join, "SHARES": reduction.shares(self.parts), "BATCH": self.batch is not None}
        facts |= {f"{name.upper()}_FROM": self.point.source(name) for name in "ab"}
        facts |= {f"{name.upper()}_PLANES": self.batch is not None and self.product.step(name) != 0 for name in "ab"}
        facts["ZEROS"] = "" if triangle is None or triangle.symmetric else f"{triangle.operand} {triangle.zeros}"
        facts["UNIT"] = triangle is not None and triangle.unit
        facts["REAL_DIAGONAL"] = triangle is not None and triangle.hermitian
        facts |= {"BAND": triangles.BAND, "ADDED": self.addend is not None, "LOCAL_ARGUMENT": self.local_argument}
        facts |= {"itemsize": self.problem.itemsize, "pixel": 16 // self.problem.itemsize}
        return {**facts, **streams.facts(self.sharing)}
