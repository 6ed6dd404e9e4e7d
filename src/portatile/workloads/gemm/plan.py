"""The plan of a product: packing, staging, the product itself, and the reduction of split k. Forms supply what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Launch, Layout, Plan, Problem, Source, Temporary, Value
from portatile.template import load
from portatile.workload import packed_layout
from portatile.workloads.gemm import epilogue, packing, reals, reduction, shared_texts
from portatile.workloads.gemm.forms.gpu import stream as streams
from portatile.workloads.gemm.forms.gpu import triangle as triangles
from portatile.workloads.gemm.forms.gpu.stream import OneLaunch, SharedTiles, Sharing, Tailed
from portatile.workloads.gemm.forms.gpu.triangle import Doubled, Rest
from portatile.workloads.gemm.parameters import declaration
from portatile.workloads.gemm.passing import ceil_div, factor, factors, long_scalar, matrix, operand_shapes, scalar
from portatile.workloads.gemm.point import OperandPlace, Point, TailCut
from portatile.workloads.gemm.storage import Batch, k_fast, transposed

_INT_MAX = 2**31 - 1
_LINE = 128  # bytes of each row of a square that a group of lines.cl copies
_KEPT = 128  # bytes of local memory, at most, that streamed.cl declares beside the tiles


@dataclass(frozen=True)
class Triangle:
    """A triangle whose work is skipped: of A or B where it is zero, of C where nobody wants it.

    ``zeros`` says where it lies: "below" or "above" the diagonal of ``operand``. With ``unit`` the diagonal counts as ones.
    What lies in memory there, or on a ``unit`` diagonal, is not used: zeros and ones take its place where the operand is packed, or, in the
    gpu form, in the tile. ``mirrored``: op(B) is op(A) transposed, or its conjugate, from the same memory. ``hermitian``: the diagonal of C
    is real. ``symmetric``: nothing is skipped; of a symmetric A or B this triangle is not stored, and its elements are those of the other
    one, on NVIDIA's GPUs, in the gpu form, where the operand is not packed.
    """

    operand: str
    zeros: str
    unit: bool = False
    mirrored: bool = False
    hermitian: bool = False
    symmetric: bool = False


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


def build(
    problem: Problem,
    point: Point,
    device: DeviceInfo,
    batch: Batch | None = None,
    triangle: Triangle | None = None,
    added: Layout | None = None,
    stream: Sharing | None = None,
) -> Plan:
    """The plan of a product in the configuration ``point``. Raises ArgumentError where the configuration contradicts the problem.

    With ``batch``, ``problem`` is the first one, and every step works on all of them. ``triangle`` is what the product may skip. With
    ``added``, which asks for the gpu form and for one launch, C = alpha op(A) op(B) + beta D for a D of this layout, the operand ``d``.
    ``stream``, for a triangle of C in the gpu form, is how its groups share the tiles, or those on the diagonal.
    """
    check(problem)
    m, n, k = (problem.sizes[s] for s in "mnk")
    if m == 0 or n == 0:
        return Plan(())
    if isinstance(stream, Tailed):
        first, rest = ((point, stream.first), (stream.smaller, stream.rest))
        return _in_turn(*(build(problem, one, device, triangle=triangle, stream=part) for one, part in (first, rest)))
    view = point.view(problem)
    parts = reals.types_of(view).operand.components if view is not problem else 1
    if batch is not None:
        batch = Batch(batch.count, parts * batch.a, parts * batch.b, parts * batch.c)
    if added is not None:
        added = Layout((parts * added.strides[0], 1), parts * added.offset, added.alignment)
    if k == 0:
        assert added is None
        return Plan((reduction.reduce(view, 0, batch, point),), (Temporary("planes", view.itemsize),))
    point.check({**view.facts(), **reals.facts(view), "batched": batch is not None})
    cut = point.cut(view, device) if batch is None and triangle is None and added is None else None
    return _Steps(view, point, device, batch, triangle, added, stream).plan() if cut is None else _both(view, point, device, cut)


def _both(problem: Problem, point: Point, device: DeviceInfo, cut: TailCut) -> Plan:
    """The plan with a stream-K tail: whole tiles above the cut, and below it tiles whose k several groups share."""
    m = problem.sizes["m"]
    whole = _Steps(_rows(problem, 0, cut.above), point, device, None).plan()
    rest = _Steps(_rows(problem, cut.above, m - cut.above), point.bare(cut.parts), device, None).plan()
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


class _Steps:
    """The steps of one plan, and the values that they share."""

    def __init__(
        self,
        problem: Problem,
        point: Point,
        device: DeviceInfo,
        batch: Batch | None,
        triangle: Triangle | None = None,
        added: Layout | None = None,
        stream: OneLaunch | None = None,
    ) -> None:
        self.triangle, self.added = triangle, added
        self.sharing, self.stream = stream, stream if isinstance(stream, SharedTiles) else None
        self.whole, self.names = problem, {"a": "a", "b": "b"}
        if point.transposes:
            problem, batch = transposed(problem), None if batch is None else replace(batch, a=batch.b, b=batch.a)
            self.names = {"a": "b", "b": "a"}
        self.problem, self.point, self.device, self.batch = problem, point, device, batch
        self.count = 1 if batch is None else batch.count
        self.m, self.n, self.k = (problem.sizes[s] for s in "mnk")
        self.plane = self.m * self.n // reals.types_of(problem).operand.components  # elements of C are half the sums of a complex product
        self.trans_a = problem.options["trans_a"] == "T"
        self.trans_b = problem.options["trans_b"] == "T"
        self.depth = point.depth(problem)
        self.passes = point.passes(self.k)
        self.parts = self.passes.parts
        self.cluster = point.gathered  # groups that add up what they share by themselves
        self.shared = ceil_div(self.parts, self.cluster)  # groups or clusters that leave their sums to others
        self.split = self.cluster < point.SPLIT_K
        self.join = point.joins and self.split
        self.planes = self.split and not self.join  # a second launch adds the sums of all parts
        # where a text may declare less than a launch may ask for, local memory is an argument
        exchanged = stream.elements * problem.itemsize if isinstance(stream, Doubled | Rest) else 0
        self.local_bytes = max(point.local_bytes(problem.itemsize, k_fast(problem, "a")) + point.local_beside(problem), exchanged)
        self.local_argument = self.local_bytes + _KEPT * (self.stream is not None) > device.static_local
        self.temporaries: list[Temporary] = []
        self.places: dict[str, OperandPlace] = {}  # of A and B where the product reads them

    def plan(self) -> Plan:
        """The plan with all steps in order."""
        steps, factors_in = self._staged()
        spans_batch = self.batch is not None and self.point.spans_batch()
        wanted = self.triangle.zeros if self.triangle is not None and self.triangle.operand == "c" else ""
        groups = self.point.groups_of_triangle(self.problem, wanted) if wanted else self.point.groups(self.problem)
        groups *= self.count if spans_batch else 1
        if self.point.PERSISTENT:
            groups = min(groups, self.point.resident(self.device.compute_units))
        if self.sharing is not None:
            groups = self.sharing.groups
        operands = self._operands(factors_in, groups)
        local = self.point.group(k_fast(self.problem, "a"))
        size = (groups * self.cluster * local[0], self.shared * local[1], 1 if spans_batch else self.count)
        source = self._source()
        for start in self.passes.starts:
            sizes = (("m", self.m), ("n", self.n), ("k", self.k), ("start", start), ("chunk", self.passes.chunk))
            alpha, beta = factors(self.problem)
            if start > 0:  # later passes add to what the first one made of C
                beta = factor(self.problem, "one", 1.0)
            args = (*(scalar(name, value) for name, value in sizes), alpha, beta, *operands)
            steps.append(Launch(source, "gemm", size, local, args))
        if self.planes:
            steps.append(reduction.reduce(self.whole, self.parts, self.batch, self.point))
        return Plan(tuple(steps), tuple(self.temporaries))

    def _staged(self) -> tuple[list[Launch], tuple[Arg, ...]]:
        """The launches that pack, copy or convert A and B, and the product's arguments for both."""
        steps: list[Launch] = []
        args: list[Arg] = []
        apart = self.triangle is not None and (self.triangle.operand != "c" or self._same_panels())
        together = self.batch is None and not apart and packing.takes_both(self.problem, self.point)
        if together:
            launch, panels = packing.both(self.problem, self.point, self.depth, self.names)
            steps.append(launch)
            self.temporaries += panels
        pitches = {name: self.point.aligned(self.problem, name) for name in "ab"}
        if any(pitches.values()):
            steps.append(self._aligned({name: pitch for name, pitch in pitches.items() if pitch}))
        copied = "".join(name for name in "ab" if not self.point.packs(name) and self.point.lines(self.problem, name))
        steps += [self._lines(names) for names in ([copied] if copied and self.batch is None else copied)]
        for name, across in (("a", self.m), ("b", self.n)):
            memory, layout = self.names[name], self.problem.layout[name]
            if self.point.packs(name):
                memory, layout = f"{name}_panels", Layout((0, 1))
                if name == "b" and self._same_panels():
                    memory = "a_panels"
                elif not together:
                    steps.append(self._pack(name, across))
            elif pitch := self.point.lines(self.problem, name):
                memory, layout = f"{name}_lines", Layout((pitch, 1))
            elif pitch := pitches[name]:
                memory, layout = f"{name}_aligned", Layout((pitch, 1))
            elif (staged := self.point.staged(self.problem, name, self.device)) is not None:
                launch, temporary = staged
                steps.append(launch)
                self.temporaries.append(temporary)
            stack = (0, 0) if self.batch is None else (self.count, self._step(name))
            self.places[name] = OperandPlace(memory, layout, *stack)
            args += self._factor(name, memory, layout)
        return steps, tuple(args)

    def _same_panels(self) -> bool:
        """Whether the panels of op(B) are those of op(A), its transpose."""
        mirrored = self.triangle is not None and self.triangle.mirrored
        return mirrored and self.point.packs("a") and self.point.rows == self.point.columns

    def _operands(self, factors_in: tuple[Arg, ...], groups: int) -> tuple[Arg, ...]:
        """The product's arguments behind its scalars, for so many work-groups; declares the temporaries among them."""
        target = self.problem.layout["c"]
        if self.join:  # a group leaves its sums as they are in its registers, so tiles are whole
            tiles = self.count * (self.point.groups(self.problem) if self.point.PERSISTENT else groups)
            nbytes = tiles * self.shared * self.point.rows * self.point.columns * self.problem.itemsize
            self.temporaries += [Temporary("planes", nbytes), Temporary("counters", 4 * tiles * self.cluster, zeroed=True)]
        elif self.split:
            self.temporaries.append(Temporary("planes", self.count * self.parts * self.plane * self.problem.itemsize))
            target = packed_layout((self.whole.sizes["m"], self.whole.sizes["n"]))
        result = matrix("planes", "temporary", target) if self.planes else matrix("c", "inout", target)
        operands = [*factors_in, *result, *(() if self.added is None else matrix("d", "in", self.added))]
        if self.batch is not None:
            operands.append(long_scalar("a_batch", self._step("a")))
            operands.append(long_scalar("b_batch", self._step("b")))
            operands.append(long_scalar("c_batch", self.parts * self.plane if self.planes else self.batch.c))
        if self.stream is not None:
            self.temporaries += [
                Temporary("planes", self.stream.planes(self.point.rows * self.point.columns * self.problem.itemsize)),
                Temporary("counters", 4 * self.stream.tiles, zeroed=True),
            ]
        if self.join or self.stream is not None:
            operands += [Arg("planes", role="temporary"), Arg("counters", role="temporary")]
        if self.stream is not None:
            operands += [scalar("share", self.stream.share), scalar("shared", self.stream.tiles)]
        if isinstance(self.sharing, Rest):
            operands.append(scalar("first_tile", self.sharing.first))
        if epilogue.block_of(self.problem) and not self.point.packs("a"):  # packing applies such factors, else the product does
            operands += [arg for name in "ab" for arg in epilogue.block_arguments(self.problem, name)]
        if not self.planes:
            operands += [*epilogue.arguments(self.problem), *self.point.further_arguments()]
        maps = self.point.maps(self.problem, self.places)
        if self.batch is not None and self.point.spans_batch():
            operands.append(scalar("problems", self.count))
        operands += maps
        if self.point.SCRATCH and not maps:
            self.temporaries.append(Temporary("scratch", self.point.SCRATCH * groups * self.parts * self.count))
            operands.append(Arg("scratch", role="temporary"))
        if self.local_argument:
            operands.append(Arg("tiles", "local", value=self.local_bytes))
        return tuple(operands)

    def _factor(self, operand: str, name: str, layout: Layout) -> tuple[Arg, ...]:
        """The kernel's arguments for A or B: an operand in memory or its panels with offset and row stride, or as the form says."""
        passed = self.point.operand(self.problem, operand, self.device)
        return matrix(name, "in" if name in ("a", "b") else "temporary", layout) if passed is None else passed

    def _panels(self, name: str) -> tuple[int, int]:
        """(number, width) of the panels that A or B is packed into."""
        across, width = (self.m, self.point.rows) if name == "a" else (self.n, self.point.columns)
        return ceil_div(across, width), width

    def _step(self, name: str) -> int:
        """The elements from A or B of one problem of the batch, or its panels, to the next one's; 0 where all problems share it."""
        assert self.batch is not None
        step = self.batch.a if name == "a" else self.batch.b
        if step and self.point.packs(name):
            panels, width = self._panels(name)
            return panels * width * self.depth
        if step and (pitch := self.point.lines(self.problem, name)):
            return pitch * (self.m if name == "a" else self.n)
        return step

    def _pack(self, name: str, across: int) -> Launch:
        depth = self.depth
        layout = self.problem.layout[name]
        panels, width = self._panels(name)
        batched = self.batch is not None
        count = self.count if self.batch is not None and self._step(name) else 1  # what all problems share is packed once
        self.temporaries.append(Temporary(f"{name}_panels", count * panels * width * depth * self.problem.itemsize))
        serial = self.point.SERIAL
        span, steps = packing.spans(self.problem, width, k_fast(self.problem, name))
        if self.point.PANELS:
            steps = depth
        defines = {"WIDTH": width} | ({"SPAN": span} if self.point.PANELS else {"SLICE": steps, "SPAN": span} if serial else {})
        kept = ""
        if self.triangle is not None and self.triangle.operand == name:  # what is kept, of rows along k
            kept = "below" if (self.triangle.zeros == "above") == (name == "a") else "above"
        facts: dict[str, Value] = {"SERIAL": serial, "K_FAST": k_fast(self.problem, name), "BATCH": batched}
        facts |= {"TRIANGLE": kept, "UNIT": bool(kept and self.triangle and self.triangle.unit), "NAME": name}
        facts["EIGHT"] = serial and self.device.can.half_vectors and reals.types_of(self.problem).operand.name == "float16"
        if self.point.PANELS:
            facts |= {"SIDE": name, **self.point.facts(self.problem, self.device, bare_sums=False)}
        values = {**shared_texts.types(self.problem), **facts}
        source = (
            load(self.point.FILE, "pack.cl", defines, **values)
            if self.point.PANELS
            else shared_texts.beside(self.point, "pack.cl", defines, **values)
        )
        args = (
            *(scalar(label, value) for label, value in (("across", across), ("k", self.k), ("depth", depth))),
            factor(self.problem, "alpha"),
            *matrix(self.names[name], "in", layout),
            Arg(f"{name}_panels", role="temporary"),
        )
        if self.batch is not None:
            args = (
                *args,
                long_scalar("base_batch", self.batch.a if name == "a" else self.batch.b),
                long_scalar("panels_batch", self._step(name)),
            )
        if epilogue.block_of(self.problem):
            args = (*args, *epilogue.block_arguments(self.problem, name))
        if serial:
            return Launch(source, "gemm_pack", (ceil_div(panels, span) * ceil_div(depth, steps), 1, count), (1, 1, 1), args)
        squares = ceil_div(panels * width, 32) * ceil_div(depth, 32)
        return Launch(source, "gemm_pack", (squares * 32, 8, count), (32, 8, 1), args)

    def _lines(self, names: str) -> Launch:
        """The launch that copies A, B or both, of a batch one of them, to rows along k."""
        types, batched = reals.types_of(self.problem), self.batch is not None
        size, pitch = types.operand.itemsize, self.point.lines(self.problem, names[0])
        across = {name: self.m if name == "a" else self.n for name in names}
        count = self.count if batched and self._step(names) else 1
        args = [scalar("k", self.k), scalar("pitch", pitch), factor(self.problem, "alpha")]
        for name in names:
            self.temporaries.append(Temporary(f"{name}_lines", count * across[name] * pitch * size))
            args += [scalar("across", across[name]), *matrix(self.names[name], "in", self.problem.layout[name])]
            args.append(Arg(f"{name}_lines", role="temporary"))
        if self.batch is not None:
            args.append(long_scalar("base_batch", self.batch.a if names == "a" else self.batch.b))
            args.append(long_scalar("lines_batch", self._step(names)))
        facts: dict[str, Value] = {"NAMES": names, "FAST": "".join(name for name in names if k_fast(self.problem, name))}
        facts |= {"BATCH": batched, "itemsize": size}
        source = shared_texts.beside(self.point, "lines.cl", {}, **shared_texts.types(self.problem), **facts)
        side = _LINE // size
        tall = {name: min(side, 64) if k_fast(self.problem, name) else side for name in names}
        groups = pitch // side * sum(ceil_div(rows, tall[name]) for name, rows in across.items())
        return Launch(source, "gemm_lines", (groups * 256, 1, count), (256, 1, 1), tuple(args))

    def _aligned(self, pitches: Mapping[str, int]) -> Launch:
        """The launch that copies A, B or both, which are no batch's, to rows that memory reads whole."""
        types, shapes = reals.types_of(self.problem), operand_shapes(self.problem)
        args = [factor(self.problem, "alpha")]
        for name, pitch in pitches.items():
            rows, columns = shapes[name]
            self.temporaries.append(Temporary(f"{name}_aligned", rows * pitch * types.operand.itemsize))
            args += [scalar(label, value) for label, value in (("rows", rows), ("columns", columns), ("pitch", pitch))]
            args += [*matrix(self.names[name], "in", self.problem.layout[name]), Arg(f"{name}_aligned", role="temporary")]
        facts = {"itemsize": types.operand.itemsize, "NAMES": "".join(pitches)}
        source = shared_texts.beside(self.point, "aligned.cl", {}, **shared_texts.types(self.problem), **facts)
        most = [max(shapes[name][place] for name in pitches) for place in (0, 1)]
        size = (ceil_div(most[1], 64 * 16 // types.operand.itemsize) * 64, ceil_div(most[0], 16) * 4, len(pitches))
        return Launch(source, "gemm_aligned", size, (64, 4, 1), tuple(args))

    def _source(self) -> Source:
        point, values = self.point, self.point.values()
        facts: dict[str, Value] = {"TRANS_A": self.trans_a, "TRANS_B": self.trans_b, "SPLIT": self.split, "BATCH": self.batch is not None}
        facts |= {"LOCAL_ARGUMENT": self.local_argument, "SHARES": reduction.shares(self.parts), "JOIN": self.join}
        facts |= {f"{name.upper()}_FROM": point.source(name) for name in "ab"}
        facts |= {f"{name.upper()}_PLANES": self.batch is not None and self._step(name) != 0 for name in "ab"}
        symmetric = self.triangle if self.triangle is not None and self.triangle.symmetric else None
        facts["ZEROS"] = "" if self.triangle is None or symmetric else f"{self.triangle.operand} {self.triangle.zeros}"
        facts["UNIT"] = self.triangle is not None and self.triangle.unit
        facts |= {"BAND": triangles.BAND, **streams.facts(self.sharing)}
        types = shared_texts.types(self.problem)
        facts |= {"itemsize": self.problem.itemsize, "pixel": 16 // self.problem.itemsize}
        facts |= point.facts(self.problem, self.device, self.split and not self.join)
        if symmetric is not None:
            facts |= triangles.mirrored(self.problem, symmetric.operand, symmetric.zeros)
        if facts["DOUBLED"]:
            facts["K_REST"] = False
        facts["ADDED"] = self.added is not None
        facts["REAL_DIAGONAL"] = self.triangle is not None and self.triangle.hermitian
        if self.added is not None:
            facts["C_VECTORS"] = facts["C_VECTORS"] and self.added.vector_width(self.problem.itemsize) >= int(values["VL"])
        defines = {
            name: values[name] for name, definition in declaration(type(point)).parameters.items() if point.text in definition.defines
        }
        return replace(load(point.FILE, f"{point.text}.cl", defines, **{**values, **facts, **types}), options=point.OPTIONS)
