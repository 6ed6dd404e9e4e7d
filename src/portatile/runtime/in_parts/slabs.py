"""Problems larger than the device's memory: cut into slabs whose upload, computation and download overlap on two queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from portatile import settings, workloads, workspaces
from portatile.device.base import Device
from portatile.device.page_locked import locked
from portatile.errors import DeviceError
from portatile.runtime.in_parts.slab_pipeline import pipeline
from portatile.runtime.in_parts.tasks import Task, left_whole, nbytes, part, prepared, whole_periods
from portatile.runtime.one_device.engine import Engine
from portatile.runtime.one_device.memory_limit import asked, limit_of
from portatile.workload import Cut

LEAST_SLABS = 4  # at least this many slabs where there is more than one, so that most transfers overlap with computation
_CROSSING = 1 << 26  # bytes of a slab that cross the link: they are staged in pinned memory, which the system allocates slowly
BESIDE = 1 << 29  # bytes of the operands that are cut, from which on slabs are used even where all fits: transferring these takes 10 ms
_REUSED = 1024  # steps of a product's slab at least: each slab reads, and may convert, the operands that stay on the device once more


def run(engine: Engine, task: Task) -> None:
    """Compute slab by slab; returns when the output is in the caller's array.

    Every element is computed as in one piece: slabs use the whole problem's configuration where it is legal for them. Only where less than
    a period of the cut fits may an element be computed in another of the configuration's ways. Sums are cut only where the operands that
    they run over leave too little memory for the thinnest slab; the partial sums are then added on the host, in the output's type. Raises
    DeviceError where even the thinnest slab does not fit.
    """
    limit = limit_of(engine.device) or engine.device.info.global_memory
    for cut in task.cuts:
        width = widest(engine, task, cut, limit)
        if width:
            size = task.problem.sizes[cut.size]
            pipeline(engine, task, cut, width, _ramped(size, width, cut) if _in_place(task, cut) else _even(size, width))
            return
    if task.sums and not _thinnest_slab_fits(engine, task, limit):
        for term in _terms(engine, task, limit):
            run(engine, term)
        return
    for cut in reversed(task.cuts):  # halve the size that was to stay whole, until the rest fits
        size = task.problem.sizes[cut.size]
        if size > 1:
            half = whole_periods(size // 2, cut)
            for low, high in ((0, half), (half, size)):
                run(engine, part(task, cut, low, high))
            return
    info = engine.device.info
    need = 2 * sum(nbytes(task, name) for name in task.matrices) + 2 * prepared(engine, task).executable.plan.workspace
    sizes = " ".join(f"{name}={size}" for name, size in task.problem.sizes.items())
    advice = "; allow more by portatile.memory_limit or PORTATILE_MEMORY_LIMIT" if asked() or settings.memory_limit() else ""
    raise DeviceError(
        f"{task.problem.workload} with {sizes} takes {need} bytes on {info.id}, two slabs and their workspace, where {limit} may be used "
        f"({info.max_allocation} in one piece), and cannot be cut further{advice}"
    )


def _thinnest_slab_fits(engine: Engine, task: Task, limit: int) -> bool:
    """Whether the thinnest slab fits, one that is cut between elements along every possible size."""
    if any(widest(engine, task, cut, limit) for cut in task.cuts):
        return True
    cuttable = [cut for cut in task.cuts if task.problem.sizes[cut.size] > 1]
    return bool(cuttable) and _thinnest_slab_fits(engine, part(task, cuttable[-1], 0, 1), limit)


def _terms(engine: Engine, task: Task, limit: int) -> Iterator[Task]:
    """Parts of the sums: at least two, and enough to leave half of the memory to slabs of the rest. All but the first add to the output."""
    cut, most = task.sums[0], engine.device.info.max_allocation
    size, terms = task.problem.sizes[cut.size], [nbytes(task, name) for name in cut.pieces]
    parts = max(2, -(-2 * sum(terms) // limit), -(-max(terms) // most))
    width = whole_periods(max(size // parts, 1), cut)
    for low in range(0, size, width):
        yield replace(part(task, cut, low, min(low + width, size)), adds=task.adds or low > 0)


def widest(engine: Engine, task: Task, cut: Cut, limit: int, devices: int = 1) -> int:
    """The most steps of a slab, 0 if none fits. Two slabs lie on the device at once, beside the operands that stay whole.

    ``devices``: the number of devices that share the steps.
    """
    size, most = task.problem.sizes[cut.size], engine.device.info.max_allocation
    fixed = left_whole(task, cut)
    if fixed >= limit or any(nbytes(task, name) > most for name in task.matrices if name not in cut.pieces):
        return 0
    step = [nbytes(task, name) // max(size, 1) for name in cut.pieces]
    several = -(-size // (LEAST_SLABS * devices))
    enough = max(several, _CROSSING // max(sum(step), 1)) if _in_place(task, cut) else min(several, _steps_in_pinned_memory(task, step))
    enough = max(enough, min(cut.period, size))
    width = min((limit - fixed) // (2 * max(sum(step), 1)), most // max(*step, 1), enough)
    while width >= 1:
        width = whole_periods(width, cut)
        widths = {width, size % width or width}  # the last slab is thinner, and may need another plan
        plans = [prepared(engine, part(task, cut, 0, extent)).executable.plan for extent in widths]
        if fixed + 2 * (width * sum(step) + workspaces.workspace(plans)) <= limit:
            return int(width)
        width //= 2
    return 0


def _steps_in_pinned_memory(task: Task, step: Sequence[int]) -> int:
    """The most steps of a slab that is staged in pinned memory; ``step`` has the bytes of a step in each operand."""
    return max(_CROSSING // max(sum(step), 1), _REUSED if workloads.get(task.problem.workload).products else 1)


def least(engine: Engine, task: Task, cut: Cut, most: int, devices: int) -> int:
    """The least steps of a slab, out of ``most``, where several devices share the steps; 0 for no limit.

    Slabs are kept few where each of them converts the operands that all slabs need whole.
    """
    size = task.problem.sizes[cut.size]
    if not cut.pieces or most >= size or not workloads.get(task.problem.workload).products:
        return 0
    workspace = prepared(engine, part(task, cut, 0, most)).executable.plan.workspace
    return size // (LEAST_SLABS * devices) if 2 * workspace >= left_whole(task, cut) else 0


def _in_place(task: Task, cut: Cut) -> bool:
    """Whether slabs cross the link without staging."""
    if task.matrices[task.output].on_device:
        return False
    return all(locked.holds(task.matrices[name].array, rows=True) for name in cut.pieces)


def _even(size: int, width: int) -> Iterator[tuple[int, int]]:
    """All steps of a size in ranges of ``width``."""
    for low in range(0, size, width):
        yield low, min(low + width, size)


def _ramped(size: int, width: int, cut: Cut) -> Iterator[tuple[int, int]]:
    """All steps of a size in ranges of ``width``, narrower at both ends: the first upload and the last download overlap with no kernel."""
    ends = [whole_periods(max(width // part, 1), cut) for part in (4, 2)]
    left, low = size - 2 * sum(ends), 0
    if left < width or ends[0] % cut.period:
        yield from _even(size, width)
        return
    whole, rest = left // width, left % width
    part = whole_periods(rest, cut)
    if part % cut.period or ends[0] + rest - part > width:
        part = 0
    for steps in (*ends, *[width] * whole, part, *reversed(ends[1:])):
        if steps:
            yield low, low + steps
        low += steps
    yield from ((low + first, low + high) for first, high in _even(size - low, width))


def overlaps(task: Task, device: Device) -> bool:
    """Whether slabs are faster although the problem fits into the device's memory, because many bytes can be transferred in slabs."""
    cut = next(iter(task.cuts), None)
    if cut is None or device.info.unified_memory or "columns" in cut.pieces.values():
        return False
    return sum(nbytes(task, name) for name in cut.pieces) >= BESIDE
