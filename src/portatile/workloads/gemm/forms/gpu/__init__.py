"""The gpu form: tiles of both operands pass through a pipeline of stages in local memory, for plain multiply-adds or matrix units."""

from __future__ import annotations

from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads.gemm.capabilities import clusters, joins, local_limit, matrix_shapes, matrix_units
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.gpu import default
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.sources import shifts
from portatile.workloads.gemm.storage import takes_vectors, takes_vectors_along_k

__all__ = ["form"]


def _facts(problem: Problem, device: DeviceInfo) -> dict[str, Value]:
    """Facts for the rules of the gpu form. Of A and B (suffix ``_a``, ``_b``):

    - ``plain``: the operand can be copied in vectors without a change of order, so that packing cannot help.
    - ``turnable``: TURN applies. ``shifts``: SHIFT applies.
    - ``paired``: PAIRS applies with k slow; ``paired_along``: it applies with k fast, under KEEP.

    Of the device: ``matrix_units`` (float64 instructions of 16 x 8), ``small_units`` (of 8 x 8).
    """
    facts: dict[str, Value] = {
        "joins": joins(device),
        "clusters": clusters(device),
        "local_limit": local_limit(device),
        "matrix_units": matrix_units(device),
    }
    facts["small_units"] = "8x8x4" in matrix_shapes(device)
    for which, takes in (("paired", takes_vectors), ("paired_along", takes_vectors_along_k)):
        facts |= {f"{which}_{name}": problem.itemsize == 4 and takes(problem, name, 8) and not takes(problem, name) for name in "ab"}
    facts |= {f"shifts_{name}": shifts(problem, name) for name in "ab"}
    facts |= {f"plain_{name}": takes_vectors(problem, name) for name in "ab"}
    return facts | {f"turnable_{name}": takes_vectors_along_k(problem, name) for name in "ab"}


form = Form(Gpu, rank=30, default=default.point, facts=_facts, loss=default.loss, contenders=default.contenders)
