"""From a configuration to steps: packing, staging, the product, and the reduction of split k."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portatile.errors import ArgumentError
from portatile.records import Arg, DeviceInfo, Launch, Layout, Plan, Problem, Source, Temporary, Value
from portatile.template import load
from portatile.workload import packed_layout
from portatile.workloads.gemm.images import shown, sources, written
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.storage import k_fast, reading, staging, turned

_INT_MAX = 2**31 - 1
_SLICE = 256  # steps of k that one work-item packs, so that the slice of a panel stays in the first cache
_LINES = 512  # bytes that a work-item reads in a row, where panels are narrow and neighbours lie in one row
# The parameters that a text takes from the preprocessor; the others only steer its template or the host, and two
# configurations that differ in a parameter of the host alone share one binary.
_DEFINES: dict[str, tuple[str, ...]] = {
    "generic": ("VL", "TC", "TR", "TBC", "TBR", "TCR", "TRR", "KB", "PAD"),
    "cpu": ("VL", "TC", "TR", "RASTER"),
    "dots": ("VL", "TC", "TR"),
    "staged": ("VL", "TC", "TR", "KB", "RASTER"),
    "gpu": (),
    "thin": ("TC", "TR", "TBR", "KG", "KB"),
}
TAIL_PARTS = 16  # groups that share a tile of the tail, at most
_TAIL_STEPS = 128  # steps of k that each of them has, at least
_PLANE_STEPS = 12  # steps of k that storing an element of a plane and adding it take, for each of its bytes
_REDUCE_ITEMS = 64
_REDUCE_SHARED = 16  # planes from which several work-items share a sum
_REDUCE_ROWS = 32768


@dataclass(frozen=True)
class Batch:
    """``count`` problems of one shape in one launch; from one to the next, A, B and C lie ``a``, ``b``, ``c`` elements on (0: shared)."""

    count: int
    a: int
    b: int
    c: int


@dataclass(frozen=True)
class Shape:
    """What is zero of a product's operand, or not wanted of C: the part ``zeros`` ("below" or "above" the diagonal) of ``operand``.

    With ``unit`` the operand's diagonal is not read and counts as ones. The cpu form with both operands packed knows of it.
    """

    operand: str
    zeros: str
    unit: bool = False


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def operand_shapes(problem: Problem) -> dict[str, tuple[int, int]]:
    """The shapes of A, B and C as they are stored."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    return {
        "a": (m, k) if problem.options["trans_a"] == "N" else (k, m),
        "b": (k, n) if problem.options["trans_b"] == "N" else (n, k),
        "c": (m, n),
    }


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


def build(problem: Problem, point: Point, device: DeviceInfo, batch: Batch | None = None, shape: Shape | None = None) -> Plan:
    """The plan of ``point``; raises ArgumentError where the configuration contradicts itself or the problem.

    With ``batch``, ``problem`` is its first one, and every step works on all of them.
    """
    check(problem)
    m, n, k = (problem.sizes[s] for s in "mnk")
    if m == 0 or n == 0:
        return Plan(())
    if k == 0:
        return Plan((_reduce(problem, 0, batch),), (Temporary("planes", problem.itemsize),))
    cut = tail(problem, point, device) if point.TAIL and batch is None else None
    if cut is None:
        return _Steps(problem, point, device, batch, shape).plan()
    whole = _Steps(_rows(problem, 0, cut.above), point, device, None).plan()
    rest = _Steps(_rows(problem, cut.above, m - cut.above), replace(point, SPLIT_K=cut.parts), device, None).plan()
    largest: dict[str, Temporary] = {}
    for temporary in (*whole.temporaries, *rest.temporaries):  # the two run one after the other
        if temporary.name not in largest or largest[temporary.name].nbytes < temporary.nbytes:
            largest[temporary.name] = temporary
    return Plan((*whole.steps, *rest.steps), tuple(largest.values()))


@dataclass(frozen=True)
class Tail:
    """A cut of C: ``above`` rows in whole tiles, below them ``parts`` groups share the k of each; ``saved``: of the time without it."""

    above: int
    parts: int
    saved: float


def tail(problem: Problem, point: Point, device: DeviceInfo) -> Tail | None:
    """Where the tail of ``point`` begins, at a whole row of tiles, for the least waves; None where rows or k are too few to cut, and
    where more than half of the last wave is used.

    A wave is TAIL groups on every multiprocessor.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    down, across, slots = ceil_div(m, point.rows), ceil_div(n, point.columns), point.TAIL * device.compute_units
    if down * across <= slots or down * across % slots > slots // 2:
        return None

    def waves(rows: int, parts: int) -> float:
        planes = rows * across * parts * _PLANE_STEPS * problem.itemsize / (slots * k)
        return ceil_div((down - rows) * across, slots) + ceil_div(rows * across * parts, slots) / parts + planes

    splits = range(2, min(TAIL_PARTS, k // _TAIL_STEPS) + 1)
    cuts = [(waves(rows, parts), rows, parts) for rows in range(1, min(down, slots // across + 2)) for parts in splits]
    if not cuts:
        return None
    least, rows, parts = min(cuts)
    return Tail((down - rows) * point.rows, parts, 1 - least / ceil_div(down * across, slots))


def _rows(problem: Problem, first: int, count: int) -> Problem:
    """The part of the problem that computes ``count`` rows of C from row ``first`` on."""
    a, c = problem.layout["a"], problem.layout["c"]
    step = a.strides[0] if problem.options["trans_a"] == "N" else 1
    moved = {"a": replace(a, offset=a.offset + first * step), "c": replace(c, offset=c.offset + first * c.strides[0])}
    return replace(problem, sizes={**problem.sizes, "m": count}, layout={**problem.layout, **moved})


def count_groups(problem: Problem, point: Point) -> int:
    """Work-groups that share C, without those that share its k; of a problem that is turned already where the point turns it."""
    down, across = ceil_div(problem.sizes["m"], point.rows), ceil_div(problem.sizes["n"], point.columns)
    if point.FORM == "cpu" and point.SM:  # a group has a column of a band of tiles
        down = 1 if point.RASTER == 0 else ceil_div(down, point.RASTER)
    return down * across


def real(problem: Problem) -> str:
    """The element type as the kernels spell it."""
    return {"float32": "float", "float64": "double"}[problem.dtype]


def scalar(name: str, value: int) -> Arg:
    """A 32-bit literal."""
    return Arg(name, "scalar", dtype="int32", value=value)


def _matrix(name: str, role: str, layout: Layout) -> tuple[Arg, ...]:
    return (
        Arg(name, "buffer", role),  # type: ignore[arg-type]
        Arg("offset", "scalar", dtype="int64", value=layout.offset),
        scalar("ld", layout.strides[0]),
    )


def _factors(problem: Problem) -> tuple[Arg, ...]:
    return tuple(Arg(name, "scalar", dtype=problem.dtype) for name in ("alpha", "beta"))


def _long(name: str, value: int) -> Arg:
    return Arg(name, "scalar", dtype="int64", value=value)


def _spans(problem: Problem, width: int, fast: bool) -> tuple[int, int]:
    """(panels, steps of k) that one work-item of a processor packs."""
    span = 1 if fast else ceil_div(_LINES, width * problem.itemsize)
    return span, max(_SLICE // span, 16)


def _shares(parts: int) -> int:
    """Sums that the planes of an element are added to by turns, and then these: work-items may have one each."""
    return 4 if parts >= _REDUCE_SHARED else 1


def _reduce(problem: Problem, parts: int, batch: Batch | None) -> Launch:
    m, n = problem.sizes["m"], problem.sizes["n"]
    if n < _REDUCE_ITEMS and problem.layout["c"].strides[0] == n and m * n <= _INT_MAX:
        m, n = 1, m * n  # rows that lie one after the other are one row
    shares = _shares(parts)
    source = load(__file__, "reduce.cl", {"ITEMS": _REDUCE_ITEMS, "SHARES": shares}, real=real(problem), BATCH=batch is not None)
    args = (
        *(scalar(name, value) for name, value in (("m", m), ("n", n), ("parts", parts))),
        *_factors(problem),
        Arg("planes", role="temporary"),
        *_matrix("c", "inout", problem.layout["c"]),
        *(() if batch is None else (_long("c_batch", batch.c),)),
    )
    size = (ceil_div(n, _REDUCE_ITEMS) * _REDUCE_ITEMS, min(m, _REDUCE_ROWS) * shares, 1 if batch is None else batch.count)
    return Launch(source, "gemm_reduce", size, (_REDUCE_ITEMS, shares, 1), args)


class _Steps:
    """What the steps of one plan share."""

    def __init__(self, problem: Problem, point: Point, device: DeviceInfo, batch: Batch | None, shape: Shape | None = None) -> None:
        self.shape = shape
        self.whole, self.names = problem, {"a": "a", "b": "b"}
        if point.turns:
            problem, batch = turned(problem), None if batch is None else replace(batch, a=batch.b, b=batch.a)
            self.names = {"a": "b", "b": "a"}
        self.problem, self.point, self.device, self.batch = problem, point, device, batch
        self.count = 1 if batch is None else batch.count
        if batch is not None and point.TXC:
            raise ArgumentError("gemm: images hold one problem: set TXC = False for a batch")
        if point.FORM == "cpu" and point.KEEP:
            if problem.options["trans_a"] == "T" or problem.options["trans_b"] != ("N" if point.PACK_B else "T"):
                raise ArgumentError("gemm: KEEP in the cpu form reads A m x k and B n x k in place: set PACK_B where B is k x n")
        elif (
            point.FORM == "cpu" and not (point.PACK_B or point.SM) and (problem.options["trans_b"] == "T" or problem.sizes["n"] < point.TC)
        ):
            raise ArgumentError("gemm: the cpu form reads B in place only if it is k x n and at least TC wide: set PACK_B")
        if point.MMA and problem.dtype != "float64":
            raise ArgumentError("gemm: MMA multiplies float64 only")
        pixel = 16 // problem.itemsize
        for name, side, direct in (("a", point.rows, point.TR % pixel == 0), ("b", point.columns, pixel == point.VL)):
            if point.source(name) == "image" and (side % pixel if point.through_local(name) else not direct):
                raise ArgumentError(f"gemm: a pixel of TXC is {pixel} elements: it must divide the tile, and without SM TR and be VL")
        self.m, self.n, self.k = (problem.sizes[s] for s in "mnk")
        self.trans_a = problem.options["trans_a"] == "T"
        self.trans_b = problem.options["trans_b"] == "T"
        staged = point.FORM == "cpu" and point.SM
        block = point.block
        self.depth = ceil_div(self.k, block) * block
        self.chunk = ceil_div(ceil_div(self.k, point.SPLIT_K), block) * block
        self.parts = ceil_div(self.k, self.chunk)
        self.starts: tuple[int, ...] = (0,)
        if staged:
            self.chunk, self.parts = ceil_div(self.k, ceil_div(self.k, point.KB)), 1
        elif point.FORM == "cpu" and 0 < point.KB < self.k:
            if point.SPLIT_K > 1:
                raise ArgumentError("gemm: the cpu form splits k over groups or over launches: set SPLIT_K = 1 or KB = 0")
            self.chunk = ceil_div(self.k, max(1, round(self.k / point.KB)))  # equal passes: a short last one would cost as much of C
            self.starts, self.parts = tuple(range(0, self.k, self.chunk)), 1
        self.split = point.SPLIT_K > 1
        self.join = point.JOIN and self.split
        # where a text may declare less than a launch may ask for, local memory is an argument
        self.local_bytes = point.local_bytes(problem.itemsize, k_fast(problem, "a"))
        self.local_argument = self.local_bytes > device.static_local
        self.temporaries: list[Temporary] = []

    def plan(self) -> Plan:
        """All steps in order."""
        steps = []
        layouts = dict(self.problem.layout)
        names = dict(self.names)
        for name, packed, across in (("a", self.point.PACK_A, self.m), ("b", self.point.PACK_B, self.n)):
            if packed:
                steps.append(self._pack(name, across))
                names[name] = f"{name}_panels"
                layouts[name] = Layout((0, 1))
            elif self.point.source(name) == "image":
                steps.append(self._stage(name, across))
                names[name] = f"{name}_image"
        target = self.problem.layout["c"]
        groups = count_groups(self.problem, self.point)
        planes = self.split and not self.join
        if self.join:  # a group leaves its sums as they are in its registers, so tiles are whole
            tiles = self.count * groups
            nbytes = tiles * self.parts * self.point.rows * self.point.columns * self.problem.itemsize
            self.temporaries += [Temporary("planes", nbytes), Temporary("counters", 4 * tiles, zeroed=True)]
        elif self.split:
            self.temporaries.append(Temporary("planes", self.count * self.parts * self.m * self.n * self.problem.itemsize))
            target = packed_layout((self.whole.sizes["m"], self.whole.sizes["n"]))
        operands = (
            *self._factor("a", names["a"], layouts["a"]),
            *self._factor("b", names["b"], layouts["b"]),
            *_matrix("planes" if planes else "c", "temporary" if planes else "inout", target),
        )
        if self.batch is not None:
            steps_c = self.parts * self.m * self.n if planes else self.batch.c
            operands = (*operands, _long("a_batch", self._step("a")), _long("b_batch", self._step("b")), _long("c_batch", steps_c))
        if self.join:
            operands = (*operands, Arg("planes", role="temporary"), Arg("counters", role="temporary"))
        if self.local_argument:
            operands = (*operands, Arg("tiles", "local", value=self.local_bytes))
        local = self.point.group(k_fast(self.problem, "a"))
        size = (groups * local[0], self.parts * local[1], self.count)
        source = self._source()
        for start in self.starts:
            sizes = (("m", self.m), ("n", self.n), ("k", self.k), ("start", start), ("chunk", self.chunk))
            alpha, beta = _factors(self.problem)
            if start > 0:  # later passes add to what the first one made of C
                beta = Arg("one", "scalar", dtype=self.problem.dtype, value=1.0)
            args = (*(scalar(name, value) for name, value in sizes), alpha, beta, *operands)
            steps.append(Launch(source, "gemm", size, local, args))
        if planes:
            steps.append(_reduce(self.whole, self.parts, self.batch))
        return Plan(tuple(steps), tuple(self.temporaries))

    def _factor(self, operand: str, name: str, layout: Layout) -> tuple[Arg, ...]:
        """How the product takes A or B: an image by itself; an operand, in memory or shown as an image, or its panels with offset and row
        stride.
        """
        source = self.point.source(operand)
        if source == "image":
            return (Arg(name, "image", "temporary"),)
        if source == "view":
            extent = layout.extent(operand_shapes(self.problem)[operand])
            return (shown(self.problem, self.point, operand, self.device, extent), *_matrix(name, "in", layout)[1:])
        return _matrix(name, "in" if name in ("a", "b") else "temporary", layout)

    def _panels(self, name: str) -> tuple[int, int]:
        """(number, width) of the panels that A or B is packed into."""
        across, width = (self.m, self.point.rows) if name == "a" else (self.n, self.point.columns)
        return ceil_div(across, width), width

    def _step(self, name: str) -> int:
        """From A or B of one problem of the batch, or its panels, to the next one's; 0 where all problems share it."""
        assert self.batch is not None
        step = self.batch.a if name == "a" else self.batch.b
        if step and (self.point.PACK_A if name == "a" else self.point.PACK_B):
            panels, width = self._panels(name)
            return panels * width * self.depth
        return step

    def _stage(self, name: str, across: int) -> Launch:
        image, pixel = written(self.problem, name, self.device), 16 // self.problem.itemsize
        self.temporaries.append(image)
        fast = k_fast(self.problem, name)
        source = load(__file__, "stage.cl", {}, real=real(self.problem), pixel=pixel, K_FAST=fast)
        args = (
            scalar("across", across),
            scalar("k", self.k),
            Arg("alpha", "scalar", dtype=self.problem.dtype),
            *_matrix(name, "in", self.problem.layout[name]),
            Arg(image.name, "image", "temporary"),
        )
        x, y = (image.width, image.height) if fast else (image.height, image.width)
        return Launch(source, "gemm_stage", (ceil_div(x, 16) * 16, ceil_div(y, 16) * 16, 1), (16, 16, 1), args)

    def _pack(self, name: str, across: int) -> Launch:
        depth = self.depth
        layout = self.problem.layout[name]
        panels, width = self._panels(name)
        count, batched = 1, self.batch is not None
        if self.batch is not None and self._step(name):  # what all problems share is packed once
            count = self.count
        self.temporaries.append(Temporary(f"{name}_panels", count * panels * width * depth * self.problem.itemsize))
        serial = self.point.FORM == "cpu"
        span, steps = _spans(self.problem, width, k_fast(self.problem, name))
        defines = {"WIDTH": width} | ({"SLICE": steps, "SPAN": span} if serial else {})
        triangle = ""
        if self.shape is not None and self.shape.operand == name:  # what is kept, of rows along k
            triangle = "below" if (self.shape.zeros == "above") == (name == "a") else "above"
        facts: dict[str, Value] = {"SERIAL": serial, "K_FAST": k_fast(self.problem, name), "BATCH": batched}
        facts |= {"TRIANGLE": triangle, "UNIT": bool(triangle and self.shape and self.shape.unit)}
        source = load(__file__, "pack.cl", defines, real=real(self.problem), **facts)
        args = (
            *(scalar(label, value) for label, value in (("across", across), ("k", self.k), ("depth", depth))),
            Arg("alpha", "scalar", dtype=self.problem.dtype),
            *_matrix(self.names[name], "in", layout),
            Arg(f"{name}_panels", role="temporary"),
        )
        if self.batch is not None:
            args = (*args, _long("base_batch", self.batch.a if name == "a" else self.batch.b), _long("panels_batch", self._step(name)))
        if serial:
            return Launch(source, "gemm_pack", (ceil_div(panels, span) * ceil_div(depth, steps), 1, count), (1, 1, 1), args)
        squares = ceil_div(panels * width, 32) * ceil_div(depth, 32)
        return Launch(source, "gemm_pack", (squares * 32, 8, count), (32, 8, 1), args)

    def _source(self) -> Source:
        point = self.point
        facts: dict[str, Value] = {"TRANS_A": self.trans_a, "TRANS_B": self.trans_b, "SPLIT": self.split, "BATCH": self.batch is not None}
        facts |= sources(self.problem, point, self.device)
        if point.FORM in ("gpu", "thin"):
            facts |= {"LOCAL_ARGUMENT": self.local_argument}
            facts |= {"JOIN": self.join, "SHARES": _shares(self.parts)}
            facts |= staging(self.problem, point, self.split and not self.join) if point.FORM == "gpu" else reading(self.problem, point)
        if point.FORM == "cpu":
            single = self.problem.itemsize == 4  # in float64 nothing was gained
            facts["FETCH"] = single and self.device.kind == "cpu"  # compilers for GPUs may refuse what it is written in
        facts["ZEROS"] = "" if self.shape is None else f"{self.shape.operand} {self.shape.zeros}"
        config = point.config()
        values = {**config, **facts, "real": real(self.problem), "itemsize": self.problem.itemsize, "pixel": 16 // self.problem.itemsize}
        text = point.FORM
        if text == "cpu" and (point.KEEP or point.SM):
            text = "dots" if point.KEEP else "staged"
        return load(__file__, f"{text}.cl", {name: config[name] for name in _DEFINES[text]}, **values)
