"""The default of the thin form: how many work-items share a sum, and how much of the large operand is under way, for few columns of C.

The groups are those that were fastest on an H200 (docs/internals/gemm-choice.md), of some hundred that were timed for each kind of problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import joins, local_limit
from portatile.workloads.gemm.forms.thin.point import Thin, column
from portatile.workloads.gemm.passing import ceil_div
from portatile.workloads.gemm.storage import k_fast, transposed

_MOST = 8  # columns of C, or rows, up to which reading the large operand takes longer than anything else
_BATCHED = 1 << 16  # elements of the large operand from which a problem of a batch is worth its groups
_ITEMS = 256  # of a group, where the large operand has k fast and C one column
_KEPT = 4096  # bytes of a column of B for one block of steps, at most
_MANY = 3.0  # groups a multiprocessor from which small ones are better: they begin and end one by one
_SOME = 1.5  # the same for larger ones; and groups a multiprocessor up to which k is split, where a group leaves registers for others
_ONE = 0.95  # the same where it leaves none
_STATIC = 48 << 10  # bytes of local memory that every GPU's compiler gives
_LEAST = 64  # steps of B's columns there, and work-items of a group; no group has more places
_SHARED = 1 << 18  # bytes of the large operand from which a launch that adds up sums pays
_ALONE = 1 << 18  # bytes that one group reads in less time than some would lose by adding up what each of them read
_LONG = 8  # blocks of steps from which copies ahead pay
_STEPS = 1000  # of k for each group that shares it, at least


@dataclass(frozen=True)
class _Group:
    """``rows`` of a work-item, ``places`` of them in a group and ``parts`` that share k, ``unroll`` vectors and ``stages`` of them under
    way; ``kept``: bytes of each of B's columns in local memory; ``fill``: groups a multiprocessor up to which k is split.
    """

    rows: int
    places: int
    parts: int
    unroll: int
    kept: int = 0
    stages: int = 1
    fill: float = _SOME


# by bytes of an element and columns of C: k fast in the large operand, or its other side; vectors cannot be read, where that matters
_ALONG = {
    (4, 2): _Group(4, 1, 256, 1, 4096),
    (4, 4): _Group(2, 8, 64, 2, 4096),
    (4, 8): _Group(4, 16, 16, 1, 2048, 4),
    (8, 2): _Group(4, 1, 256, 2, 8192),
    (8, 4): _Group(2, 16, 16, 1, 2048, 4),
    (8, 8): _Group(2, 16, 16, 1, 2048, 4),
}
_ALONG_LOOSE = {
    (4, 4): _Group(4, 4, 64, 2, 4096),
    (4, 8): _Group(4, 4, 64, 2, 4096),
    (8, 4): _Group(2, 8, 32, 2, 4096),
    (8, 8): _Group(2, 8, 32, 2, 4096),
}
# through CUDA; for so many rows NVIDIA's OpenCL compiler takes too many registers
_TALL, _TALL_LOOSE = _Group(4, 16, 16, 1, 2048, 4), _Group(4, 4, 64, 2, 4096)
_ACROSS = {
    (4, 2): _Group(4, 8, 64, 8, 8192, fill=_ONE),
    (4, 4): _Group(4, 16, 16, 8, 2048),
    (4, 8): _Group(4, 16, 16, 8, 2048),
    (8, 2): _Group(2, 8, 64, 8, 8192, fill=_ONE),
    (8, 4): _Group(2, 32, 8, 4, 2048, 3),
    (8, 8): _Group(2, 32, 8, 4, 2048, 3),
}
_DIRECT = _Group(4, 8, 32, 8)  # for float32 where the small operand has k fast, so that the cache serves vectors of it
_DEEP = 4096  # steps of k from which C with one column that does not fill the device is worth the largest groups
_ACROSS_LOOSE = {
    (4, 1): _Group(4, 16, 32, 8),
    (4, 2): _Group(4, 32, 16, 8, 2048),
    (4, 4): _Group(4, 32, 16, 8, 2048),
    (4, 8): _Group(4, 32, 16, 8, 2048),
    (8, 1): _Group(4, 8, 64, 4, fill=_ONE),
    (8, 2): _Group(2, 32, 8, 8, 2048),
    (8, 4): _Group(2, 32, 8, 8, 2048),
    (8, 8): _Group(2, 32, 8, 8, 2048),
}


@dataclass(frozen=True)
class _Task:
    """C, transposed where rows are few: ``tall`` rows, of all problems of a batch, its ``columns`` rounded up to those of a work-item.

    The large operand has k fast (``along``) or not, and can be read in vectors (``whole``) or not; ``small``: the small one has
    k fast; ``units``: multiprocessors.
    """

    tall: int
    columns: int
    k: int
    itemsize: int
    along: bool
    whole: bool
    small: bool
    units: int

    @property
    def vector(self) -> int:
        """Elements of 16 bytes."""
        return 16 // self.itemsize

    def groups(self, group: _Group) -> int:
        """Work-groups that share C."""
        return ceil_div(self.tall, group.rows * group.places)

    def steps(self, group: _Group) -> int:
        """Steps of k that a group takes at a time."""
        return group.parts * group.unroll * (self.vector if self.along else 1)


def point(problem: Problem, device: DeviceInfo, batch: int = 1) -> Thin | None:
    """A point for few rows or columns of C on a GPU; None where there are more."""
    turn = problem.sizes["m"] < problem.sizes["n"]
    if turn:
        problem = transposed(problem)
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    if n > _MOST or (batch > 1 and m * k < _BATCHED):
        return None
    along, vector = k_fast(problem, "a"), 16 // problem.itemsize
    whole = problem.layout["a"].vector_width(problem.itemsize) >= vector and (along or m % vector == 0)
    columns = next(width for width in (1, 2, 4, 8) if width >= n)
    task = _Task(batch * m, columns, k, problem.itemsize, along, whole, k_fast(problem, "b"), max(device.compute_units, 1))
    group = _fitting(task, _fastest(task, device.can.language == "CUDA C++"), device)
    if joins(device):
        group = _ahead(task, group)
    most = _shares(task)
    if columns == 1 and group.stages > 1:
        most = min(most, ceil_div(group.rows * group.places * k * task.itemsize, _ALONE))
    split = 1
    while task.groups(group) * split < group.fill * task.units and 2 * split <= most:
        split *= 2
    chosen = column(vector, (group.rows, columns), group.places, group.parts, group.unroll, split=split)
    limit, least = local_limit(device), max(group.parts * group.unroll * vector, _LEAST)
    steps = max(group.kept // task.itemsize, least)
    while steps > least and (steps >= 2 * k or columns * (steps * task.itemsize + 16) > _columns_limit(device)):
        steps //= 2
    if group.kept:
        chosen = replace(chosen, SM=True, KB=steps)
    stages = group.stages
    while stages > 1 and replace(chosen, STAGES=stages).local_bytes(task.itemsize, along) > limit:
        stages -= 1
    return replace(chosen, TURN=turn, STAGES=stages, JOIN=split > 1 and joins(device))


def _fastest(task: _Task, cuda: bool) -> _Group:
    """The group for a problem that is large enough for it."""
    key = task.itemsize, task.columns
    if task.along and task.columns == 1:
        parts = _ITEMS if task.k >= _ITEMS * task.vector else min(max(_power(task.k // (4 * task.vector)), 8), 64)
        group = _Group(4, _ITEMS // parts, parts, 1) if task.whole else _Group(2, _ITEMS // parts, parts, 2)
        while group.rows > 1 and task.groups(group) < _MANY * task.units:
            group = replace(group, rows=group.rows // 2, unroll=group.unroll * 2)
        return group
    if task.along and cuda and key == (8, 8):
        return _TALL if task.whole else _TALL_LOOSE
    if task.along:
        return _ALONG[key] if task.whole else _ALONG_LOOSE.get(key, _ALONG[key])
    if not task.whole:
        return _ACROSS_LOOSE[key]
    if task.columns > 1:
        return _DIRECT if task.itemsize == 4 and task.columns > 2 and task.small else _ACROSS[key]
    waves = ceil_div(task.tall, 8 * task.vector) / task.units
    if waves >= _MANY:
        return _Group(4, 8, 32, 4)
    if waves >= _SOME:
        return _Group(task.vector, 8, 64, 8, fill=_ONE)
    if task.itemsize == 4:
        return _Group(4, 8, 128 if task.k >= _DEEP else 64, 8, fill=_ONE)
    return _Group(2, 4, 256, 4, fill=_ONE) if task.k >= _DEEP else _Group(2, 8, 32, 8, fill=_ONE)


def _fitting(task: _Task, group: _Group, device: DeviceInfo) -> _Group:
    """The group with no more work-items, and for no more steps of k, than there are; with more of them to a sum where groups are few."""
    while task.steps(group) >= 2 * task.k and group.unroll > 1:
        group = replace(group, unroll=group.unroll // 2)
    while task.steps(group) >= 2 * task.k and group.parts > (4 if task.along else 8):
        wider = group.places < _LEAST and (task.along or group.places * group.parts <= _LEAST)
        group = replace(group, parts=group.parts // 2, places=group.places * 2 if wider else group.places)
    while group.places * group.parts > device.max_work_group_size:
        group = replace(group, parts=group.parts // 2) if group.parts > 8 else replace(group, places=group.places // 2)
    least = 1 if task.along else 8
    while (
        task.groups(group) * _shares(task) < task.units and group.places > least and 2 * task.steps(group) <= task.k and group.parts < 256
    ):
        group = replace(group, places=group.places // 2, parts=group.parts * 2)
        if group.kept and group.parts * group.unroll * 16 > _KEPT and group.unroll > 1:
            group = replace(group, unroll=group.unroll // 2)
    while group.kept and task.columns * (group.parts * group.unroll * 16 + 16) > _columns_limit(device):
        shorter = group.unroll > 1
        group = replace(group, unroll=group.unroll // 2) if shorter else replace(group, parts=group.parts // 2, places=group.places * 2)
    return group


def _ahead(task: _Task, group: _Group) -> _Group:
    """The group with asynchronous copies where there are so few that each has long to read: nobody else is there to read meanwhile."""
    column = task.along and task.columns == 1 and task.k >= _LONG * task.steps(group)
    direct = not task.along and task.columns > 2 and task.itemsize == 4 and task.small and _shares(task) > 1
    if task.whole and group.stages == 1 and (column or direct) and task.groups(group) < group.fill * task.units:
        return replace(group, stages=3, unroll=min(group.unroll, 4))
    return group


def _columns_limit(device: DeviceInfo) -> int:
    """Bytes of local memory for B's columns."""
    return min(device.local_memory, _STATIC)


def _shares(task: _Task) -> int:
    """Groups that may share k: one where a second launch would take longer."""
    return _power(min(task.k // _STEPS, 64)) if task.tall * task.k * task.itemsize >= _SHARED else 1


def _power(count: int) -> int:
    """The largest power of two up to ``count``; 1 for less."""
    return 1 << max(count, 1).bit_length() - 1
