"""An estimate of tiled configurations' times on an NVIDIA GPU, so that shapes that were never measured get a good configuration.

It is a sum of observed costs: launches, rounds of work-groups that fill and drain, multiply-adds at the rate that the resident warps
reach, copies that are not whole vectors, memory. The constants are fitted to timings of an H200 (docs/internals/gemm-choice.md), in
microseconds at its clock; on another GPU the order of the candidates is what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.capabilities import clusters, joins, usable_multiprocessors
from portatile.workloads.gemm.forms.gpu.costs import Costs
from portatile.workloads.gemm.forms.gpu.point import SHORT
from portatile.workloads.gemm.forms.gpu.sources import shifts
from portatile.workloads.gemm.forms.gpu.triangle import count
from portatile.workloads.gemm.forms.gpu.variants import WAYS, Bools, Floats, Ints, ProblemKind, VariantColumns
from portatile.workloads.gemm.reals import parted, plain, types_of
from portatile.workloads.gemm.storage import k_fast, takes_vectors, takes_vectors_along_k

_BUSY = 16  # warps on a multiprocessor for which a tile's rate is given
_SOFT = 6.0  # how sharply the longer of two times that overlap hides the shorter
_WORTH_PACKING = 5e7  # multiply-adds below which packing is not considered
_JOINED = 4  # warps of a tile's last work-group for which ``Costs.alone`` is given
_PRICED = ("dots", "columns", "elements", "shifted", "mirrored")  # ways with a cost for each element
_VECTOR, _SECTOR = 16, 32  # bytes of a vector, and of a memory sector
_TOGETHER, _COPIED = 0.5, 2.0  # of triangles: how much of a last round shares few multiprocessors; copies over multiply-adds, times a side
_LONG_PART = 512  # steps of k beside which starting a work-group takes no time
_DRAWN, _LONG = 8.0, 2e10  # the same on matrix units from so many multiply-adds on, where copies draw power that multiply-adds would use


@dataclass(frozen=True)
class Structure:
    """Properties of a product beside its operands that the estimate considers.

    ``zeros``: the operand with a triangle of zeros, or "c" if a triangle of C is not wanted; whole tiles of it are skipped (see
    ``extras.Triangle``). ``mirrored``: the symmetric operand with one stored triangle, if any. ``same``: op(B) is op(A) transposed.
    ``count``: the number of products in the stack.
    """

    zeros: str = ""
    mirrored: str = ""
    same: bool = False
    count: int = 1


PLAIN = Structure()
"""One product of whole matrices."""


@dataclass(frozen=True)
class ProblemShape:
    """The sizes of a problem, or of many problems as columns, and the number of multiprocessors.

    ``ragged``: rows of C are not aligned for vectors. ``torn``: rows of A, or of B, begin in the middle of a memory sector.
    """

    m: int | Ints
    n: int | Ints
    k: int | Ints
    itemsize: int
    units: int | Ints
    structure: Structure = PLAIN
    ragged: bool | Bools = False
    torn_a: bool | Bools = False
    torn_b: bool | Bools = False


COLUMNS = ("m", "n", "k", "units", "ragged", "torn_a", "torn_b")
"""The fields that differ between problems of one element type."""


def shape_of(problem: Problem, device: DeviceInfo, structure: Structure = PLAIN) -> ProblemShape:
    """The sizes of a problem on a device."""
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    vector = _VECTOR // problem.itemsize
    ragged = problem.sizes["n"] % vector != 0 or problem.layout["c"].vector_width(problem.itemsize) < vector
    torn_a, torn_b = (problem.layout[name].strides[0] * problem.itemsize % _SECTOR != 0 for name in "ab")
    return ProblemShape(m, n, k, problem.itemsize, max(device.compute_units, 1), structure, ragged, torn_a, torn_b)


def kind_of(problem: Problem, device: DeviceInfo, limit: int, mirrored: str = "") -> ProblemKind:
    """How a problem's operands are stored, and what its device can do. ``limit``: bytes of a work-group's local memory. ``mirrored``: the
    symmetric operand with one stored triangle, if any.
    """
    whole = tuple(
        name == mirrored or takes_vectors(problem, name) or takes_vectors_along_k(problem, name) or parted(problem, name) for name in "ab"
    )
    paired = tuple(
        problem.itemsize == 4 and not all_whole and (takes_vectors(problem, name, 8) or takes_vectors_along_k(problem, name, 8))
        for name, all_whole in zip("ab", whole, strict=True)
    )
    fast = tuple(name != mirrored and k_fast(problem, name) for name in "ab")
    shifting = tuple(name != mirrored and plain(problem) and shifts(problem, name) for name in "ab")
    m, n, k = (max(problem.sizes[s], 1) for s in "mnk")
    return ProblemKind(
        problem.dtype,
        (fast[0], fast[1]),
        (whole[0], whole[1]),
        (paired[0], paired[1]),
        m * n * k >= _WORTH_PACKING,
        joins(device),
        clusters(device),
        limit,
        device.max_work_group_size,
        (shifting[0], shifting[1]),
        types_of(problem).complex,
        (mirrored == "a", mirrored == "b"),
    )


def microseconds(shape: ProblemShape, v: VariantColumns, costs: Costs) -> Floats:
    """The estimate for each variant."""
    units, itemsize = shape.units, shape.itemsize
    chunk = _ceil(_ceil(shape.k, v.split), v.deep) * v.deep
    parts = _ceil(shape.k, chunk)
    area = v.rows * v.columns
    multiplied = area / np.array(costs.rates)[v.place] * _slower(v, costs)
    work = (multiplied * _steps(shape, chunk, parts) + _copies(shape, v, costs) * chunk) / costs.products
    wait = costs.wait * chunk / v.deep / np.maximum(v.stages - 1, 1)

    def busy(count: Ints) -> Floats:
        """Microseconds of a round of ``count`` work-groups on a multiprocessor."""
        many = np.maximum(count, 1)
        reached = many * v.warps / (many * v.warps + costs.warps) * (_BUSY + costs.warps) / _BUSY
        return np.where(count > 0, ((count * work / reached) ** _SOFT + wait**_SOFT) ** (1 / _SOFT), 0.0)

    drain = np.where(v.groups == 1, costs.drain * 1e-3 * area * itemsize, 0.0)
    fill: Floats = costs.filled(v.rows + v.columns, np.minimum(v.deep * (v.stages - 1), chunk), itemsize)
    c = 1e-6 * shape.structure.count * shape.m * shape.n * itemsize * (0.5 if shape.structure.zeros == "c" else 1.0)
    stored = costs.stored / np.where(shape.ragged, costs.ragged, 1.0)
    began = costs.launch + _packing(shape, v, costs)
    waves = _ceil(_groups(shape, v, 1, shape.k), np.maximum(v.tail, 1) * units) * (1 - v.saved)
    with_tail = began + costs.add + waves * busy(v.tail) + (fill + drain) * (waves + 1) + c / stored

    groups = _groups(shape, v, parts, chunk)
    each = _ceil(groups, usable_multiprocessors(units, v.cluster))
    rounds, rest = each // v.groups, each % v.groups
    rounds_took = (rounds * busy(v.groups) + busy(rest)) * (_uneven(shape, v, groups) if shape.structure.zeros else 1.0)
    copied = 1e-6 * groups * (v.rows + v.columns) * chunk * itemsize / costs.cached
    read = 1e-6 * shape.structure.count * (shape.m + shape.n) * shape.k * itemsize / costs.read
    took = began + (
        (fill + drain) * (rounds + (rest > 0))
        + np.maximum(np.maximum(rounds_took, copied), read)
        + c * np.where(v.cluster > 1, 1, parts) / stored
    )
    took += costs.exchange * 1e-5 * area * (v.teams - 1) * itemsize / 4 * each
    alone = costs.arrive + 1e-6 * area * itemsize * parts / v.cluster**2 / (costs.alone * np.sqrt(v.warps / _JOINED))
    launched = costs.add + c * (parts + 1) / costs.added
    gathered = costs.gather + 1e-6 * area * itemsize * (v.cluster - 1) / costs.gathered
    ended = np.where(v.cluster > 1, gathered + np.where(v.join, alone, 0.0), np.where(parts == 1, 0.0, np.where(v.join, alone, launched)))
    return np.where(v.tail > 0, with_tail, took + ended)


def wanted(shape: ProblemShape, rows: Ints, columns: Ints) -> Ints:
    """The number of tiles of C that are computed in all problems, for each size of tile."""
    if shape.structure.zeros != "c":
        return shape.structure.count * _ceil(shape.m, rows) * _ceil(shape.n, columns)
    known = {side: count(int(shape.m), "above", *side) for side in set(zip(rows.tolist(), columns.tolist(), strict=True))}
    return shape.structure.count * np.array([known[side] for side in zip(rows.tolist(), columns.tolist(), strict=True)], np.int64)


def _groups(shape: ProblemShape, v: VariantColumns, parts: Ints | int, chunk: Ints | int) -> Ints:
    """Groups with all ``chunk`` steps of their part of k that take as long as all groups. Where A or B is triangular, sums are half as long
    as k in the mean, and the multiprocessor whose groups are the longest has half a group more to do than that. Groups without a step cost
    nothing beside long parts; beside short ones they take as long as others to begin and to leave their sums.
    """
    tiles = wanted(shape, v.rows, v.columns)
    if shape.structure.zeros not in ("a", "b"):
        return np.asarray(tiles * parts)
    most = np.minimum(tiles, shape.units)
    return np.where(np.asarray(chunk) >= _LONG_PART, _ceil(tiles * parts + most, 2), _ceil(tiles + most, 2) * parts)


def _steps(shape: ProblemShape, chunk: Ints, parts: Ints) -> Ints:
    """Steps of k that a group multiplies: of a short sum those past its end are left out, eight at a time."""
    return np.where((parts == 1) & (np.asarray(shape.k) <= SHORT), _ceil(shape.k, 8) * 8, chunk)


def _slower(v: VariantColumns, costs: Costs) -> Floats:
    """The factor by which the staging of both operands slows the multiply-adds."""
    by_way = np.array([{"kept": costs.kept, "transposed": costs.transposed}.get(name, 1.0) for name in WAYS])
    return np.asarray(by_way[v.ways_a] * by_way[v.ways_b])


def _copies(shape: ProblemShape, v: VariantColumns, costs: Costs) -> Floats:
    """The cost of copying one step of k to local memory beyond whole vectors of whole sectors, in multiply-adds."""
    by_way = np.array([getattr(costs, name) if name in _PRICED else 0.0 for name in WAYS])
    whole = np.array([costs.torn if name in ("free", "kept", "transposed") else 0.0 for name in WAYS])
    held_a, held_b = (np.where(held, costs.held, 1.0) for held in (v.held_a, v.held_b))
    of_a = by_way[v.ways_a] * v.loose_a * held_a + whole[v.ways_a] * shape.torn_a
    of_b = by_way[v.ways_b] * v.loose_b * held_b + whole[v.ways_b] * shape.torn_b
    return np.asarray(of_a * v.rows + of_b * v.columns)


def _packing(shape: ProblemShape, v: VariantColumns, costs: Costs) -> Floats:
    """Microseconds of the launch that packs."""
    packed = WAYS.index("packed")
    moved = np.where(v.ways_a == packed, 2e-6 * shape.structure.count * shape.m * shape.k * shape.itemsize, 0.0)
    again = (v.ways_b == packed) & ~((v.ways_a == packed) & (v.rows == v.columns) & shape.structure.same)
    moved = moved + np.where(again, 2e-6 * shape.structure.count * shape.n * shape.k * shape.itemsize, 0.0)
    return costs.pack * np.minimum(v.packs, 1) + moved / costs.packed


def _uneven(shape: ProblemShape, v: VariantColumns, count: Ints) -> Floats:
    """The factor by which a triangle takes longer than ``count`` full sums: zeros in tiles on the diagonal; a last round whose groups may
    share few multiprocessors, since all groups of a round end together; and more copies for the same work where tiles are small.
    """
    side = v.rows if shape.structure.zeros == "a" else v.columns if shape.structure.zeros == "b" else np.zeros_like(v.rows)
    rounds = _ceil(count, shape.units * v.groups) * v.groups / _ceil(count, shape.units)
    drawn = shape.structure.zeros != "c" and shape.itemsize == 8 and float(shape.m) * float(shape.n) * float(shape.k) >= _LONG
    copies = 1 + (_DRAWN if drawn else _COPIED) * (1 / v.rows + 1 / v.columns)
    return (1 + side / shape.k) * (1 + _TOGETHER * (rounds - 1)) * copies


def _ceil(a: Any, b: Any) -> Ints:
    return np.asarray(-(-a // b), np.int64)
