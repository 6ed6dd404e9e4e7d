"""Substitution: each block on the diagonal is solved by one launch, and products take off what is known."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Arg, Config, DeviceInfo, Launch, Layout, Plan, Source, Value
from portatile.workloads import blocks
from portatile.workloads.blocks import integer, long_integer
from portatile.workloads.gemm.capabilities import local_limit
from portatile.workloads.structured import result
from portatile.workloads.triangular.recursion import Block, BlockPlace, Recursion, forward

_REGISTERS = 8  # of vectors that a tile takes, a power of two
_REGISTERS_WIDE = 16  # the same where there are twice as many
_PAD = 32  # bytes behind a block in local memory, so that neighbours of a column lie in different banks


RULES = (
    "METHOD != 'substitute' or device_kind == 'cpu' or WGS * IB >= NB",
    "METHOD != 'substitute' or device_kind == 'cpu' or "
    f"(NB // IB) * (NB // IB + 1) // 2 * (IB * IB * itemsize + {_PAD}) + (2 * WGS * IB * IB // NB + NB) * itemsize <= local_limit",
)
"""What a group of a GPU needs: a work-item for each part of a column, and local memory for a triangle, which ``facts`` says."""


_ORDER = 128  # of the largest triangle that one launch solves
_RESIDENT = 64  # the order above which all groups have to run at once: each brings the triangle to its local memory
_IB, _WGS = 8, 256  # of a default


def whole(device: DeviceInfo, order: int, sides: int, itemsize: int, *, stacked: bool = False) -> Config | None:
    """The configuration in which one launch of a GPU solves a system, or a stack of them, of this ``order`` with so many right-hand
    ``sides``; None where its local memory is too small for that, or where inverses, which share the work on the triangle, are faster.
    """
    nb, group = max(16, 1 << max(order - 1, 0).bit_length()), min(_WGS, device.max_work_group_size)
    if nb > _ORDER or group * _IB < nb:
        return None
    while group > 32 and group * _IB // nb >= 2 * sides:
        group //= 2
    resident = local_limit(device) // (_triangle(nb, _IB, itemsize) + _beside(nb, _IB, group) * itemsize)
    groups = -(-sides // (group * _IB // nb))
    if resident == 0 or (nb > _RESIDENT and not stacked and groups > resident * device.compute_units):
        return None
    return {"METHOD": "substitute", "NB": nb, "IB": _IB, "WGS": group, "PANEL": 8}


def _triangle(nb: int, ib: int, itemsize: int) -> int:
    """Bytes of local memory that a GPU's group needs for a triangle."""
    return nb // ib * (nb // ib + 1) // 2 * (ib * ib * itemsize + _PAD)


def _beside(nb: int, ib: int, group: int) -> int:
    """Elements that it needs beside them: the inverse diagonal, and what is solved of one part and of the one before."""
    return nb + 2 * group * ib * ib // nb


def facts(device: DeviceInfo) -> Mapping[str, Value]:
    """What the rules read."""
    return {"local_limit": local_limit(device)}


class Substitution(Recursion):
    """A block on the diagonal is solved in place by one launch; on GPUs the first one beside its right-hand sides, if they lie apart."""

    def plan(self) -> Plan:
        """Launches and products by turns, over a copy of B where the solution is apart, unless they bring it; a workspace for products."""
        self.solution = self.rest = result(self.problem)
        self.serial, apart, alone = self.device.kind == "cpu", self.solution != "b", self.order <= self.nb
        self.brings = apart and not alone and self.can_bring()
        self.reads_b = self.brings or (apart and alone and not self.serial)
        if apart and not self.reads_b:
            self.copy(BlockPlace("b", self.problem.layout["b"], "in"), BlockPlace("c", self.solution_layout(), "out"))
        self.across = self.left == (self.trans in "NR")  # whether the stored rows of A are the equations
        self.solve()
        return Plan(tuple(self.steps), tuple(self.shared.values()))

    def _text(self, reads_b: bool) -> Source:
        """The text that solves a block."""
        defines = {"NB": self.nb, "IB": self.config["IB"], "WGS": self.config["WGS"]}
        if self.serial:
            return self.source("panel.cl", {**defines, **self._vectors()})
        pitch = int(self.config["IB"]) ** 2 + _PAD // self.problem.itemsize
        real = "double4" if self.problem.dtype in ("float64", "complex128") else "float4"
        defines |= {"PITCH": pitch, "ACROSS": self.across, "FOUR": real}
        return self.source("substitute.cl", defines, APART=reads_b, ARGUMENT=self._local()[1])

    def _local(self) -> tuple[int, bool]:
        """Bytes of a triangle in the local memory of a GPU's group, and whether they are an argument, as a text may declare less."""
        ib, itemsize = int(self.config["IB"]), self.problem.itemsize
        nbytes = _triangle(self.nb, ib, itemsize)
        return nbytes, nbytes + _beside(self.nb, ib, int(self.config["WGS"])) * itemsize > self.device.static_local

    def _vectors(self) -> Mapping[str, Value]:
        """The vectors of a processor, and how many of them, for each of IB rows, its registers hold beside what they are added to.

        Of complex elements a vector has real parts or imaginary ones, and both together are one that OpenCL has.
        """
        wide, itemsize, parts = self.device.wide_vectors, self.problem.itemsize, 2 if blocks.is_complex(self.problem) else 1
        lanes = min((64 if wide else 32) * parts // itemsize, 16 // parts, int(self.config["WGS"]))
        together = max(1, (_REGISTERS_WIDE if wide else _REGISTERS) // int(self.config["IB"]))
        real = "float" if itemsize == 4 * parts else "double"
        sides = int(self.config["WGS"]) // lanes
        vectors: dict[str, Value] = {"VL": lanes, "VECTOR": f"{real}{lanes}", "ALIGNMENT": itemsize}
        return {**vectors, **({"WIDE": f"{real}{2 * lanes}", "PART": real} if parts > 1 else {"TOGETHER": min(together, sides)})}

    def solution_layout(self) -> Layout:
        """The operand's own."""
        return self.problem.layout[self.solution]

    rest_layout = solution_layout

    def leaf(self, block: Block, first: bool) -> None:
        """The block as a lower triangle: transposed by its strides, and read backwards where the last unknown comes first."""
        a, reads_b = self.problem.layout["a"], self.reads_b and first
        a_row, a_column = (a.strides[0], 1) if self.across else (1, a.strides[0])
        a_offset = a.offset + block.start * (a.strides[0] + 1)
        if not forward(self.problem):
            a_offset += (block.size - 1) * (a_row + a_column)
            a_row, a_column = -a_row, -a_column
        arguments = (
            *(integer(name, value) for name, value in (("order", block.size), ("count", self.count), ("scaled", int(first)))),
            *(self.alpha, Arg("a")),
            *(long_integer(name, value) for name, value in (("a_offset", a_offset), ("a_row", a_row), ("a_column", a_column))),
            *self._sides("b", Arg(self.solution, role="inout"), self.part(self.solution_layout(), block), block),
        )
        operands = ["a", self.solution]
        if reads_b:
            arguments = (*arguments, *self._sides("right", Arg("b"), self.part(self.problem.layout["b"], block), block))
            operands.append("b")
        if self.batch is not None:
            names = zip(("a", "b", "right"), operands, strict=False)
            arguments = (*arguments, *(long_integer(f"{name}_batch", self.step(operand)) for name, operand in names))
        group = int(self.config["WGS"])
        if self.serial:
            groups, kernel, local = -(-self.count // group), "triangular_panel", 1
        else:
            groups, kernel, local = -(-self.count // (group * int(self.config["IB"]) // self.nb)), "triangular_substitute", group
            nbytes, argument = self._local()
            if argument:
                arguments = (*arguments, Arg("blocks", "local", value=nbytes))
        self.steps.append(Launch(self._text(reads_b), kernel, (groups * local, 1, self.systems), (local, 1, 1), arguments))

    def _sides(self, name: str, memory: Arg, layout: Layout, block: Block) -> tuple[Arg, ...]:
        """Right-hand sides, or what is solved: where the first unknown of a block lies, and the steps to the next one and the next side."""
        row, column = (layout.strides[0], 1) if self.left else (1, layout.strides[0])
        backwards = not forward(self.problem)
        offset, row = (layout.offset + (block.size - 1) * row, -row) if backwards else (layout.offset, row)
        places = zip((f"{name}_offset", f"{name}_row", f"{name}_column"), (offset, row, column), strict=True)
        return memory, *(long_integer(place, value) for place, value in places)
