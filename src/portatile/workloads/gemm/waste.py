"""What the shape alone says of a configuration: the work that it wastes, and the bytes that its work-items load."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm.storage import transposed


def waste(problem: Problem, point: Point, device: DeviceInfo, batch: int = 1) -> float:
    """The work of the configuration's tiles over m n k, times the load imbalance of its work-groups on the compute units."""
    problem = point.view(problem)
    computed = transposed(problem) if point.transposes else problem
    m, n, k = (max(computed.sizes[s], 1) for s in "mnk")
    tiles = -(-m // point.rows) * -(-n // point.columns)
    padded = tiles * point.rows * point.columns / (m * n) * (-(-k // point.rounded) * point.rounded / k)
    units, groups = max(device.compute_units, 1), max(batch, 1) * max(point.groups(computed), 1) * point.SPLIT_K
    cut = point.cut(problem, device)
    if cut is not None:
        slots = point.slots(units)
        return padded * -(-tiles // slots) * slots / tiles * (1 - cut.saved)
    return padded * -(-groups // units) * units / groups


def loads(problem: Problem, point: Point) -> float:
    """Bytes of A and B that the work-items load to registers: for each multiply-add a register tile of r x c elements loads 1/r + 1/c of
    them.
    """
    problem = point.view(problem)
    m, n, k = (float(problem.sizes[s]) for s in "mnk")
    rows, columns = point.item_tile
    return m * n * k * problem.itemsize * (1 / rows + 1 / columns)
