"""The default of the thin form: how many work-items share a sum, and how many loads of the large operand are in flight, for few columns of
C.

The work-groups are those that were fastest on an H200 (docs/internals/gemm-choice.md), among some hundred timed for each kind of problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import joins, local_limit
from portatile.workloads.gemm.forms.thin.point import Thin, column
from portatile.workloads.gemm.passing import ceil_div
from portatile.workloads.gemm.storage import k_fast, transposed

_MOST = 8  # columns (or rows) of C up to which reading the large operand dominates
_BATCHED = 1 << 16  # elements of the large operand from which the form suits a problem of a batch
_ITEMS = 256  # work-items of a work-group if the large operand has k fast and C has one column
_KEPT = 4096  # bytes of a column of B in a block of steps, at most
_MANY = 3.0  # work-groups per multiprocessor from which small ones are better, because they begin and end one by one
_SOME = 1.5  # the same for larger ones; also, work-groups per multiprocessor up to which k is split if registers allow several
_ONE = 0.95  # the latter if registers allow one work-group only
_STATIC = 48 << 10  # bytes of local memory that a kernel text may declare on every GPU
_LEAST = 64  # steps of B's columns there, and work-items of a work-group, at least; no work-group has more ``places``
_SHARED = 1 << 18  # bytes of the large operand from which a second launch to add up sums pays
_ALONE = 1 << 18  # bytes that one work-group reads in less time than several would lose by adding up their sums
_LONG = 8  # blocks of steps from which prefetching to local memory pays
_STEPS = 1000  # steps of k for each work-group that shares a tile's k, at least


@dataclass(frozen=True)
class _Group:
    """A work-group: each work-item has ``rows``, ``places`` such blocks of rows lie in the tile, and ``parts`` work-items share the k of
    each.

    A work-item has ``unroll`` vectors in flight, in ``stages``. ``kept``: bytes of each column of B in local memory. ``fill``: work-groups
    per multiprocessor up to which k is split.
    """

    rows: int
    places: int
    parts: int
    unroll: int
    kept: int = 0
    stages: int = 1
    fill: float = _SOME


# By bytes of an element and columns of C. _ALONG: the large operand has k fast; _ACROSS: it has k slow; _LOOSE: it cannot be read in
# vectors.
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
# for CUDA only: NVIDIA's OpenCL compiler would use too many registers for so many rows
_TALL, _TALL_LOOSE = _Group(4, 16, 16, 1, 2048, 4), _Group(4, 4, 64, 2, 4096)
_ACROSS = {
    (4, 2): _Group(4, 8, 64, 8, 8192, fill=_ONE),
    (4, 4): _Group(4, 16, 16, 8, 2048),
    (4, 8): _Group(4, 16, 16, 8, 2048),
    (8, 2): _Group(2, 8, 64, 8, 8192, fill=_ONE),
    (8, 4): _Group(2, 32, 8, 4, 2048, 3),
    (8, 8): _Group(2, 32, 8, 4, 2048, 3),
}
_DIRECT = _Group(4, 8, 32, 8)  # for float32 if the small operand has k fast, so that vectors of it come from the cache
_DEEP = 4096  # steps of k from which a C of one column that does not fill the device takes the largest work-groups
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
    """The problem with C transposed if its rows are few: ``tall`` rows in all problems of a batch, and ``columns`` rounded up to a
    work-item's.

    ``along``: the large operand has k fast. ``whole``: it can be read in vectors. ``small``: the small operand has k fast. ``units``:
    multiprocessors.
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
        """Elements of a vector of 16 bytes."""
        return 16 // self.itemsize

    def groups(self, group: _Group) -> int:
        """The number of work-groups for C."""
        return ceil_div(self.tall, group.rows * group.places)

    def steps(self, group: _Group) -> int:
        """Steps of k that a work-group reads at a time."""
        return group.parts * group.unroll * (self.vector if self.along else 1)


def point(problem: Problem, device: DeviceInfo, batch: int = 1) -> Thin | None:
    """The point for few rows or columns of C on a GPU; None if C has more."""
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
    """The best work-group for a problem that is large enough for it."""
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
    """The work-group, reduced to the rows and steps of k that there are; with more work-items to a sum if there are few work-groups."""
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
    """The work-group with a pipeline of asynchronous copies, if there are so few work-groups that no others read while one waits."""
    column = task.along and task.columns == 1 and task.k >= _LONG * task.steps(group)
    direct = not task.along and task.columns > 2 and task.itemsize == 4 and task.small and _shares(task) > 1
    if task.whole and group.stages == 1 and (column or direct) and task.groups(group) < group.fill * task.units:
        return replace(group, stages=3, unroll=min(group.unroll, 4))
    return group


def _columns_limit(device: DeviceInfo) -> int:
    """Bytes of local memory that B's columns may use."""
    return min(device.local_memory, _STATIC)


def _shares(task: _Task) -> int:
    """The largest split of k; 1 if a second launch would take longer."""
    return _power(min(task.k // _STEPS, 64)) if task.tall * task.k * task.itemsize >= _SHARED else 1


def _power(count: int) -> int:
    """The largest power of two that is at most ``count``, and at least 1."""
    return 1 << max(count, 1).bit_length() - 1
